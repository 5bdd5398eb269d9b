"""What the tests say of themselves at their end."""

from types import SimpleNamespace
from typing import Any

import pytest

from conftest import pytest_terminal_summary


@pytest.mark.parametrize(
    ("reasons", "lines"),
    [
        ([], []),
        (["sends signals"], []),
        (
            ["needs a browser (apt-get install b)", "forks", "needs icarus", "needs icarus"],
            ["to run what was skipped: 1 x needs a browser (apt-get install b); 2 x needs icarus"],
        ),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_what_was_drawn_and_what_was_skipped_for_want_of_a_program_is_said_once(
    reasons: list[str], lines: list[str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conftest.SEED", seed)
    lines = [*["random tests drew with SIMACCEL_SEED=7"][: seed > 0], *lines]
    said: list[str] = []
    reports = [SimpleNamespace(longrepr=("a.py", 1, f"Skipped: {reason}")) for reason in reasons]
    reporter: Any = SimpleNamespace(stats={"skipped": reports}, write_line=said.append)
    pytest_terminal_summary(reporter)
    assert said == lines
