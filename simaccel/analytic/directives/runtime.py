"""MAESTRO's runtime of a tree on a systolic array: the folds of its blocks as directives.

The columns of the array are sub-clusters, and the PEs of a column (its rows) are inside. With
weights held, a block of m x k x n on R rows says::

    SpatialMap(1,1) N; TemporalMap(R,R) K; TemporalMap(m,m) M; Cluster(R,P); SpatialMap(1,1) K;
    TemporalMap(1,1) M

that is a strip of columns after the other, the folds of a strip along the rows, and the stream
inside of a fold. The loops around a block run it again and again: as at any level of MAESTRO, each
block pays its first fill. Between buffer and columns is the NoC, as wide as the narrower of it and
the buffer's port; inside of a column each row has its link, and sums have one of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.analytic.directives.analysis import analyse
from simaccel.analytic.directives.dimensions import cut
from simaccel.analytic.directives.hardware import UNLIMITED, DirectiveHardware
from simaccel.hardware import Accelerator, ArraySpec, Stationarity, spatial
from simaccel.mapping.directives.dataflow import Cluster, Dataflow, DimMap
from simaccel.mapping.directives.reading import Directed
from simaccel.mapping.space import Seen, Space
from simaccel.mapping.tree import Do, Group, Loop, Node, Part, paths
from simaccel.numbers import BYTE
from simaccel.workload import Einsum
from simaccel.workload.described import DescribedLayer

_PLAYS = {
    (True, False, True): "m",
    (True, True, False): "k",
    (False, True, True): "n",
    (True, True, True): "b",
}
"""What a rank is by the operands that have it: first, second, result."""
_PARTS = "parts of a rank with trees of their own: directives have one nest for all of it"
Block = tuple[int, int, int]
"""Sizes of m, k and n."""


@dataclass(frozen=True, kw_only=True)
class OperatorTime:
    """What the directives say of an operator's time, once through its group, or why nothing.

    ``transfers``: how many of the ``cycles`` a NoC without limits would save. ``written``: the
    directives of its largest block, with how many blocks there are.
    """

    operator: str
    written: str = ""
    cycles: int | None = None
    transfers: int = 0
    silent: str = ""


def operator_times(
    space: Space, group: Group, accelerator: Accelerator
) -> tuple[OperatorTime, ...]:
    """Return the times of a group's operators on a systolic array, in order."""
    leaves = list(paths(group.tree))
    array = accelerator.array
    assert isinstance(array, ArraySpec)  # noqa: S101 - narrows the type
    return tuple(
        _time(space, outside, leaf, array, accelerator)
        if len(leaves) == len(space.operators)
        else OperatorTime(
            operator=leaf.operator,
            silent=_PARTS,
        )
        for outside, leaf in leaves
    )


def _time(
    space: Space, outside: Sequence[Node], leaf: Do, array: ArraySpec, accelerator: Accelerator
) -> OperatorTime:
    seen = space.seen(leaf.operator)
    silent = _silent(space, seen, outside)
    if silent:
        return OperatorTime(operator=seen.name, silent=silent)
    blocks = blocks_of(space, seen, outside)
    stationarity = leaf.stationarity or "ws"
    directed = [_directed(seen.name, block, stationarity, array) for block in blocks]
    found = [one.columns["runtime_cycles"] for one in analyse(directed, _points(seen, accelerator))]
    cycles, ideal = (
        sum(count * int(one[at]) for count, one in zip(blocks.values(), found, strict=True))
        for at in (0, 1)
    )
    largest = max(range(len(directed)), key=lambda at: list(blocks)[at])
    directives = "; ".join(map(str, directed[largest].dataflow))
    number = sum(blocks.values())
    m, k, n = list(blocks)[largest]
    many = f"{number:,} blocks of at most" if number > 1 else "a block of"
    return OperatorTime(
        operator=seen.name,
        written=f"{many} M {m:,}, K {k:,}, N {n:,}: {directives}",
        cycles=cycles,
        transfers=cycles - ideal,
    )


