"""Tables of one run: operators, engines, and the machine against its bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simaccel.experiment.run import Result, energy_pj, floor_json
from simaccel.experiment.waiting import OF_UNIT, computing_unit, waiting_by_cause
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_and_power, area_of
from simaccel.machine.machine import OperatorRun, Run
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import (
    area_text,
    bytes_text,
    cycles_text,
    error_text,
    fine_share_text,
    power_text,
    seconds_text,
    share_text,
    short_share_text,
    work_energy_text,
)

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.experiment.check import OperatorCheck

_TOP_CAUSES = 2
_MOST_CAUSES = 3
_SMALLEST_WAIT = 0.00005
SMALLEST_SHARE = 0.0005
"""Below this a share of the cycles is not worth a place in a row."""


def operators_table(result: Result, given: Mapping[str, float] | None = None) -> Table:
    """Tabulate the operators and their total; beside them estimates of one's own, if there are."""
    table = make_table(
        ("operator",),
        (*(("given", "error") if given else ()), "cycles", "util.", "DRAM", "energy"),
        ("bound by", "stalls of the array"),
    )
    for run, predicted in result.groups():
        figures = _figures(run, result.accelerator)
        if given:
            figures = (*_given_texts(given.get(run.name), run.cycles), *figures)
        add_row(table, (run.name, *figures, predicted.bound_by, _stalls_of_array(run)))
    table.add_section()
    figures = _figures(result.run, result.accelerator)
    if given:
        whole = all(run.name in given for run in result.run.operators)
        total = sum(given.values()) if whole else None
        figures = (*_given_texts(total, result.run.cycles), *figures)
    last = (result.prediction.bound_by, _stalls_of_array(result.run))
    add_row(table, ("total", *figures, *last), style="bold")
    return table


def _given_texts(given: float | None, cycles: int) -> tuple[str, str]:
    if given is None:
        return "", ""
    return cycles_text(round(given)), error_text((given - cycles) / cycles)


def _figures(run: Run | OperatorRun, accelerator: Accelerator) -> tuple[str, ...]:
    return (
        cycles_text(run.cycles),
        share_text(run.macs / accelerator.array.pes / run.cycles),
        bytes_text(dram_bytes(run.moved)),
        work_energy_text(sum(energy_pj(run, accelerator).values())),
    )


def _stalls_of_array(run: Run | OperatorRun) -> str:
    """Name the largest stall causes of the array, in percent of the cycles."""
    largest = Counter(run.engines["array"].stalls).most_common(_TOP_CAUSES)
    shown = [(cause, n / run.cycles) for cause, n in largest if n / run.cycles >= SMALLEST_SHARE]
    return ", ".join(f"{cause} {short_share_text(share)}" for cause, share in shown)


def dram_bytes(moved: Mapping[tuple[str, str], int]) -> int:
    """Sum what crosses the DRAM channels, in bytes."""
    return sum(n for (level, _), n in moved.items() if level.startswith("dram_"))


def engines_table(result: Result) -> Table:
    """Tabulate where the cycles of each engine went, in percent."""
    engines, cycles = result.run.engines, result.run.cycles
    totals: Counter[str] = Counter()
    for engine in engines.values():
        totals.update(engine.stalls)
    causes = [cause for cause, n in totals.most_common() if n]
    table = make_table(("engine",), ("busy", "idle", *(c.replace("_", "\n") for c in causes)))
    for name, engine in engines.items():
        parts = [engine.busy, engine.idle, *(engine.stalls.get(cause, 0) for cause in causes)]
        add_row(table, [name, *(share_text(n / cycles) if n else "" for n in parts)])
    return table


def channels_line(result: Result) -> str:
    """Return how busy each channel was."""
    served = result.run.served_cycles.items()
    parts = [f"{name} {share_text(n / result.run.cycles)}" for name, n in served]
    return f"channels busy: {', '.join(parts)}"


def buffer_line(result: Result) -> str:
    """Return how much of the buffer was in use."""
    room = bytes_text(result.accelerator.buffer.capacity_bytes)
    return (
        f"buffer: peak {bytes_text(result.run.peak_buffer_bytes)}, "
        f"reserved {bytes_text(result.reserved_bytes)} of {room}"
    )


def size_line(result: Result) -> str:
    """Return how large the accelerator is, and the average power of the run."""
    energy = energy_pj(result.run, result.accelerator)
    found = area_and_power(result.accelerator, energy, result.run.cycles)
    by_part, mm2 = found["area_um2"], found["area_mm2"]
    every = sum(by_part.values())
    parts = [f"{part} {short_share_text(um2 / every)}" for part, um2 in by_part.items() if every]
    notes = [f"{one} is unlimited" for one in area_of(result.accelerator).unlimited]
    power, chip = power_text(found["power_mw"]), power_text(found["chip_power_mw"])
    area = f"area: {area_text(mm2)} ({', '.join(notes or parts)})"
    return f"{area}; power: {power}, on the chip {chip}"


def bound_line(result: Result) -> str:
    """Return what the run moves with DRAM, and what any mapping with its groups has to."""
    return dram_text(dram_bytes(result.run.moved), floor_json(result.floor))


def dram_text(moved: int, bound: Mapping[str, int | None]) -> str:
    """Return what is moved with DRAM, and what has to be, in words."""
    return (
        f"DRAM: moves {bytes_text(moved)}, at least {bytes_text(bound['least_bytes'])} with "
        f"{bytes_text(bound['on_chip_bytes'])}, {bytes_text(bound['compulsory_bytes'])} compulsory"
    )


def against_bound(result: Result) -> str:
    """Return the machine's cycles beside those that no run is below, and what the others are."""
    predicted, cycles = result.prediction, result.run.cycles
    time = seconds_text(result.accelerator.seconds(cycles))
    largest = max(predicted.bound_terms, key=lambda name: predicted.bound_terms[name])
    lead = (
        f"simulated {cycles_text(cycles)} cycles ({time}), "
        f"at least {cycles_text(predicted.bound_cycles)} ({largest})"
    )
    return f"{lead}: {waiting_text(result.run, predicted.bound_terms)}"


def waiting_text(run: Run | OperatorRun, terms: Mapping[str, int]) -> str:
    """Return the cycles beyond a bound in percent, by the causes that have the most of them."""
    causes = waiting_by_cause(run, terms)
    if not causes:
        return "no cycle more"
    largest = list(causes.items())[:_MOST_CAUSES]
    unit = computing_unit(run)
    shown = ", ".join(
        f"{f'{unit} {cause}' if cause in OF_UNIT else cause} {fine_share_text(n / run.cycles)}"
        for at, (cause, n) in enumerate(largest)
        if not at or n / run.cycles >= _SMALLEST_WAIT
    )
    return f"the other {fine_share_text(sum(causes.values()) / run.cycles)} is {shown}"


def cost_line(result: Result) -> str:
    """Return what the run cost."""
    events = cycles_text(result.run.events)
    return f"{events} events in {seconds_text(result.wall_seconds)} of wall time"


def checked_table(found: Sequence[OperatorCheck]) -> Table:
    """Tabulate what a check compared."""
    table = make_table(("checked operator",), ("compared", "of elements", "largest deviation"))
    for one in found:
        deviation = f"{one.deviation:.1e}" if one.compared else "stays on chip"
        figures = (cycles_text(one.compared), cycles_text(one.elements), deviation)
        add_row(table, (one.operator, *figures))
    return table
