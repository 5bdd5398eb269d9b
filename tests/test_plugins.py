"""Plug-ins that are broken stop those who use them, by name, and nobody else."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simaccel import build, gemm, load_workload, simulate
from simaccel.cli import main
from simaccel.hardware.presets import template
from simaccel.plugins import PluginError, plugins
from simaccel.workload import VECTORS, Vector, operand
from tests.data_files import data_beside
from tests.robust.processes import REPOSITORY

DATA = data_beside(__file__)

Install = Callable[..., None]
GEMM = "--workload gemm --shape M=9,K=7,N=5"
CODE = """
from pathlib import Path
from simaccel import gemm
from simaccel.errors import SimaccelError
from simaccel.schedulers import DATAFLOWS
number = 7
folder = Path(__file__).parent
def fails(workload, accelerator, options): raise KeyError("oh")
def leaves(workload, accelerator, options): raise SystemExit(3)
class Own(BaseException): pass
class Error(SimaccelError): exit_code = 3
def errs(workload, accelerator, options): raise Error("mine")
def owns(workload, accelerator, options): raise Own("mine")
def nothing(workload, accelerator, options): pass
def other(workload, accelerator, options):
    return DATAFLOWS["naive"](gemm(m=2, k=2, n=2), accelerator, options)
def no_workload(): return "bert"
def three(*, size=3): return gemm(m=size, k=1, n=1)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Write a package's metadata, as an installer would, and its one module."""

    def write(points: str, package: str = "broken", code: str = CODE) -> None:
        module = f"{package}_{abs(hash((tmp_path, points)))}"
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{package}-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text(points.replace("MODULE", module))
        monkeypatch.syspath_prepend(str(tmp_path))

    return write


def _run(line: str) -> Result:
    return CliRunner().invoke(main, line.split(), prog_name="simaccel")


@pytest.mark.parametrize(("target", "problem"), DATA["dataflows"])
def test_a_broken_dataflow_is_named(install: Install, target: str, problem: str) -> None:
    install(f"[simaccel.dataflows]\nmine = {target}\n")
    result = _run(f"run --hw toy {GEMM} --dataflow mine")
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr
    if "mapping is for" not in problem:
        assert "error: dataflow 'mine' of the plug-in broken 0.1 (" in result.stderr
    assert _run(f"run --hw toy {GEMM} --quiet").exit_code == 0
    assert "did you mean 'mine'" in _run(f"run --hw toy {GEMM} --dataflow min").stderr


def test_what_a_plug_in_raised_is_the_cause(install: Install) -> None:
    install("[simaccel.dataflows]\nmine = MODULE:fails\n")
    with pytest.raises(PluginError) as caught:
        simulate(gemm(m=9, k=7, n=5), "toy", "mine")
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("MODULE:number", "is a int, not the path of a .yaml file"),
        ("nowhere:it", "loading failed: ModuleNotFoundError"),
        ("MODULE:folder", "allowed: "),
    ],
)
def test_a_broken_accelerator_is_named_in_the_list_of_all(
    install: Install, tmp_path: Path, target: str, problem: str
) -> None:
    install(f"[simaccel.accelerators]\nmine = {target}\n")
    for line in (f"run --hw mine {GEMM}", "hw show mine"):
        result = _run(line)
        assert (result.exit_code, problem in result.stderr) == (2, True)
    listed = _run("hw list")
    assert listed.exit_code == 0
    assert "edge" in listed.stdout
    assert f"\nmine: " in listed.stdout  # noqa: F541
    rows = {one["name"]: one for one in json.loads(_run("hw list --json").stdout)}
    assert problem in rows["mine"]["problem"]
    assert "problem" not in rows["toy"]
    own = tmp_path / "own.yaml"
    own.write_text(template("own", ["edge"]))  # of which sections are those of others
    assert _run(f"hw show {own}").exit_code == 0


@pytest.mark.parametrize(
    ("target", "given", "problem"),
    [
        ("MODULE:number", {}, "is a int, not a function that returns a Workload"),
        ("MODULE:no_workload", {}, "gives a str, not a Workload"),
        ("MODULE:no_workload", {"batch": 3}, "nothing with mine; its plug-in takes nothing"),
        ("MODULE:three", {"batch": 3}, "nothing with mine; its plug-in takes size"),
    ],
)
def test_a_broken_workload_is_named(
    install: Install, target: str, given: dict[str, int], problem: str
) -> None:
    install(f"[simaccel.workloads]\nmine = {target}\n")
    option = "".join(f" --{name} {value}" for name, value in given.items())
    result = _run(f"run --hw toy --workload mine{option}")
    assert (result.exit_code, problem in result.stderr) == (2, True)
    listed = _run("workload list")
    assert (listed.exit_code, "broken 0.1" in listed.stdout) == (0, True)


