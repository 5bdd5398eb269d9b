"""The stall stack: where the cycles of an engine go, operator by operator."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from simaccel.diagnosis.stalls import OperatorDiagnosis, ideal_cycles
from simaccel.errors import InputError
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.figures.comparison import FILLED
from simaccel.report.figures.stall_stack import (
    MOST_OPERATORS,
    StallStack,
    draw_stall_stacks,
    stall_stacks,
)
from simaccel.report.figures.style import CAUSE_COLOURS, new_figure, style
from simaccel.study.recording import record
from simaccel.trace import CommandSite, Stall, TraceReader
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator


def test_stacks_are_what_the_run_booked(trace: TraceReader) -> None:
    for engine in trace.engines:
        stacks = stall_stacks(trace, engine)
        totals = trace.totals[engine]
        expected = {"busy": totals.busy, "idle": totals.idle, **totals.stalls}
        assert stacks[-1].cycles == {cause: n for cause, n in expected.items() if n}
        assert stacks[-1].total == trace.cycles


def test_a_window_is_what_its_events_say(toy: TraceReader) -> None:
    start, end = 30, 400
    for engine in toy.engines:
        expected: Counter[str] = Counter()
        for event in toy.decode(toy.events(start, end, engine)):
            expected[event.cause] += min(event.end, end) - max(event.start, start)
        (stack,) = stall_stacks(toy, engine, start=start, end=end)
        assert stack == StallStack("L+softmax+A", dict(expected))


def test_rows_of_the_whole_run_agree_with_its_books(toy: TraceReader) -> None:
    """With one operator nothing is ambiguous: both ways must give the same."""
    for engine in toy.engines:
        (booked,) = stall_stacks(toy, engine)
        first, rest = (
            stall_stacks(toy, engine, start=a, end=b)[-1].cycles
            for a, b in ((0, 100), (100, toy.cycles))
        )
        assert Counter(first) + Counter(rest) == Counter(booked.cycles)


def test_an_unknown_engine_is_refused(toy: TraceReader) -> None:
    fault = r"toy_attention_flat\.h5: engine: got 'aray'; did you mean 'array'\?"
    with pytest.raises(InputError, match=fault):
        stall_stacks(toy, "aray")


class Many:
    """A window of a run of 25 operators: operator ``n`` is busy for ``n`` cycles and waits one."""

    path = "many.h5"
    engines = ("array",)
    cycles = 10**6
    accelerator = ""

    @property
    def header(self) -> "Many":
        """Where the sites are: here."""
        return self

    @property
    def sites(self) -> dict[int, CommandSite]:
        """One command of each operator."""
        return {n: CommandSite(f"op{n}", "") for n in range(1, 26)}

    def account(self, by: tuple[str, ...], start: int, end: int) -> list[Stall]:
        """Each operator works and waits."""
        assert (start, end) == (5, 500)
        assert {"engine", "operator", "cause"} <= {*by}
        rows = [Stall("array", f"op{n}", "busy", "", "", "", n) for n in range(1, 26)]
        waits = [Stall("array", f"op{n}", "sfu", "", "", "", 1) for n in range(1, 26)]
        return rows[::-1] + waits


def test_many_operators_are_the_largest_in_order_and_the_others() -> None:
    stacks = stall_stacks(cast("Any", Many()), "array", start=5, end=500)
    assert len(stacks) == MOST_OPERATORS + 1
    assert [stack.name for stack in stacks] == [
        *(f"op{n}" for n in range(7, 26)),
        "6 others",
        "all",
    ]
    assert stacks[-2].cycles == {"busy": 1 + 2 + 3 + 4 + 5 + 6, "sfu": 6}
    assert stacks[-1].cycles == {"busy": 25 * 26 // 2, "sfu": 25}


def test_the_artists_are_percentages() -> None:
    stacks = [
        StallStack("L", {"idle": 100, "busy": 300}),
        StallStack("A", {"busy": 50, "sfu": 50}),
        StallStack("all", {"busy": 350, "sfu": 50, "idle": 100}),
    ]
    with style():
        axes = new_figure(3.3, 2).subplots()
        draw_stall_stacks(axes, stacks, "array")
    bars = [one for one in axes.patches if isinstance(one, Rectangle)]
    found = [
        (round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width()) for bar in bars
    ]
    assert [bar for bar in found if bar[2]] == [
        *((0, 0, 75), (1, 0, 50), (2, 0, 70)),
        *((1, 50, 50), (2, 70, 10)),
        *((0, 75, 25), (2, 80, 20)),
    ]
    colours = [CAUSE_COLOURS[cause][0] for cause in ("busy", "sfu", "idle")]
    shades = [to_hex(bar.get_facecolor()).upper() for bar in bars]
    assert shades == [colour for colour in colours for _ in stacks]
    texts = [text.get_text() for text in axes.texts]
    assert {"75", "25", "50", "70", "10", "20", "400 (80%)", "100 (20%)", "500"} <= set(texts)
    assert axes.get_xlabel() == "cycles of array (%)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["L", "A", "all"]


def test_a_long_name_keeps_its_end() -> None:
    """16 letters of a name in a figure of 3.3 in."""
    with style():
        axes = new_figure(3.3, 2).subplots()
        draw_stall_stacks(axes, [StallStack("layer_with_a_long_name_11", {"busy": 1})], "array")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["layer_wit…ame_11"]


def test_the_lines_across_bars_are_utilisations(toy: TraceReader) -> None:
    """L and A of the trace's attention on 4x4 PEs: their MACs by 16 a cycle."""
    (stack,) = stall_stacks(toy)
    macs = sum(one.macs * toy.workload().times(one.name) for one in toy.workload().operators)
    assert stack.ideal_cycles == pytest.approx(macs / 16)
    with style():
        axes = new_figure(4, 2).subplots()
        draw_stall_stacks(axes, [stack], "array")
    (lines,) = (one for one in axes.collections if one.get_label() == FILLED)
    assert isinstance(lines, LineCollection)
    (line,) = lines.get_segments()
    assert line[:, 0] == pytest.approx([100 * macs / 16 / toy.cycles] * 2)


def test_utilisations_of_a_chip_among_others_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "pod.h5"
    result = record(path, gemm(m=64, k=64, n=64), load_accelerator("tpu_v4", ["chips=2x2x1"]))
    assert result.run.macs == 64**3 // 4
    with TraceReader.open(path) as trace:
        (stack,) = stall_stacks(trace)
    assert stack.ideal_cycles / stack.total == pytest.approx(result.utilisation)


def test_utilisations_are_of_the_arrays_that_work() -> None:
    """1600 MACs on 4 x 4 PEs: 100 cycles, or 50 on two of four cores."""
    engines = {f"core{core}.array": {"busy": 120} for core in (1, 2)} | {"array": {"idle": 120}}
    both = OperatorDiagnosis("gemm", 120, engines, macs=1600)
    alone = replace(both, engines={"core1.array": {"busy": 120}})
    workload, on = gemm(m=4, k=4, n=100), accelerator(cores={"count": 4})
    assert [ideal_cycles(part, workload, on) for part in (alone, both)] == [100, 50]
