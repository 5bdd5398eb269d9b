"""Tables of one run: operators, engines, and the machine against its bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simaccel.analytic.memories import dram_by_class, reformed_dram_bytes
from simaccel.diagnosis.limits import OF_UNIT, Row, computing_unit, waiting_by_cause
from simaccel.diagnosis.own_estimate import TOTAL
from simaccel.diagnosis.what_if import WORTH_A_CHANGE, LimitSpeedups
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_and_power, area_of
from simaccel.hardware.cores import without_core
from simaccel.hardware.memory import dram_bytes
from simaccel.machine.machine import OperatorRun, Run
from simaccel.report.rows import operator_rows, user_estimate_figures
from simaccel.report.tables import Column, Table, figure_columns, tabulate
from simaccel.report.units import (
    bytes_text,
    count_text,
    energy_text,
    error_text,
    figure_text,
    fine_share_text,
    heading_text,
    seconds_text,
    short_share_text,
    terms_text,
)
from simaccel.study.experiment import (
    ExperimentResult,
    energy_pj,
    floor_json,
    row_terms,
    total_energy_pj,
)
from simaccel.units import ARRAY, LIMITS, LOADING, cause_text
from simaccel.workload.roles import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simaccel.diagnosis.check import OperatorCheck

TOP = 10
"""Default number of rows of a table."""
_TOP_CAUSES = 2
_MUCH = 0.25
"""Share of a memory from which a line reports it."""
_SHARES = dict.fromkeys(("dram_latency", "drain", "idle", "start"), "waiting")
"""Phrases for the share of a limit that is not a busy resource."""
_MOST_CAUSES = 3
_SMALLEST_WAIT = 0.00005
SMALLEST_SHARE = 0.0005
"""Smallest share of the cycles that a row mentions."""


_ESTIMATES: Final = (
    Column("estimate", "estimate_cycles", "cycles", missing=""),
    Column("error", "estimate_error", error_text, missing=""),
)
_OPERATOR: Final = Column("operator", "operator", kind="name")
_COLUMNS: Final = (
    *figure_columns("cycles", "seconds", "utilisation", "dram_bytes", "energy_pj"),
    Column("limit", "limit", LIMITS.__getitem__, "text"),
)


def operators_table(
    result: ExperimentResult, estimates: Mapping[str, float] | None = None, top: int | None = TOP
) -> Table:
    """Tabulate the rows that take longest, the remaining ones together, and the total.

    ``estimates``: the user's, shown with their errors. ``top``: number of rows (None: all).
    """
    run, every = result.run, operator_rows(result, estimates)
    every.sort(key=lambda row: -row["cycles"])
    rows = every[:top]
    if rest := every[len(rows) :]:
        rows.append(_join_rows(rest, result.accelerator))
    total = {
        "operator": "total",
        "cycles": run.cycles,
        "seconds": result.accelerator.seconds(run.cycles),
        "utilisation": result.utilisation,
        "dram_bytes": dram_bytes(run.moved),
        "energy_pj": total_energy_pj(run, result.accelerator),
        "limit": result.limit.name,
    }
    columns = [_OPERATOR, *_COLUMNS]
    if estimates:
        own = [estimates.get(operator.name) for operator in run.operators]
        known = None if None in own else sum(n for n in own if n is not None)
        total |= user_estimate_figures(estimates.get(TOTAL, known), run.cycles)
        columns[1:1] = _ESTIMATES
    return tabulate(rows, columns, total)


def _join_rows(rows: Sequence[dict[str, Any]], accelerator: Accelerator) -> dict[str, Any]:
    """Return several rows in one; what limits most of their time."""
    cycles = sum(row["cycles"] for row in rows)
    limits: Counter[str] = Counter()
    for row in rows:
        limits[row["limit"]] += row["cycles"]
    return {
        "operator": count_text(len(rows), "other"),
        "cycles": cycles,
        "seconds": accelerator.seconds(cycles),
        "utilisation": sum(row["utilisation"] * row["cycles"] for row in rows) / cycles,
        **{name: sum(row[name] for row in rows) for name in ("dram_bytes", "energy_pj")},
        "limit": limits.most_common(1)[0][0],
        **user_estimate_figures(None, cycles),
    }


def waits_table(result: ExperimentResult) -> Table:
    """Tabulate in program order the terms of each row's bound, and the waits of the array.

    The bound of a row that overlaps with others is the work of its busiest resource.
    """
    columns = (
        Column("operator", "run.name", kind="name"),
        Column("cycles", "run.cycles", "cycles"),
        Column("bound", row_terms, "cycles"),
        Column("terms of the bound", row_terms, terms_text, "wrapped"),
        Column(
            "stalls of the array",
            "run",
            lambda run: stalls_text(
                run.engines[computing_unit(run, ARRAY)].stalls, run.cycles, _TOP_CAUSES
            ),
            "wrapped",
        ),
    )
    return tabulate(result.rows, columns)


def kinds_table(result: ExperimentResult) -> Table:
    """Tabulate kinds of operators by what limits them: number, cycles and share."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in result.rows:
        key = kind_of(result.workload, row.run.name), row.limit.text
        groups.setdefault(key, []).append(row)
    whole = sum(row.cycles for row in result.rows)

    def cycles_of(kind: tuple[object, Sequence[Row]]) -> int:
        return sum(row.cycles for row in kind[1])

    columns = (
        Column("kind", lambda kind: kind[0][0], kind="text"),
        Column("limit", lambda kind: kind[0][1], kind="text"),
        Column("rows", lambda kind: len(kind[1])),
        Column("cycles", cycles_of, "cycles"),
        Column("of all", lambda kind: cycles_of(kind) / whole, "share"),
        Column("DRAM", lambda kind: sum(dram_bytes(row.run.moved) for row in kind[1]), "B"),
    )
    return tabulate(sorted(groups.items(), key=lambda kind: -cycles_of(kind)), columns)


