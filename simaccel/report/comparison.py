"""Tables of several runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from simaccel.report.accounts import given_up_lines
from simaccel.report.rows import stall_figures, tensors_text, user_estimate_figures, work_figures
from simaccel.report.tables import Column, Row, Table, pick, study_columns, tabulate, texts
from simaccel.report.units import count_text, error_text, figure_text, terms_text
from simaccel.study.experiment import ExperimentResult
from simaccel.study.figure_table import DRAM_FIGURES, FIGURES, Figure, ValuePath
from simaccel.study.figures import run_figures
from simaccel.study.points import Figures, StudyRow, chips_alike
from simaccel.units import ARRAY, LIMITS

SHOWN: Final = (
    *("cycles", "bound_cycles", "seconds", "utilisation", "dram_bytes", "dram_bound_bytes"),
    *("energy_pj", "power_mw"),
)
"""Figures of a run that the table has."""
FULL: Final = 0.25
"""Share of a memory from which the table says whether it holds the tensors."""
_FITS: Final = "memory_share"
"""What the column *fits* says, which also tells whether all is in memory."""
_FEW_ROWS: Final = 2
"""Rows whose losses by near-ties are printed below the table."""


def series_of(row: StudyRow) -> str:
    """Return the name of a row's series in figures: the dataflow, and what else differs."""
    on_axis = row.seq_len is None or any(one.axis.column == "seq_len" for one in row.settings)
    length = [] if on_axis else [f"{row.seq_len} tokens"]
    points = [
        point.text if point.axis.named else f"{point.axis.name} {point.text}"
        for point in row.others
    ]
    return ", ".join([row.dataflow, *points, *length])


def speedups(rows: Sequence[StudyRow]) -> list[float | None]:
    """Return each row's speedup over the first dataflow of the same point and length."""
    first: dict[tuple[object, ...], StudyRow] = {}
    found: list[float | None] = []
    for row in rows:
        base = first.setdefault(row.place, row)
        if row.result is None or base.result is None:
            found.append(None)
        else:
            found.append(float(base.result["cycles"] / row.result["cycles"]))
    return found


def comparison_table(rows: Sequence[StudyRow], metrics: Sequence[Figure] = ()) -> Table:
    """Tabulate runs; ``metrics`` are further columns.

    A run without a result has its reason in ``problem_lines``.
    """
    names, several = varied_names(rows), len({row.place for row in rows}) < len(rows)
    fits = shows_fits(rows) or any(metric.column == _FITS for metric in metrics)
    shown_figures = (*SHOWN, *["area_mm2"] * (len(areas(rows)) > 1))
    metrics = [metric for metric in metrics if metric.column not in (*shown_figures, _FITS)]
    more = zip(metrics, study_columns(*(metric.column for metric in metrics)), strict=True)
    named = {setting.axis.name for setting in rows[0].settings if setting.axis.named}
    shown = [
        {**vars(row), **_estimate_figures(row), "row": row, "speedup": faster}
        for row, faster in zip(rows, speedups(rows), strict=True)
    ]
    first, *others = study_columns(*shown_figures)
    columns = [
        *(
            Column(
                name, "row", partial(_place_text, name=name), "name" if name in named else "figure"
            )
            for name in names
        ),
        *texts("dataflow"),
        replace(first, missing="does not run"),
        *others,
        Column("limit", "result", lambda run: LIMITS[run["limit"]["name"]], "text"),
        *[Column("fits", "row", fits_text)] * fits,
        *(replace(column, heading=metric.name) for metric, column in more),
        *_ESTIMATES * has_given(rows),
        *[Column("speedup", "speedup", "{:.2f} x".format)] * several,
    ]
    return tabulate(shown, columns, apart=lambda run: run["row"].place if several else None)


_ESTIMATES: Final = (
    Column("estimate", "estimate_cycles", "cycles"),
    Column("error", "estimate_error", error_text),
)


def has_given(rows: Sequence[StudyRow]) -> bool:
    """Return whether any row has a user's estimate."""
    return any(row.estimate_cycles is not None for row in rows)


def _estimate_figures(row: StudyRow) -> Row:
    cycles = None if row.result is None else row.result["cycles"]
    return user_estimate_figures(row.estimate_cycles, cycles)


def shows_fits(rows: Sequence[StudyRow]) -> bool:
    """Return whether a memory is so full that the table has a column on whether tensors fit."""
    return any(row.fits is False or (row.memory_share or 0.0) >= FULL for row in rows)


