"""What `simaccel compare` and `simaccel estimate` print and write."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simaccel.cli.forecast import processes_of
from simaccel.importers.accelerators import load_accelerator
from simaccel.study.figure_table import total_of
from simaccel.study.points import Axis, Point, Record, Setting, base_point
from simaccel.study.runs import make_record
from simaccel.units import STALLS
from simaccel.verbs.comparing import dram_bounds
from simaccel.workload import ModelDimensions, attention, build, gemm
from tests.cli.conftest import Call
from tests.rows import row_with_run

pytestmark = pytest.mark.usefixtures("small_bert")

SMALL = "--hw toy --workload bert --scope la --set buffer.capacity_bytes=16~KiB"


def test_processes_run_only_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the forecast: a product of 315 MACs, and 54 convolutions with their poolings."""
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    toy, edge = load_accelerator("toy"), load_accelerator("edge")
    short = base_point(gemm(m=9, k=7, n=5), toy)
    long = base_point(build("resnet50"), edge)
    several = [
        replace(point, dataflow=name) for point in (short, long) for name in ("flex", "flat")
    ]
    assert [processes_of(some) for some in (several[:2], several[2:], several)] == [1, 2, 4]


def test_accelerators_with_numbers_of_their_own_are_a_plain_table(cli: Call) -> None:
    """One row each: nothing to be faster than; a TPU v1 has int8, edge bf16."""
    line = "compare --hw tpu_v1,edge --workload gemm --shape M=9,K=7,N=5 --dataflow naive --jobs 1"
    title, head, *_ = cli.printed(line).splitlines()
    assert title == "gemm, M=9, K=7, N=5, B=1, int8 or bf16 by accelerator"
    assert not {"speedup", "seq-len"} & {*head.split()}


def test_rows_are_lengths_by_dataflows(cli: Call) -> None:
    shown = cli.printed(f"compare {SMALL} --seq-len 4,8 --dataflow strips,naive-m --jobs 1")
    lines = shown.partition("\narea: ")[0].splitlines()
    rows = [line.split()[:2] for line in lines if line.strip()[:1].isdigit()]
    assert rows == [[n, name] for n in "48" for name in ("strips", "naive-m")]
    assert max(map(len, shown.splitlines())) <= 120


def test_a_dataflow_that_does_not_fit_is_a_row_with_the_reason(cli: Call) -> None:
    less = SMALL.replace("16~KiB", "512B")
    line = f"compare {less} --seq-len 16 --dataflow flat-m,naive --jobs 1"
    shown = cli.printed(line)
    assert "does not run" in shown
    assert "flat-m at 16: L+softmax+A: no tiling fits the buffer" in shown
    failed, ran = cli.json(line)
    assert failed["problem"].startswith("L+softmax+A: no tiling fits the buffer")
    assert failed["exit_code"] == 2
    assert ran["speedup"] is None


SWEEP = "--hw toy --workload bert --scope la --seq-len 4 --dataflow strips,naive-m"
BUFFER = "--sweep buffer=128B:512B:x2"


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text(), newline="")))


def test_rows_of_a_sweep_are_points_by_dataflows(cli: Call) -> None:
    shown = cli.printed(f"compare {SWEEP} {BUFFER} --jobs 1")
    lines = shown.splitlines()
    assert lines[0] == "bert on toy, scope la, batch 1, seq-len 4, int16"
    assert lines[1].split()[:3] == ["buffer", "dataflow", "cycles"]
    rows = [line.split()[:3] for line in lines if " B " in line[:7]]
    sizes = ("128", "256", "512")
    assert rows == [[n, "B", name] for n in sizes for name in ("strips", "naive-m")]


def test_idle_chips_are_said(cli: Call) -> None:
    """Six sequences on one chip, two, and four, of which one is idle; 12 heads are on three."""
    line = "--hw tpu_v5e --workload bert --seq-len 96 --batch 6 --sweep chips=1,2,4"
    said = [one for one in cli.printed(f"compare {line}").splitlines() if "idle" in one]
    assert said == ["4, deployed: 3 of 4 chips work, the others are idle"]


