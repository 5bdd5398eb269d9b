"""The page of an explanation: tables and lines for a terminal, JSON, and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

from simaccel.diagnosis.disagreement import TOLERANCE, Disagreement
from simaccel.diagnosis.explanation import ON_CHIP, GroupExplanation, NeededRate, Reuse
from simaccel.experiment.run import ExperimentResult, bound_json, floor_json
from simaccel.hardware.memory import dram_bytes
from simaccel.maestro.analysis.dimensions import Dimension
from simaccel.report.layout import add_row, make_table
from simaccel.report.results import SMALLEST_SHARE
from simaccel.report.units import bytes_text, cycles_text, error_text, share_text, short_share_text
from simaccel.units import cause_text

if TYPE_CHECKING:
    from rich.table import Table

_TOP_CAUSES = 3
_AT_A_LEVEL = ("stays", "summed", "again", "returns")
"""What a dimension does to a tensor in the memory that is named after it."""
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
  color: #1b1b1f; background: #fff; }}
h1 {{ font-size: 1.3rem; }} h2 {{ font-size: 1.05rem; margin-top: 2rem; }}
div {{ overflow-x: auto; }} table {{ border-collapse: collapse; }}
svg {{ width: 100%; max-width: 62rem; height: auto; }}
th, td {{ padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; }}
th {{ border-bottom: 1px solid #1b1b1f; }} td {{ border-bottom: 1px solid #e3e3e8; }}
.n {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


@dataclass(frozen=True)
class PageSection:
    """One table of the page: its title, its columns (texts, figures, texts that wrap), its rows."""

    title: str
    texts: tuple[str, ...]
    figures: tuple[str, ...]
    wrapped: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def table(self) -> Table:
        """Return it for a terminal."""
        found = make_table(self.texts, self.figures, self.wrapped)
        for row in self.rows:
            add_row(found, row)
        return found

    def html(self) -> str:
        """Return it as HTML; all texts escaped."""
        figures = range(len(self.texts), len(self.texts) + len(self.figures))

        def row(cells: Sequence[str], tag: str) -> str:
            marks = (' class="n"' if at in figures else "" for at in range(len(cells)))
            pairs = zip(cells, marks, strict=True)
            return "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in pairs)

        head = row((*self.texts, *self.figures, *self.wrapped), "th")
        body = "\n".join(f"<tr>{row(cells, 'td')}</tr>" for cells in self.rows)
        table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
        return f"<h2>{escape(self.title)}</h2>\n<div>{table}</div>"


def explanation_sections(explained: Sequence[GroupExplanation]) -> list[PageSection]:
    """Return the tables: the analyses, their differences, reuse, needs, directives."""
    return [
        PageSection(
            "machine, bound, directives",
            ("group",),
            (
                *("simulated", "bound", "of it", "directives", "error"),
                *("DRAM", "DRAM bound", "compulsory"),
            ),
            ("busiest", "stalls"),
            tuple(map(_analyses, explained)),
        ),
        PageSection(
            f"where the analyses disagree (cycles by more than {TOLERANCE:.0%}, bytes by any)",
            ("group", "by", "figure"),
            ("machine", "analysis", "difference"),
            ("the assumption that differs, and its share of the machine's cycles",),
            tuple(
                _disagreement_cells(group, each)
                for group in explained
                for each in group.disagreements
            ),
        ),
        PageSection(
            "directives: reuse by dimension",
            ("operator", "directive"),
            ("steps",),
            ("tensors",),
            tuple(_dimension_row(each) for group in explained for each in group.dimensions),
        ),
        PageSection(
            "directives: how often an element is used",
            ("group", "tensor"),
            (
                "DRAM",
                "DRAM by directives",
                "per byte in buffer",
                "MACs per element sent",
                "per sum back",
                "multicast",
            ),
            (),
            tuple(_reuse_row(group, each) for group in explained for each in group.reuse),
        ),
        PageSection(
            "directives: what each level needs, in bytes per cycle of computing (of what it has)",
            ("group",),
            ("footprint", *_levels(explained), "buffer read", "write", "NoC in", "out"),
            (),
            tuple(map(_needs_row, explained)),
        ),
        PageSection(
            "directives: time",
            ("group",),
            ("cycles", "of them NoC"),
            ("the directives, or why there are none",),
            tuple(row for group in explained for row in _runtime_rows(group)),
        ),
    ]


def explanation_html(
    title: str,
    explained: Sequence[GroupExplanation],
    sections: Sequence[PageSection],
    lines: Sequence[str],
) -> str:
    """Return the page as one HTML document that needs nothing else: figures, summary, tables."""
    from simaccel.report.figures.analyses import draw_analyses
    from simaccel.report.figures.shares import draw_shares, shared_groups
    from simaccel.report.figures.style import style, svg_text

    with style():
        pictures = [svg_text(draw_analyses(explained))]
        if rows := shared_groups(explained):
            pictures.append(svg_text(draw_shares(rows)))
    summary = (f"<p>{escape(line)}</p>" for line in lines)
    first, *others = [f"<div>{picture}</div>" for picture in pictures]
    body = [first, *summary, *others, *(section.html() for section in sections if section.rows)]
    return _PAGE.format(title=escape(title), body="\n".join(body))


def explanation_json(
    result: ExperimentResult, explained: Sequence[GroupExplanation]
) -> dict[str, Any]:
    """Return the page as one JSON object."""
    return {
        "workload": result.workload.name,
        "accelerator": result.accelerator.name,
        "dataflow": result.mapping.dataflow,
        "tolerance": {"cycles": TOLERANCE, "bytes": 0},
        "cycles": result.run.cycles,
        **bound_json(result.prediction, result.run),
        "dram_bytes": dram_bytes(result.run.moved),
        "dram_bound": floor_json(result.floor),
        "groups": [_group_json(group) for group in explained],
    }


# -- rows


def _analyses(group: GroupExplanation) -> tuple[str, ...]:
    cycles = group.run.cycles
    shares = [(cause, n / cycles) for cause, n in group.stalls[:_TOP_CAUSES]]
    stalls = [f"{cause_text(c)} {short_share_text(n)}" for c, n in shares if n >= SMALLEST_SHARE]
    shared = f" ({'+'.join(group.together)})" if len(group.together) > 1 else ""
    return (
        group.run.name,
        cycles_text(cycles),
        cycles_text(group.prediction.bound_cycles),
        share_text(group.prediction.bound_cycles / cycles),
        *_runtime_cells(group),
        bytes_text(group.dram_bytes),
        bytes_text(group.floor.least_bytes) + shared,
        bytes_text(group.floor.compulsory_bytes),
        group.prediction.bound_by,
        f"{group.unit}: {', '.join(stalls) or 'hardly any'}",
    )


def _runtime_cells(one: GroupExplanation) -> tuple[str, str]:
    told, cycles = one.directives.cycles, one.run.cycles
    if told is None:
        return "-", "-"
    return cycles_text(told), error_text((told - cycles) / cycles)


def _reuse_row(one: GroupExplanation, each: Reuse) -> tuple[str, ...]:
    ratios = (each.buffer, each.array, each.sums, each.multicast)
    told = "-" if each.directives_bytes is None else bytes_text(each.directives_bytes)
    return (one.run.name, each.tensor, bytes_text(each.dram_bytes), told, *map(_ratio, ratios))


def _dimension_row(one: Dimension) -> tuple[str, ...]:
    shown = not one.in_space
    told = [
        f"{each.tensor} {each.effect}" + f" ({each.level})" * (shown and each.effect in _AT_A_LEVEL)
        for each in one.couplings
    ]
    return (one.operator, one.directive, f"{one.steps:,}", ", ".join(told))


def _ratio(ratio: Fraction | None) -> str:
    return "-" if ratio is None else f"{float(ratio):,.2f}"


def _levels(explained: Sequence[GroupExplanation]) -> list[str]:
    """Name the DRAM, and memories beside it."""
    names = [each.level for one in explained[:1] for each in one.needs]
    beside = [name for name in names if name not in ("dram", *ON_CHIP)]
    return ["DRAM", *(f"{name} memory" for name in beside)]


def _needs_row(one: GroupExplanation) -> tuple[str, ...]:
    return (one.run.name, bytes_text(one.prediction.buffer_bytes), *map(_need_text, one.needs))


def _need_text(need: NeededRate) -> str:
    offered = "unlimited" if need.offered is None else f"{float(need.offered):,.1f}"
    return f"{float(need.needed):,.1f} of {offered}"


def _runtime_rows(group: GroupExplanation) -> list[tuple[str, ...]]:
    """Return a row for a group, and one for each of its operators with figures of its own."""
    said = group.directives
    times = said.operators
    memory = f"the bytes of {said.memory}" if said.memory else ""
    if len(times) == 1:
        (each,) = times
        texts = (memory, each.written, said.silent)
        return [_time_row(group.run.name, said.cycles, each.transfers, texts)]
    rows = [_time_row(group.run.name, said.cycles, None, (memory, said.written, said.silent))]
    return rows + [
        _time_row(f"  {each.operator}", each.cycles, each.transfers, (each.written, each.silent))
        for each in times
    ]


def _time_row(
    name: str, cycles: int | None, transfers: int | None, texts: Sequence[str]
) -> tuple[str, ...]:
    return (
        name,
        "-" if cycles is None else cycles_text(cycles),
        "-" if cycles is None or transfers is None else cycles_text(transfers),
        ": ".join(filter(None, texts)),
    )


def _disagreement_cells(one: GroupExplanation, each: Disagreement) -> tuple[str, ...]:
    write = bytes_text if each.unit == "bytes" else cycles_text
    by = each.other - each.machine
    share = "" if each.relative is None else f" ({share_text(each.relative)})"
    figures = (write(each.machine), write(each.other), f"{'-' * (by < 0)}{write(abs(by))}{share}")
    return (one.run.name, each.analysis, each.what, *figures, _shares_text(each))


def _shares_text(each: Disagreement) -> str:
    """Return the measured shares of a difference, in % of the machine's, or the assumption."""
    if each.unit == "bytes" or not each.shares or not each.machine:
        return each.assumption
    parts = [(one.assumption, one.amount / each.machine) for one in each.shares]
    known = [f"{text} {_sign_text(share)}" for text, share in parts if abs(share) >= SMALLEST_SHARE]
    return f"{', '.join(known)}; unexplained {_sign_text(each.rest / each.machine)}".lstrip("; ")


