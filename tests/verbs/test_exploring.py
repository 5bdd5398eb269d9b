"""The verb `explore`, and arguments of all verbs: one that can't be is refused by its name."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from simaccel import (
    Options,
    bound,
    build,
    compare,
    estimate,
    explore,
    gemm,
    load_accelerator,
    simulate,
)
from simaccel.cli import main
from simaccel.errors import SimaccelError
from simaccel.report.figures.exploration import draw_sensitivity
from tests.refusals import refusal_of

GEMM = gemm(m=9, k=7, n=5)
AXES: dict[str, list[int | float | str]] = {
    "array.rows,array.cols": [2, 4],
    "dram.bandwidth_bytes_per_second": ["4 GB/s", 8_000_000_000],
}


def test_every_design_is_the_run_of_its_own(tmp_path: Path) -> None:
    found = explore(GEMM, "toy", AXES, "naive", store=tmp_path / "store")
    frame = found.to_pandas()
    pairs = product([2, 4], ["4 GB/s", "8 GB/s"])
    expected = []
    for side, rate in pairs:
        texts = [f"array.rows={side}", f"array.cols={side}"]
        there = load_accelerator("toy", [*texts, f"dram.bandwidth_bytes_per_second={rate}"])
        expected.append(simulate(GEMM, there, "naive").run.cycles)
    assert frame["cycles"].tolist() == expected
    assert "\n" not in repr(found)
    assert "4 designs: 0 do not run" in repr(found)
    assert "<table>" in found._repr_html_()
    assert [one["cycles"] for one in found.to_dict()["designs"]] == expected
    again = explore(GEMM, "toy", AXES, "naive", store=tmp_path / "store")
    assert (again.points.ran, again.points.reused) == (0, 4)
    assert again.to_pandas().equals(frame)
    for kind in ("frontier", "pairs", "sensitivity"):
        assert found.plot(kind)._repr_png_().startswith(b"\x89PNG")


def test_searches_minimise_the_objective_as_those_of_the_command_do() -> None:
    """By default EDP. A search can't minimise area: it minimises cycles then."""
    product, axes = gemm(m=64, n=64, k=64), {"buffer": ["64 KiB", "128 KiB"]}
    command = "explore --hw edge --workload gemm --shape M=64,N=64,K=64 --dataflow flex --json"
    command += " --axis buffer=64KiB,128KiB --objective"
    found = {}
    for objective in ("edp", "cycles", "area"):
        found[objective] = explore(product, "edge", axes, "flex", objective=objective).to_dict()
        result = CliRunner().invoke(main, [*command.split(), objective])
        assert json.loads(result.stdout) == json.loads(json.dumps(found[objective]))
    assert explore(product, "edge", axes, "flex").to_dict() == found["edp"]
    edp, cycles, area = (each["designs"][0] for each in found.values())
    assert edp["edp_js"] < cycles["edp_js"]
    assert edp["cycles"] > cycles["cycles"] == area["cycles"]


def test_workloads_have_weights_and_sizes_vary() -> None:
    one = explore(
        build("bert", seq_len=4, scope="la"), "toy", {"workload.seq_len": [4, 8]}, "naive-m"
    )
    cycles = [
        simulate(build("bert", seq_len=n, scope="la"), "toy", "naive-m").run.cycles for n in (4, 8)
    ]
    machine = [point.figures for point in one.points.rows]
    assert [figures and figures["cycles"] for figures in machine] == cycles


def test_axes_have_the_names_and_columns_of_the_command(tmp_path: Path) -> None:
    axes: dict[str, list[int | float | str]] = {
        "buffer": ["4 KiB", 8192],
        "array": [2, "4x2"],
        "tensor_parallel": [1],
    }
    table = tmp_path / "designs.csv"
    command = "explore --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive "
    command += "--axis buffer=4KiB,8KiB --axis array=2,4x2 --axis tensor-parallel=1 "
    ran = CliRunner().invoke(main, [*command.split(), "--csv", str(table)])
    assert ran.exit_code == 0, ran.output
    found = explore(GEMM, "toy", axes, "naive", settings={"clock_hz": "1 GHz"}).to_pandas()
    expected = pd.read_csv(table)
    assert [*found.columns] == [*expected.columns]
    for name in ("buffer_bytes", "array", "cycles"):
        assert found[name].astype(str).tolist() == expected[name].astype(str).tolist()


