"""Checks of mappings: names, sizes, and trees that can't be executed, each fault with its place."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simaccel.errors import Fault, InputError, MistakeError, suggest
from simaccel.hardware import Accelerator
from simaccel.mapping import coverage, legality, units, vectors
from simaccel.mapping.chips.sharding import group_places, is_sharded, outer_nodes, shard
from simaccel.mapping.cores import spread_faults
from simaccel.mapping.lifetimes import lives
from simaccel.mapping.node_text import node_text
from simaccel.mapping.places import crossings
from simaccel.mapping.space import holding_tensor, space_of
from simaccel.mapping.structure import Finding, structure
from simaccel.mapping.text import tree_text
from simaccel.mapping.tree import BUFFER, PE, Group, Keep, Mapping, ResidentScope
from simaccel.mapping.view import TensorView
from simaccel.mapping.walk import Site, TreeWalk, walk
from simaccel.workload import Workload, operands_of

RULES = (
    legality.repeat_faults,
    legality.parts,
    legality.sums,
    legality.folds,
    coverage.coverage_faults,
    legality.remake_faults,
    legality.reads,
    legality.homes,
    legality.shared_tiles,
    legality.in_place,
    legality.ahead_faults,
    vectors.windows,
    vectors.axes,
    units.sums_of_ranks,
    units.keeps,
    units.lifetimes,
    units.keep_faults,
    units.node_faults,
    units.inmost,
)


def faults(
    workload: Workload,
    mapping: Mapping,
    accelerator: Accelerator | None = None,
    file: str = "mapping",
) -> list[Fault]:
    """Return all that is wrong with a mapping, with the place of each (``groups[1].tree[4]``).

    With an accelerator: also what its array can't do. Tiles that don't fit its memories are refused
    later, when the program is known. A place counts nodes, each keep separately.
    """
    if is_sharded(mapping):
        return _check_chips(workload, mapping, accelerator, file)
    all_faults: list[Fault] = []
    for at, part in enumerate(mapping.body):
        place = f"groups[{at}]"
        pairs = (
            [(place, part, ())]
            if isinstance(part, Group)
            else [
                (f"{place}.groups[{n}]", group, part.keeps) for n, group in enumerate(part.groups)
            ]
        )
        walks: list[TreeWalk | None] = []
        for where, group, around in pairs:
            findings, walked = _group(workload, group, around, accelerator)
            walks.append(walked)
            all_faults += [
                Fault(file, f"{where}.{field}", v, allowed) for field, v, allowed in findings
            ]
        if isinstance(part, ResidentScope):
            known = [walked for walked in walks if walked is not None]
            complete = len(known) == len(walks)
            findings = list(_check_around(workload, part, known)) if complete else []
            all_faults += [
                Fault(file, f"{place}.{field}", v, allowed) for field, v, allowed in findings
            ]
    all_faults += _sections(workload, mapping, file)
    cores = None if accelerator is None else accelerator.cores
    across_cores = crossings(workload, mapping, group_places(mapping), cores)
    all_faults += [Fault(file, *finding) for finding in across_cores]
    return list(dict.fromkeys(all_faults))


def _check_chips(
    workload: Workload, mapping: Mapping, accelerator: Accelerator | None, file: str
) -> list[Fault]:
    """Return the faults of spreads over chips; or, without any, those of one chip's part."""
    chips = None if accelerator is None else accelerator.pod
    n_cores = 1 if accelerator is None else accelerator.cores.count
    pod, findings = shard(workload, mapping, chips, n_cores)
    if pod is None:
        return [Fault(file, *finding) for finding in dict.fromkeys(findings)]
    outer_faults = []
    outside = [len(outer_nodes(group)) for group in mapping.groups]
    places = dict(zip(group_places(mapping), outside, strict=True))
    for fault in faults(pod.workload, pod.mapping, accelerator, file):
        place, tree, node = fault.field.partition(".tree[")
        number, bracket, rest = node.partition("]")
        at = int(number) + places.get(place, 0) if tree else 0
        where = f"{place}.tree[{at}{bracket}{rest}" if tree else fault.field
        outer_faults.append(Fault(file, where, fault.value, fault.allowed))
    return outer_faults


def _sections(workload: Workload, mapping: Mapping, file: str) -> Iterator[Fault]:
    """Yield groups that run once but are placed between repeated ones."""
    if workload.repeat == 1:
        return
    known = {operator.name for operator in workload.operators}
    once = [
        {
            name in workload.once
            for group in _groups(part)
            for name in group.operators
            if name in known
        }
        for part in mapping.body
    ]
    for at, kinds in enumerate(once):
        if len(kinds) > 1:
            allowed = "operators that all run once, or are all repeated"
            yield Fault(file, f"groups[{at}]", "both", allowed)
    repeated = [at for at, kinds in enumerate(once) if kinds == {False}]
    for at, kinds in enumerate(once):
        if kinds == {True} and repeated and repeated[0] < at < repeated[-1]:
            allowed = "a place before or after all groups that are repeated"
            yield Fault(file, f"groups[{at}]", "a group that runs once", allowed)


