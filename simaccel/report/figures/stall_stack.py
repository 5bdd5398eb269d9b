"""Cycles of one engine, a bar for each operator: busy, stalls by cause, idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from simaccel.diagnosis.stalls import OperatorDiagnosis, diagnose, ideal_cycles
from simaccel.errors import Fault, InputError, suggest
from simaccel.report.figures.axes import cause_keys, cycle_unit, draw_lanes, width_inches
from simaccel.report.figures.comparison import (
    FILLED,
    FILLED_LINE,
    array_causes,
    draw_causes,
    visible_causes,
)
from simaccel.report.figures.style import in_order
from simaccel.report.figures.window import Panel, ShownWindow, part_text
from simaccel.report.units import short_names, short_share_text
from simaccel.trace import TraceReader
from simaccel.units import ARRAY, SFU

MOST_OPERATORS: Final = 20
"""Most bars; further operators, the smallest, share one."""
NO_OPERATOR: Final = "(none)"
TOTAL: Final = "all"
_BAR_HEIGHT: Final = 0.76
_BAR_INCHES: Final = 0.16
_FRAME_INCHES: Final = 0.65
_LETTERS_PER_INCH: Final = 5
"""Letters of an operator's name per inch of the figure's width."""
_BEHIND: Final = 101.5
"""Position of the text after a bar, in percent."""


@dataclass(frozen=True)
class StallStack:
    """Cycles of an engine during one operator, by cause.

    ``ideal_cycles``: of its MACs if all PEs were busy; 0: unknown, or not those of the array.
    """

    name: str
    cycles: Mapping[str, int]
    ideal_cycles: float = 0.0

    @property
    def total(self) -> int:
        """Cycles of all causes."""
        return sum(self.cycles.values())


def stall_stacks(
    trace: TraceReader, engine: str = ARRAY, *, start: int = 0, end: int | None = None
) -> list[StallStack]:
    """Return an engine's cycles by operator and cause; if there are several, the last is their sum.

    Operators are in program order. Beyond ``MOST_OPERATORS``, the smallest share one stack.

    Raises:
        InputError: the trace has no such engine.
    """
    if engine not in trace.engines:
        raise InputError([Fault(str(trace.path), "engine", engine, suggest(engine, trace.engines))])
    parts = diagnose(trace, start, end).operators
    ideal: dict[str, float] = {}
    if engine == ARRAY and any(part.macs for part in parts):
        of, on = trace.workload(), trace.accelerator()
        ideal = {part.name: ideal_cycles(part, of, on) for part in parts}
    every = [(part, _engine_causes(part, engine)) for part in parts]
    stacks = [
        StallStack(part.name or NO_OPERATOR, causes, ideal.get(part.name, 0.0))
        for part, causes in every
        if causes
    ]
    return stacks if len(stacks) == 1 else [*_reduce_stacks(stacks), _join_stacks(TOTAL, stacks)]


def _engine_causes(part: OperatorDiagnosis, engine: str) -> Mapping[str, int]:
    """Return an engine's cycles in an operator by cause."""
    own = part.engines[engine]
    return array_causes(own, part.engines.get(SFU, {})) if engine == ARRAY else own


def _reduce_stacks(stacks: Sequence[StallStack]) -> list[StallStack]:
    if len(stacks) <= MOST_OPERATORS:
        return list(stacks)
    by_size = sorted(stacks, key=lambda stack: -stack.total)
    small = by_size[MOST_OPERATORS - 1 :]
    kept = [stack for stack in stacks if stack not in small]
    return [*kept, _join_stacks(f"{len(small)} others", small)]


def _join_stacks(name: str, stacks: Sequence[StallStack]) -> StallStack:
    causes = in_order({cause for stack in stacks for cause in stack.cycles})
    cycles = {c: sum(stack.cycles.get(c, 0) for stack in stacks) for c in causes}
    return StallStack(name, cycles, sum(stack.ideal_cycles for stack in stacks))


def stalls_panel(trace: TraceReader, shown: ShownWindow) -> Panel:
    """Return a panel with a bar for each operator, and one for all of them."""
    start, end = shown.whole
    stacks = stall_stacks(trace, shown.engine, start=start, end=end)
    line = [Line2D([], [], **FILLED_LINE, label=FILLED)]
    return Panel(
        f"Cycles of {shown.engine} by operator, {part_text(trace, start, end)}",
        _FRAME_INCHES + _BAR_INCHES * len(stacks),
        [*cause_keys(visible_causes(map(_shares, stacks))), *line * bool(stacks[-1].ideal_cycles)],
        lambda figure: draw_stall_stacks(figure.subplots(), stacks, shown.engine),
    )


def _shares(stack: StallStack) -> dict[str, float]:
    return {cause: 100 * n / stack.total for cause, n in stack.cycles.items()}


def draw_stall_stacks(axes: Axes, stacks: Sequence[StallStack], engine: str) -> None:
    """Draw one bar for each stack, in percent of its cycles, which are written after it.

    A line across it marks the utilisation of the PEs, if it is known.
    """
    run = stacks[-1].total
    size, unit = cycle_unit(run)
    filled = [
        100 * stack.ideal_cycles / stack.total if stacks[-1].ideal_cycles else None
        for stack in stacks
    ]
    places = range(len(stacks))
    draw_causes(axes, places, [*map(_shares, stacks)], filled, _BAR_HEIGHT, lying=True)
    for at, stack in enumerate(stacks):
        part = "" if at == len(stacks) - 1 else f" ({short_share_text(stack.total / run)})"
        cycles = f"{stack.total / size:#.3g}".rstrip(".") if size > 1 else f"{stack.total:,}"
        axes.text(_BEHIND, at, cycles + part, va="center", fontsize="small")
    axes.text(_BEHIND, -0.55, f"{unit}\n(share)", va="bottom", fontsize="small")
    if len(stacks) > 1:
        axes.axhline(len(stacks) - 1.5, color="#000000", linewidth=0.6)
    letters = int(_LETTERS_PER_INCH * width_inches(axes))
    draw_lanes(axes, short_names([stack.name for stack in stacks], letters), "operator")
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"cycles of {engine} (%)")
