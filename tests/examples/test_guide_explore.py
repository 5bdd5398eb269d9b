"""The commands of docs/guide/explore.md print what stands there; golden mode writes it anew."""

import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from simaccel.cli import main
from tests.examples.documents import blocks, rewrite, session, stable, trimmed

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "explore.md"


def test_the_commands_of_the_page_print_what_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    printed = {}
    for number, block in enumerate(blocks(PAGE.read_text(encoding="utf-8"))):
        if block.language == "console":
            said = []
            for command, _ in session(block):
                program, *arguments = shlex.split(command)
                assert program == "simaccel"
                result = CliRunner().invoke(main, arguments, prog_name="simaccel")
                assert result.exit_code == 0, result.output
                said.append(f"$ {command}\n{trimmed(result.output)}")
            printed[number] = "\n".join(said)
    assert printed
    if os.environ.get("SIMACCEL_UPDATE_GOLDEN") == "1":
        rewrite(PAGE, {number: trimmed(text) for number, text in printed.items()})
    found = blocks(PAGE.read_text(encoding="utf-8"))
    for number, text in printed.items():
        assert stable(found[number].text) == stable(text)