def test_chips_that_do_the_same_work_are_said(cli: Call) -> None:
    """A product of one element can't be cut."""
    line = "--hw tpu_v5e --workload gemm --shape M=1,K=1,N=1 --dataflow naive --chips 1,2"
    shown = cli.printed(f"compare {line}")
    assert shown.endswith("\n2, naive: each of 2 chips does all of it\n")


def test_speedup_is_against_the_same_point(cli: Call) -> None:
    options = "--hw toy --workload bert --scope la --seq-len 4 --dataflow naive-m,strips"
    found = cli.json(f"compare {options} {BUFFER} --jobs 1")
    assert len({strips["cycles"] for strips in found[1::2]}) > 1
    for naive, strips in zip(found[::2], found[1::2], strict=True):
        assert naive["speedup"] == 1
        assert strips["speedup"] == naive["cycles"] / strips["cycles"]


def test_a_sweep_of_lengths_is_a_list_of_lengths(cli: Call) -> None:
    options = "--hw toy --workload bert --scope la --dataflow naive-m --jobs 1"
    swept = cli(f"compare {options} --sweep seq-len=4:8:x2")
    listed = cli(f"compare {options} --seq-len 4,8")
    assert swept.exit_code == 0, swept.stderr
    assert swept.stdout == listed.stdout


def test_a_sweep_is_crossed_with_lengths(cli: Call) -> None:
    line = "compare --hw toy --workload bert --scope la --seq-len 4,8 --dataflow naive-m --jobs 1"
    result = cli(f"{line} --sweep batch=1,2")
    rows = [line.split()[:3] for line in result.stdout.splitlines() if "naive-m" in line]
    assert rows == [[b, n, "naive-m"] for b in "12" for n in "48"]
    assert result.stdout.splitlines()[0] == "bert on toy, scope la, int16"


