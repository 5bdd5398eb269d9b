"""`simaccel trace info | stalls | diff` on small runs, and what they say to bad input."""

import shutil
from pathlib import Path

import h5py
import pytest
from click.testing import CliRunner

from simaccel.cli import main
from simaccel.machine.accounts import NO_WAIT
from simaccel.trace import SCHEMA_VERSION, TraceHeader, TraceReader, TraceWriter
from simaccel.units import Cause
from tests.cli.conftest import Call

ATTENTION = """
{kind: attention, name: small, scope: la, batch: 1, seq_len: 4,
 hidden: 32, heads: 4, head_size: 16, ff_size: 16}
"""
GEMM = "--hw toy --workload gemm --shape M={m},K=16,N=16 --dataflow naive"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record two runs of one attention block and two of a GEMM, once for all tests."""
    folder, small = tmp_path_factory.mktemp("recorded"), tmp_path_factory.mktemp("small") / "a.yaml"
    small.write_text(ATTENTION)
    attention = f"--hw toy --set buffer.capacity_bytes=64~KiB --workload {small}"
    for name, line in {
        "naive": f"{attention} --dataflow naive-m",
        "flat": f"{attention} --dataflow flat-r",
        "gemm": GEMM.format(m=16),
        "longer": GEMM.format(m=20),
    }.items():
        asked = f"run {line} --trace {folder / name}.h5 --quiet".split()
        done = CliRunner().invoke(main, [one.replace("~", " ") for one in asked])
        assert done.exit_code == 0, done.stderr
    return folder


@pytest.fixture
def traces(recorded: Path, tmp_path: Path) -> dict[str, Path]:
    """Give copies of the recorded traces, which a test may spoil."""
    return {path.stem: Path(shutil.copy(path, tmp_path)) for path in recorded.iterdir()}


def test_info_says_all_of_a_file(cli: Call, traces: dict[str, Path]) -> None:
    found = cli.json(f"trace info {traces['flat']}")
    assert found["schema_version"] == SCHEMA_VERSION
    assert found["file_bytes"] == traces["flat"].stat().st_size
    assert found["partial"] is False
    assert found["reproduced_by"] == ["accelerator", "workload", "mapping", "program"]
    with h5py.File(traces["flat"]) as file:
        assert found["rows"] == len(file["events/start"])
        assert found["segments"] == len(file["segments/repeats"])
    assert "array" in found["engines"]
    assert "dram0" in found["channels"]
    assert found["tiles"]
    shown = cli(f"trace info {traces['flat']}").stdout
    assert "scope la, batch 1, seq-len 4, int16, dataflow flat-r" in shown
    assert "header/workload (--workload), header/mapping (--mapping), header/program" in " ".join(
        shown.split()
    )
    assert "busy + stalls + idle = total for every engine" in shown


def test_stalls_of_a_run(cli: Call, traces: dict[str, Path]) -> None:
    shown = cli.printed(f"trace stalls {traces['naive']}")
    with TraceReader.open(traces["naive"]) as trace:
        cycles = trace.cycles
        names = [one["name"] for one in trace.figures["operators"]]
    assert names == ["L", "softmax", "A"]
    assert f"dataflow naive-m: {cycles:,} cycles" in shown
    rows = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert {*names, "total", "nothing", "array", "sfu", "dma_out"} <= rows.keys()
    assert "what if, for the whole run: the same program" in shown
    plain = cli(f"trace stalls {traces['naive']} --no-what-if").stdout
    assert "what if" not in plain
    each = cli(f"trace stalls {traces['naive']} --no-what-if --each").stdout
    assert each.count("dma_out") > plain.count("dma_out") + 2


def test_what_is_not_freed_is_told(cli: Call, tmp_path: Path) -> None:
    free = (
        "dram.bandwidth_bytes_per_second=unlimited",
        "dram.latency_cycles=0",
        "buffer.read_bytes_per_second=unlimited",
    )
    path = tmp_path / "free.h5"
    sets = " ".join(f"--set {field}" for field in free)
    assert cli(f"run {GEMM.format(m=4)} {sets} --trace {path} --quiet").exit_code == 0
    assert "array and SFU are left out: " in cli(f"trace stalls {path}").stdout
    assert "are not freed" not in cli(f"trace stalls {_gemm(cli, tmp_path)}").stdout


def test_stalls_as_json_are_the_runs_figures(cli: Call, traces: dict[str, Path]) -> None:
    found = cli.json(f"trace stalls {traces['flat']}")
    with TraceReader.open(traces["flat"]) as trace:
        figures = trace.figures
    assert found["total"]["engines"] == figures["engines"]
    for one, operator in zip(found["operators"], figures["operators"], strict=True):
        assert one["engines"] == operator["engines"]
        assert one["cycles"] == operator["cycles"]
    freed = {tuple(one["resources"]): one for one in found["what_if"]["freed"]}
    assert len(freed) == 10
    assert ("array_loading",) in freed  # folds of 4 rows wait for their weights
    assert found["what_if"]["cycles"] == figures["cycles"]
    assert freed["array", "noc"]["cycles"] < figures["cycles"]


def test_stalls_of_an_operator_and_a_window(cli: Call, traces: dict[str, Path]) -> None:
    shown = cli(f"trace stalls {traces['naive']} --operator softmax")
    assert "what if, for softmax:" in shown.stdout
    with TraceReader.open(traces["naive"]) as trace:
        end = trace.cycles
    window = cli.json(f"trace stalls {traces['naive']} --from 10 --to 200")
    assert (window["from"], window["to"], window["cycles"]) == (10, 200, 190)
    assert sum(one["cycles"] for one in window["operators"]) == 190
    shown = cli(f"trace stalls {traces['naive']} --from 10 --to 200")
    assert f"cycles 10 to 200, 190 cycles of {end:,}" in shown.stdout
    assert "for the whole run, not only of this window" in shown.stdout


def test_diff_adds_up(cli: Call, traces: dict[str, Path]) -> None:
    shown = cli.printed(f"trace diff {traces['naive']} {traces['flat']}")
    assert f"A: {traces['naive']}" in shown
    assert "dataflow: naive-m in A, flat-r in B" in shown
    found = cli.json(f"trace diff {traces['naive']} {traces['flat']}")
    assert sum(one["difference"] for one in found["causes"]) == found["difference"]
    assert [one["name"] for one in found["operators"]] == ["L+softmax+A"]
    other = cli.json(f"trace diff {traces['naive']} {traces['flat']} --engine sfu")
    assert other["engine"] == "sfu"
    assert sum(one["difference"] for one in other["causes"]) == found["difference"]


@pytest.mark.parametrize("text", ["accelerator", "workload", "mapping"])
@pytest.mark.parametrize("command", ["info {0}", "stalls {0}", "diff {1} {0}", "diff {0} {0}"])
def test_a_header_that_is_no_yaml_is_refused(
    cli: Call, traces: dict[str, Path], text: str, command: str
) -> None:
    with h5py.File(traces["gemm"], "r+") as file:
        file[f"header/{text}"][0] = b"name: [x"
    (message,) = cli.messages(f"trace {command.format(traces['gemm'], traces['longer'])}")
    assert message.startswith(f"{traces['gemm']}: damaged: its {text} can't be read: ")


def test_a_trace_without_texts_has_accounts_and_no_what_if(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "plain.h5"
    with TraceReader.open(_gemm(cli, tmp_path)) as trace:
        rows = trace.decode(trace.events())
        totals, cycles = trace.totals, trace.cycles
    with TraceWriter(path, TraceHeader()) as writer:
        writer.announce(dict.fromkeys(totals, "engine"))
        for row in rows:
            writer.interval(row.lane, row.start, row.end, Cause[row.cause.upper()], NO_WAIT, 1)
        writer.finish(cycles, totals)
    shown = cli.printed(f"trace stalls {path}")
    assert f"{path}: {cycles} cycles" in shown
    assert "no what-if: the trace holds no accelerator or no program" in shown


def _gemm(cli: Call, folder: Path) -> Path:
    path = folder / "gemm.h5"
    assert cli(f"run {GEMM.format(m=4)} --trace {path} --quiet").exit_code == 0
    return path


def test_a_partial_trace_has_accounts_and_no_what_if(cli: Call, traces: dict[str, Path]) -> None:
    with h5py.File(traces["flat"], "r+") as file:
        file.attrs["complete"] = False
    shown = cli.printed(f"trace stalls {traces['flat']}")
    assert "as far as the run came (the trace is partial)" in shown
    assert "no what-if: the trace is partial" in shown
    found = cli.json(f"trace stalls {traces['flat']}")
    assert found["what_if"] is None
    assert found["cycles"] > 0
    assert "partial: ended at " in cli(f"trace info {traces['flat']}").stdout
    found = cli.json(f"trace info {traces['flat']}")
    names = [found[name] for name in ("workload", "accelerator", "dataflow")]
    assert names == ["small", "toy", "flat-r"]
    (message,) = cli.messages(f"trace diff {traces['naive']} {traces['flat']}")
    assert message == f"{traces['flat']}: is partial: its run did not end; allowed: a whole trace"


def test_a_trace_of_another_machine_is_compared_with_this_one(
    cli: Call, traces: dict[str, Path]
) -> None:
    """As if the machine had changed since: here it is the accelerator, and who wrote the file."""
    with h5py.File(traces["gemm"], "r+") as file:
        text = file["header/accelerator"].asstr()[0]
        assert "latency_cycles: 5\n" in text
        changed = text.replace("latency_cycles: 5\n", "latency_cycles: 9\n")
        file["header/accelerator"][0] = changed.encode()
        file.attrs["code"] = "other code"
    with TraceReader.open(traces["gemm"]) as trace:
        cycles = trace.cycles
    found = cli.json(f"trace stalls {traces['gemm']}")
    again = found["what_if"]["cycles"]
    assert again > cycles == found["cycles"]
    shown = cli(f"trace stalls {traces['gemm']}").stdout
    assert f"the trace's {cycles:,} cycles are those of simaccel" in shown
    assert f"this one takes {again:,}, to which the table compares" in shown