def _silent(space: Space, seen: Seen, outside: Sequence[Node]) -> str:
    """Return why directives don't say an operator; empty where they do."""
    if not isinstance(seen.operator, Einsum):
        return "a vector operator: directives have MACs only"
    if any(isinstance(node, Part) for node in outside):
        return _PARTS
    follows = [rank for rank in seen.ranks if rank in space.derived]
    if follows:
        return (
            f"rank {follows[0]} follows from those of another operator: directives have one layer"
        )
    alone = [rank for rank in seen.ranks if _play(seen, rank) not in _PLAYS.values()]
    if alone or len(seen.inputs) != 2:  # noqa: PLR2004 - two factors
        return "no product of two factors, which the array would fold"
    return ""


def _play(seen: Seen, rank: str) -> str | None:
    return _PLAYS.get(tuple(rank in view.names for _, view in seen.uses))  # type: ignore[arg-type]


def blocks_of(space: Space, seen: Seen, outside: Sequence[Node]) -> dict[Block, int]:
    """Return the blocks (m, k, n) that the array gets, and how many of each."""
    pieces: dict[str, Mapping[int, int]] = {rank: {space.sizes[rank]: 1} for rank in seen.ranks}
    for node in outside:
        if isinstance(node, Loop) and node.rank in pieces:
            pieces[node.rank] = cut(pieces[node.rank], node.tile)
    parts = {play: Counter({1: 1}) for play in _PLAYS.values()}
    for rank, some in pieces.items():
        play = str(_play(seen, rank))
        parts[play] = _times(parts[play], some)
    repeats = sum(size * count for size, count in parts["b"].items())
    return {
        (m, k, n): repeats * ms * ks * ns
        for m, ms in parts["m"].items()
        for k, ks in parts["k"].items()
        for n, ns in parts["n"].items()
    }


def _times(one: Mapping[int, int], other: Mapping[int, int]) -> Counter[int]:
    """Return pieces (count by size) of two ranks that play one part together."""
    found: Counter[int] = Counter()
    for size, count in one.items():
        for more, n in other.items():
            found[size * more] += count * n
    return found


def _directed(name: str, block: Block, stationarity: Stationarity, array: ArraySpec) -> Directed:
    sizes = dict(zip("MKN", block, strict=True))
    high, wide, stream = ("MKN"[part] for part in spatial(0, 1, 2, stationarity))
    folds = min(array.rows, sizes[high])
    dataflow: Dataflow = (
        DimMap(wide, 1, 1, spatial=True),
        DimMap(high, folds, folds),
        DimMap(stream, sizes[stream], sizes[stream]),
        Cluster(array.rows),
        DimMap(high, 1, 1, spatial=True),
        DimMap(stream, 1, 1),
    )
    return Directed(layer=DescribedLayer(name=name, kind="GEMM", sizes=sizes), dataflow=dataflow)


def _points(seen: Seen, accelerator: Accelerator) -> list[DirectiveHardware]:
    """Return the accelerator, and the same with a NoC that takes no time."""
    array = accelerator.array
    assert isinstance(array, ArraySpec)  # noqa: S101 - narrows the type
    bits = max(view.bits for _, view in seen.uses)
    rates = [accelerator.distribution_rate, accelerator.read_rate]
    widths = [UNLIMITED if one.unlimited else int(one.exact() * BYTE / bits) for one in rates]
    pes = array.rows * array.cols
    return [
        DirectiveHardware(
            pes=pes,
            noc_bandwidth=(max(1, min(widths)), array.rows + 1),
            noc_latency=(accelerator.lead_latency_cycles, 1),
            offchip_bandwidth=UNLIMITED,
        ),
        DirectiveHardware(
            pes=pes,
            noc_bandwidth=(UNLIMITED,),
            noc_latency=(0,),
            offchip_bandwidth=UNLIMITED,
        ),
    ]