def test_the_csv_is_the_json(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    eight = SWEEP.replace("--seq-len 4", "--seq-len 8")
    line = f"compare {eight},flat-m --sweep buffer=256B,1KiB --jobs 1 --csv {file} --json"
    found: list[dict[str, Any]] = json.loads(cli(line).stdout)
    rows = rows_of(file)
    assert len(rows) == len(found) == 6
    assert sum("problem" in one for one in found) == 1
    for row, one in zip(rows, found, strict=True):
        for name in ("buffer_bytes", "seq_len", "dataflow"):
            assert row[name] == str(one[name])
        assert row["problem"] == one.get("problem", "")
        if "problem" in one:
            assert not any(row[name] for name in list(row)[3:-1])
            continue
        for name in ("cycles", "seconds", "macs", "utilisation", "peak_buffer_bytes", "speedup"):
            assert float(row[name]) == one[name]
        bound, array, dram = one["bound"], one["engines"]["array"], one["bytes"]["dram"]
        assert int(row["bound_cycles"]) == bound["cycles"]
        assert row["limit"] == one["limit"]["name"]
        assert int(row["waiting_cycles"]) == one["cycles"] - bound["cycles"] >= 0
        for resource, work in one["work_cycles"].items():
            assert int(row[f"{resource}_work_cycles"]) == work
        moved = [*dram["read"].values(), *dram["write"].values()]
        assert int(row["dram_bytes"]) == sum(moved)
        assert float(row["energy_pj"]) == pytest.approx(sum(one["energy_pj"].values()))
        where = {name: int(row[f"array_{name}_cycles"]) for name in ("busy", "idle")}
        where |= {c.name.lower(): int(row[f"array_{c.name.lower()}_cycles"]) for c in STALLS}
        assert where.pop("busy") == array["busy"]
        assert where.pop("idle") == array["idle"]
        assert {cause: n for cause, n in where.items() if n} == array["stalls"]
        assert array["busy"] + array["idle"] + sum(where.values()) == one["cycles"]


def test_what_does_not_fit_is_said_once_a_dataflow(cli: Call) -> None:
    line = "compare --hw toy --workload bert --scope la --seq-len 12 --dataflow naive,flat-m"
    shown = cli.printed(f"{line} --sweep buffer=128B:512B:x2 --jobs 1")
    assert shown.count("does not run") == 3
    (reason,) = [text for text in shown.splitlines() if text.startswith("flat-m at")]
    assert reason.startswith("flat-m at buffer 128 B and at 2 more: L+softmax+A: no tiling fits")


@pytest.mark.parametrize("sweep", ["", "--sweep buffer=1KiB,2KiB"])
def test_nothing_that_runs_is_an_error_but_has_its_files(
    cli: Call, tmp_path: Path, sweep: str
) -> None:
    table, plot = tmp_path / "rows.csv", tmp_path / "plot.svg"
    line = "compare --hw toy --workload bert --scope la --seq-len 64 --dataflow flat-m --jobs 1"
    assert cli(f"{line} {sweep} --csv {table} --plot {plot}").exit_code == 2
    assert all(row["problem"] for row in rows_of(table))
    assert plot.read_bytes().startswith(b"<?xml")


def test_what_is_predicted_is_that_of_the_run(cli: Call) -> None:
    options = "--hw toy --workload bert --scope la --seq-len 4 --dataflow flat-r"
    options += " --set buffer.capacity_bytes=64~KiB"  # as in test_run.py
    alone = cli.json(f"estimate {options}")
    run = cli.json(f"run {options}")
    for name in ("cycles", "terms", "by"):
        assert alone["bound"][name] == run["bound"][name]
    assert alone["work_cycles"] == run["work_cycles"]
    assert alone["macs"] == run["macs"]
    assert alone["bytes"] == run["bytes"]
    table = cli(f"estimate {options}").stdout
    assert "bound" in table
    assert "L+softmax+A" in table


def test_no_run_of_a_swept_buffer_is_below_the_fused_slope() -> None:
    """And operators alone, of which nothing stays, are not below theirs."""
    dimensions = ModelDimensions(hidden=6, heads=2, head_size=3, ff_size=8)
    workload = attention(dimensions, batch=1, seq_len=3, scope="la")
    axis = Axis("buffer", "buffer_bytes", "buffer capacity", log=True)
    points = [
        replace(
            base_point(workload, there, Setting(axis, size, f"{size} B", place=size)),
            dataflow=dataflow,
        )
        for size in (512, 1024)
        for there in [load_accelerator("toy", [f"buffer.capacity_bytes={size}"])]
        for dataflow in ("strips", "naive", "flat-h")
    ]
    alone, fused = dram_bounds(points)[3]
    for point in points:
        result = row_with_run(point).result
        assert result is not None
        slopes = [alone, fused] if point.dataflow == "strips" else [fused]
        for _, front in slopes:
            room = point.settings[0].place
            least = min(moved for kept, moved in front if kept <= room)
            assert total_of(result["bytes"]["dram"]) >= least


def test_a_roofline_has_the_roof_of_the_memory_that_limits(cli: Call) -> None:
    """64 rows on 64 KiB at 34 GB/s and 700 MHz; DRAM has no limit: 64 MACs a byte of weights."""
    shape = "--shape M=64,K=256,N=256 --set bytes-per-element=1"
    line = f"compare --hw tpu_v1 --workload gemm {shape} --dataflow strips --exhibit roofline"
    head, row = cli(f"{line} --csv -").stdout.splitlines()
    found = dict(zip(head.split(","), row.split(","), strict=True))
    assert float(found["roof_macs_per_cycle"]) == pytest.approx(64 * 34e9 / 700e6)
    assert found["limit"] == "dram_bandwidth"
    assert float(found["array_macs_per_cycle"]) <= 256 * 256
    assert float(found["macs_per_cycle"]) <= float(found["roof_macs_per_cycle"])


def test_a_granularity_without_products_has_no_utilisation(cli: Call, tmp_path: Path) -> None:
    """A rectifier alone has no MACs, and takes no part of the array's peak."""
    path = tmp_path / "rectifier.yaml"
    path.write_text(
        "kind: einsums\nname: rectifier\ntensors: {X: {kind: input}, Y: {kind: output}}\n"
        "operators:\n  act: {kind: relu, ranks: {m: 8, n: 8}, "
        "inputs: [{tensor: X, projection: [m, n]}], output: {tensor: Y, projection: [m, n]}}\n"
    )
    line = f"compare --hw toy --workload {path} --dataflow naive-m --exhibit granularity --json"
    rows = json.loads(cli(line).stdout)["rows"]
    assert {row["utilisation"] for row in rows} == {0}
    assert all(row["cycles"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("line", "attention"),
    [
        ("--hw tpu_v5e --chips 2 --workload gpt2 --prompt 64 --dataflow naive", True),
        ("--hw tpu_v6e --workload llama3-8b --phase decode --kv-len 8 --dataflow deployed", True),
        ("--hw tpu_v5e --chips 2 --workload alexnet --batch 2 --dataflow naive", False),
        ("--hw tpu_v5e --chips 8 --workload mixtral-8x7b --phase decode --dataflow naive", True),
    ],
)
def test_exhibits_know_what_chips_and_compilers_add(
    cli: Call, line: str, *, attention: bool
) -> None:
    """Rows of collectives and of repeated keys are none of the workload's operators.

    Cycles of the parts and MACs of the points are those of the run; no point is above its roof.
    """
    shared = "" if "chips" not in line else "links"
    parts = json.loads(cli(f"compare {line} --exhibit breakdown --json").stdout)["rows"]
    names = [row["part"] for row in parts]
    assert ("attention" in names) is attention
    assert (names[-1] == "links") is bool(shared)
    (run,) = json.loads(cli(f"compare {line} --json").stdout)
    assert sum(row["cycles"] for row in parts) == run["cycles"]
    points = json.loads(cli(f"compare {line} --exhibit roofline --json").stdout)["rows"]
    assert sum(row["macs"] for row in points) == run["macs"]
    for row in points:
        assert row["macs_per_cycle"] <= row["roof_macs_per_cycle"] * (1 + 1e-9)


LISTS = "--workload gemm --shape M=16,K=16,N=16"


def test_lists_are_crossed(cli: Call) -> None:
    line = f"compare --hw toy,edge {LISTS} --dataflow naive,naive-m --set stationarity=ws,os --json"
    found = json.loads(cli(line).stdout)
    assert [(one["accelerator"], one["dataflow"]) for one in found] == [
        (hw, f"{name} {held}")
        for hw in ("toy", "edge")
        for name in ("naive", "naive-m")
        for held in ("ws", "os")
    ]
    for one in found:
        name, held = one["dataflow"].split()
        run = f"run --hw {one['accelerator']} {LISTS} --dataflow {name} --set stationarity={held}"
        assert cli.json(run)["cycles"] == one["cycles"]


@pytest.mark.long
def test_batches_and_phases_are_lists_with_tokens_a_second(cli: Call, tmp_path: Path) -> None:
    """A decode step makes a token a sequence, a prefill takes in its prompt."""
    model = "--workload gpt2 --phase prefill,decode --batch 1,2 --prompt 8 --kv-len 8"
    model += " --scope model"
    line = f"compare --hw edge {model} --dataflow naive --metric tokens/s,cache"
    picture, file = tmp_path / "rate.png", tmp_path / "rate.csv"
    table = cli(f"{line} --csv {file} --plot {picture}").stdout
    found = rows_of(file)
    assert [(one["batch"], one["phase"]) for one in found] == [
        ("1", "prefill"),
        ("1", "decode"),
        ("2", "prefill"),
        ("2", "decode"),
    ]
    for one in found:
        tokens = int(one["batch"]) * (8 if one["phase"] == "prefill" else 1)
        assert float(one["tokens_per_second"]) == pytest.approx(tokens / float(one["seconds"]))
    assert picture.stat().st_size > 1000
    assert "tokens/s" in table
    assert "cache" in table


def test_mappings_stand_beside_dataflows_and_mapspaces(cli: Call, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text(cli(f"map --hw toy {LISTS} --dataflow naive").stdout)
    line = f"compare --hw toy {LISTS} --mapping {mine} --dataflow naive --set mapspace=ruby --json"
    found = json.loads(cli(f"{line} --set patience=5").stdout)
    assert [one["dataflow"] for one in found] == ["mine.txt", "naive", "ruby"]
    assert found[0]["cycles"] == found[1]["cycles"]
    alone = cli.json(f"compare --hw toy {LISTS} --mapping {mine}")
    assert [one["dataflow"] for one in alone] == ["mine.txt"]


LINKS = ("topology=switch", "bytes_per_second=9~GB/s", "pj_per_bit=1")
CHIPS = " ".join(["--chips 2", *(f"--set links.{one}" for one in LINKS)])


def test_degrees_of_parallelism_are_lists_and_energy_is_of_all_chips(cli: Call) -> None:
    of = f"--hw mxu_128 {CHIPS} --workload gpt2 --phase decode --kv-len 8 --scope model --batch 2"
    asked = f"{of} --dataflow strips"
    rows = cli.json(f"compare {asked} --set tensor-parallel=1,2 --metric tokens/s/chip")
    assert [row["tensor_parallel"] for row in rows] == [1, 2]
    listed = cli.printed(f"compare {asked} --set tensor-parallel=1,2")
    assert listed == cli.printed(f"compare {asked} --sweep tensor-parallel=1,2")
    run = cli.json(f"run {asked} --set tensor-parallel=2")
    assert rows[1]["cycles"] == run["cycles"] < rows[0]["cycles"]
    (both,) = cli.json(f"compare {asked} --set tensor-parallel=2 --metric energy/token")
    assert both["energy_per_token_pj"] == run["chips"]["energy_pj"] / 2
    rate = run["chips"]["tokens_per_second"]
    assert both["tokens_per_second"] == pytest.approx(rate)


def test_stages_of_a_pipeline_are_a_list(cli: Call, small_model: Path) -> None:
    of = f"--hw mxu_128 {CHIPS} --workload {small_model} --phase decode --kv-len 8 --batch 2"
    of += " --scope model"
    rows = cli.json(f"compare {of} --dataflow naive-m --set pipeline-parallel=2,4")
    assert [row["pipeline_parallel"] for row in rows] == [2, 4]
    run = cli.json(f"run {of} --dataflow naive-m --set pipeline-parallel=2")
    assert rows[0]["cycles"] == run["cycles"]
    assert rows[0]["energy_per_token_pj"] == pytest.approx(run["energy_per_token_pj"])
    assert "chips: got 4; allowed: at most 2, the number of chips" in rows[1]["problem"]
    default = of.replace("mxu_128", "tpu_v5e")
    rows = cli.json(f"compare {default} --pipeline-parallel 1,2")
    assert [row["dataflow"] for row in rows] == ["deployed"] * 2


def test_rows_that_are_stored_do_not_run_again(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is new runs; what is kept, also of a row that can't be, is printed as it was."""
    gemm = "--hw toy --workload gemm --shape M=9,K=7,N=5"
    line = f"compare {gemm} --set store={tmp_path / 's'} --set jobs=1 --sweep buffer=1KiB,2KiB"
    first = cli.printed(f"{line} --dataflow naive,flat --csv -")
    ran: list[str] = []

    def run(point: Point, *, whole: bool) -> Record:
        ran.append(point.name)
        return make_record(point, whole=whole)

    monkeypatch.setattr("simaccel.study.runs.make_record", run)
    assert cli(f"{line} --dataflow naive,flat --csv -").stdout == first
    assert ran == []
    more = cli(f"{line} --dataflow naive,flat,flex --csv -").stdout
    assert ran == ["flex", "flex"]
    assert {*first.splitlines()} < {*more.splitlines()}
    for path in (tmp_path / "s" / "rows").rglob("*.json"):
        path.write_text("{}")
    assert cli(f"{line} --dataflow naive,flat --csv -").stdout == first
    assert len(ran) == 2 + 4