def _sign_text(share: float) -> str:
    return f"{100 * share:+.1f}%"


# -- JSON


def _group_json(group: GroupExplanation) -> dict[str, Any]:
    return {
        "name": group.run.name,
        "machine": {"cycles": group.run.cycles, "unit": group.unit, "stalls": dict(group.stalls)},
        **bound_json(group.prediction, group.run),
        "dram_bytes": group.dram_bytes,
        "dram_bound": {**floor_json(group.floor), "of_groups": list(group.together)},
        "footprint_bytes": group.prediction.buffer_bytes,
        "dimensions": [_dimension_json(each) for each in group.dimensions],
        "reuse": [_reuse_json(each) for each in group.reuse],
        "needs": {each.level: _need_json(each) for each in group.needs},
        "directives": {
            **vars(group.directives),
            "operators": [vars(each) for each in group.directives.operators],
        },
        "disagreements": [_disagreement_json(each) for each in group.disagreements],
    }


def _disagreement_json(each: Disagreement) -> dict[str, Any]:
    shares = {one.assumption: one.amount for one in each.shares}
    rest = {"unexplained": each.rest} if shares else {}
    return {**vars(each), "relative": each.relative, "shares": shares, **rest}


def _dimension_json(one: Dimension) -> dict[str, Any]:
    return {**vars(one), "couplings": [vars(each) for each in one.couplings]}


def _reuse_json(one: Reuse) -> dict[str, Any]:
    return {
        "tensor": one.tensor,
        "dram_bytes": one.dram_bytes,
        "directives_dram_bytes": one.directives_bytes,
        "reads_per_buffer_byte": _number(one.buffer),
        "macs_per_element_sent": _number(one.array),
        "macs_per_sum_back": _number(one.sums),
        "multicast": _number(one.multicast),
    }


def _need_json(one: NeededRate) -> dict[str, Any]:
    return {
        "bytes": one.n_bytes,
        "needed_bytes_per_cycle": float(one.needed),
        "offered_bytes_per_cycle": _number(one.offered),
    }


def _number(ratio: Fraction | None) -> float | None:
    return None if ratio is None else float(ratio)
