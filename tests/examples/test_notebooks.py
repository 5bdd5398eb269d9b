"""The notebooks run from first cell to last, in a kernel, and are kept without outputs."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SHOWS = {
    "explore": {"image/png": 2, "text/html": 2},
    "first_hour": {"image/png": 2, "text/html": 5},
    "own_scheduler": {"image/png": 1, "text/html": 2},
    "validate_my_estimate": {"image/png": 2, "text/html": 3},
    "why_is_it_slow": {"image/png": 2, "text/html": 3},
}
"""Pictures and tables that each shows."""
LONG = {"explore", "first_hour", "validate_my_estimate", "why_is_it_slow"}
"""What these do is in pages of the guide as well, which always run, with smaller layers."""


def _read(path: Path) -> Any:  # noqa: ANN401 - nbformat has no types
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelManager]:
    """One kernel for all of them, as starting one takes a second."""
    manager = KernelManager(kernel_name="python3")
    yield manager
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)
    manager.context.destroy()


def test_all_notebooks_are_known() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(SHOWS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_without_outputs(path: Path) -> None:
    notebook = _read(path)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem in LONG))
        for path in NOTEBOOKS
    ],
)
def test_a_notebook_runs_and_shows_its_tables_and_pictures(
    path: Path, kernel: KernelManager
) -> None:
    notebook = _read(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))  # type: ignore[no-untyped-call]
    there = {"metadata": {"path": str(EXAMPLES)}}
    client = NotebookClient(notebook, km=kernel, timeout=100, resources=there)
    try:
        client.execute()
    finally:
        if client.kc is not None:
            client.kc.stop_channels()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    shown = Counter(kind for one in outputs for kind in one.get("data", {}))
    expected = SHOWS[path.stem]
    assert {kind: shown[kind] for kind in expected} == expected
