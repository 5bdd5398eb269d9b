"""The page of an explanation: tables and lines for a terminal, JSON, and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import Any, Final

from simaccel.hardware.cores import without_core
from simaccel.hardware.memory import dram_bytes
from simaccel.papers.maestro.commands.disagreement import TOLERANCE, Disagreement, RepeatedTransfer
from simaccel.papers.maestro.commands.explanation import ON_CHIP, GroupExplanation
from simaccel.papers.maestro.commands.explanation_figures import (
    draw_analyses,
    draw_shares,
    share_name,
    shared_groups,
)
from simaccel.report.results import SMALLEST_SHARE, stalls_text
from simaccel.report.tables import Column, Row, Table, page_html, pick, table_html, tabulate, texts
from simaccel.report.units import bytes_text, error_text
from simaccel.report.verdict import engine_text
from simaccel.study.experiment import ExperimentResult, bound_json, floor_json
from simaccel.units import cause_text

_TOP_CAUSES = 3
_ON_CHIP = ("buffer read", "write", "NoC in", "out")
_AT_A_LEVEL = ("stays", "summed", "again", "returns")
"""Effects of a dimension on a tensor in a memory level."""


def explanation_sections(explained: Sequence[GroupExplanation]) -> dict[str, Table]:
    """Return the tables: the analyses, their differences, reuse, needs, directives."""
    groups = [_group_json(group) for group in explained]
    group = Column("group", "group", kind="text")
    differences = (row for each in explained for row in _disagreement_rows(each))
    return {
        "machine, bound, directives": tabulate(groups, _ANALYSES),
        f"where the analyses disagree (cycles by more than {TOLERANCE:.0%}, bytes by any)": (
            tabulate(differences, _DISAGREEMENTS)
        ),
        "directives: reuse by dimension": tabulate(
            (row for document in groups for row in document["dimensions"]), _DIMENSIONS
        ),
        "directives: how often an element is used": tabulate(
            ({"group": each["name"], **row} for each in groups for row in each["reuse"]),
            (group, *_REUSE),
        ),
        "directives: what each level needs, in bytes per cycle of computing (of what it has)": (
            tabulate(groups, _need_columns(groups))
        ),
        "directives: time": tabulate(
            (row for each in explained for row in _time_rows(each)), _TIME
        ),
    }


def explanation_html(
    title: str,
    explained: Sequence[GroupExplanation],
    sections: Mapping[str, Table],
    lines: Sequence[str],
) -> str:
    """Return the page as one self-contained HTML document: figures, summary, tables."""
    from simaccel.report.figures.style import style, svg_text

    with style():
        pictures = [svg_text(draw_analyses(explained))]
        if rows := shared_groups(explained):
            pictures.append(svg_text(draw_shares(rows)))
    summary = (f"<p>{escape(line)}</p>" for line in lines)
    first, *others = [f"<div>{picture}</div>" for picture in pictures]
    tables = (
        f"<h2>{escape(title)}</h2>\n<div>{table_html(table)}</div>"
        for title, table in sections.items()
        if table.row_count
    )
    return page_html(title, "\n".join([first, *summary, *others, *tables]))


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


def _stalls_text(machine: Row) -> str:
    stalls = stalls_text(machine["stalls"], machine["cycles"], _TOP_CAUSES)
    return f"{machine['unit']}: {stalls or 'hardly any'}"


def _bound_text(bound: Row) -> str:
    shared = f" ({'+'.join(bound['of_groups'])})" if len(bound["of_groups"]) > 1 else ""
    return bytes_text(bound["bound_bytes"]) + shared


def _error_of(group: Row) -> str:
    predicted, cycles = group["directives"]["cycles"], group["machine"]["cycles"]
    return "-" if predicted is None else error_text((predicted - cycles) / cycles)


_ANALYSES: Final = (
    Column("group", "name", kind="text"),
    Column("simulated", "machine.cycles", "cycles"),
    Column("bound", "bound.cycles", "cycles"),
    Column("of it", lambda one: one["bound"]["cycles"] / one["machine"]["cycles"], "share"),
    Column("directives", "directives.cycles", "cycles"),
    Column("error", _error_of),
    Column("DRAM", "dram_bytes", "B"),
    Column("DRAM bound", "dram_bound", _bound_text),
    Column("compulsory", "dram_bound.compulsory_bytes", "B"),
    Column("busiest", "bound.by", kind="wrapped"),
    Column("stalls", "machine", _stalls_text, "wrapped"),
)
_DISAGREEMENTS: Final = (
    *texts("group", "by", "figure"),
    *(Column(name, name) for name in ("machine", "analysis", "difference")),
    Column(
        "the assumption that differs, and its share of the machine's cycles",
        "assumption",
        kind="wrapped",
    ),
)
_REUSE: Final = (
    *texts("tensor"),
    Column("DRAM", "dram_bytes", "B"),
    Column("DRAM by directives", "directives_dram_bytes", "B"),
    Column("per byte in buffer", "reads_per_buffer_byte", "{:,.2f}".format),
    Column("MACs per element sent", "macs_per_element_sent", "{:,.2f}".format),
    Column("per sum back", "macs_per_sum_back", "{:,.2f}".format),
    Column("multicast", "multicast", "{:,.2f}".format),
)
_TIME: Final = (
    Column("group", "group", kind="text"),
    Column("cycles", "cycles", "cycles"),
    Column("of them NoC", "transfers", "cycles"),
    Column(
        "the directives, or why there are none",
        "said",
        lambda parts: ": ".join(filter(None, parts)),
        "wrapped",
    ),
)


def _couplings_text(dimension: Row) -> str:
    return ", ".join(
        f"{each['tensor']} {each['effect']}"
        + f" ({each['level']})" * (not dimension["in_space"] and each["effect"] in _AT_A_LEVEL)
        for each in dimension["couplings"]
    )


_DIMENSIONS: Final = (
    *texts("operator", "directive"),
    Column("steps", "steps", "count"),
    Column("tensors", _couplings_text, kind="wrapped"),
)


def _need_columns(groups: Sequence[Row]) -> Iterator[Column]:
    """Yield columns for DRAM, memories beside it, and the levels on the chip."""
    yield Column("group", "name", kind="text")
    yield Column("footprint", "footprint_bytes", "B")
    heads = {"dram": "DRAM", **dict(zip(ON_CHIP, _ON_CHIP, strict=True))}
    for level in groups[0]["needs"] if groups else ():
        yield Column(heads.get(level, f"{level} memory"), f"needs.{level}", _need_text)


def _need_text(need: Row) -> str:
    offered = need["offered_bytes_per_cycle"]
    most = "unlimited" if offered is None else f"{offered:,.1f}"
    return f"{need['needed_bytes_per_cycle']:,.1f} of {most}"


def _time_rows(group: GroupExplanation) -> Iterator[Row]:
    """Yield a row for a group, and one for each of its operators with figures of its own."""
    directives, times = group.directives, group.directives.operators
    only = times[0] if len(times) == 1 else None
    memory = f"the bytes of {directives.memory}" if directives.memory else ""
    yield {
        "group": group.run.name,
        "cycles": directives.cycles,
        "transfers": only.transfers if only and directives.cycles is not None else None,
        "said": (memory, (only or directives).written, directives.silent),
    }
    for each in () if only else times:
        row = {"group": f"  {each.operator}", "said": (each.written, each.silent)}
        yield row | pick(each, "cycles", "transfers")


def _disagreement_rows(group: GroupExplanation) -> Iterator[Row]:
    for each in group.disagreements:
        write = bytes_text if each.unit == "bytes" else "{:,}".format
        by = each.other - each.machine
        share = "" if each.relative is None else f" ({each.relative:.1%})"
        yield {
            "group": group.run.name,
            **pick(each, by="analysis", figure="what"),
            "machine": write(each.machine),
            "analysis": write(each.other),
            "difference": f"{'-' * (by < 0)}{write(abs(by))}{share}",
            "assumption": _shares_text(group, each),
        }


_REASONS: Final = {
    "overlap": "the bound is of the group alone; here it overlaps others",
    "mistake": "none: both count the same loops, so this is an error in simaccel",
    "description": "the directives charge the first fill at each invocation of a cluster, overlap "
    "everything else without limits of slots and know no DRAM latency; the machine's tiles stay "
    "where they are",
    "loops": "the directives multiply pieces of the loops outside of a tile by what it leaves; "
    "what stays from elsewhere, or is padded, they don't see",
}


def assumption_text(group: GroupExplanation, each: Disagreement) -> str:
    """Return the assumption of the analysis that differs from what the machine does."""
    if each.reason == "waits":
        terms = (f"{name} {n:,}" for name, n in group.prediction.bound_terms.items())
        return f"no wait beside the bound's own terms: {', '.join(terms)}"
    if each.reason == "tree":
        return _tree_assumption(group)
    if each.reason != "floor":
        return _REASONS[each.reason]
    assumed = "tiles of the best shape for all memory on chip, whatever the loops"
    if group.floor.least_bytes == group.floor.compulsory_bytes:
        assumed = "that a tensor between two groups crosses once, however little memory there is"
    repeated = [share for share in each.shares if isinstance(share.assumption, RepeatedTransfer)]
    texts = "; ".join(map(share_name, repeated))
    cause = f"the mapping moves {texts}" if repeated else "no tensor crosses twice"
    return f"the bound assumes {assumed}; {cause}"


def _tree_assumption(group: GroupExplanation) -> str:
    """Return what the directives of a tree assume, and what its unit waits for in this run."""
    directives = group.directives
    charged = f"the directives take the bytes of {directives.memory} at its full rate"
    if not directives.memory:
        transfers = sum(operator.transfers or 0 for operator in directives.operators)
        every = sum(operator.cycles or 0 for operator in directives.operators)
        share = f"{100 * transfers / max(1, every):.0f}% of their cycles"
        charged = f"the directives charge the first fill of each block again ({share})"
    folds = "skew or preload of a fold, no " if directives.folds else ""
    assumed = [charged, f"hide all else; know no {folds}slots, no DRAM latency"]
    assumed += ["run one operator after the other"] * (len(directives.operators) > 1)
    cause, cycles = next(iter(group.stalls), ("", 0))
    waits = f"waits {cycles:,} cycles for {cause_text(cause)}" if cycles else "never waits"
    return f"{'; '.join(assumed)} ({engine_text(group.unit)} {waits})"


def _shares_text(group: GroupExplanation, each: Disagreement) -> str:
    """Return the measured shares of a difference, in % of the machine's, or the assumption."""
    if each.unit == "bytes" or not each.shares or not each.machine:
        return assumption_text(group, each)
    parts = [(share_name(one), one.amount / each.machine) for one in each.shares]
    known = [f"{text} {share:+.1%}" for text, share in parts if abs(share) >= SMALLEST_SHARE]
    return f"{', '.join(known)}; unexplained {each.rest / each.machine:+.1%}".lstrip("; ")


