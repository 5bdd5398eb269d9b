"""`compare` with `--pareto`, `--exhibit` and lists of objectives and phases."""

import csv
import json
from pathlib import Path

import pytest

from simaccel import load_accelerator
from simaccel.papers.flat.commands.figures import draw_granularity
from tests.cli.conftest import Call

small_bert = pytest.mark.usefixtures("small_bert")
_ON = "--hw edge --workload bert --scope la --seq-len 16 --set stationarity=ws --jobs 1"


@small_bert
def test_a_front_is_table_csv_json_and_picture(cli: Call, tmp_path: Path) -> None:
    table, plot = tmp_path / "front.csv", tmp_path / "front.svg"
    eight = _ON.replace("16", "8")
    asked = f"compare {eight} --dataflow flash --pareto footprint,dram-bytes"
    shown = cli(f"{asked} --csv {table} --plot {plot}").stdout
    found = cli.json(asked)
    assert (found["x"], found["y"]) == ("footprint", "dram-bytes")
    points = found["fronts"][0]["points"]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [int(row["footprint_bytes"]) for row in rows] == [p["footprint_bytes"] for p in points]
    assert [float(row["energy_pj"]) for row in rows] == [p["energy_pj"] for p in points]
    assert shown.count("flash ") >= len(points)
    assert f"flash: {len(points)} points of" in shown
    assert plot.read_bytes().startswith(b"<?xml")
    assert all(one["mapping"]["dataflow"] == "flash" for one in points)


@small_bert
def test_a_point_runs_as_it_stands(cli: Call, tmp_path: Path) -> None:
    """The mapping of a point, given to `run`, has the figures of the point."""
    eight = _ON.replace("16", "8")
    asked = f"compare {eight} --dataflow flash --pareto energy,cycles --json"
    found = json.loads(cli(asked).stdout)
    point = found["fronts"][0]["points"][0]
    file = tmp_path / "mapping.yaml"
    file.write_text(json.dumps(point["mapping"]))
    again = f"run --hw edge --workload bert --scope la --seq-len 8 --mapping {file} --json"
    assert json.loads(cli(again).stdout)["cycles"] == point["cycles"]


def test_a_dataflow_that_does_not_fit_says_so(cli: Call) -> None:
    small = "--set buffer.capacity_bytes=2KiB"
    found = cli.printed(
        f"compare {_ON} {small} --dataflow flat-m,flash --pareto footprint,dram-bytes"
    )
    assert "flat-m: flat-m: no mapping fits the buffer of 2048 B" in found


def test_intensity_is_macs_by_bytes(cli: Call, tmp_path: Path) -> None:
    """L of 16 tokens: 12 heads x 16 x 16 x 64 MACs; Q and K of 2 B come, S goes.

    Into 8 KiB all of S, 6 KiB, doesn't fit beside a tile.
    """
    plot, small = tmp_path / "roofline.png", "--set buffer.capacity_bytes=8KiB"
    asked = f"compare {_ON} {small} --exhibit roofline --dataflow naive-m --plot {plot} --json"
    rows = json.loads(cli(asked).stdout)["rows"]
    macs, least = 12 * 16 * 16 * 64, 2 * 12 * (2 * 16 * 64 + 16 * 16)
    first = rows[0]
    assert (first["operator"], first["macs"]) == ("L", macs)
    assert first["most_macs_per_byte"] == pytest.approx(macs / least)
    assert first["macs_per_byte"] <= first["most_macs_per_byte"]
    # 50 GB/s at 0.72 GHz are 69.4 B a cycle, 1,024 PEs
    assert first["roof_macs_per_cycle"] == pytest.approx(
        min(1024, first["macs_per_byte"] * 50 / 0.72)
    )
    assert plot.stat().st_size > 0


def test_parts_of_a_model_add_up(cli: Call, tmp_path: Path) -> None:
    plot = tmp_path / "parts.png"
    asked = "--hw edge --workload bert --seq-len 16,32 --exhibit breakdown --dataflow naive-m"
    rows = cli.json(f"compare {asked} --jobs 1 --plot {plot}")["rows"]
    for length in (16, 32):
        mine = [row for row in rows if row["seq_len"] == length]
        assert [row["part"] for row in mine] == ["projections", "attention", "other einsums"]
        assert sum(row["share"] for row in mine) == pytest.approx(1)
        ideal = (12 * length * 768**2 + 2 * 12 * length**2 * 64) / 1024
        assert mine[0]["normalised"] == pytest.approx(mine[0]["cycles"] / ideal, rel=1e-3)


def test_granularity_has_a_tick_at_each_buffer() -> None:
    rows = [
        {"seq_len": 64, "dataflow": "naive", "buffer_bytes": 1024 * k, "utilisation": 0.4}
        for k in (20, 24, 30)
    ]
    (axes,) = draw_granularity(rows, "title", load_accelerator("toy")).axes
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    assert [(at / 1024, one.get_text()) for at, one in ticks] == [
        *((20, "20.0 KiB"), (24, "24.0 KiB"), (30, "30.0 KiB"))
    ]