def answer_line(result: ExperimentResult, speedups: LimitSpeedups) -> str:
    """Return the answer: time, utilisation, the limit, and the speedup without that limit."""
    run, limit, gain = result.run, result.limit, speedups.without_limit
    text = (
        f"{seconds_text(result.accelerator.seconds(run.cycles))} ({run.cycles:,} "
        f"cycles, bound {result.prediction.bound_cycles:,}) at "
        f"{result.utilisation:.1%} utilisation, limited by {_limit_text(result, speedups)} "
        f"({', '.join([*limit.fields, _SHARES.get(limit.name, 'busy')])} "
        f"{short_share_text(limit.share)} of the time)"
    )
    if gain is None:
        return text
    if speedups.wait is not None:
        better = f"without {speedups.wait.text} {speedups.without_wait:.2f} x"
        return f"{text}; without that limit {gain:.2f} x as fast, {better}"
    if gain >= WORTH_A_CHANGE:
        return f"{text}; without that limit {gain:.2f} x as fast"
    behind = speedups.next_limit
    return (
        f"{text}; without that limit alone it takes as long: {behind.text} "
        f"({short_share_text(behind.share)}) is next"
    )


def _limit_text(result: ExperimentResult, speedups: LimitSpeedups) -> str:
    """Return what limits a run: starts counted, the rate of loading an array, an SFU's latency.

    An SFU whose latency alone costs most of the time needs no more lanes.
    """
    limit, on = result.limit, result.accelerator
    if limit.name == "start":
        each = on.compiler.kernel_start_cycles
        starts = round(limit.share * result.run.cycles) // each
        return f"{count_text(starts, 'start')} of {seconds_text(on.seconds(each))}"
    if limit.name == LOADING:
        return f"{limit.text}, {on.array.cols:,} elements a cycle"
    quick, gain = speedups.without_sfu_latency, speedups.without_limit
    if quick is not None and gain is not None and quick - 1 > (gain - 1) / 2:
        cycles = count_text(on.sfu.latency_cycles, "cycle")
        return f"{limit.text}, mostly its latency of {cycles}"
    return limit.text


