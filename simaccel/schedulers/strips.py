"""Strips: weights are loaded fold by fold for activations that stay, as on a TPU (ISCA 2017, 2).

The array holds one fold of weights at a time; the next ones wait in a FIFO of slots, as many as the
memory's staging takes. The columns of a strip accumulate before the next strip begins, over as many
output rows as the accumulator holds. Weights are stored as whole folds, with zeros at the edges.
Vector operators on an einsum's output are fused with it if both fit, so that the weights of the
next einsum load meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simaccel.hardware import Accelerator
from simaccel.mapping.space import BoundOperator, IterationSpace, space_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Mapping, Tree
from simaccel.numbers import in_bytes
from simaccel.schedulers.chains import epilogue
from simaccel.schedulers.einsums import RankRoles, roles
from simaccel.schedulers.kernel_trees import fits, sliding_ranks
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.goal import Goal
from simaccel.search.judge import mapping_of
from simaccel.search.problems import NothingFitsError, Options
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector, Workload

_SLOTS = 2
"""Slots of weights if no staging limits them."""


def strips(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
    """Map each einsum with the vector operators on its output, and other operators alone.

    Raises:
        NotMappableError: the array can't do an operator.
        NothingFitsError: not even one row beside a fold of weights fits.
    """
    search, body = TreeSearch(Goal.from_options(accelerator, options, workload)), []
    for names in _parts(workload):
        try:
            body.append(_fuse_operators(workload, names, accelerator, search))
        except NothingFitsError:
            if len(names) == 1:
                raise
            body += [_fuse_operators(workload, [name], accelerator, search) for name in names]
    return mapping_of(workload, "strips", body)


def _parts(workload: Workload) -> Iterator[list[str]]:
    """Yield an einsum with the vector operators on its output, for each einsum.

    Each of these passes over the output once, and no other operator reads the previous values.
    """
    names = [operator.name for operator in workload.operators]
    while names:
        count = 1
        while (
            count < len(names)
            and len(workload.operator(names[count]).inputs) == 1
            and epilogue(workload, names[: count + 1])
        ):
            count += 1
        yield names[:count]
        names = names[count:]


def _fuse_operators(
    workload: Workload, names: Sequence[str], accelerator: Accelerator, search: TreeSearch
) -> Group:
    """Schedule some operators as a group."""
    if not isinstance(workload.operator(names[0]), Vector):
        return _group(workload, names, accelerator)
    windows = _windows(workload, names[0], accelerator)
    if windows is not None:
        return windows
    return search.group(workload, names[0])


def _windows(workload: Workload, name: str, accelerator: Accelerator) -> Group | None:
    """Return the group of an operator over windows in as few pieces as fit; None without them."""
    group = Group(operators=(name,), tree=())
    space = space_of(workload, group)
    op = space.bound_operator(name)
    if op.inputs[0].ranks == op.output.ranks or name in space.axes:
        return None
    rank = op.output.ranks[0]
    most = space.sizes[rank]
    while most:
        for slots in (_SLOTS, 1):
            keeps = [Keep(tensor, slots=slots) for tensor in (*op.names, op.output.name)]
            tree: Tree = (*_pieces(space, (rank,), most), *keeps, Do(name, SFU))
            placed = replace(group, tree=tree)
            if fits(space, placed, accelerator):
                return placed
        most //= 2
    return None


def _group(workload: Workload, names: Sequence[str], accelerator: Accelerator) -> Group:
    """Return the first tree that fits: most rows at once, with whole activations in two slots."""
    array, name = accelerator.systolic, names[0]
    plain = space_of(workload, Group(operators=tuple(names), tree=()))
    op = plain.bound_operator(name)
    parts = roles(plain, op)
    down, across = _row_rank(plain, op, parts), parts.n[-1:]
    padded = {
        rank: -(-plain.sizes[rank] // side) * side
        for ranks, side in ((down, array.rows), (across, array.cols))
        for rank in ranks
    }
    group = Group(operators=tuple(names), tree=(), padded=padded)
    space = space_of(workload, group)
    for nodes in _trees(space, op, parts, accelerator):
        tree = nodes
        if len(names) > 1:  # in place, over all that the einsum makes
            behind: list[Tree] = [(Do(other, SFU),) for other in names[1:]]
            own = tuple(node for node in nodes if node != Keep(op.output.name, slots=_SLOTS))
            tree = (Keep(op.output.name), Fork((own, *behind)))
        placed = replace(group, tree=tree)
        if fits(space, placed, accelerator):
            return placed
    raise NothingFitsError(
        f"{name}: a row beside a fold of weights needs more than buffer.capacity_bytes "
        f"({capacity(accelerator)} B), the accumulator, or memories.weight.staging_bytes"
    )


def _row_rank(space: IterationSpace, op: BoundOperator, parts: RankRoles) -> tuple[str, ...]:
    """Return the rank along the rows: the channels of one position of a window."""
    windows = sliding_ranks(op)
    found = [rank for rank in parts.k if rank not in windows]
    return tuple(sorted(found, key=lambda rank: -space.sizes[rank])[:1])


def _trees(
    space: IterationSpace, op: BoundOperator, parts: RankRoles, accelerator: Accelerator
) -> Iterator[Tree]:
    """Yield trees from the one that holds most to the one that holds least."""
    array, down, across = accelerator.systolic, _row_rank(space, op, parts), parts.n[-1:]
    reduction = [rank for rank in parts.k if rank not in down]
    moving, weights = op.names[:2]
    held_bytes = in_bytes(array.pes, op.inputs[1].bits)
    staging = accelerator.staging.get(op.inputs[1].kind)
    slots = _SLOTS if staging is None else max(1, staging // held_bytes)  # that wait for the array
    most = space.workload.operator(op.name).macs
    if array.accumulator is not None and array.accumulator.capacity_bytes is not None:
        most = array.accumulator.capacity_bytes // (
            array.cols * array.accumulator.bytes_per_element
        )
    strip: Tree = (
        *(Loop(rank, 1) for rank in parts.n if rank not in across),
        *(Loop(rank, min(space.sizes[rank], array.cols)) for rank in across),
        Keep(op.output.name, slots=_SLOTS),
    )
    folds: Tree = (
        *(Loop(rank, min(space.sizes[rank], array.rows)) for rank in down),
        *(Loop(rank, 1) for rank in reduction),
    )
    held, end = Keep(weights, slots=slots), Do(op.name, ARRAY, "ws")
    while most:
        rows: Tree = (*(Loop(rank, 1) for rank in parts.g), *_pieces(space, parts.m, most))
        for n in (_SLOTS, 1):
            yield (*rows, Keep(moving, slots=n), *strip, *folds, held, end)
        yield (*rows, *strip, *folds, Keep(moving, slots=_SLOTS), held, end)
        most //= 2


def _pieces(space: IterationSpace, ranks: tuple[str, ...], most: int) -> Iterator[Loop]:
    """Yield loops that leave at most ``most`` positions of some ranks, in pieces of one size."""
    tiles = {}
    for rank in reversed(ranks):
        size = space.sizes[rank]
        tiles[rank] = -(-size // -(-size // max(1, min(size, most))))
        most //= tiles[rank]
    yield from (Loop(rank, tiles[rank]) for rank in ranks)


SCHEDULERS = {"strips": strips}
