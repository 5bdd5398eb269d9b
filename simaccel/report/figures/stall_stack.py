"""Cycles of one engine, a bar for each operator: busy, stalls by cause, idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from simaccel.diagnosis.stalls import OperatorDiagnosis, diagnose, ideal_cycles
from simaccel.errors import Fault, InputError, suggest
from simaccel.report.figures.axes import cause_keys, cycle_unit, look, width_inches
from simaccel.report.figures.comparison import FILLED, array_causes
from simaccel.report.figures.style import CAUSE_COLOURS, LIMIT_COLOUR, in_order
from simaccel.report.figures.window import Panel, ShownWindow, part_text
from simaccel.report.units import cycles_text, short_names, short_share_text
from simaccel.trace import TraceReader
from simaccel.units import ARRAY, SFU

MOST_OPERATORS: Final = 20
"""Most bars; further operators, the smallest, share one."""
NO_OPERATOR: Final = "(none)"
TOTAL: Final = "all"
_BAR_HEIGHT: Final = 0.76
_BAR_INCHES: Final = 0.16
_FRAME_INCHES: Final = 0.65
_LEAST_EXPLAINED: Final = 0.004
"""Causes with smaller shares of every bar are not in the legend."""
_LEAST_LABELLED_INCHES: Final = 0.28
_AXES_SHARE: Final = 0.6
"""About the share of the figure's width for bars, beside names and cycles."""
_LETTERS_PER_INCH: Final = 5
"""Letters of an operator's name per inch of the figure's width."""
_DARK: Final = 0.5
_FILLED_POINTS: Final = 1.4
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
    line = [Line2D([], [], color=LIMIT_COLOUR, linewidth=_FILLED_POINTS, label=FILLED)]
    return Panel(
        f"Cycles of {shown.engine} by operator, {part_text(trace, start, end)}",
        _FRAME_INCHES + _BAR_INCHES * len(stacks),
        [*cause_keys(_causes_to_explain(stacks)), *(line if stacks[-1].ideal_cycles else [])],
        lambda figure: draw_stall_stacks(figure.subplots(), stacks, shown.engine),
    )


def _causes_to_explain(stacks: Sequence[StallStack]) -> list[str]:
    """Name the causes that are more than a few pixels of some bar."""
    return in_order(
        {
            cause
            for stack in stacks
            for cause, n in stack.cycles.items()
            if n >= _LEAST_EXPLAINED * stack.total
        }
    )


def draw_stall_stacks(axes: Axes, stacks: Sequence[StallStack], engine: str) -> None:
    """Draw one bar for each stack, in percent of its cycles, which are written after it.

    A line across it marks the utilisation of the PEs, if it is known.
    """
    run = stacks[-1].total
    size, unit = cycle_unit(run)
    for at, stack in enumerate(stacks):
        left = 0.0
        for cause in in_order(stack.cycles):
            share = 100 * stack.cycles[cause] / stack.total
            axes.barh(at, share, _BAR_HEIGHT, left=left, label=cause, **look(cause))
            _label(axes, at, left, share, cause)
            left += share
        if stacks[-1].ideal_cycles:
            filled = 100 * stack.ideal_cycles / stack.total
            ends = [at - _BAR_HEIGHT / 2, at + _BAR_HEIGHT / 2]
            axes.plot([filled] * 2, ends, color=LIMIT_COLOUR, linewidth=_FILLED_POINTS)
        part = "" if at == len(stacks) - 1 else f" ({short_share_text(stack.total / run)})"
        cycles = f"{stack.total / size:#.3g}".rstrip(".") if size > 1 else cycles_text(stack.total)
        axes.text(_BEHIND, at, cycles + part, va="center", fontsize="small")
    axes.text(_BEHIND, -0.55, f"{unit}\n(share)", va="bottom", fontsize="small")
    if len(stacks) > 1:
        axes.axhline(len(stacks) - 1.5, color="#000000", linewidth=0.6)
    axes.set_ylim(len(stacks) - 0.5, -0.5)
    letters = int(_LETTERS_PER_INCH * width_inches(axes))
    axes.set_yticks(range(len(stacks)), short_names([stack.name for stack in stacks], letters))
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"cycles of {engine} (%)")
    axes.set_ylabel("operator")


def _label(axes: Axes, at: int, left: float, share: float, cause: str) -> None:
    """Write the percentage on a piece of a bar that has room for it."""
    if share / 100 * width_inches(axes) * _AXES_SHARE < _LEAST_LABELLED_INCHES:
        return
    colour = CAUSE_COLOURS.get(cause, ("#FFFFFF", ""))[0]
    red, green, blue = to_rgb(colour)
    dark = 0.3 * red + 0.59 * green + 0.11 * blue < _DARK
    axes.text(
        left + share / 2,
        at,
        f"{share:.0f}%",
        ha="center",
        va="center",
        fontsize="small",
        color="#FFFFFF" if dark else "#000000",
        bbox={"facecolor": colour, "linewidth": 0, "pad": 0.6},
    )