def _groups(one: Group | ResidentScope) -> tuple[Group, ...]:
    return (one,) if isinstance(one, Group) else one.groups


def require_mapping(
    workload: Workload,
    mapping: Mapping,
    accelerator: Accelerator | None = None,
    file: str = "mapping",
) -> None:
    """Refuse a mapping that can't be executed.

    Raises:
        InputError: all its faults.

    """
    all_faults = faults(workload, mapping, accelerator, file)
    if all_faults:
        raise InputError(all_faults)


class IllegalMappingError(MistakeError):
    """A search returned a mapping that computes something else; the message has the mapping."""


def require_legal(workload: Workload, mapping: Mapping, accelerator: Accelerator) -> Mapping:
    """Return a search's mapping, if it can be executed.

    Raises:
        IllegalMappingError: it can't; the message has its faults and the mapping.

    """
    found = faults(workload, mapping, accelerator)
    if found:
        text = "; ".join(map(str, found))
        raise IllegalMappingError(f"{text}; the mapping:\n{tree_text(mapping)}")
    return mapping


def _group(
    workload: Workload, group: Group, around: tuple[Keep, ...], accelerator: Accelerator | None
) -> tuple[list[Finding], TreeWalk | None]:
    findings = structure(workload, group)
    if findings:
        return findings, None
    space = space_of(workload, group)
    count = None if accelerator is None else accelerator.cores.count
    findings = spread_faults(group, space, count, around)
    if findings:
        return findings, None
    walked = walk(space, group, around)
    for rule in RULES:
        findings += rule(walked)
    for site in walked.sites:
        findings += _operands(workload, walked, site, around)
    if accelerator is not None:
        findings += units.fit(walked, accelerator)
    return findings, walked


def _operands(
    workload: Workload, walked: TreeWalk, site: Site, around: tuple[Keep, ...]
) -> Iterator[Finding]:
    """Yield operands that aren't kept where their unit needs them, in the group or around it."""
    for use, view in walked.bound_leaf(site).uses:
        name = walked.root(use)
        held = holding_tensor(workload, name, around)
        regions = [keep for keep in around if keep.tensor == held]
        inside = [keep for keep in regions if _covers(keep, view, site)]
        kept = next(site.keeps(name), None) is not None
        apart = held != name and not any(keep.region for keep in regions)
        if kept and not apart and any(_meets(keep, view, site) for keep in regions):
            allowed = f"no keep {name} here: {held} is kept around the group"
            yield site.place, node_text(site.do), allowed
        elif not kept and not inside and regions and any(_meets(k, view, site) for k in regions):
            allowed = (
                f"parts that are inside of what is kept of {held} around the group, or outside"
            )
            yield site.place, node_text(site.do), allowed
        elif any(True for _ in site.keeps(name, PE)) and inside:
            allowed = f"no keep {name} {PE}: PEs take what is kept around the group from there"
            yield site.place, node_text(site.do), allowed
        elif not inside:
            yield from units.operands(walked, site, name)


def _spans(view: TensorView, site: Site) -> list[tuple[int, int]]:
    """Return the first position and the one after the last of each dimension, within the parts."""
    found = []
    for dim, size in zip(view.terms, view.shape, strict=True):
        start, extent = site.box.get(dim[0][0], (0, size)) if len(dim) == 1 else (0, size)
        found.append((start, start + extent))
    return found


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


def _check_around(
    workload: Workload, around: ResidentScope, walks: list[TreeWalk]
) -> Iterator[Finding]:
    """Yield the faults of tensors that are kept around several groups."""
    for at, keep in enumerate(around.keeps):
        place, text = f"keep[{at}]", node_text(keep)
        if keep.tensor not in workload.tensors:
            yield place, text, f"a tensor; {suggest(keep.tensor, workload.tensors)}"
            continue
        yield from _check_keep(workload, around, at, walks)


def _check_keep(
    workload: Workload, around: ResidentScope, at: int, walks: list[TreeWalk]
) -> Iterator[Finding]:
    keep = around.keeps[at]
    place, text = f"keep[{at}]", node_text(keep)
    if keep.level != BUFFER or keep.slots < 1:
        yield place, text, f"level {BUFFER} and at least one slot"
    views = [view for walked in walks for view in _views(walked, keep.tensor)]
    if not views:
        yield place, text, f"a tensor that a group inside uses; none uses {keep.tensor}"
        return
    for view in views:
        yield from _region(keep, view, place)
    if not any(keep.tensor in walked.makers for walked in walks):
        yield place, text, "a tensor that a group inside makes; one group can keep its inputs"
    elif not any(_uses(workload, walked, keep, around) for walked in walks):
        yield place, text, f"parts of {keep.tensor} that a group inside uses from here"
    yield from _check_needed(workload, around, keep, place)
    yield from _check_overwritten(around, keep, walks, place)
    yield from _check_apart(around, keep, walks, place)
    yield from _check_padded(workload, around, keep, views, place)
    for other in around.keeps[:at]:
        if other.tensor == keep.tensor and _overlap(other, keep):
            yield place, text, f"regions of {keep.tensor} that don't overlap"


