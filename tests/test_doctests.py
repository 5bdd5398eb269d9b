"""The examples in docstrings print what stands there.

pytest would import each module, and search all its docstrings, in each of its processes.
"""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_MODULES = [
    ".".join(path.relative_to(_ROOT).with_suffix("").parts)
    for folder in ("simaccel", "tests")
    for path in sorted((_ROOT / folder).rglob("*.py"))
    if "\n    >>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", _MODULES)
def test_examples_of_docstrings_print_what_stands_there(name: str) -> None:
    failed, attempted = doctest.testmod(import_module(name))
    assert attempted > 0
    assert failed == 0, "see what it printed"
