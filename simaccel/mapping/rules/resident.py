"""Rules of tensors kept around several groups, and of the leaves that use them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from simaccel.errors import suggest
from simaccel.mapping.lifetimes import Lifetime, lifetimes
from simaccel.mapping.node_text import Finding, node_text
from simaccel.mapping.rules.units import reach_faults
from simaccel.mapping.space import holding_tensor
from simaccel.mapping.tree import BUFFER, PE, Keep, ResidentScope
from simaccel.mapping.view import TensorView
from simaccel.mapping.walk import Site, TreeWalk
from simaccel.workload import Workload, operands_of


def operand_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield operands that are kept, in the group or around it, where their leaf can't use them."""
    for use, view in walk.bound_leaf(site).uses:
        name = walk.root(use)
        held = holding_tensor(walk.space.workload, name, walk.around)
        regions = [keep for keep in walk.around if keep.tensor == held]
        inside = [keep for keep in regions if _covers(keep, view, site)]
        meets = any(_meets(keep, view, site) for keep in regions)
        kept = next(site.keeps(name), None) is not None
        apart = held != name and not any(keep.region for keep in regions)
        if kept and not apart and meets:
            yield f"no keep {name} here: {held} is kept around the group"
        elif not kept and not inside and meets:
            yield f"parts that are inside of what is kept of {held} around the group, or outside"
        elif any(True for _ in site.keeps(name, PE)) and inside:
            yield f"no keep {name} {PE}: PEs take what is kept around the group from there"
        elif not inside:
            yield from reach_faults(walk, site, name)


def resident_faults(
    workload: Workload, scope: ResidentScope, walks: Sequence[TreeWalk]
) -> Iterator[Finding]:
    """Yield the faults of tensors kept around several groups."""
    known = all(keep.tensor in workload.tensors for keep in scope.keeps)
    living = lifetimes(workload, scope) if known else ()
    for at, keep in enumerate(scope.keeps):
        for allowed in _keep_faults(workload, scope, walks, living[at : at + 1], at):
            yield f"keep[{at}]", node_text(keep), allowed


def _keep_faults(
    workload: Workload,
    scope: ResidentScope,
    walks: Sequence[TreeWalk],
    life: Sequence[Lifetime],
    at: int,
) -> Iterator[str]:
    keep = scope.keeps[at]
    if keep.tensor not in workload.tensors:
        yield f"a tensor; {suggest(keep.tensor, workload.tensors)}"
        return
    if keep.level != BUFFER or keep.slots < 1:
        yield f"level {BUFFER} and at least one slot"
    uses = [use for walk in walks for op in walk.space.operators for use in op.uses]
    views = [view for _, view in uses if view.name == keep.tensor]
    if not views:
        yield f"a tensor that a group inside uses; none uses {keep.tensor}"
        return
    yield from chain.from_iterable(_region_faults(keep, view) for view in views)
    if not any(keep.tensor in walk.makers for walk in walks):
        yield "a tensor that a group inside makes; one group can keep its inputs"
    elif not any(_uses(walk, keep, scope) for walk in walks):
        yield f"parts of {keep.tensor} that a group inside uses from here"
    yield from chain.from_iterable(_needed_faults(workload, scope, tile_life) for tile_life in life)
    yield from _box_faults(workload, keep)
    yield from _overwritten_faults(scope, keep, walks)
    yield from _own_tile_faults(scope, keep, walks)
    whole = math.prod(workload.shapes[keep.tensor])
    padded = any(group.padded for group in scope.groups)
    if padded and not keep.region and any(math.prod(view.shape) > whole for view in views):
        yield f"a tensor that no group pads; {keep.tensor} is"
    if any(other.tensor == keep.tensor and _overlap(other, keep) for other in scope.keeps[:at]):
        yield f"regions of {keep.tensor} that don't overlap"


def _region_faults(keep: Keep, view: TensorView) -> Iterator[str]:
    if keep.region and len(keep.region) != len(view.shape):
        yield f"a span for each dimension of {keep.tensor}: {', '.join(view.ranks)}"
    elif any(
        not 0 <= span.start < span.stop <= size
        for span, size in zip(keep.region, view.shape, strict=False)
    ):
        yield f"spans within {' x '.join(map(str, view.shape))}"


