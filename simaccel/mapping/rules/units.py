"""Rules of units: operands where the unit reads them, and nodes that PEs or the SFU can execute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from simaccel.hardware import Accelerator, ArraySpec, SpatialArraySpec
from simaccel.mapping.node_text import Finding, node_text
from simaccel.mapping.tree import BUFFER, FANS, PE, Fork, Keep, Loop, Part, Spread
from simaccel.mapping.view import pe_memory
from simaccel.mapping.walk import Located, Site, TreeStep, TreeWalk
from simaccel.units import ARRAY, MAC, SFU
from simaccel.workload import VECTORS, Einsum, Vector


def reach_faults(walk: TreeWalk, site: Site, name: str) -> Iterator[str]:
    """Yield why a unit can't reach an operand (``name``) that isn't kept around the group."""
    op, unit = walk.bound_leaf(site), site.do.unit
    if next(site.keeps(name), None) is not None:
        return
    in_pe = next(site.keeps(name, PE), None) is not None
    if unit != MAC:
        who = "a systolic array reads from" if unit == ARRAY else "the SFU works in"
        yield f"keep {name} {BUFFER} outside: {who} the buffer"
    elif name in walk.space.read and name in walk.makers:
        yield f"keep {name} {BUFFER} outside of the branches that share it"
    elif name == walk.root(op.output.name) and not in_pe:
        yield f"keep {name} {BUFFER} or {PE}: partial sums need a place"


def derived_rank_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield work of PEs on derived ranks, whose pieces overlap."""
    wrong = [rank for rank in walk.bound_leaf(site).ranks if rank in walk.space.derived]
    if site.do.unit == MAC and wrong:
        yield f"a group of its own: PEs don't divide {wrong[0]}, whose pieces overlap"


def keep_level_faults(_: TreeWalk, site: Site) -> Iterator[Located]:
    """Yield a tensor's second keep at one level, and keeps at a level that their leaf lacks."""
    known: set[tuple[str, str]] = set()
    for step in site.steps:
        node = step.node
        if not isinstance(node, Keep):
            continue
        if (node.tensor, node.level) in known:
            yield step, f"one keep of {node.tensor} at a level on a path"
        known.add((node.tensor, node.level))
        if node.level == BUFFER and step.inside:
            yield step, f"{PE}, as it comes after a spread"
        if node.level == PE and site.do.unit != MAC:
            yield step, f"{BUFFER}; do {site.do.operator} {site.do.unit} has no memory in PEs"


def lifetime_faults(walk: TreeWalk) -> Iterator[Finding]:
    """Yield keeps in a branch that no loop of it moves, where another branch keeps the same tensor.

    The tile would outlive the branch, and so be one with the other.
    """
    for before, after in combinations(walk.sites, 2):
        at = before.shared_steps(after)
        uses = {walk.root(use): view for use, view in walk.bound_leaf(before).uses}
        for use, view in walk.bound_leaf(after).uses:
            name = walk.root(use)
            keeps = [next(site.keeps(name), -1) for site in (before, after)]
            if name not in uses or min(keeps) < at:
                continue
            first, second = walk.home(before, name, uses[name]), walk.home(after, name, view)
            if first is None or second is None:
                continue
            if first != second and min(first, second) < at:
                step = after.steps[keeps[1]]
                allowed = f"one keep {name} {BUFFER} outside of the branches, as no loop in one of "
                yield step.place, node_text(step.node), allowed + f"them moves {name}"


def part_keep_faults(walk: TreeWalk) -> Iterator[Finding]:
    """Yield keeps in PEs that differ among the branches of a part, if no loop there moves the tile.

    It is one tile for all branches, of one size in each PE.
    """
    for first, two in combinations(walk.sites, 2):
        at = first.shared_steps(two)
        if first.do.operator != two.do.operator:
            continue
        for use, view in walk.bound_leaf(first).uses:
            name = walk.root(use)
            homes = [walk.home(site, name, view, PE) for site in (first, two)]
            if min((home for home in homes if home is not None), default=at) >= at:
                continue
            if homes[0] != homes[1] or _places(first, name) != _places(two, name):
                allowed = f"the same keeps of {name} and spreads in all parts, as no loop in them "
                yield two.place, node_text(two.do), allowed + f"moves {name}"


def _places(site: Site, name: str) -> list[Spread | str]:
    """Return how a tile gets to PEs: the spreads around a leaf, and the levels that keep it."""
    nodes = [step.node for step in site.steps]
    spreads = [node for node in nodes if isinstance(node, Spread)]
    levels = [node.level for node in nodes if isinstance(node, Keep) and node.tensor == name]
    return [*spreads, *levels]


def fan_order_faults(_: TreeWalk, site: Site) -> Iterator[Located]:
    """Yield spreads that aren't in the order of `FANS`, and spreads around vector operators."""
    fans, done = 0, False
    for step in site.steps:
        if isinstance(step.node, Spread):
            fan = FANS.index(step.node.level)
            if fan < fans or (fan <= 1 and done):
                order = ", ".join(FANS[:2])
                yield step, f"{order}, then keeps and loops of PEs, then {', '.join(FANS[2:])}"
            fans = max(fan, fans)
            if site.do.unit == SFU:
                yield step, "no spread around a vector operator"
        done = done or _is_in_pe(step)


