"""Comparison of two runs of one workload: the difference in cycles by operator and cause.

On one engine, the cycles of an operator are busy + idle + stalls by cause, and those of the
operators add up to the run. So the difference of two runs is the sum of the differences by
operator and cause, to the cycle. Where one run fuses operators that the other has apart, all of
them are one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain, zip_longest
from typing import Any

from simaccel.diagnosis.stalls import Diagnosis, diagnose
from simaccel.errors import Fault, InputError, suggest
from simaccel.files.documents import parse_document
from simaccel.mapping.text import tree_text
from simaccel.trace import TraceError, TraceReader
from simaccel.units import ARRAY

_FUSED = "+"
_GROUP = "group "
_MOST_FIELDS = 5
_NOTHING = "nothing"


@dataclass(frozen=True)
class FieldDifference:
    """A field of the accelerator (or another choice) in which two runs differ."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class CycleDifference:
    """Cycles in each run of operators that are compared as one: all, or those of a ``cause``.

    ``busy`` and ``idle`` count as causes. ``operators_a``, ``operators_b``: of all cycles, the
    operators and fused groups that took them in each run.
    """

    group: str
    cause: str
    a: int
    b: int
    operators_a: tuple[str, ...] = ()
    operators_b: tuple[str, ...] = ()

    @property
    def difference(self) -> int:
        """Cycles more (or less) in the second run."""
        return self.b - self.a


@dataclass(frozen=True)
class Difference:
    """Two runs side by side; ``shares`` and ``groups`` each add up to the difference in cycles."""

    engine: str
    a: int
    b: int
    groups: tuple[CycleDifference, ...]
    shares: tuple[CycleDifference, ...]
    fields: tuple[FieldDifference, ...]

    @property
    def cycles(self) -> int:
        """Cycles more (or less) in the second run."""
        return self.b - self.a


def compare(a: TraceReader, b: TraceReader, engine: str = ARRAY) -> Difference:
    """Return the difference of two runs' cycles by group and cause, as ``engine`` spent them.

    Raises:
        TraceError: a trace is partial or damaged, or the second is of another workload.
        InputError: one of the runs lacks the engine.
    """
    for trace in (a, b):
        if trace.partial:
            raise TraceError(trace.path, "is partial: its run did not end", "a whole trace")
        _require_readable(trace)
    _require_same_workload(a, b)
    engines = [name for name in a.engines if name in b.engines]
    if engine not in engines:
        raise InputError([Fault("command line", "--engine", engine, suggest(engine, engines))])
    diagnoses = diagnose(a), diagnose(b)
    groups, shares = [], []
    for names in _groups(*diagnoses):
        every = [[p for p in diagnosis.operators if p.name in names] for diagnosis in diagnoses]
        members = dict.fromkeys(m for part in chain(*every) for m in part.name.split(_FUSED))
        in_a, in_b = (tuple(part.name for part in parts) for parts in every)
        of_a, of_b = (sum(part.cycles for part in parts) for parts in every)
        group = CycleDifference(_FUSED.join(members), "", of_a, of_b, in_a, in_b)
        groups.append(group)
        for cause in dict.fromkeys(
            cause for part in chain(*every) for cause in part.engines[engine]
        ):
            of_a, of_b = (
                sum(part.engines[engine].get(cause, 0) for part in parts) for parts in every
            )
            shares.append(CycleDifference(group.group, cause, of_a, of_b))
    groups.sort(key=lambda group: -abs(group.difference))
    shares.sort(key=lambda share: (-abs(share.difference), -share.a))
    fields = tuple(_fields(a, b))
    return Difference(engine, a.cycles, b.cycles, tuple(groups), tuple(shares), fields)


def _groups(a: Diagnosis, b: Diagnosis) -> list[set[str]]:
    """Return the sets of operators to compare as one: L+softmax+A with L, softmax and A."""
    import networkx as nx  # noqa: PLC0415 - takes long to load

    graph: nx.Graph[tuple[str, str]] = nx.Graph()
    names = [part.name for diagnosis in (a, b) for part in diagnosis.operators]
    for name in names:
        for member in name.split(_FUSED):
            graph.add_edge(("operator", name), ("member", member))
    return [
        {name for kind, name in component if kind == "operator"}
        for component in nx.connected_components(graph)
    ]


def _require_same_workload(a: TraceReader, b: TraceReader) -> None:
    """Refuse traces of different workloads.

    Raises:
        TraceError: names the fields in which they differ.
    """
    fields = list(_differing(_leaves(a.header.workload), _leaves(b.header.workload)))
    if not fields:
        return
    parameters = "parameters."
    chosen = [field for field in fields if field.name.startswith(parameters)]
    if chosen:
        fields = [replace(field, name=field.name.removeprefix(parameters)) for field in chosen]
    both = [field for field in fields if _NOTHING not in (field.a, field.b)] or fields
    shown = ", ".join(f"{field.name} {field.b}, not {field.a}" for field in both[:_MOST_FIELDS])
    problem = f"is of another workload than {a.path}: {shown}"
    raise TraceError(b.path, problem, "a trace of the same workload")


def _fields(a: TraceReader, b: TraceReader) -> Iterator[FieldDifference]:
    """Return the fields in which runs differ: dataflow or mapping, accelerator, version."""
    flows = [str(trace.figures.get("dataflow", "")) for trace in (a, b)]
    if flows[0] != flows[1]:
        yield FieldDifference("dataflow", *flows)
    elif a.header.mapping != b.header.mapping and not (a.unreadable() or b.unreadable()):
        yield from _nodes(*(tree_text(trace.mapping()).splitlines() for trace in (a, b)))
    hardware = (_leaves(trace.header.accelerator, "accelerator") for trace in (a, b))
    yield from _differing(*hardware)
    if a.header.version != b.header.version:
        yield FieldDifference("simaccel", a.header.version, b.header.version)


def _nodes(a: Sequence[str], b: Sequence[str]) -> Iterator[FieldDifference]:
    """Yield the lines in which two mappings differ, group by group."""
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    for kind, start, end, at, to in blocks:
        if kind != "equal":
            heads = [line.split()[1] for line in a[: start + 1] if line.lstrip().startswith(_GROUP)]
            name = " ".join(["mapping", *heads[-1:]])
            for before, after in zip_longest(a[start:end], b[at:to], fillvalue=_NOTHING):
                yield FieldDifference(name, before.strip(), after.strip())


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[FieldDifference]:
    for name in dict.fromkeys((*a, *b)):
        before, after = a.get(name, _NOTHING), b.get(name, _NOTHING)
        if before != after and name.rpartition(".")[2] not in ("source", "description"):
            yield FieldDifference(name, before, after)


def _leaves(text: str, root: str = "") -> dict[str, str]:
    """Return the values of a YAML text by their dotted paths from ``root``."""
    leaves: dict[str, str] = {}

    def visit(value: Any, path: str) -> None:  # noqa: ANN401 - plain data of any form
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            where = f"{path}.{key}" if path else str(key)
            if isinstance(item, dict | list) and item:
                visit(item, where)
            else:
                leaves[where] = str(item)

    data = parse_document(text)
    visit(data if isinstance(data, dict | list) else {}, root)
    return leaves


def _require_readable(trace: TraceReader) -> None:
    """Refuse a header whose texts are no YAML.

    Raises:
        TraceError: names the text.
    """
    for what in ("accelerator", "workload", "mapping"):
        try:
            parse_document(getattr(trace.header, what))
        except ValueError as error:
            problem = f"damaged: its {what} can't be read: {error}"
            raise TraceError(trace.path, problem, "an unchanged trace") from None
