"""What a command line loads: help and errors load little, and no command loads another's."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from inspect import signature

import click
import pytest

from simaccel.cli import choices as words
from simaccel.cli import main
from simaccel.cli.command import Commands
from simaccel.dataflows import DATAFLOWS
from simaccel.hardware import STATIONARITIES
from simaccel.hardware.dram.parts import measured_patterns
from simaccel.papers.flat.commands.rows import TARGET
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.commands import directives
from simaccel.papers.maestro.dataflows.reading import MAX_LEVELS
from simaccel.papers.maestro.dataflows.translating import DIRECTIVES
from simaccel.papers.orojenesis.commands import bound
from simaccel.papers.orojenesis.halo import HALOS
from simaccel.papers.orojenesis.whole import FUSIONS, UNFUSED
from simaccel.report.exploration import MOST_ROWS
from simaccel.search.effort import OBJECTIVES, STRATEGIES, Effort
from simaccel.search.front import FIGURES
from simaccel.study.figure_table import METRICS
from simaccel.study.figures import OBJECTIVES as EXPLORED
from simaccel.study.generation import LENGTHS
from simaccel.study.parameters import PARAMETERS
from simaccel.trace.exports import FORMATS, excerpt
from simaccel.verbs.comparing import EACH
from simaccel.workload.attention import SCOPES
from simaccel.workload.building import BATCH, SCOPE, SEQ_LEN
from simaccel.workload.language.experts import GROUPED
from simaccel.workload.language.phase import CAUSAL_BLOCKS, PHASES
from tests.data_files import data_beside

DATA = data_beside(__file__)

HEAVY = {"numpy", "networkx", "h5py", "matplotlib", "lark", "onnx", "simpy", "rich", "pydantic"}
ALL = HEAVY | {
    "simaccel.workload",
    "simaccel.hardware.accelerator",
    "simaccel.mapping",
    "simaccel.schedulers",
}
DRAWN_OR_READ = {"networkx", "h5py", "matplotlib", "lark", "onnx"}
READ = HEAVY - {"pydantic"} | {"simaccel.schedulers", "simaccel.machine", "simaccel.workload.forms"}
"""What reading accelerators and workloads of the catalogue does without."""
GEMM = "run --hw toy --workload gemm --shape M=9,K=7,N=5"
LINES = {"all": ALL, "read": READ, "read, but rich": READ - {"rich"}}
RUNS: Mapping[str, set[str]] = {
    **{line: LINES[what] for what, lines in DATA.items() for line in lines},
    GEMM: DRAWN_OR_READ | {"simaccel.papers.maestro.analysis", "simaccel.study.runs"},
}
"""Command lines, and what none of them loads."""
DESCRIBED: Mapping[str, set[str]] = {
    "directives nonsense.m": HEAVY - {"lark"} | {"simaccel.machine", "simaccel.schedulers"},
    "directives nonsense.m --no-multicast 9 --pes 0": HEAVY - {"lark"},
    "directives README.md --hw nonsense": READ - {"lark"},
}
"""The same of descriptions."""
_SCRIPT = """
import json, sys
from simaccel.cli import main
for line in json.load(sys.stdin):
    try:
        main(line.split(), prog_name="simaccel")
    except SystemExit as ended:
        code = ended.code or 0
    print(json.dumps([line, code, sorted(sys.modules)]), file=sys.stderr)
"""


def _loaded(*lines: str) -> dict[str, tuple[int, set[str]]]:
    """Run command lines one after the other in a new process: exit code and modules after each."""
    environment = {**os.environ, "SIMACCEL_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    found = [json.loads(one) for one in done.stderr.splitlines() if one.startswith("[")]
    return {line: (code, set(modules)) for line, code, modules in found}


@pytest.mark.parametrize("runs", [RUNS, DESCRIBED], ids=["all", "descriptions"])
def test_help_and_errors_load_little(runs: Mapping[str, set[str]]) -> None:
    """All in one process, those that may load least first: what is loaded stays."""
    found = _loaded(*runs)
    assert list(found) == list(runs)
    for line, without in runs.items():
        code, modules = found[line]
        assert code == (0 if line == GEMM or line.startswith("--") or "--help" in line else 2), line
        assert not without & modules, line


def test_importing_the_package_loads_what_loads_the_rest() -> None:
    text = "import simaccel, sys; print([m for m in sys.modules if m.startswith('simaccel.')])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "['simaccel.lazy']\n"


def _groups(group: Commands) -> Iterator[Commands]:
    yield group
    for name in group.list_commands(click.Context(group)):
        inner = group.get_command(click.Context(group), name)
        if isinstance(inner, Commands):
            yield from _groups(inner)


@pytest.mark.parametrize("group", list(_groups(main)), ids=lambda one: str(one.name))
def test_the_help_of_a_group_is_that_of_its_commands(group: Commands) -> None:
    context = click.Context(group)
    for name in group.places:
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        text = (command.help or "").partition("\n\n")[0].replace("\n", " ")
        assert text == group.help_of(name) != ""
    assert group.get_command(context, "nonsense") is None


@pytest.mark.parametrize("module", sorted(set(DATAFLOWS.values())))
def test_names_of_dataflows_are_those_that_their_module_has(module: str) -> None:
    mine = [name for name, one in DATAFLOWS.items() if one == module]
    assert sorted(import_module(f"simaccel.schedulers.{module}").SCHEDULERS) == sorted(mine)


def test_words_are_those_of_the_modules_that_have_them() -> None:
    assert {*words.METRIC_NAMES} == {*METRICS}
    assert tuple(PARAMETERS) == words.SWEPT
    assert words.MOST_SHOWN == MOST_ROWS
    assert words.DIRECTIVES == DIRECTIVES
    assert words.STRATEGIES == STRATEGIES
    assert words.OBJECTIVES == OBJECTIVES
    assert words.STATIONARITIES == STATIONARITIES
    assert words.SCOPES == SCOPES
    assert words.PHASES == PHASES
    assert bound.HALOS == HALOS
    assert words.EACH == EACH
    assert tuple(FORMATS) == words.TRACE_FORMATS
    shown = signature(excerpt).parameters
    in_words = tuple(words.LANES.split(",")), words.BINS, words.AT_MOST
    assert tuple(shown[name].default for name in ("lanes", "bins", "at_most")) == in_words
    assert words.FUSIONS == FUSIONS
    assert words.UNFUSED == UNFUSED
    assert words.FRONT_FIGURES == FIGURES
    assert words.TARGET == TARGET
    assert tuple(EXPLORED) == words.EXPLORED
    assert (words.SEQ_LEN, words.BATCH, words.SCOPE) == (SEQ_LEN, BATCH, SCOPE)
    assert (words.CAUSAL_BLOCKS, words.LENGTHS) == (CAUSAL_BLOCKS, LENGTHS)
    assert words.GROUPED == GROUPED
    assert Effort.patience == words.PATIENCE
    measured = {str(row["pattern"]) for row in measured_patterns("HBM2")}
    assert measured == {*words.PATTERNS}
    assert directives.CLUSTER_LEVELS == MAX_LEVELS
    usual = DirectiveHardware()
    assert (usual.pes, usual.offchip_bandwidth) == (directives.PES, directives.OFFCHIP_BANDWIDTH)
