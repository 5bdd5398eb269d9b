"""MAESTRO's runtime of a tree: of its clusters, of the folds of its blocks, of vector passes.

PEs with memories are in ``clusters``, vector operators in `passes_of`. Of a systolic array the
columns are sub-clusters, and the PEs of a column (its rows) are inside. With
weights held, a block of m x k x n on R rows says::

    SpatialMap(1,1) N; TemporalMap(R,R) K; TemporalMap(m,m) M; Cluster(R,P); SpatialMap(1,1) K;
    TemporalMap(1,1) M

that is a strip of columns after the other, the folds of a strip along the rows, and the stream
inside of a fold. The loops around a block run it again and again: as at any level of MAESTRO, each
block pays its first fill. Between buffer and columns is the NoC, as wide as the narrower of it and
the buffer's port; inside of a column each row has its link, and sums have one of their own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simaccel.analytic.family import family_of
from simaccel.analytic.widths import BitWidths
from simaccel.hardware import PLACES, Accelerator, ArraySpec, Stationarity
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Do, Group, Keep, Loop
from simaccel.numbers import Element
from simaccel.papers.maestro.analysis import clusters
from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.hardware import (
    UNLIMITED,
    DirectiveHardware,
    elements_per_cycle,
)
from simaccel.papers.maestro.dataflows.dataflow import Cluster, Dataflow, DimMap
from simaccel.papers.maestro.dataflows.described import DescribedLayer
from simaccel.papers.maestro.dataflows.reading import DirectedLayer
from simaccel.workload import VECTORS, Vector
from simaccel.workload.vectors import Passes

_FACTORS = 2
_UNEVEN = "as if PEs took all tensors where they take the first"
Block = tuple[int, int, int]
"""Sizes of m, k and n."""
_Leaves = Sequence[tuple[clusters.Way, Do]]


@dataclass(frozen=True, kw_only=True)
class OperatorTime:
    """Time of an operator by the directives in one repetition of its group, or why there is none.

    ``transfers``: cycles that an unlimited NoC would save; None: no NoC is used. ``written``: the
    directives of its largest block, and the number of blocks.
    """

    operator: str
    written: str = ""
    cycles: int | None = None
    transfers: int | None = None
    silent: str = ""


def operator_times(
    space: IterationSpace, group: Group, accelerator: Accelerator, around: Sequence[Keep] = ()
) -> tuple[OperatorTime, ...]:
    """Return the times of a group's operators on their array or SFU, in their order.

    ``around``: the keeps around the group.
    """
    leaves: dict[str, list[tuple[clusters.Way, Do]]] = {name: [] for name in group.operators}
    for way, leaf in clusters.ways_of(group.tree):
        leaves[leaf.operator].append((way, leaf))
    widths = BitWidths(family_of(space, group, around))
    elements = {
        path.leaf.operator: list(widths.elements(path, space.bound_operator(path.leaf.operator)))
        for path in widths.family.paths
    }
    every = [way for ways in leaves.values() for way, _ in ways]
    times = []
    for name, ways in leaves.items():
        op = space.bound_operator(name)
        if isinstance(op.operator, Vector):
            times.append(_vector_time(space, op, ways, every, accelerator))
        elif isinstance(accelerator.array, ArraySpec):
            times.append(_folds_time(space, op, ways, accelerator, elements[name]))
        else:
            times.append(_clusters_time(space, op, ways, accelerator, elements[name]))
    return tuple(times)


def _blocks_text(blocks: int, sizes: str) -> str:
    return f"{blocks:,} blocks of at most {sizes}" if blocks > 1 else f"a block of {sizes}"


# -- vector operators


def _vector_time(
    space: IterationSpace,
    op: BoundOperator,
    leaves: _Leaves,
    every: Sequence[clusters.Way],
    accelerator: Accelerator,
) -> OperatorTime:
    passes = [
        vector_pass
        for way, _ in leaves
        for vector_pass in passes_of(space, op, way, every, accelerator)
    ]
    blocks = sum(vector_pass.blocks for vector_pass in passes)
    most = max(passes, key=lambda vector_pass: vector_pass.elements)
    times = f"{most.passes} passes" if most.passes > 1 else "a pass"
    each = f"{times} each: SpatialMap(1,1) elements on {accelerator.sfu.lanes:,} lanes"
    return OperatorTime(
        operator=op.name,
        written=f"{_blocks_text(blocks, f'{most.elements:,} elements')}, {each}",
        cycles=cycles_of(passes, accelerator),
    )


# -- arrays of PEs with memories


def _clusters_time(
    space: IterationSpace,
    op: BoundOperator,
    leaves: _Leaves,
    accelerator: Accelerator,
    elements: Sequence[Element],
) -> OperatorTime:
    silent = clusters.silent(op)
    if silent:
        return OperatorTime(operator=op.name, silent=silent)
    pace = accelerator.array.cycles_per_mac(elements[:_FACTORS])
    bandwidth = _bandwidth(elements, accelerator)
    cycles, ideal, blocks, largest = 0, 0, 0, ("", 0)
    for way, _ in leaves:
        border = max(
            (at + 1 for at, node in enumerate(way) if isinstance(node, clusters.PartShare)),
            default=0,
        )
        inside = [node for node in way[border:] if not isinstance(node, clusters.PartShare)]
        runs = clusters.repeats_of(space, op, way)
        for sizes, blocks_here in clusters.sizes_of_blocks(space, op, way[:border]):
            count = runs * blocks_here
            levels = clusters.levels_of(space, op, sizes, inside)
            points = clusters.points_of(levels, bandwidth, accelerator.lead_latency_cycles, pace)
            with_noc, without = (int(fold) for fold in clusters.time_of(op, levels, points))
            cycles, ideal = cycles + count * with_noc, ideal + count * without
            blocks += count
            written = clusters.directives_text(levels), without
            largest = max(largest, written, key=lambda text_and_cycles: text_and_cycles[1])
    number = f"{blocks:,} blocks: " if blocks > 1 else ""
    if any(clusters.is_uneven(way) for way, _ in leaves):
        number = f"{_UNEVEN}: {number}"
    return OperatorTime(
        operator=op.name, written=number + largest[0], cycles=cycles, transfers=cycles - ideal
    )


def _bandwidth(elements: Sequence[Element], accelerator: Accelerator) -> int:
    """Return the elements per cycle that the narrower of NoC and buffer port gives the array."""
    bits = max(width for width, _ in elements)
    rates = accelerator.distribution_rate, accelerator.read_rate
    return min(elements_per_cycle(rate, bits) for rate in rates)


# -- systolic arrays


def _folds_time(
    space: IterationSpace,
    op: BoundOperator,
    leaves: _Leaves,
    accelerator: Accelerator,
    elements: Sequence[Element],
) -> OperatorTime:
    array = accelerator.array
    assert isinstance(array, ArraySpec)  # noqa: S101 - narrows the type
    sizes = space.widen(space.sizes)
    alone = [rank for rank, part in op.parts.items() if sizes[rank] > 1 and not part]
    if alone or len(op.inputs) != _FACTORS:
        text = "no product of two factors that the array could fold"
        return OperatorTime(operator=op.name, silent=text)
    blocks: Counter[tuple[Block, Stationarity]] = Counter()
    for way, leaf in leaves:
        for block, count in blocks_of(space, op, way).items():
            blocks[block, leaf.stationarity or "ws"] += count
    directed = [_direct_layer(op.name, *block, array) for block in blocks]
    runtimes = [
        column.columns["runtime_cycles"]
        for column in analyse(directed, _points(elements, accelerator))
    ]
    cycles, ideal = (
        sum(
            count * int(analysed[at])
            for count, analysed in zip(blocks.values(), runtimes, strict=True)
        )
        for at in (0, 1)
    )
    kinds = list(blocks)
    largest = max(range(len(kinds)), key=lambda at: math.prod(kinds[at][0]))
    directives = "; ".join(map(str, directed[largest].dataflow))
    m, k, n = kinds[largest][0]
    many = _blocks_text(sum(blocks.values()), f"M {m:,}, K {k:,}, N {n:,}")
    return OperatorTime(
        operator=op.name, written=f"{many}: {directives}", cycles=cycles, transfers=cycles - ideal
    )


def blocks_of(space: IterationSpace, op: BoundOperator, way: clusters.Way) -> dict[Block, int]:
    """Return the blocks (m, k, n) that the array gets, and how many of each."""
    found: Counter[Block] = Counter()
    runs = clusters.repeats_of(space, op, way)
    for sizes, count in clusters.sizes_of_blocks(space, op, way):
        m, k, n, repeats = (
            math.prod(sizes[rank] for rank, one in op.parts.items() if one == part)
            for part in "mkng"
        )
        found[m, k, n] += runs * count * repeats
    return dict(found)


def _direct_layer(
    name: str, block: Block, stationarity: Stationarity, array: ArraySpec
) -> DirectedLayer:
    sizes = dict(zip("MKN", block, strict=True))
    high, wide, stream = (part.upper() for part in PLACES[stationarity])
    folds = min(array.rows, sizes[high])
    dataflow: Dataflow = (
        DimMap(wide, 1, 1, spatial=True),
        DimMap(high, folds, folds),
        DimMap(stream, sizes[stream], sizes[stream]),
        Cluster(array.rows),
        DimMap(high, 1, 1, spatial=True),
        DimMap(stream, 1, 1),
    )
    return DirectedLayer(
        layer=DescribedLayer(name=name, kind="GEMM", sizes=sizes), dataflow=dataflow
    )


def _points(elements: Sequence[Element], accelerator: Accelerator) -> list[DirectiveHardware]:
    """Return the accelerator, and the same with a NoC that takes no time."""
    array = accelerator.array
    assert isinstance(array, ArraySpec)  # noqa: S101 - narrows the type
    without_noc = DirectiveHardware(
        pes=array.pes,
        noc_bandwidth=(UNLIMITED,),
        noc_latency=(0,),
        offchip_bandwidth=UNLIMITED,
        cycles_per_mac=array.cycles_per_mac(elements[:_FACTORS]),
    )
    bandwidth = _bandwidth(elements, accelerator), array.rows + 1
    latency = accelerator.lead_latency_cycles, 1
    return [replace(without_noc, noc_bandwidth=bandwidth, noc_latency=latency), without_noc]


@dataclass(frozen=True)
class Pass:
    """``passes`` over each of ``blocks`` blocks of ``elements`` elements."""

    passes: int
    elements: int
    blocks: int


def passes_of(
    space: IterationSpace,
    op: BoundOperator,
    way: clusters.Way,
    others: Sequence[clusters.Way],
    accelerator: Accelerator,
) -> list[Pass]:
    """Return the passes of a vector operator; ``others`` are the ways of the group's leaves.

    MAESTRO's notation describes layers of MACs. A pass is one operation per element without a sum,
    as of an element-wise layer. The passes depend on where the axis is cut: nowhere, in the
    operator's own branch (statistics, then normalise), or in a loop that it shares (online, with
    passes that rescale sums).
    """
    assert isinstance(op.operator, Vector)  # noqa: S101 - narrows the type
    steps, axis = VECTORS[op.operator.kind].steps, space.axes.get(op.name)
    whole = space.sizes.get(axis or "", 1)
    cutting = [
        at
        for at, node in enumerate(way)
        if isinstance(node, Loop) and node.rank == axis and node.tile < whole
    ]
    pieces = sum(clusters.pieces_of(space, [axis], way)[axis].values()) if axis and cutting else 1
    names = ["whole"] if pieces == 1 else ["statistics", "normalise"]
    shared = pieces > 1 and any(
        _common(way, other) > cutting[0] for other in others if other is not way
    )
    again, passes = clusters.repeats_of(space, op, way), []
    for name in ["online"] if shared else names:
        cost: Passes = accelerator.sfu.choose_form(steps[name], steps[name].merged)
        for sizes, blocks in clusters.sizes_of_blocks(space, op, way):
            elements = math.prod(sizes[rank] for rank in op.ranks)
            passes.append(Pass(cost.passes, elements, again * blocks))
            if cost.row_passes:
                passes.append(
                    Pass(cost.row_passes, elements // sizes.get(axis or "", 1), again * blocks)
                )
    return passes + (list(_corrections(space, op, way, accelerator)) if shared else [])


def cycles_of(passes: Sequence[Pass], accelerator: Accelerator) -> int:
    """Return the cycles of passes over the lanes, one after the other."""
    lanes = accelerator.sfu.lanes
    return sum(one.blocks * one.passes * -(-one.elements // lanes) for one in passes)


def _common(one: clusters.Way, other: clusters.Way) -> int:
    """Return how many nodes two ways share."""
    same = 0
    for first, second in zip(one, other, strict=False):
        if first is not second:
            break
        same += 1
    return same


def _corrections(
    space: IterationSpace, op: BoundOperator, way: clusters.Way, accelerator: Accelerator
) -> Iterator[Pass]:
    """Yield an online operator's passes over partial sums: rescale, and divide at the end."""
    assert isinstance(op.operator, Vector)  # noqa: S101 - narrows the type
    axis, steps = space.axes[op.name], VECTORS[op.operator.kind].steps
    rescale, divide = (
        accelerator.sfu.choose_form(steps[name], None).passes for name in ("rescale", "divide")
    )
    for reader in space.operators:
        if op.output.name not in reader.names or axis not in reader.reduced:
            continue
        ranks = space.plain_ranks(sorted(reader.output.names))
        pieces = clusters.pieces_of(space, [*ranks, axis], way)
        again = sum(pieces.pop(axis).values())
        elements = {1: 1}
        for parts in pieces.values():
            further: dict[int, int] = {}
            for size, count in elements.items():
                for more, n in parts.items():
                    further[size * more] = further.get(size * more, 0) + count * n
            elements = further
        for size, count in elements.items():
            yield Pass(rescale, size, count * (again - 1))
            yield Pass(divide, size, count)