def _uses(walk: TreeWalk, keep: Keep, scope: ResidentScope) -> bool:
    return any(
        _holds_tensor(keep, use, scope, walk)
        and next(site.keeps(walk.root(use)), None) is None
        and _covers(keep, view, site)
        for site in walk.sites
        for use, view in walk.bound_leaf(site).uses
    )


def _needed_faults(workload: Workload, scope: ResidentScope, life: Lifetime) -> Iterator[str]:
    """Yield kept tensors that operators outside need, so that they would have to be in DRAM too.

    So are tensors that are made in place of a kept one, as they aren't stored either.
    """
    inside = {name for group in scope.groups for name in group.operators}
    outside = [outer for outer in workload.operators if outer.name not in inside]
    kept = life.keep.tensor
    for tensor in dict.fromkeys((kept, *life.tensors)):
        own = "" if tensor == kept else f"a keep of {tensor} in the group that makes it: "
        for operator in outside:
            if any(operand.tensor == tensor for operand in operator.inputs):
                yield f"{own}a tensor that no operator outside needs; {operator.name} does"
        if workload.tensors[tensor].kind in {"output", "cache"}:
            yield f"{own}no output of the workload, and no cache"


def _box_faults(workload: Workload, keep: Keep) -> Iterator[str]:
    """Yield regions of a tensor of which an operator uses only a box."""
    shape = workload.shapes[keep.tensor]
    for operator in workload.operators if keep.region else ():
        for _, operand in operands_of(operator):
            if operand.tensor == keep.tensor and operand.shape(operator.ranks) != shape:
                yield f"no region, as {operator.name} uses a box of {keep.tensor}"


def _overwritten_faults(
    scope: ResidentScope, keep: Keep, walks: Sequence[TreeWalk]
) -> Iterator[str]:
    """Yield tensors made in place of a kept tensor that a later operator still reads."""
    over: set[str] = set()
    for walk in walks:
        for op in walk.space.operators:
            for name in over & {view.name for view in op.inputs}:
                yield f"a keep of a tensor that overwrites {name}, which {op.name} reads later"
        over |= {
            op.names[0]
            for op in walk.space.operators
            if walk.aliases.get(op.output.name) and _holds_tensor(keep, op.names[0], scope, walk)
        }


def _own_tile_faults(scope: ResidentScope, keep: Keep, walks: Sequence[TreeWalk]) -> Iterator[str]:
    """Yield tensors made in place of a kept one that only some groups keep in their own tile."""
    own: dict[str, set[bool]] = {}
    for walk in walks if not keep.region else ():
        for site in walk.sites:
            for use, _ in walk.bound_leaf(site).uses:
                if use != keep.tensor and _holds_tensor(keep, use, scope, walk):
                    has = next(site.keeps(walk.root(use)), None) is not None
                    own.setdefault(use, set()).add(has)
    for name, known in own.items():
        if len(known) > 1:
            yield f"a keep of {name}, made in place of {keep.tensor}, in all groups or none"


def _holds_tensor(keep: Keep, name: str, scope: ResidentScope, walk: TreeWalk) -> bool:
    held = holding_tensor(walk.space.workload, walk.root(name), scope.keeps)
    return held == keep.tensor


def _spans(view: TensorView, site: Site) -> list[tuple[int, int]]:
    """Return (first position, last + 1) of each dimension, within the parts around a leaf."""
    spans = []
    for dim, size in zip(view.terms, view.shape, strict=True):
        start, extent = site.box.get(dim[0][0], (0, size)) if len(dim) == 1 else (0, size)
        spans.append((start, start + extent))
    return spans


def _covers(keep: Keep, view: TensorView, site: Site) -> bool:
    if len(keep.region) != len(view.shape):
        return not keep.region
    spans = zip(keep.region, _spans(view, site), strict=True)
    return all(span.start <= low and high <= span.stop for span, (low, high) in spans)


def _meets(keep: Keep, view: TensorView, site: Site) -> bool:
    if len(keep.region) != len(view.shape):
        return not keep.region
    spans = zip(keep.region, _spans(view, site), strict=True)
    return all(span.start < high and low < span.stop for span, (low, high) in spans)


def _overlap(one: Keep, two: Keep) -> bool:
    if len(one.region) != len(two.region):
        return True
    spans = zip(one.region, two.region, strict=True)
    return all(a.start < b.stop and b.start < a.stop for a, b in spans)