def traffic_line(result: ExperimentResult) -> str:
    """Return the bytes over the DRAM channels: in total, by class, and the lower bound."""
    moved = {name: n for name, n in dram_by_class(result.workload, result.run.moved).items() if n}
    parts = [f"{name} {bytes_text(n)}" for name, n in moved.items()]
    line = dram_text(dram_bytes(result.run.moved), floor_json(result.floor))
    line += f"; {', '.join(parts)}" if len(parts) > 1 else ""
    reformed = reformed_dram_bytes(result.workload, result.run.moved)
    if reformed:
        line += f"; {bytes_text(reformed)} of it for readers that need another form"
    return line


def energy_line(result: ExperimentResult) -> str:
    """Return the energy, its largest parts, and the average power."""
    energy = energy_pj(result.run, result.accelerator)
    every = sum(energy.values())
    if result.accelerator.unknown_energies or not every > 0:
        missing = result.accelerator.unknown_energies
        named = ", ".join(missing) if len(missing) == 1 else "energies"
        return f"energy: unknown, {result.accelerator.name} gives no {named}"
    largest = Counter(energy).most_common(_MOST_CAUSES)
    parts = [f"{name} {short_share_text(n / every)}" for name, n in largest if n]
    power = area_and_power(result.accelerator, energy, result.run.cycles)["power_mw"]
    return f"energy: {energy_text(every)} ({', '.join(parts)}), {figure_text(power, 'mW')}"


def answer_lines(result: ExperimentResult, speedups: LimitSpeedups) -> list[str]:
    """Return the answer, tensors that don't fit, and parts of files that are not used."""
    accounts = (result.accelerator.account, result.workload.account)
    lines = [answer_line(result, speedups)]
    for demand in result.memories:
        if demand.share >= _MUCH:
            sizes = (f"{part} {bytes_text(n)}" for part, n in demand.by_part.items() if n)
            lines.append(
                f"{'takes' if demand.fits else 'does not fit: needs'} "
                f"{bytes_text(demand.needed_bytes)} of the {bytes_text(demand.capacity_bytes)} of "
                f"{demand.memory.replace('dram', 'DRAM')}: {', '.join(sizes)}"
            )
    return [*lines, *(line for account in accounts for line in account.lines())]


def stalls_text(stalls: Mapping[str, int], cycles: int, most: int) -> str:
    """Return the ``most`` largest causes of stalls in percent of the cycles, as text."""
    shares = ((cause, n / cycles) for cause, n in Counter(stalls).most_common(most))
    return ", ".join(
        f"{cause_text(cause)} {short_share_text(share)}"
        for cause, share in shares
        if share >= SMALLEST_SHARE
    )


def engines_table(
    engines: Mapping[str, Mapping[str, int]],
    cycles: int,
    heading: str = "engine",
    *,
    counts: bool = False,
) -> Table:
    """Tabulate the activity of engines in percent of the cycles; ``counts``: and in cycles."""

    def text(engine: str, cause: str) -> str:
        n = engines[engine].get(cause, 0)
        lines = [f"{n:,}"] * counts + [f"{n / cycles:.1%}"]
        return "\n".join(lines if n else [""] * len(lines))

    columns = (
        Column(cause_heading(cause), partial(text, cause=cause))
        for cause in columns_of(engines.values())
    )
    return tabulate(engines, (Column(heading, "", kind="text"), *columns))


def columns_of(activities: Iterable[Mapping[str, int]]) -> list[str]:
    """Return the columns of activities: busy, causes of waits with the largest first, idle.

    ``activities``: cycles by cause.
    """
    sums: Counter[str] = Counter()
    for activity in activities:
        sums.update(activity)
    causes = [cause for cause, n in sums.most_common() if n and cause not in ("busy", "idle")]
    return ["busy", *causes, *["idle"] * bool(sums["idle"])]


def cause_heading(cause: str) -> str:
    """Return the heading of a cause's column."""
    return heading_text(cause_text(cause))


def channels_line(result: ExperimentResult) -> str:
    """Return the busy share of each resource, the mean of its channels."""
    from simaccel.hardware.resources import resource  # few need it

    served: dict[str, list[int]] = {}
    for name, n in result.run.served_cycles.items():
        served.setdefault(resource(name), []).append(n)
    cycles = max(1, result.run.cycles)
    parts = []
    for name, each in served.items():
        many = f" (mean of {len(each)})" if len(each) > 1 else ""
        parts.append(f"{name} {sum(each) / len(each) / cycles:.1%}{many}")
    return f"channels busy: {', '.join(parts)}"