def test_files_of_a_plug_in_are_read_by_their_ending(install: Install, tmp_path: Path) -> None:
    code = """
from pathlib import Path
from simaccel import gemm
def load(path, *, batch=1): return gemm(m=batch * int(Path(path).read_text()), k=5, n=7)
"""
    install("[simaccel.workload_files]\nmine = MODULE:load\ndescription = nowhere:it\n", code=code)
    path = tmp_path / "three.mine"
    path.write_text("3")
    assert load_workload(path, batch=2).macs == 2 * 3 * 5 * 7
    result = _run(f"run --hw toy --workload {path} --layer x")
    assert result.exit_code == 2
    assert "nothing with mine; its plug-in takes path, batch" in result.stderr
    path.write_text("three")
    result = _run(f"run --hw toy --workload {path}")
    assert result.exit_code == 2
    assert "reader of files 'mine' of the plug-in broken 0.1" in result.stderr
    assert "building failed: ValueError" in result.stderr
    described = tmp_path / "layers.m"  # MAESTRO's are those of a guest of simaccel's own
    described.write_text("Network n { Layer g { Type: GEMM Dimensions { M: 2, N: 3, K: 5 } } }")
    assert load_workload(described).macs == 2 * 3 * 5


@pytest.mark.parametrize(
    ("point", "problem"),
    [
        ("mine = MODULE:number", "is a int, not a VectorKind"),
        ("mine = simaccel.workload.vectors.single_pass:RELU", "its kind has another name, 'relu'"),
    ],
)
def test_a_broken_vector_operator_is_named(install: Install, point: str, problem: str) -> None:
    install(f"[simaccel.vector_operators]\n{point}\n")
    with pytest.raises(PluginError, match=problem):
        Vector("v", "mine", {"m": 3}, (operand("X m"),), operand("Y m"))
    assert Vector("v", "relu", {"m": 3}, (operand("X m"),), operand("Y m")).kind == "relu"


COMMANDS = """
import click
from simaccel.errors import InputError, Fault
number = 7
@click.command()
@click.option("--times", type=int, default=1)
def good(times):
    \"\"\"Print a line.

    Or several.\"\"\"
    print("a line\\n" * times, end="")
@click.command()
def bad(): raise KeyError("oh")
@click.command()
def wrong(): raise click.UsageError("not so")
@click.command()
def refused(): raise InputError([Fault("f", "a", 1, "2")])
@click.command()
def ends(): raise SystemExit(5)
@click.command()
def pipe(): raise BrokenPipeError(32, "closed")
@click.command()
def full(): raise MemoryError("so much")
class Strict(click.ParamType):
    name = "strict"
    def convert(self, value, *_): raise ValueError(value)
@click.command()
@click.argument("given", type=Strict())
def reads(given): pass
@click.group()
def group(): pass
group.add_command(good)
group.add_command(bad)
group.add_command(reads)
def fails(*_, **__): raise KeyError("oh")
def opens(ctx, *_, **__): ctx.exit(7)
"""


@pytest.mark.parametrize(("target", "code", "output"), DATA["commands"])
def test_a_command_of_a_plug_in_runs_or_is_named(
    install: Install, target: str, code: int, output: str
) -> None:
    install(f"[simaccel.commands]\nmine = {target}\nrun = {target}\n", code=COMMANDS)
    result = _run("mine")
    place = plugins("simaccel.commands")["mine"][0].target
    assert (result.exit_code, output.replace("PLACE", place) in result.output) == (code, True)
    assert "Traceback" not in result.output
    listed = " ".join(_run("--help").stdout.split())
    unread = "mine A command of the plug-in broken 0.1."
    known = target == "MODULE:good"
    assert ("mine Print a line. run Run a workload" if known else unread) in listed
    assert "bound Bound the DRAM traffic" in listed
    assert _run(f"run --hw toy {GEMM} --quiet").exit_code == 0  # of simaccel, not of the plug-in
    assert _run("mine --times 2").exit_code == (0 if known else code if output != "" else 2)