def _views(one: TreeWalk, tensor: str) -> list[TensorView]:
    uses = [view for seen in one.space.operators for _, view in seen.uses]
    return [view for view in uses if view.name == tensor]


def _region(keep: Keep, view: TensorView, place: str) -> Iterator[Finding]:
    if not keep.region:
        return
    if len(keep.region) != len(view.shape):
        ranks = ", ".join(view.ranks)
        yield place, node_text(keep), f"a span for each dimension of {keep.tensor}: {ranks}"
        return
    for span, size in zip(keep.region, view.shape, strict=True):
        if not 0 <= span.start < span.stop <= size:
            yield place, node_text(keep), f"spans within {' x '.join(map(str, view.shape))}"
            return


def _uses(workload: Workload, one: TreeWalk, keep: Keep, around: ResidentScope) -> bool:
    return any(
        holding_tensor(workload, one.root(use), around.keeps) == keep.tensor
        and next(site.keeps(one.root(use)), None) is None
        and _covers(keep, view, site)
        for site in one.sites
        for use, view in one.bound_leaf(site).uses
    )


def _check_needed(
    workload: Workload, around: ResidentScope, keep: Keep, place: str
) -> Iterator[Finding]:
    """Yield kept tensors that operators outside need, which would have to be in DRAM as well.

    A tensor that is made in place in such a tile, without a tile of its own, is not stored either.
    """
    inside = {name for group in around.groups for name in group.operators}
    outside = [outer for outer in workload.operators if outer.name not in inside]
    (life,) = (live for live in lives(workload, around) if live.keep is keep)
    for tensor in dict.fromkeys((keep.tensor, *life.tensors)):
        own = "" if tensor == keep.tensor else f"a keep of {tensor} in the group that makes it: "
        for operator in outside:
            if any(operand.tensor == tensor for operand in operator.inputs):
                allowed = f"{own}a tensor that no operator outside needs; {operator.name} does"
                yield place, node_text(keep), allowed
        if workload.tensors[tensor].kind in {"output", "cache"}:
            yield place, node_text(keep), f"{own}no output of the workload, and no cache"
    yield from _boxes(workload, keep, place)


def _boxes(workload: Workload, keep: Keep, place: str) -> Iterator[Finding]:
    """Yield regions of a tensor of which an operator uses a box."""
    shape = workload.shapes[keep.tensor]
    for operator in workload.operators if keep.region else ():
        for _, given in operands_of(operator):
            if given.tensor == keep.tensor and given.shape(operator.ranks) != shape:
                allowed = f"no region, as {operator.name} uses a box of {keep.tensor}"
                yield place, node_text(keep), allowed


def _check_padded(
    workload: Workload, around: ResidentScope, keep: Keep, views: list[TensorView], place: str
) -> Iterator[Finding]:
    """Yield tensors kept whole that a group pads."""
    whole = math.prod(workload.shapes[keep.tensor])
    padded = any(group.padded for group in around.groups)
    if padded and not keep.region and any(math.prod(view.shape) > whole for view in views):
        yield place, node_text(keep), f"a tensor that no group pads; {keep.tensor} is"


def _check_overwritten(
    around: ResidentScope, keep: Keep, walks: list[TreeWalk], place: str
) -> Iterator[Finding]:
    """Yield tensors that overwrite a kept tensor which a later group still reads."""
    over: set[str] = set()
    for walked in walks:
        for seen in walked.space.operators:
            for name in over & {view.name for view in seen.inputs}:
                allowed = (
                    f"a keep of a tensor that overwrites {name}, which {seen.name} reads later"
                )
                yield place, node_text(keep), allowed
        over |= {
            seen.names[0]
            for seen in walked.space.operators
            if walked.aliases.get(seen.output.name)
            and _holds_tensor(keep, seen.names[0], around, walked)
        }


def _check_apart(
    around: ResidentScope, keep: Keep, walks: list[TreeWalk], place: str
) -> Iterator[Finding]:
    """Yield tensors made in place of a kept one that have a tile of their own in some groups."""
    own: dict[str, set[bool]] = {}
    for walked in walks if not keep.region else ():
        for site in walked.sites:
            for use, _ in walked.bound_leaf(site).uses:
                if use != keep.tensor and _holds_tensor(keep, use, around, walked):
                    has = next(site.keeps(walked.root(use)), None) is not None
                    own.setdefault(use, set()).add(has)
    for name, known in own.items():
        if len(known) > 1:
            allowed = f"a keep of {name}, made in place of {keep.tensor}, in all groups or none"
            yield place, node_text(keep), allowed


def _holds_tensor(keep: Keep, name: str, around: ResidentScope, one: TreeWalk) -> bool:
    held = holding_tensor(one.space.workload, one.root(name), around.keeps)
    return held == keep.tensor


def _overlap(one: Keep, two: Keep) -> bool:
    if len(one.region) != len(two.region):
        return True
    spans = zip(one.region, two.region, strict=True)
    return all(a.start < b.stop and b.start < a.stop for a, b in spans)
