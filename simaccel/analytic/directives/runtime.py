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

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simaccel.analytic.directives.analysis import analyse
from simaccel.analytic.directives.dimensions import cut
from simaccel.analytic.directives.hardware import UNLIMITED, DirectiveHardware
from simaccel.hardware import Accelerator, ArraySpec, Stationarity, spatial
from simaccel.mapping.directives.dataflow import Cluster, Dataflow, DimMap
from simaccel.mapping.directives.reading import Directed
from simaccel.mapping.space import Seen, Space
from simaccel.mapping.tree import Do, Fork, Group, Loop, Node, Part, Tree
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


@dataclass(frozen=True)
class _Share:
    """What a branch of a ``Part`` gets of its rank: positions from ``start``; None: the rest."""

    rank: str
    start: int
    size: int | None

    def of(self, pieces: Mapping[int, int]) -> dict[int, int]:
        """Return the branch's part of pieces (count by size)."""
        found: Counter[int] = Counter()
        for size, count in pieces.items():
            left = max(0, size - self.start)
            found[left if self.size is None else min(left, self.size)] += count
        del found[0]
        return dict(found)


_Way = tuple[Node | _Share, ...]


def operator_times(
    space: Space, group: Group, accelerator: Accelerator
) -> tuple[OperatorTime, ...]:
    """Return the times of a group's operators on a systolic array, in their order."""
    leaves: dict[str, list[tuple[_Way, Do]]] = {name: [] for name in group.operators}
    for outside, leaf in _leaves(group.tree, ()):
        leaves[leaf.operator].append((outside, leaf))
    return tuple(_time(space, name, some, accelerator) for name, some in leaves.items())


def _leaves(tree: Tree, outside: _Way) -> Iterator[tuple[_Way, Do]]:
    """Yield each leaf with what stands outside of it, shares of parts too."""
    for at, node in enumerate(tree):
        way = (*outside, *tree[:at])
        if isinstance(node, Do):
            yield way, node
        elif isinstance(node, Fork):
            for branch in node.branches:
                yield from _leaves(branch, way)
        elif isinstance(node, Part):
            starts = [0, *itertools.accumulate(node.sizes)]
            for start, size, branch in zip(starts, (*node.sizes, None), node.branches, strict=True):
                yield from _leaves(branch, (*way, _Share(node.rank, start, size)))


def _time(
    space: Space, name: str, leaves: Sequence[tuple[_Way, Do]], accelerator: Accelerator
) -> OperatorTime:
    seen, array = space.seen(name), accelerator.array
    assert isinstance(array, ArraySpec)  # noqa: S101 - narrows the type
    silent = _silent(space, seen)
    if silent:
        return OperatorTime(operator=name, silent=silent)
    blocks: Counter[tuple[Block, Stationarity]] = Counter()
    for outside, leaf in leaves:
        for block, count in blocks_of(space, seen, outside).items():
            blocks[block, leaf.stationarity or "ws"] += count
    directed = [_directed(name, *one, array) for one in blocks]
    found = [one.columns["runtime_cycles"] for one in analyse(directed, _points(seen, accelerator))]
    cycles, ideal = (
        sum(count * int(one[at]) for count, one in zip(blocks.values(), found, strict=True))
        for at in (0, 1)
    )
    kinds = list(blocks)
    largest = max(range(len(kinds)), key=lambda at: math.prod(kinds[at][0]))
    directives = "; ".join(map(str, directed[largest].dataflow))
    number, (m, k, n) = sum(blocks.values()), kinds[largest][0]
    many = f"{number:,} blocks of at most" if number > 1 else "a block of"
    return OperatorTime(
        operator=name,
        written=f"{many} M {m:,}, K {k:,}, N {n:,}: {directives}",
        cycles=cycles,
        transfers=cycles - ideal,
    )


def _silent(space: Space, seen: Seen) -> str:
    """Return why directives don't say an operator; empty where they do."""
    if not isinstance(seen.operator, Einsum):
        return "a vector operator: directives have MACs only"
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


def blocks_of(space: Space, seen: Seen, outside: Sequence[Node | _Share]) -> dict[Block, int]:
    """Return the blocks (m, k, n) that the array gets, and how many of each."""
    pieces: dict[str, Mapping[int, int]] = {rank: {space.sizes[rank]: 1} for rank in seen.ranks}
    for node in outside:
        if isinstance(node, Loop) and node.rank in pieces:
            pieces[node.rank] = cut(pieces[node.rank], node.tile)
        elif isinstance(node, _Share) and node.rank in pieces:
            pieces[node.rank] = node.of(pieces[node.rank])
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
    pes, pace = array.rows * array.cols, array.cycles_per_mac(view.bits for view in seen.inputs)
    return [
        DirectiveHardware(
            pes=pes,
            noc_bandwidth=(max(1, min(widths)), array.rows + 1),
            noc_latency=(accelerator.lead_latency_cycles, 1),
            offchip_bandwidth=UNLIMITED,
            cycles_per_mac=pace,
        ),
        DirectiveHardware(
            pes=pes,
            noc_bandwidth=(UNLIMITED,),
            noc_latency=(0,),
            offchip_bandwidth=UNLIMITED,
            cycles_per_mac=pace,
        ),
    ]