@pytest.mark.parametrize(("line", "code", "output"), DATA["lines"])
def test_whatever_fails_in_commands_and_axes_of_a_plug_in_is_named(
    install: Install, line: str, code: int, output: str
) -> None:
    commands = "".join(f"{name} = MODULE:{name}\n" for name in ("group", "reads", "pipe", "full"))
    axes = "".join(f"{name} = MODULE:{name}\n" for name in ("fails", "number", "opens"))
    install(f"[simaccel.commands]\n{commands}[simaccel.axes]\n{axes}", code=COMMANDS)
    result = _run(line.replace("GEMM", f"--hw toy {GEMM}"))
    said = re.sub(r"\(broken_\w+:(\w+)\)", r"(\1)", result.output)
    assert (result.exit_code, said) == (code, output)


def test_a_function_of_a_plug_in_is_one_of_simaccel(install: Install) -> None:
    install(
        "[simaccel.functions]\nmine = MODULE:three\ngemm = MODULE:three\ngone = nowhere:it\n"
        "[simaccel.dram_bounds]\nmine = MODULE:fails\n"
    )
    import simaccel  # noqa: PLC0415 - its attributes are looked up here

    assert simaccel.mine(size=5).macs == 5
    assert simaccel.gemm is gemm
    with pytest.raises(PluginError, match="function 'gone' of the plug-in broken"):
        _ = simaccel.gone
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = simaccel.nothing_such


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("code", "problem"), DATA["bounds"])
def test_a_broken_bound_of_dram_bytes_is_left_out_of_the_figure(
    install: Install, tmp_path: Path, code: str, problem: str
) -> None:
    install("[simaccel.dram_bounds]\nmine = MODULE:bound\n", code=code)
    figure = tmp_path / "figure.svg"
    options = f"--jobs 1 --dataflow naive --sweep buffer=512,1024 --plot {figure}"
    result = _run(f"compare --hw toy {GEMM} {options}")
    assert (result.exit_code, f"figure: {figure}" in result.stdout) == (0, True)
    assert ("<!-- mine -->" in figure.read_text()) is not bool(problem)
    place = plugins("simaccel.dram_bounds")["mine"][0].target
    warning = f"warning: bound of DRAM bytes 'mine' of the plug-in broken 0.1 ({place}): bounding"
    said = re.fullmatch(rf"{re.escape(warning)} failed: .*; its curve is left out\n", result.stderr)
    assert (bool(said), problem in result.stderr) == (bool(problem), True)


EXHIBIT = """
from simaccel.study.points import Exhibit
def rows(points, runs): return [{"ran": run.dataflow, **run.result} for run in runs if run.result]
def table(rows): return "; ".join(f"{row['ran']}: {row['cycles']}" for row in rows)
def fails(*_): raise KeyError("oh")
plain = dict(heading="cycles, no more", dataflow="naive,strips", rows=rows, draw=fails)
good = Exhibit(table=table, **plain)
bad = Exhibit(table=fails, **plain)
lost = Exhibit(table=table, find=fails, **plain)
swept = Exhibit(table=table, **plain | {"sweep": "dram-latency=0,8", "heading": "{oh}"})
odd = Exhibit(table=table, find=lambda *_: {"share": 1}, **plain)
counts = Exhibit(table=table, find=lambda *_: {"cycles": 1}, **plain)
found = Exhibit(
    heading="needs {target}",
    dataflow="naive,strips",
    rows=lambda _, runs: [{"text": f"{run.result['share']} of {run.dataflow}"} for run in runs],
    table=lambda rows: "; ".join(row["text"] for row in rows),
    find=lambda target, point: {"result": {"share": target}},
    draw=fails,
)
none = 7
"""