def fits_text(row: StudyRow) -> str:
    """Return whether the memories of a chip hold the tensors, and how full the fullest is."""
    if row.fits is None or row.memory_share is None:
        return "-" if row.fits is None else "no"
    percent = math.ceil(round(100 * row.memory_share, 6))
    return f"{'yes' if row.fits else 'no'}, {percent:,}%"


def _consists(result: dict[str, Any]) -> str:
    bound = result["bound"]
    parts = {"bound": bound["terms"], "waits": bound["waiting_by_cause"]}
    return "; ".join(
        f"{what} {sum(cycles.values()):,}" + (f" = {terms_text(cycles)}" if cycles else "")
        for what, cycles in parts.items()
    )


def area_lines(rows: Sequence[StudyRow]) -> list[str]:
    """Return the area of the accelerator, if all rows have the same; else it is a column."""
    found = areas(rows)
    return [
        f"area: {figure_text(mm2, 'mm2')}" + f" ({chips} chips)" * (chips > 1 and mm2 is not None)
        for mm2, chips in found
        if len(found) == 1
    ]


def areas(rows: Sequence[StudyRow]) -> set[tuple[float | None, int]]:
    """Return the different areas of what ran, each with the number of its chips."""
    return {(row.figures["area_mm2"], row.chips) for row in rows if row.figures is not None}


def varied_names(rows: Sequence[StudyRow]) -> list[str]:
    """Return the parameters that differ between rows, such as the swept one and the length.

    Not the dataflow, and not a length that all rows of a sweep share, which the title has.
    """
    point = rows[0].lead
    names = [setting.axis.name for setting in rows[0].settings]
    lengths = {row.seq_len for row in rows}
    shown = lengths != {None} if point is None else len(lengths) > 1
    return names + ["seq-len"] * (shown and "seq-len" not in names)


def _place_text(row: StudyRow, name: str) -> str:
    texts = (point.text for point in row.settings if point.axis.name == name)
    return next(texts, str(row.seq_len))


def _run_text(row: StudyRow, names: Sequence[str]) -> str:
    return ", ".join((*(_place_text(row, name) for name in names), row.dataflow))


def note_lines(rows: Sequence[StudyRow]) -> list[str]:
    """Return lines on single rows: terms of user's estimates, chips, losses by near-ties.

    Of the losses those of the first rows, and the number of further ones.
    """
    names, notes, losses = varied_names(rows), list[str](), list[str]()
    for row in (row for row in rows if row.result is not None):
        where, result = _run_text(row, names), row.run
        if row.estimate_cycles is not None:
            own = f"estimate {round(row.estimate_cycles):,}"
            notes.append(f"{where}: {own}; {_consists(result)}")
        if (used := chips_alike(result)) < row.chips:
            notes.append(f"{where}: {used} of {row.chips} chips work, the others are idle")
        elif not result.get("cut", True):
            notes.append(f"{where}: each of {row.chips} chips does all of it")
        losses += [f"{where}: {line}" for line in given_up_lines(result, row.tolerance)]
    if len(losses) > _FEW_ROWS:
        more = count_text(len(losses) - _FEW_ROWS, "more row")
        losses[_FEW_ROWS:] = [f"... and {more}: --json has given_up"]
    return [*notes, *losses]


def problem_lines(rows: Sequence[StudyRow]) -> list[str]:
    """Return why runs have no result; of a sweep, the first reason of each dataflow and length."""
    names = varied_names(rows)
    point = rows[0].lead
    lengths_are_points = point is not None and point.axis.column == "seq_len"
    failed: dict[tuple[str, int | None], list[StudyRow]] = {}
    for row in rows:
        if row.problem:
            length = None if lengths_are_points else row.seq_len
            failed.setdefault((row.dataflow, length), []).append(row)
    lines = []
    for first, *others in failed.values():
        places = [f"{f'{name} ' * (name != 'seq-len')}{_place_text(first, name)}" for name in names]
        more = f" and at {len(others)} more" * bool(others)
        where = f" at {', '.join(places)}{more}" * bool(places)
        lines.append(f"{first.dataflow}{where}: {first.problem}")
    return lines


def place_json(row: StudyRow) -> dict[str, Any]:
    """Return the key of a row: the values of the sweep, the length, the dataflow."""
    swept = {point.axis.column: point.value for point in row.settings}
    return {**swept, "seq_len": row.seq_len, "dataflow": row.dataflow}