def test_a_sample_is_drawn_by_its_seed() -> None:
    def drawn(seed: int) -> list[int | float | str]:
        axes = {"dram.latency_cycles": range(40)}
        found = explore(GEMM, "toy", axes, "naive", sample=3, drawn="random", seed=seed)
        return [row.settings[0].value for row in found.points.rows]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(drawn(1)) == 3


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        (
            lambda: explore("brt", "edg", {"array.row": [1]}, "flt", where=["x"], objective="u"),
            ["objective", "dataflow", "--where", "'edg'", "'brt'", "'array.rows'"],
        ),
        (lambda: explore(GEMM, "toy", {"workload.seq_len": [4]}), ["a parameter of a workload"]),
        (lambda: explore(GEMM, "toy", {"array.rows": []}), ["a list of different values"]),
        (lambda: explore(GEMM, "toy", {"array.rows": [4, 4]}), ["a list of different values"]),
        (lambda: explore(GEMM, "toy", {"array.rows": "48"}), ["a list of different values"]),
        (
            lambda: explore(GEMM, "toy", {"array.rows": 8}),  # type: ignore[dict-item]
            ["got 8; allowed: a list of different values"],
        ),
        (
            lambda: explore(GEMM, "toy", {"array.rows": [[8]]}),  # type: ignore[list-item]
            ["got [8]; allowed: a number, a word"],
        ),
        (
            lambda: explore(GEMM, "toy", {"array.rows": [0, 4], "pipeline": [2], "bufer": [1]}),
            ["axes.array.rows: got 0; allowed: an integer", "axes.pipeline: got 2", "'buffer'?"],
        ),
        (
            lambda: explore(GEMM, "toy", {"array.rows,workload.batch": [4]}),
            ["got 'workload.batch'; allowed: fields of the accelerator"],
        ),
        (
            lambda: explore(GEMM, "toy", ["buffer"]),  # type: ignore[arg-type]
            ["explore: axes: got ['buffer']; allowed: values by name"],
        ),
        (
            lambda: explore(GEMM, "toy", axes={"buffer": ["64KiB:1MiB:x2"]}, dataflows="naive"),
            ["axes.buffer: got '64KiB:1MiB:x2'; allowed: a positive amount with a unit"],
        ),
        (lambda: explore({"bert": 0}, "toy"), ["explore: weight: got 0"]),
        (lambda: explore([], "toy"), ["at least one"]),
    ],
)
def test_all_faults_are_reported_together(call: Callable[[], object], faults: list[str]) -> None:
    said = refusal_of(call).splitlines()
    assert len(said) == len(faults)
    assert all(part in line for part, line in zip(faults, said, strict=True)), said


def test_a_design_that_cant_be_is_a_point_that_says_why() -> None:
    found = explore(GEMM, "toy", {"buffer": ["1 B", "4 KiB"]}, "naive", options=Options())
    bad, good = found.points.rows
    assert "buffer.capacity_bytes: got 1; allowed: at least 32 B" in bad.problem
    assert good.figures is not None


_WORKLOAD = gemm(4, 4, 4)
_RUN = {"workload": _WORKLOAD, "accelerator": "toy", "dataflow": "naive"}
_CALLS: Mapping[Callable[..., object], dict[str, Any]] = {
    simulate: _RUN,
    estimate: _RUN,
    compare: {**_RUN, "dataflows": "naive"},
    explore: {"workloads": _WORKLOAD, "accelerators": "toy", "dataflows": "naive"},
    bound: {"workload": _WORKLOAD},
    build: {"name": "gpt2"},
    gemm: {"m": 4, "k": 4, "n": 4},
    load_accelerator: {"name_or_path": "toy"},
}
_NUMBERS = (3, 1.5, float("nan"), True, None)
_WRONG: tuple[Any, ...] = (*_NUMBERS, "x", "", b"x", [], [1], {}, {"a": 1}, set(), object())
_PATHS = ("store", "progress", "mapspace")


@pytest.mark.parametrize("call", _CALLS)
def test_no_argument_ends_in_an_error_of_python(call: Callable[..., object]) -> None:
    names = [name for name in signature(call).parameters if name not in _PATHS]
    given = {name: value for name, value in _CALLS[call].items() if name in names}
    for name in names:
        for value in _WRONG:
            with suppress(SimaccelError):  # anything else would be an error of Python's own
                call(**{**given, name: value})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: simulate(**_RUN, options={"a": 1}), "simulate: options: got {'a': 1}; "),  # type: ignore[arg-type]
        (lambda: simulate(**_RUN, fast_forward="no"), "fast_forward: got 'no'; allowed: True or"),  # type: ignore[arg-type]
        (lambda: explore(_WORKLOAD, "toy", jobs="2"), "jobs: got '2'; allowed: a whole number"),  # type: ignore[arg-type]
        (lambda: compare(_WORKLOAD, "toy", []), "got 'nothing'; allowed: at least one of each"),
        (lambda: build([]), "workload: name: got []; allowed: the name of a workload"),  # type: ignore[arg-type]
    ],
)
def test_the_argument_is_named(call: Callable[[], object], told: str) -> None:
    assert told in refusal_of(call, error=SimaccelError)


def test_sensitivity_names_its_settings_where_no_design_is_within_the_limits() -> None:
    found = explore(GEMM, "toy", {"array": ["2x2", "4x4"]}, "naive", where=["area_mm2<=0.0001"])
    (axes,) = draw_sensitivity(found.points, found.title).axes
    assert [one.get_text() for one in axes.get_xticklabels()] == ["2x2", "4x4"]
