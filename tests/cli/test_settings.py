"""Settings: `--set NAME=VALUE`, the old spellings, the forms of a result, and what help shows."""

import json
import re
import shlex
from typing import Any

import click
import pytest
from click.testing import CliRunner

from simaccel.cli import main
from simaccel.cli.command import Command, Commands
from simaccel.cli.settings import SettingOption
from simaccel.hardware import Accelerator
from tests.cli.conftest import COMMANDS, Call

GEMM = "--hw toy --workload gemm --shape M=9,K=7,N=5"
MOST_OPTIONS = 25


def _figures(text: str) -> dict[str, Any]:
    """Return a run as JSON without the time that it took."""
    return {name: value for name, value in json.loads(text).items() if name != "wall_seconds"}


def test_no_command_shows_more_options_than_one_can_hold() -> None:
    for words, command in COMMANDS:
        shown = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        assert len(shown) <= MOST_OPTIONS, (words, len(shown))


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=lambda each: str(each)[:30])
def test_the_first_page_of_a_help_is_one_screen(
    words: tuple[str, ...], command: click.Command
) -> None:
    page = CliRunner().invoke(main, [*words, "--help"], terminal_width=100).stdout
    lines = page.splitlines()
    assert 5 < len(lines) <= 40
    whole = CliRunner().invoke(main, [*words, "--help-all"], terminal_width=100).stdout
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    for names in (max(p.opts, key=len) for p in options):
        assert re.search(rf"{names}\b", page), "named, at least"
        assert re.search(rf"{names}\b", whole)


def test_no_setting_has_the_name_of_a_field_of_accelerators() -> None:
    settings = {
        p.name for _, command in COMMANDS for p in command.params if isinstance(p, SettingOption)
    }
    assert len(settings) > MOST_OPTIONS
    assert not settings & set(Accelerator.model_fields)


def test_a_setting_is_the_option_that_it_was(cli: Call) -> None:
    old = cli(f"run {GEMM} --dataflow flex --stationarity is --no-fast-forward --json")
    assert old.stderr.startswith(
        "note: --stationarity is --set stationarity; "
        "--no-fast-forward is --set fast-forward=no now\n"
    )
    new = cli(f"run {GEMM} --dataflow flex --set stationarity=is --set fast-forward=no --json")
    assert _figures(new.stdout) == _figures(old.stdout)
    assert "note" not in new.stderr
    written = cli(f"run {GEMM} --dataflow flex --set stationarity=is --set fast_forward=off --json")
    assert _figures(written.stdout) == _figures(new.stdout)


def test_settings_and_fields_stand_beside_one_another(cli: Call) -> None:
    few = cli(f"run {GEMM} --dataflow naive --set array.rows=2 --set stationarity=os --json").stdout
    many = cli(
        f"run {GEMM} --dataflow naive --set array.rows=8 --set stationarity=os --json"
    ).stdout
    assert _figures(few)["cycles"] > _figures(many)["cycles"]


def test_generate_is_what_run_did(cli: Call) -> None:
    model = "--hw edge --workload gpt2 --prompt 4 --scope la --dataflow naive-m --json"
    old = cli(f"run {model} --generate 3 --lengths 2")
    assert "note: --generate is `simaccel generate` with --tokens; --lengths is" in old.stderr
    assert cli(f"generate {model} --tokens 3 --lengths 2").stdout == old.stdout


@pytest.mark.parametrize(("form", "short"), [("json", "--json"), ("line", "--quiet")])
def test_forms_have_short_forms(cli: Call, form: str, short: str) -> None:
    read = _figures if form == "json" else str
    assert read(cli(f"run {GEMM} --format {form}").stdout) == read(
        cli(f"run {GEMM} {short}").stdout
    )
    assert cli(f"run {GEMM} --format table").stdout == cli(f"run {GEMM}").stdout
    assert cli(f"run {GEMM} --format=csv").stdout == cli(f"run {GEMM} --csv -").stdout


def test_help_has_sections_settings_and_examples_that_run(cli: Call) -> None:
    shown = cli("run --help").stdout
    for title in ("What runs:", "Which mapping:", "--help-settings  ", "Examples:"):
        assert title in shown
    assert "patience" not in shown
    whole = cli("run --help-all").stdout
    for page in (whole, cli("run --help-settings").stdout):
        assert "patience=N" in page
    assert "The first line has the answer" in whole
    for words, command in COMMANDS:
        for example in command.examples if isinstance(command, Command) else ():
            assert shlex.split(example)[: len(words)] == [*words]
            _, _, arguments = main.resolve_command(click.Context(main), shlex.split(example))
            with command.make_context(words[-1], arguments):
                pass
    assert isinstance(main, Commands)