@pytest.mark.parametrize(("name", "code", "output"), DATA["exhibits"])
def test_an_exhibit_of_a_plug_in_is_shown_or_named(
    install: Install, tmp_path: Path, name: str, code: int, output: str
) -> None:
    names = ["good", "bad", "lost", "swept", "odd", "counts", "found", "none"]
    points = "".join(f"{own} = MODULE:{own}\n" for own in names)
    install(f"[simaccel.exhibits]\n{points}gone = nowhere:it\n", code=EXHIBIT)
    result = _run(
        f"compare --hw toy {GEMM} --jobs 1 --exhibit {name}".replace("PNG", f"{tmp_path}/a.png")
    )
    target = plugins("simaccel.exhibits").get(name.partition(" ")[0])
    place = target[0].target if target else ""
    output = output.replace("NAIVE", str(simulate(gemm(m=9, k=7, n=5), "toy", "naive").cycles))
    assert (result.exit_code, output.replace("PLACE", place) in result.output) == (code, True)
    assert "Traceback" not in result.output


@pytest.mark.parametrize("error", [MemoryError("so much"), BrokenPipeError(errno.EPIPE, "x")])
def test_output_that_fails_is_not_named_as_the_exhibits(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("simaccel.cli.output.show", fail)
    result = _run(f"compare --hw toy {GEMM} --jobs 1 --exhibit breakdown")
    said = "error: not enough memory: so much\n" * isinstance(error, MemoryError)
    assert (result.exit_code, result.stderr) == (1, said)


@pytest.mark.parametrize("what", ["SystemExit(3)", "KeyError('oh')"])
def test_what_a_vector_operator_raises_is_named(
    install: Install, tmp_path: Path, what: str
) -> None:
    code = f"""
from simaccel.workload.vectors.kind import VectorKind, one_pass, whole
def fails(x): raise {what}
KIND = VectorKind(name="mine", steps=one_pass(whole(fails)))
"""
    install("[simaccel.vector_operators]\nmine = MODULE:KIND\n", code=code)
    (tmp_path / "v.yaml").write_text("""
kind: einsums
name: v
tensors: {X: {kind: input}, Y: {kind: output}}
operators: {v: {kind: mine, ranks: {m: 4}, inputs: ["X[m]"], output: "Y[m]"}}
""")
    result = _run(f"run --hw toy --workload {tmp_path}/v.yaml --check")
    assert result.exit_code == 2
    name = what.partition("(")[0]
    assert re.search(rf"error: vector operator 'mine' of .*computing failed: {name}", result.stderr)


def test_a_name_of_simaccel_is_never_a_plug_ins(install: Install) -> None:
    install("[simaccel.dataflows]\nflat = nowhere:it\n[simaccel.workloads]\nbert = nowhere:it\n")
    assert _run(f"run --hw toy {GEMM} --dataflow flat --quiet").exit_code == 0
    assert build("bert", seq_len=8).name == "bert"
    assert "nowhere" not in _run("workload list").stdout


def test_one_name_in_two_plug_ins_names_both(install: Install) -> None:
    for package in ("one", "two"):
        install("[simaccel.dataflows]\nmine = MODULE:nothing\n", package)
    result = _run(f"run --hw toy {GEMM} --dataflow mine")
    assert result.exit_code == 2
    assert "dataflow 'mine' is in several plug-ins: one 0.1, two 0.1" in result.stderr


def test_damaged_metadata_of_any_package_is_left_out(install: Install, tmp_path: Path) -> None:
    install("[simaccel.dataflows]\nmine = MODULE:nothing\n", "good")
    install("", "damaged")
    (tmp_path / "damaged-0.1.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[[[")
    assert [*plugins("simaccel.dataflows")] == ["mine", "directives"]
    assert _run("hw list").exit_code == 0


def test_entry_points_that_are_no_text_stop_nothing(install: Install, tmp_path: Path) -> None:
    """In a process of its own: pydantic looks for its plug-ins as its first model is made."""
    install("", "damaged")
    (tmp_path / "damaged-0.1.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe")
    path = os.pathsep.join((str(REPOSITORY), str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-m", "simaccel", "hw", "list", "--json"],
        env=os.environ | {"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_looked_for_where_simaccel_has_the_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scanned(*_: object) -> None:
        raise AssertionError("entry points were looked for")

    monkeypatch.setattr("simaccel.plugins._scan_group", scanned)
    assert _run(f"run --hw toy {GEMM} --dataflow flat").exit_code == 0
    line = "compare --hw toy --workload bert --seq-len 4 --scope la --dataflow naive-m --jobs 1"
    assert _run(line).exit_code == 0
    assert _run(f"run --hw toy {GEMM} --mapspace pfm --quiet").exit_code == 0
    assert _run("run --help").exit_code == 0
    assert VECTORS["softmax"].needs_axis