def comparison_json(rows: Sequence[StudyRow]) -> list[dict[str, Any]]:
    """Return the rows as a list (the format of ``simaccel compare --json``)."""
    own = has_given(rows)
    return [
        {**place_json(row), **pick(row, "problem", "exit_code", "fits")}
        if row.result is None
        else {**row.result, **place_json(row), **_extra_columns(row, faster, own=own)}
        for row, faster in zip(rows, speedups(rows), strict=True)
    ]


def _extra_columns(row: StudyRow, faster: float | None, *, own: bool) -> Row:
    """Return a row's columns beside those of its run: tokens, memory, speedup, user's estimate."""
    figures = row.figures or dict.fromkeys(FIGURES)
    tokens = {name: figures[name] for name in ("tokens_per_second", "energy_per_token_pj")}
    given = _estimate_figures(row) if own else {}
    return {**tokens, "fits": row.fits, "speedup": faster, **given}


def comparison_rows(rows: Sequence[StudyRow], metrics: Sequence[Figure] = ()) -> list[Row]:
    """Return a CSV row for each run; missing values are None.

    The first columns are the settings. ``array_*_cycles`` divide the cycles of the array by cause
    and sum to ``cycles``. There are no wall times, so the same input gives the same rows.
    ``metrics``: further columns. The user's estimates and their errors stand before ``problem``.
    """
    table = []
    for row, faster in zip(rows, speedups(rows), strict=True):
        last = _extra_columns(row, faster, own=has_given(rows)) | {"problem": row.problem or None}
        columns = {**place_json(row), **_run_columns(row), **last}
        for metric in metrics:
            columns.setdefault(metric.column, (row.figures or {}).get(metric.column))
        table.append(columns)
    return table


def _of_figures(*names: str) -> dict[str, ValuePath]:
    return {name: f"figures.{name}" for name in names}


_COLUMNS: Final[Mapping[str, ValuePath]] = {
    **_of_figures("cycles", "seconds"),
    "macs": "result.macs",
    "utilisation": "result.utilisation",
    "limit": "result.limit.name",
    **_of_figures(*DRAM_FIGURES),
    "dram_by_tensor": lambda row: tensors_text(row.result["bytes"]["dram"]),
    **_of_figures("energy_pj", "area_mm2", "power_mw", "chip_power_mw"),
    "peak_buffer_bytes": "result.peak_buffer_bytes",
    **_of_figures("bound_cycles"),
    "waiting_cycles": "result.bound.waiting_cycles",
    "array_busy_cycles": f"result.engines.{ARRAY}.busy",
    "array_idle_cycles": f"result.engines.{ARRAY}.idle",
}
"""Columns in order, followed by the stalls of the array and the work of each resource."""


def _run_columns(row: StudyRow) -> Row:
    if row.result is None:
        return dict.fromkeys((*_COLUMNS, *stall_figures({})))
    stalls = row.run["engines"][ARRAY]["stalls"]
    return {
        **pick(row, **_COLUMNS),
        **stall_figures(stalls),
        **work_figures(row.run["work_cycles"]),
    }


_OF_DESIGNS: Final = ("cycles", "dram_bytes", "energy_pj", "area_mm2")


def designs_table(result: ExperimentResult, rows: Sequence[StudyRow]) -> Table:
    """Tabulate the run as it is, and each design with its speedup over it."""
    cycles, *others = study_columns(*_OF_DESIGNS)
    columns = (
        Column("what if", "text", kind="text"),
        cycles,
        Column("speedup", lambda row: _speedup(result, row["figures"]), "{:.3f} x".format),
        *others,
        Column("note", "problem", kind="wrapped"),
    )
    base = {"text": "the run as it is", "figures": run_figures(result), "problem": ""}
    return tabulate([base, *({**vars(row), "text": row.settings[0].text} for row in rows)], columns)


def _speedup(result: ExperimentResult, design: Figures | None) -> float | None:
    cycles = None if design is None else design["cycles"]
    return None if cycles is None else result.run.cycles / cycles


def designs_json(result: ExperimentResult, rows: Sequence[StudyRow]) -> dict[str, Any]:
    """Return the designs as JSON: fields, figures and speedup, or the problem; empty if none."""
    documents = []
    for row in rows:
        held = row.settings[0].fields.get("stationarity")
        fields = {} if held else dict(row.settings[0].fields)
        figures: dict[str, Any] = {"problem": row.problem}
        if row.figures is not None:
            figures = {name: row.figures[name] for name in _OF_DESIGNS}
            figures["speedup"] = _speedup(result, row.figures)
        named = {"text": row.settings[0].text, "fields": fields, "stationarity": held}
        documents.append(named | figures)
    return {"designs": documents} if documents else {}