def buffer_line(result: ExperimentResult) -> str:
    """Return how much of the buffer was used."""
    room = bytes_text(result.accelerator.buffer.capacity_bytes)
    return (
        f"buffer: peak {bytes_text(result.run.peak_buffer_bytes)}, "
        f"footprint {bytes_text(result.footprint_bytes)} of {room}"
    )


def size_line(result: ExperimentResult) -> str:
    """Return the area of the accelerator, and the average power of the run."""
    energy = energy_pj(result.run, result.accelerator)
    found = area_and_power(result.accelerator, energy, result.run.cycles)
    by_part, mm2 = found["area_um2"], found["area_mm2"]
    every = sum(by_part.values())
    parts = [f"{part} {short_share_text(um2 / every)}" for part, um2 in by_part.items() if every]
    notes = [f"{one} is unlimited" for one in area_of(result.accelerator).unlimited]
    power, chip = (figure_text(found[name], "mW") for name in ("power_mw", "chip_power_mw"))
    area = f"area: {figure_text(mm2, 'mm2')} ({', '.join(notes or parts)})"
    return f"{area}; power: {power}, on the chip {chip}"


def dram_text(moved: int, bound: Mapping[str, int | None]) -> str:
    """Return the DRAM bytes and their lower bound in words."""
    return (
        f"DRAM: {bytes_text(moved)} moved, bound of these groups "
        f"{bytes_text(bound['bound_bytes'])} with {bytes_text(bound['on_chip_bytes'])} on chip, "
        f"compulsory {bytes_text(bound['compulsory_bytes'])}"
    )


def against_bound(result: ExperimentResult) -> str:
    """Return the machine's cycles beside the lower bound, and the causes of the difference."""
    predicted, cycles = result.prediction, result.run.cycles
    time = seconds_text(result.accelerator.seconds(cycles))
    largest = max(predicted.bound_terms, key=lambda name: predicted.bound_terms[name])
    lead = f"simulated {cycles:,} cycles ({time}), bound {predicted.bound_cycles:,} ({largest})"
    return f"{lead}: {waiting_text(result.run, predicted.bound_terms)}"


def waiting_text(run: Run | OperatorRun, terms: Mapping[str, int]) -> str:
    """Return the cycles beyond a bound in percent, by their largest causes."""
    causes = waiting_by_cause(run, terms)
    if not causes:
        return "no cycle more"
    largest = list(causes.items())[:_MOST_CAUSES]
    unit = without_core(computing_unit(run))
    shown = ", ".join(
        f"{f'{cause_text(unit)} ' * (cause in OF_UNIT)}{cause_text(cause)} "
        f"{fine_share_text(n / run.cycles)}"
        for at, (cause, n) in enumerate(largest)
        if not at or n / run.cycles >= _SMALLEST_WAIT
    )
    return f"the other {fine_share_text(sum(causes.values()) / run.cycles)} is {shown}"


def cost_line(result: ExperimentResult) -> str:
    """Return the cost of the run: its wall time and events."""
    events, seconds = f"{result.run.events:,}", seconds_text(result.wall_seconds)
    searched = f", the search before it {seconds_text(result.search_seconds)}"
    return f"{events} events in {seconds} of wall time{searched if result.search_seconds else ''}"


def checked_table(checks: Sequence[OperatorCheck]) -> Table:
    """Tabulate the results of a check; of a sample, with the share of the work executed."""
    sampled = any(check.executed < 1 for check in checks)
    columns = (
        Column("operator, a sample" if sampled else "checked operator", "operator", kind="text"),
        Column("compared", "compared", "count"),
        Column("of elements", "elements", "count"),
        Column(
            "largest deviation",
            lambda check: f"{check.deviation:.1e}" if check.compared else "stays on chip",
        ),
        Column("work executed", "executed", fine_share_text),
    )
    return tabulate(checks, columns[: 4 + sampled])
