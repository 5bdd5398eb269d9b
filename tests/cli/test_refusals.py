"""What commands refuse, and what they say: data, `command: lines`, in a file for each command.

Arguments are separated by blanks, `~` stands for a blank in one; paths begin at the repository. A
line that ends with `...` is the beginning of one that lists what others add to.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from simaccel.cli.rules import RULES
from tests.cli.conftest import Call

REPOSITORY = Path(__file__).parents[2]
FILES = sorted(Path(__file__).with_name("refusals").glob("*.yaml"))
REFUSALS: dict[str, Any] = {
    line: said
    for path in FILES
    for line, said in yaml.safe_load(path.read_text(encoding="utf-8")).items()
}


@pytest.mark.parametrize(("line", "said"), REFUSALS.items(), ids=[*REFUSALS])
def test_refused(cli: Call, line: str, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    result = cli(line)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = [each for each in result.stderr.splitlines() if each.strip()]
    usage = ("Usage: ", "Try ")  # of click, before its own message
    found = [each for each in lines if not each.startswith(usage)]
    found = [each.replace(f"{REPOSITORY}/", "") for each in found]
    texts = [each.removeprefix("error: ").removeprefix("Error: ") for each in found]
    begun = [each.removesuffix("...") for each in said]
    assert [
        each[: len(begin)] if begin != whole else each
        for each, begin, whole in zip(texts, begun, said, strict=True)
    ] == begun


def test_each_rule_is_broken_by_a_line() -> None:
    """A rule that no line breaks may be one that nothing can break."""
    said = [text.replace("--set ", "--") for lines in REFUSALS.values() for text in lines]
    for rule in RULES:
        words = [
            f"nothing {'without' if rule.needs else 'with'} --{name.lstrip('-').replace('=', ' ')}"
            for name in rule.beside.split()
        ] or [rule.reason]
        options = rule.options.split() if rule.options != "*" else [""]
        assert any(
            f"{option}: got" in text and word in text
            for text in said
            for word in words
            for option in options
        ), rule