@small_bert
def test_utilisation_by_granularity_and_buffer(cli: Call, tmp_path: Path) -> None:
    plot = tmp_path / "granularity.pdf"
    asked = "--exhibit granularity --dataflow flat-h,flat-r --sweep buffer=3KiB,64KiB"
    eight = _ON.replace("16", "8")
    rows = cli.json(f"compare {eight} {asked} --plot {plot}")["rows"]
    assert [(row["buffer_bytes"], row["dataflow"]) for row in rows] == [
        (size, name) for size in (3072, 65536) for name in ("flat-h", "flat-r")
    ]
    for row in rows:
        if row["utilisation"] is not None:
            macs = 2 * 2 * 8 * 8 * 4
            assert row["utilisation"] == pytest.approx(macs / 1024 / row["cycles"])
            assert row["footprint_bytes"] <= row["buffer_bytes"]


@small_bert
def test_a_wide_array_is_swept_from_what_its_buffer_has_at_least(cli: Call) -> None:
    """256 x 256 operands of 2 B are 128 KiB."""
    asked = f"{_ON.replace('edge', 'cloud')} --exhibit granularity --dataflow flat-m"
    rows = cli.json(f"compare {asked}")["rows"]
    assert [row["buffer_bytes"] for row in rows] == [4**n << 18 for n in range(7)]


def test_no_bandwidth_is_tried_that_no_memory_can_have(cli: Call) -> None:
    """64 times what 256 x 256 PEs could eat in a cycle is more than 2^50 B/s."""
    asked = (
        f"{_ON.replace('edge', 'cloud')} --exhibit bandwidth --dataflow naive-m --set target=0.9"
    )
    result = cli(f"compare {asked} --json")
    (row,) = json.loads(result.stdout)["rows"]
    assert row["bytes_per_second"] is None
    assert 0 < row["utilisation"] < 0.9


def test_more_than_can_be_reached_needs_no_bandwidth(cli: Call, tmp_path: Path) -> None:
    """At 16 tokens half of the array's columns are empty: 0.9 is never reached, 0.01 soon is."""
    plot = tmp_path / "bandwidth.png"
    asked = f"compare {_ON} --exhibit bandwidth --dataflow strips --json"
    (never,) = json.loads(cli(f"{asked} --set target=0.9").stdout)["rows"]
    assert never["bytes_per_second"] is None
    assert 0 < never["utilisation"] < 0.9
    (soon,) = json.loads(cli(f"{asked} --set target=0.01 --plot {plot}").stdout)["rows"]
    assert soon["utilisation"] >= 0.01
    less = soon["bytes_per_second"] / 1.1
    again = f"run {_ON.replace('--set jobs=1', '')} --dataflow strips --json"
    again += f" --set dram.bandwidth_bytes_per_second={int(less)}"
    assert json.loads(cli(again).stdout)["utilisation"] < 0.01


GEMM = "--workload gemm --shape M=9,K=7,N=5"
SMALL = "--hw edge --workload gpt2 --batch 1 --dataflow naive"


def test_objectives_are_a_list(cli: Call) -> None:
    found = cli.json(f"compare --hw toy {GEMM} --dataflow flex --set objective=cycles,energy")
    assert [one["objective"] for one in found] == ["cycles", "energy"]
    for one in found:
        run = f"run --hw toy {GEMM} --dataflow flex --set objective={one['objective']} --json"
        alone = json.loads(cli(run).stdout)
        assert (alone["cycles"], alone["energy_pj"]) == (one["cycles"], one["energy_pj"])


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ("--prompt 4 --kv-len 64", "prefill of 4 tokens after 64, decode after 64, scope"),
        ("--prompt 4", "prefill of 4 tokens, decode after 4, scope"),
        ("--prompt 4 --kv-len 8,16", "prefill of 4 tokens, decode, scope"),
        ("--prompt 4,8", "prefill, decode, scope"),
    ],
)
def test_a_title_says_what_each_phase_takes_in(cli: Call, sizes: str, told: str) -> None:
    """Of sizes that no column has."""
    found = cli(f"compare {SMALL} --phase prefill,decode {sizes} --dry-run").stdout
    assert f"gpt2 on edge, {told}" in found.splitlines()[0]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (GEMM, ["naive", "flex"]),
        (f"{GEMM} --sweep buffer=1KiB,2KiB", ["flex", "flex"]),
        (f"{GEMM} --set objective=cycles,edp", ["flex", "flex"]),
        (f"{GEMM} --set stationarity=ws,os", ["flex ws", "flex os"]),
        ("--workload bert --scope la --seq-len 4", ["naive", "flex", "flat", "flash"]),
        ("--workload bert --scope la --seq-len 4,8", ["flat", "flat"]),
        ("--workload bert --scope la --seq-len 4 --batch 1,2", ["flat", "flat"]),
    ],
)
def test_dataflows_are_compared_where_nothing_else_is(
    cli: Call, asked: str, names: list[str]
) -> None:
    """Where no attention is there to be fused, ``flat`` and ``flash`` are ``flex``."""
    found = cli.json(f"compare --hw toy {asked} --dry-run")
    assert [one["name"].split(", ")[-1] for one in found["searches"]] == names
