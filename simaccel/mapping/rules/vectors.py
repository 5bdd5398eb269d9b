"""Rules of vector operators: which nodes may cut their axis and their windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simaccel.mapping.tree import Part
from simaccel.mapping.walk import Site, TreeWalk
from simaccel.workload import VECTORS, Vector


def window_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield loops and parts that cut the windows of a pooling."""
    op = walk.bound_leaf(site)
    if not isinstance(op.operator, Vector) or not VECTORS[op.operator.kind].windows:
        return
    windows = [rank for rank in op.ranks if rank not in op.output.names]
    inside = {term for rank in windows for term in walk.terms(rank)}
    for _, rank in site.cutting():
        if rank in inside:
            yield f"no loop or part of {rank}: {op.name} takes whole windows"


def axis_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield why a vector operator can't work on pieces of its axis that the tree cuts."""
    axis, ranks = walk.space.axes.get(site.do.operator), walk.space.axis_ranks(site.do.operator)
    cutting = [at for at, rank in site.cutting() if rank in ranks]
    if axis is None or not cutting:
        return
    operator = walk.bound_leaf(site).operator
    if axis in walk.space.derived:
        allowed = f"no loop or part of {' or '.join(ranks)}: {operator.name} goes along all of "
        yield f"{allowed}{axis}, which a window reads"
    elif any(isinstance(site.steps[at].node, Part) for at in cutting):
        yield f"no part of {axis}, along which {operator.name} goes"
    elif _is_shared(walk, site, cutting[0]):
        yield from _online_faults(walk, site, axis, cutting)
    elif isinstance(operator, Vector) and "normalise" not in VECTORS[operator.kind].steps:
        yield f"no loop {axis}: {operator.kind} takes it whole"


def _is_shared(walk: TreeWalk, site: Site, at: int) -> bool:
    return any(other is not site and site.shared_steps(other) > at for other in walk.sites)


def _online_faults(walk: TreeWalk, site: Site, axis: str, cutting: Sequence[int]) -> Iterator[str]:
    """Yield why an operator can't run online: piece by piece along its axis, with its readers.

    Online softmax rescales the sums of its readers when the maximum grows, so those must sum over
    its axis alone and keep their sums outside the loop over it.
    """
    op = walk.bound_leaf(site)
    operator = op.operator
    whole = f"loop {axis} inside of the branch of do {op.name}"
    if not isinstance(operator, Vector) or "online" not in VECTORS[operator.kind].steps:
        yield f"{whole}: it has no online form"
        return
    made = op.output.name
    if made in walk.space.escapes:
        yield f"{whole}: {made} is needed outside of the group"
    for reader in walk.sites:
        other = walk.bound_leaf(reader)
        if made not in {view.name for view in other.inputs}:
            continue
        summed = other.reduced & set(op.ranks)
        home = walk.home(reader, walk.root(other.output.name), other.output)
        if summed != {axis}:
            yield f"{whole}: {other.name} doesn't sum {made} over {axis} alone"
        elif cutting[0] < reader.shared_steps(site) <= cutting[-1]:
            allowed = f"no loop {axis} inside of its branch: {other.name} sums all that it makes "
            yield f"{allowed}with one maximum"
        elif reader.shared_steps(site) <= cutting[0] or (home is not None and home >= cutting[0]):
            yield f"keep {other.output.name} buffer outside of loop {axis}, which rescales it"
