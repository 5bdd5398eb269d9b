"""Tables are whole at 100 columns; units, energy by level, operator and tensor."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from simaccel.diagnosis.check import OperatorCheck
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.catalogues import whole_line
from simaccel.report.comparison import comparison_table, note_lines, speedups
from simaccel.report.estimates import estimate_table
from simaccel.report.page import _energy
from simaccel.report.results import (
    checked_table,
    energy_line,
    engines_table,
    operators_table,
    size_line,
)
from simaccel.report.rows import activities, energy_table
from simaccel.report.titles import experiment_title
from simaccel.report.units import (
    bytes_text,
    energy_text,
    error_text,
    figure_text,
    large_count,
    seconds_text,
    short_names,
)
from simaccel.study.experiment import ExperimentResult, result_json, simulate
from simaccel.study.figures import run_figures
from simaccel.study.points import StudyRow
from simaccel.workload import ModelDimensions, Workload, attention, build, conv2d, gemm, network
from tests.trees import einsum, workload

SMALL = ModelDimensions(hidden=6, heads=3, head_size=5, ff_size=7)


@pytest.fixture(scope="module")
def result() -> ExperimentResult:
    """Run a block whose cycles are then taken times ten million."""
    workload = attention(SMALL, batch=1, seq_len=5)
    done = simulate(workload, load_accelerator("toy"), "naive-m")
    run = done.run
    operators = tuple(replace(one, cycles=one.cycles * 10**7) for one in run.operators)
    return replace(done, run=replace(run, cycles=run.cycles * 10**7, operators=operators))


def printed(table: RenderableType, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


@pytest.mark.parametrize("width", [100, 140])
def test_one_line_a_row(result: ExperimentResult, width: int) -> None:
    names = [one.name for one in result.run.operators]
    assert len(printed(operators_table(result), width)) == 2 + len(names) + 1
    engines = engines_table(activities(result), result.run.cycles)
    for table in (estimate_table(result.prediction, result.accelerator), engines):
        lines = printed(table, width)
        assert not any("…" in line for line in lines)
        assert max(map(len, lines)) <= width


def test_the_total_is_the_runs(result: ExperimentResult) -> None:
    last = printed(operators_table(result), 100)[-1].split()
    assert last[:2] == ["total", f"{result.run.cycles:,}"]


def test_speedup_is_against_the_first_of_the_length(result: ExperimentResult) -> None:
    run, figures = result_json(result), run_figures(result)
    slow = {**run, "cycles": 2 * run["cycles"]}
    rows = [
        StudyRow("naive", 512, slow, figures=figures | {"cycles": slow["cycles"]}),
        StudyRow("flat", 512, run, figures=figures),
        StudyRow("naive", 1024, None, "does not fit", 2),
        StudyRow("flat", 1024, run, figures=figures),
    ]
    assert speedups(rows) == [1, 2, None, None]
    lines = printed(comparison_table(rows), 100)
    assert sum("does not run" in line for line in lines) == 1
    assert lines[2].split()[:2] == ["512", "naive"]


def test_what_stays_on_chip_is_said() -> None:
    lines = printed(
        checked_table([OperatorCheck("L", 0, 9, 0.0), OperatorCheck("A", 9, 9, 1e-16)]), 100
    )
    assert "stays on chip" in lines[2]
    assert "1.0e-16" in lines[3]


@pytest.mark.parametrize(
    ("workload", "title"),
    [
        (
            network("alexnet", batch=4, layer="conv2"),
            "alexnet on toy, layer conv2, batch 4, int16, dataflow ruby",
        ),
        (
            conv2d(m=1, c=2, p=3, q=4, r=5, s=6, stride=(2, 1)),
            "conv on toy, N=1, G=1, M=1, C=2, P=3, Q=4, R=5, S=6, stride 2x1, int16, dataflow ruby",
        ),
    ],
)
def test_a_title_says_which_layer_and_convolution(workload: Workload, title: str) -> None:
    assert experiment_title(workload, load_accelerator("toy"), "ruby") == title


def test_an_estimate_of_ones_own_has_the_terms_of_the_bound_and_the_waits_beside_it() -> None:
    """10 + 70 + 5 cycles that no run is below, and 15 of 100 in which the array waits."""
    bound = {
        "terms": {"fill": 10, "array": 70, "drain": 5},
        "waiting_by_cause": {"noc": 12, "dram_latency": 3},
    }
    row = StudyRow("flat", result={"cycles": 100, "bound": bound}, estimate_cycles=80.0)
    (line,) = note_lines([row, StudyRow("flex", result={"cycles": 90})])
    assert line.startswith("flat: estimate 80; bound 85 = array 70 + fill 10 + drain 5; ")
    assert line.endswith("; waits 15 = NoC 12 + DRAM latency 3")
    still = {"terms": {"array": 7}, "waiting_by_cause": {}}
    row = StudyRow("flat", result={"cycles": 7, "bound": still}, estimate_cycles=8.0)
    assert note_lines([row]) == ["flat: estimate 8; bound 7 = array 7; waits 0"]


@pytest.mark.parametrize(
    ("name", "biases", "share"),
    [
        ("alexnet", 96 + 256 + 384 + 384 + 256 + 4096 + 4096 + 1000, "0.0%"),
        ("mobilenet_v2", 17056 + 1000, "1.0%"),  # batch norms, classifier
        ("resnet50", 26560 + 1000, "0.2%"),
    ],
)
def test_biases_are_counted_by_outputs(name: str, biases: int, share: str) -> None:
    line = whole_line(network(name, scope="model"))
    assert line.startswith(
        f"left out: {biases:,} biases or shifts of batch norms (of 4 bytes {share}"
    )


TEXTS: list[tuple[Callable[[Any], str], dict[float | None, str]]] = [
    (bytes_text, {0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB"}),
    (bytes_text, {1024**2: "1.00 MiB", 47815066: "45.6 MiB", None: "unlimited"}),
    (bytes_text, {1024**5: "1.00 PiB", 1024**6: "1024 PiB"}),
    (seconds_text, {0: "0 s", 1e-09: "1 ns", 8.7e-08: "87 ns", 0.00123: "1.23 ms"}),
    (seconds_text, {1: "1.00 s", 119: "119 s", 180: "3.00 min", 7200: "2.00 h"}),
    (energy_text, {0: "0 pJ", 1.23e10: "12.3 mJ"}),
    (error_text, {0: "0%", -0.0123456: "-1.23%"}),
    (lambda part: figure_text(part, "share"), {1: "100.0%", 0.4567: "45.7%"}),
    (large_count, {12_345_678_901: "12.3 G"}),
]


@pytest.mark.parametrize(("text_of", "texts"), TEXTS)
def test_figures_as_texts(text_of: Callable[[Any], str], texts: dict[float | None, str]) -> None:
    assert {number: text_of(number) for number in texts} == texts


def test_shortened_names_stay_apart() -> None:
    """The digits of the second and third are in the middle, where a long name is cut."""
    names = [
        "/Mul",
        *(f"/model/{half}coder/{at}/reparam_conv/Conv" for half in ("en", "de") for at in range(3)),
    ]
    shown = short_names(names)
    assert shown[0] == "/Mul"
    assert len(set(shown)) == len(names)
    assert max(map(len, shown)) <= 28
    assert all(f"/{at % 3}/" in text for at, text in enumerate(shown[1:]))
    assert (
        short_names(["a" * 40 + "1" + "b" * 40, "a" * 40 + "2" + "b" * 40])
        != ["a" * 15 + "…" + "b" * 12] * 2
    )


def _rows(of: object, hw: str = "toy", dataflow: str = "flex") -> list[list[str]]:
    table = energy_table(simulate(of, load_accelerator(hw), dataflow))  # type: ignore[arg-type]
    assert table is not None
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    return [list(row) for row in zip(*cells, strict=True)]


def test_a_gemm_that_can_be_added_up_by_hand() -> None:
    """Toy, 4 x 4 x 4: 64 MACs of 1 pJ; 32 B of each tensor over DRAM at 100 pJ, NoC at 1 pJ.

    A, B and C pass the buffer twice, 64 B of each at 5 pJ.
    """
    rows = _rows(gemm(m=4, k=4, n=4), dataflow="naive")
    moved = ["", "320 pJ", "32 pJ", "3.20 nJ", "3.55 nJ", "33.1%"]
    assert rows[0] == ["gemm", "64 pJ", "960 pJ", "96 pJ", "9.60 nJ", "10.7 nJ", "100.0%"]
    assert rows[1:4] == [[f"moving {tensor}", *moved] for tensor in "ABC"]
    assert rows[4] == ["total", *rows[0][1:]]


def test_many_tensors_share_the_last_row() -> None:
    rows = _rows(build("bert", batch=1, seq_len=16, scope="block"), "edge", "naive-m")
    assert sum(row[0].startswith("moving") for row in rows) == 9
    assert any(row[0].endswith(" others") for row in rows)


def test_one_tensor_is_one_other() -> None:
    operators = [
        einsum(f"o{at}", f"T{at + 1} m n", f"T{at} m k", f"W{at} k n", m=2, k=2, n=2)
        for at in range(4)
    ]
    rows = _rows(workload(*operators, weights=[f"W{at}" for at in range(4)]), dataflow="naive")
    assert "moving 1 other" in [row[0] for row in rows]


def test_energies_that_nobody_gave_are_unknown() -> None:
    """As in a SCALE-Sim configuration, which has none."""
    prices = ("mac_pj", "sfu_pj_per_element", "buffer_pj_per_byte", "noc_pj_per_byte")
    none = [f"energy.{price}=0" for price in (*prices, "dram_pj_per_byte")]
    result = simulate(gemm(m=4, k=4, n=4), load_accelerator("toy", none), "naive")
    assert energy_table(result) is None
    assert energy_line(result).startswith("energy: unknown, toy gives no energ")
    assert size_line(result).endswith("power: unknown, on the chip unknown")
    (cells,) = (c.cells for c in operators_table(result).columns if str(c.header) == "energy")
    assert {str(cell) for cell in cells} == {"unknown"}


def test_the_page_says_the_shares_of_the_levels() -> None:
    assert _energy({"mac": 1.0, "dram": 3.0, "sfu": 0.0}) == "4 pJ (dram 75%, mac 25%)"


def test_the_page_says_nothing_of_damaged_figures() -> None:
    for figures in (None, {}, {"mac": "1"}, {"mac": -1}, {"mac": 10**400}, {"mac": float("nan")}):
        assert _energy(figures) is None
