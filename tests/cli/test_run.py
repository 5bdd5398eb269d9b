"""What `simaccel run` prints, writes and returns."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simaccel.errors import MistakeError
from simaccel.hardware import Accelerator
from simaccel.importers.workloads import load_workload
from simaccel.machine.machine import DeadlockError
from simaccel.mapping.chips.sharding import Pod
from simaccel.program.exchanges import lower_pod
from simaccel.program.program import Program
from simaccel.run import run as run_module
from simaccel.trace import TraceReader
from simaccel.units import CAUSES
from tests.cli.conftest import Call
from tests.program.changed import changed, unstored

pytestmark = pytest.mark.usefixtures("small_bert")

GEMM = "--hw toy --workload gemm --shape M=9,K=7,N=5"
ATTENTION = "--hw toy --workload bert --scope la --seq-len 4 --set buffer.capacity_bytes=64~KiB"


def test_the_answer_comes_first_and_names_everything(cli: Call) -> None:
    result = cli(f"run {ATTENTION} --dataflow naive-m")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == "bert on toy, scope la, batch 1, seq-len 4, int16, dataflow naive-m"
    assert " utilisation, limited by " in lines[1]
    for name in ("L", "softmax", "A", "total"):
        assert any(line.split()[:1] == [name] for line in lines), name
    columns = next(line.split() for line in lines if "operator" in line)
    assert columns == ["operator", "cycles", "time", "util.", "DRAM", "energy", "limit"]
    assert [line.partition(":")[0] for line in lines[-2:]] == ["DRAM", "energy"]
    assert max(len(line) for line in lines[2:-2]) <= 100


def test_the_rows_that_take_longest_come_first_and_the_others_together(cli: Call) -> None:
    run = f"run {ATTENTION} --dataflow naive-m"
    parts = cli.json(run)["operators"]
    longest = sorted(parts, key=lambda one: -one["cycles"])
    cut = [line.split() for line in cli(f"{run} --top 1").stdout.splitlines()]
    assert [longest[0]["name"], f"{longest[0]['cycles']:,}"] in [line[:2] for line in cut]
    rest = sum(one["cycles"] for one in longest[1:])
    assert ["2", "others", f"{rest:,}"] in [line[:3] for line in cut]
    assert cli(f"{run} --top all").stdout == cli(run).stdout


def test_all_else_is_asked_for(cli: Call) -> None:
    lines = cli(f"run {ATTENTION} --dataflow naive-m --detail").stdout.splitlines()
    for name in ("dma_in0", "array", "sfu", "dma_out", "buffer:", "channels", "area:"):
        assert any(line.split()[:1] == [name] for line in lines), name


def test_no_row_is_above_its_peak_or_below_its_own_work(cli: Call) -> None:
    """Operators of the toy overlap, so that their ends may be closer than their work."""
    figures = cli.json(f"run {ATTENTION} --dataflow naive-r")
    for one in figures["operators"]:
        assert 0 <= one["utilisation"] <= 1
        assert one["busy_cycles"] >= max(one["cycles"], one["bound"]["cycles"])
        assert one["bound"]["cycles"] == max(one["work_cycles"].values())


def test_the_quiet_line_says_what_the_cycles_beyond_the_bound_are(cli: Call) -> None:
    asked = f"{ATTENTION} --dataflow flat-r"
    figures = cli.json(f"run {asked}")
    (last,) = cli(f"run {asked} --quiet").stdout.splitlines()
    bound, cycles = figures["bound"], figures["cycles"]
    assert last.startswith(f"simulated {cycles:,} cycles (")
    largest = max(bound["terms"], key=bound["terms"].get)
    assert f"bound {bound['cycles']:,} ({largest}): the other " in last
    causes = bound["waiting_by_cause"]
    assert sum(causes.values()) == cycles - bound["cycles"] > 0
    assert f"{100 * (cycles - bound['cycles']) / cycles:.2f}% is " in last
    first = next(iter(causes))
    assert f" is {CAUSES[first].label} {100 * causes[first] / cycles:.2f}%" in last
    assert cli(f"run {asked} --detail").stdout.splitlines()[-1] == last


def test_a_models_defaults_are_512_tokens_of_one_sequence_of_a_block(cli: Call) -> None:
    named = cli("workload show t5 --seq-len 512 --batch 1 --scope block")
    assert cli("workload show t5").stdout == named.stdout


def test_bytes_per_element_for_all_and_for_one_tensor(cli: Call) -> None:
    least = "--set objective=dram-bytes"
    run = f"run {GEMM} --set bytes-per-element=1 --set bytes-per-element=B=4 {least} --json"
    read = json.loads(cli(run).stdout)["bytes"]["dram"]["read"]
    assert read == {"A": 63, "B": 140}


def test_pipelining_is_passed_to_the_scheduler(cli: Call, tmp_path: Path) -> None:
    """Where memory takes no time, softmax behind L is what is left to hide."""
    sizes = "hidden: 8, heads: 2, head_size: 4, ff_size: 16, batch: 1, seq_len: 4, scope: la"
    (tmp_path / "small.yaml").write_text(f"{{kind: attention, {sizes}}}")
    fast = f"--workload {tmp_path / 'small.yaml'} --dataflow flat-r"
    fast += " --set dram.bandwidth_bytes_per_second=unlimited"
    assert "fork ahead 1" in cli(f"map --hw toy {fast} --set pipeline").stdout
    assert "ahead" not in cli(f"map --hw toy {fast}").stdout


def test_a_check_compares_every_operator(cli: Call) -> None:
    assert "largest deviation" in cli.printed(f"run {ATTENTION} --dataflow flat-r --check")
    found = cli.json(f"run {ATTENTION} --dataflow strips --check")["check"]
    assert [one["operator"] for one in found] == ["L", "softmax", "A"]
    assert all(one["compared"] == one["elements"] for one in found)


def test_a_trace_holds_the_run(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "run.h5"
    figures = cli.json(f"run {GEMM} --trace {file}")
    with TraceReader.open(file) as trace:
        trace.check()
        assert trace.cycles == figures["cycles"]
        workload = tmp_path / "workload.yaml"
        workload.write_text(trace.header.workload)
        hw = tmp_path / "hw.yaml"
        hw.write_text(trace.header.accelerator)
        mapping = tmp_path / "mapping.yaml"
        mapping.write_text(trace.header.mapping)
    assert load_workload(workload).macs == figures["macs"]
    again = cli.json(f"run --hw {hw} --workload {workload} --mapping {mapping}")
    for one in (figures, again):
        del one["wall_seconds"]
    assert again == figures
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".partial"] == []


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            DeadlockError("deadlock at cycle 7: no engine"),
            3,
            "error: deadlock at cycle 7: no engine",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (
            MemoryError("Unable to allocate 9 MiB"),
            1,
            "error: not enough memory: Unable to allocate 9 MiB",
        ),
        (MemoryError(), 1, "error: not enough memory"),
    ],
)
def test_what_ends_a_run_is_one_line_and_a_code(
    cli: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def simulate(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("simaccel.study.experiment.simulate", simulate)
    result = cli(f"run {GEMM}")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == f"{said}\n"


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_ctrl_c_leaves_no_file_behind(tmp_path: Path) -> None:
    """A real process, interrupted while it writes its trace."""
    line = "run --hw toy --workload gemm --shape M=900,K=900,N=900 --dataflow naive "
    line += "--set fast-forward=no --trace run.h5"
    command = [sys.executable, "-m", "simaccel", *line.split()]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "interrupted\n")
    assert not any(tmp_path.iterdir())


def test_area_and_power_are_in_every_result(cli: Call) -> None:
    """16 fp16 MACs, 1 KiB, 4 lanes of fp32 at 45 nm; energy over time."""
    line = "--hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive"
    found = cli.json(f"run {line}")
    by_part = {"mac": 16 * 1239.5, "sfu": 4 * 11884, "buffer": 1024 * 8.87}
    assert found["area_um2"] == pytest.approx(by_part)
    assert found["area_mm2"] == pytest.approx(sum(by_part.values()) * 1e-6)
    energy = found["energy_pj"]
    mw = 1e-9 / found["seconds"]
    assert found["power_mw"] == pytest.approx(sum(energy.values()) * mw)
    assert found["chip_power_mw"] == pytest.approx((sum(energy.values()) - energy["dram"]) * mw)
    said = cli(f"run {line} --detail").stdout
    assert "area: 0.0765 mm2 (mac 26%, sfu 62%, buffer 12%); power: " in said
    row = cli.json(f"compare {line} --jobs 1")[0]
    assert {name: row[name] for name in ("area_mm2", "power_mw")} == {
        name: found[name] for name in ("area_mm2", "power_mw")
    }
    assert "\narea: 0.0765 mm2\n" in cli(f"compare {line} --jobs 1").stdout
    table = cli(f"compare {line} --jobs 1 --sweep buffer=1KiB,1MiB").stdout
    rows = [line for line in table.splitlines() if " naive " in line]
    assert ["0.0765 mm2" in rows[0], "9.37 mm2" in rows[1], "area:" in table] == [True, True, False]
    assert (
        "area: unknown (buffer is unlimited)"
        in cli(
            "run --hw toy --set buffer.capacity_bytes=unlimited --workload gemm "
            "--shape M=9,K=7,N=5 --detail"
        ).stdout
    )


def test_a_run_that_does_something_else_is_no_figure(
    cli: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def less(pod: Pod, accelerator: Accelerator) -> Program:
        return changed(lower_pod(pod, accelerator), unstored)

    monkeypatch.setattr(run_module, "lower_pod", less)
    result = cli("run --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive")
    assert result.exit_code == MistakeError.exit_code == 3
    assert result.stdout == ""
    # two bytes of 2 x 9 x 7 + 7 x 5 + 9 x 5 elements; those of C are not stored
    text = "gemm: bytes with DRAM: 0 at least, 412 counted, 322 on the machine"
    assert result.stderr.startswith(f"error: an internal error, please report it: {text}")
    assert "mapping naive of gemm" in result.stderr


def test_a_mapping_says_what_it_gave_up(cli: Call, tmp_path: Path) -> None:
    """It is the difference between two runs; what is printed beside it is a file for --mapping."""
    workload = "--hw edge --workload gemm --shape M=64,K=768,N=256"
    found = cli(f"map {workload}")
    # a tolerance of 0 would search all tile sizes
    near, fastest = (cli.json(f"run {workload} --set within={share}") for share in ("0.01", "1e-9"))
    cycles = near["cycles"] - fastest["cycles"]
    assert cycles > 0
    assert found.stderr.startswith(f"chosen within 1%: +{cycles} cycles, -")
    file = tmp_path / "mapping.txt"
    file.write_text(found.stdout)
    again = cli.json(f"run {workload} --mapping {file}")
    assert again["cycles"] == near["cycles"]
    assert not cli(f"map {workload} --set within=0").stderr


def test_all_operators_are_compared_with_any_mapping(cli: Call) -> None:
    """Of two heads, 16 x 4 x 16 and 16 x 16 x 4 are 4 folds of 16 steps each, on 4 x 4 PEs."""
    line = "--hw toy --workload bert --seq-len 16 --scope la --dataflow flex --explain"
    least = 2 * 2 * 4 * 16
    cycles = cli.json(f"run {line}")["cycles"]
    percent = math.ceil((cycles / least - 1) * 10_000) / 100
    shown = cli.printed(f"run {line}")
    assert f"all operators: at most {percent:.2f}% above any mapping, fused or not (" in shown
    assert f"take {least:,} cycles)" in shown