# -- JSON


def _data(thing: object) -> dict[str, Any]:
    """Return the fields of an object as plain data."""
    fields = vars(thing).items()
    return {name: float(n) if isinstance(n, Fraction) else n for name, n in fields}


def _group_json(group: GroupExplanation) -> dict[str, Any]:
    return {
        "name": group.run.name,
        "machine": {
            "cycles": group.run.cycles,
            "unit": without_core(group.unit),
            "stalls": dict(group.stalls),
        },
        **bound_json(group.prediction, group.run),
        "dram_bytes": group.dram_bytes,
        "dram_bound": {
            **floor_json(group.floor),
            "compulsory_bytes": group.floor.compulsory_bytes,
            "of_groups": list(group.together),
        },
        "footprint_bytes": group.prediction.buffer_bytes,
        "dimensions": [
            {**vars(each), "couplings": [vars(coupling) for coupling in each.couplings]}
            for each in group.dimensions
        ],
        "reuse": [*map(_data, group.reuse)],
        "needs": {need.pop("level"): need for need in map(_data, group.needs)},
        "directives": {
            **vars(group.directives),
            "operators": [vars(each) for each in group.directives.operators],
        },
        "disagreements": [
            {
                **pick(each, "analysis", "what", "unit", "machine", "other"),
                "assumption": assumption_text(group, each),
                "shares": {share_name(share): share.amount for share in each.shares},
                "relative": each.relative,
                **({"unexplained": each.rest} if each.shares else {}),
            }
            for each in group.disagreements
        ],
    }