def pe_node_faults(_: TreeWalk, site: Site) -> Iterator[Located]:
    """Yield nodes inside a spread, or inside a keep in PEs, that PEs can't execute."""
    fans, done = 0, False
    for step in site.steps:
        node = step.node
        if isinstance(node, Spread):
            fans = max(FANS.index(node.level), fans)
        elif (step.inside or done) and isinstance(node, Fork | Part):
            yield step, "forks and parts outside of spreads"
        elif isinstance(node, Loop) and step.sizes[node.rank] > node.tile:
            if step.inside and fans > 1:
                yield step, "loops of PEs outside of vectors and lanes"
            elif done and not step.inside:
                yield step, f"a loop outside of the keep at {PE}"
        done = done or _is_in_pe(step)


def _is_in_pe(step: TreeStep) -> bool:
    """Return whether a node is a keep in PEs, or a loop that PEs run."""
    node = step.node
    return (isinstance(node, Keep) and node.level == PE) or (isinstance(node, Loop) and step.inside)


def pe_keep_faults(_: TreeWalk, site: Site) -> Iterator[Located]:
    """Yield keeps in PEs inside nodes that cut a PE's block, which it loads whole."""
    behind = False
    for step in site.steps:
        node = step.node
        if isinstance(node, Keep) and node.level == PE and behind:
            yield step, "a keep of PEs outside of their loops, vectors and lanes"
        in_pe = isinstance(node, Loop) and step.inside
        in_pe = in_pe or (isinstance(node, Spread) and node.level in FANS[2:])
        behind = behind or (in_pe and step.sizes[node.rank] > node.tile)  # type: ignore[union-attr]


def array_faults(walk: TreeWalk, accelerator: Accelerator) -> Iterator[Finding]:
    """Yield leaves, spreads and keeps for which the accelerator's array lacks the means."""
    array = accelerator.array
    spatial = isinstance(array, SpatialArraySpec)
    for site in walk.sites:
        unit, text, operator = site.do.unit, node_text(site.do), walk.bound_leaf(site).operator
        if unit == MAC and not spatial:
            yield site.place, text, "array and a stationarity: the array is systolic"
        elif unit == ARRAY and spatial:
            yield site.place, text, "mac: the array is spatial"
        elif site.do.diagonal and isinstance(array, ArraySpec) and not array.diagonal:
            yield site.place, text, "no diagonal, as array.diagonal of a systolic array is false"
        elif unit == ARRAY and isinstance(operator, Einsum) and operator.elementwise:
            allowed = "no elementwise product: it is a vector operator of kind product"
            yield site.place, text, allowed
        elif unit != SFU:
            yield from _fan_faults(walk, site, accelerator)
            if isinstance(array, SpatialArraySpec):
                yield from _memory_faults(walk, site, array)


def _fan_faults(walk: TreeWalk, site: Site, accelerator: Accelerator) -> Iterator[Finding]:
    array, op = accelerator.array, walk.bound_leaf(site)
    known = FANS if isinstance(array, SpatialArraySpec) else FANS[:2]
    reduces = array.reduces if isinstance(array, SpatialArraySpec) else FANS
    pieces: dict[str, list[int]] = {}
    for step in site.steps:
        node = step.node
        if not isinstance(node, Spread):
            continue
        text = node_text(node)
        if node.level not in known:
            yield step.place, text, f"one of {', '.join(known)}"
            continue
        n = -(-step.sizes[node.rank] // node.tile)
        pieces.setdefault(node.level, []).append(n)
        most, used = getattr(array, node.level), math.prod(pieces[node.level])
        if used > most:
            yield step.place, text, f"at most {most} {node.level}; this makes {used}"
        if node.level in FANS[2:] and node.tile > 1 and not _is_cut_again(site, step):
            yield step.place, text, f"tile 1: each of the {node.level} takes one position a cycle"
        if n > 1 and node.level not in reduces and node.rank in op.reduced:
            yield step.place, text, f"a rank that isn't summed over: {node.level} add nothing up"


def _is_cut_again(site: Site, step: TreeStep) -> bool:
    """Return whether a spread further in cuts the same rank."""
    later = site.steps[site.steps.index(step) + 1 :]
    rank = step.node.rank if isinstance(step.node, Spread) else ""
    return any(isinstance(one.node, Spread) and one.node.rank == rank for one in later)


def _memory_faults(walk: TreeWalk, site: Site, array: SpatialArraySpec) -> Iterator[Finding]:
    op = walk.bound_leaf(site)
    roles: set[str] = set().union(*array.memories.by_roles())
    for at, (use, _) in enumerate(op.uses):
        name = walk.root(use)
        role = pe_memory(at, len(op.uses))
        for number in site.keeps(name, PE):
            if role not in roles:
                step = site.steps[number]
                yield step.place, node_text(step.node), f"no {PE}: PEs have no memory for {role}"
        for number in site.keeps(name):
            if role in array.bypass_buffer:
                step = site.steps[number]
                yield step.place, node_text(step.node), f"no {BUFFER}: {role} passes it by"


def window_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield loops and parts that cut the windows of a pooling."""
    op = walk.bound_leaf(site)
    if not isinstance(op.operator, Vector) or not VECTORS[op.operator.kind].windows:
        return
    windows = [rank for rank in op.ranks if rank not in op.output.names]
    inside = walk.space.plain_ranks(windows)
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
    elif any(site.shared_steps(other) > cutting[0] for other in walk.sites if other is not site):
        yield from _online_faults(walk, site, axis, cutting)
    elif isinstance(operator, Vector) and "normalise" not in VECTORS[operator.kind].steps:
        yield f"no loop {axis}: {operator.kind} takes it whole"


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
