"""Rules of tensors: each is made before it is read, whole and once, in a tile that both reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from simaccel.hardware import PLACES
from simaccel.mapping.coverage import block_spans, is_cut, leaves_gaps, overlapping
from simaccel.mapping.node_text import Finding, node_text
from simaccel.mapping.space import BoundOperator
from simaccel.mapping.tree import BUFFER, FANS, PE, Fork, Part, Spread
from simaccel.mapping.view import TensorView, transposed_ranks
from simaccel.mapping.walk import Located, Site, TreeWalk
from simaccel.units import ARRAY
from simaccel.workload import Vector


def repeat_faults(walk: TreeWalk) -> Iterator[Finding]:
    """Yield operators without a leaf, or with two that both run."""
    for op in walk.space.operators:
        sites = [site for site in walk.sites if site.do.operator == op.name]
        if not sites:
            yield "tree", f"no do {op.name}", "each operator of the group, once"
        for one, two in combinations(sites, 2):
            if isinstance(_diverging_node(one, two), Fork):
                yield two.place, node_text(two.do), f"one do {op.name} of what a fork gets"


def part_faults(walk: TreeWalk) -> Iterator[Finding]:
    """Yield branches of a part that lack an operator which other branches have."""
    done: dict[str, dict[int, set[str]]] = {}
    for site in walk.sites:
        for step in site.steps:
            if isinstance(step.node, Part):
                by_branch = done.setdefault(step.place, {})
                by_branch.setdefault(step.branch, set()).add(site.do.operator)
    for place, branches in done.items():
        every = set().union(*branches.values())
        for number, operators in branches.items():
            if operators != every:
                missing = ", ".join(sorted(every - operators))
                yield f"{place}.part[{number}]", ", ".join(sorted(operators)), f"{missing} too"


def partial_sum_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield sums whose tile is kept inside a part of the summed rank: each branch would restart."""
    op = walk.bound_leaf(site)
    name = walk.root(op.output.name)
    kept = max((*site.keeps(name), *site.keeps(name, PE)), default=0)
    for step in site.steps[:kept]:
        if isinstance(step.node, Part) and step.cuts in op.reduced:
            yield f"a keep of {name} outside of the parts of {step.cuts}, which it sums"


def _diverging_node(one: Site, two: Site) -> Fork | Part | None:
    """Return the fork or part that has the two leaves in different branches."""
    at = one.shared_steps(two)
    node = one.steps[at].node if at < len(one.steps) else None
    return node if isinstance(node, Fork | Part) else None


def fold_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield einsums that a systolic array can't fold."""
    if site.do.unit != ARRAY:
        return
    op = walk.bound_leaf(site)
    if len(op.inputs) != 2:  # noqa: PLR2004 - a product has two factors
        yield f"two inputs; {op.name} has {len(op.inputs)}"
        return
    sizes = walk.space.widen(site.sizes)
    for rank, part in op.parts.items():
        if sizes[rank] > 1 and part is None:
            names = ", ".join(name for name, _ in op.uses)
            yield f"a loop {rank} 1 outside, as {rank} isn't in two of {names}"


def array_spread_faults(walk: TreeWalk, site: Site) -> Iterator[Located]:
    """Yield spreads of ranks over a side of the array on which the stationarity has others."""
    kind, op = site.do.stationarity, walk.bound_leaf(site)
    if kind is None or len(op.inputs) != 2:  # noqa: PLR2004 - a product has two factors
        return
    parts = dict(zip(FANS, PLACES[kind][:2], strict=False))
    for step in site.steps:
        node = step.node
        if not isinstance(node, Spread) or node.level not in parts or step.sizes[node.rank] == 1:
            continue
        part = parts[node.level]
        if op.parts.get(node.rank) != part:
            ranks = [rank for rank, own in op.parts.items() if own == part]
            yield step, f"{' or '.join(ranks) or 'no spread'}: {kind} has {part} in {node.level}"


def remake_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield leaves that would compute a tile again, or add to its sums twice."""
    op, own = walk.bound_leaf(site), walk.ranks_of(site)
    name = walk.root(op.output.name)
    home = walk.home(site, name, op.output)
    reductions = [at for at, rank in site.cutting() if rank in op.reduced]
    for at, rank in site.cutting():
        inside = home is not None and home > at
        if rank not in own and (not inside or min(reductions, default=at) < at):
            allowed = f"no loop or part of {rank} outside: {op.name} hasn't got it, and would make "
            yield f"{allowed}{name} again"
    yield from _overlap_faults(walk, site, op, name)


def coverage_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield leaves that leave positions out, or make a tensor that leaves the group repeatedly."""
    op, own = walk.bound_leaf(site), walk.ranks_of(site)
    name = op.output.name
    leaves = name in walk.space.escapes
    once = f"{name}, which leaves the group, is made once"
    for rank in dict.fromkeys(rank for _, rank in site.cutting() if rank not in own):
        if leaves:
            yield f"no loop or part of {rank} outside: {op.name} hasn't got it, and {once}"
    for rank in op.ranks:
        terms = walk.space.derived.get(rank, ())
        cut = [cut_rank for cut_rank, _ in terms if is_cut(site, cut_rank)]
        if not cut:
            continue
        total, union, whole = block_spans(site, terms)
        outside = f"no loop or part of {cut[0]} outside: its pieces"
        if union < whole:
            yield f"{outside} leave out some of {rank}"
        elif leaves and total > whole:
            yield f"{outside} overlap in {rank}, and {once}"


def _overlap_faults(walk: TreeWalk, site: Site, op: BoundOperator, name: str) -> Iterator[str]:
    """Yield loops whose overlapping pieces (halos) would be added twice into one tile."""
    keep = next(site.keeps(name), 0)
    for dim in op.output.terms:
        terms = walk.space.derived.get(dim[0][0], ())
        if not terms or not overlapping(site, terms, keep):
            continue
        for _, rank in site.cutting(start=keep):
            if rank in dict(terms):
                yield f"a keep {name} inside of loop {rank}: its pieces overlap in {dim[0][0]}"


def unfinished_read_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield reads of tensors that are made later, in other pieces, or are not summed up yet."""
    op, order = walk.bound_leaf(site), walk.sites.index
    for name, view in zip(op.names, op.inputs, strict=True):
        for maker in walk.makers.get(view.name, ()):
            if isinstance(_diverging_node(site, maker), Part):
                continue
            if name != view.name:
                yield f"{view.name} from another group: it is made here, and read two ways"
            elif order(maker) > order(site):
                yield f"do {maker.do.operator}, which makes {name}, in an earlier branch"
            else:
                yield from _unfinished_sum_faults(walk, site, maker, view)
                yield from _different_piece_faults(walk, site, maker, view)
                yield from _gap_faults(walk, site, maker)


def _unfinished_sum_faults(
    walk: TreeWalk, site: Site, maker: Site, view: TensorView
) -> Iterator[str]:
    made = walk.bound_leaf(maker)
    for _, rank in site.cutting(site.shared_steps(maker)):
        if rank in made.reduced:
            allowed = f"loop {rank} inside of the branch of do {made.name}: {view.name} is summed "
            yield f"{allowed}up when all of it has run"


def _different_piece_faults(
    walk: TreeWalk, site: Site, maker: Site, view: TensorView
) -> Iterator[str]:
    """Yield loops around maker and reader of a tensor that cut it into different pieces."""
    made = walk.bound_leaf(maker).output
    cut = {rank for _, rank in site.cutting(site.shared_steps(maker))}
    for read_dim, made_dim in zip(walk.dims(view), walk.dims(made), strict=True):
        wrong = cut & {rank for rank, _ in (*read_dim, *made_dim)}
        if read_dim != made_dim and wrong:
            yield f"no loop {min(wrong)} around both: {view.name} is read in other pieces than made"


def _gap_faults(walk: TreeWalk, site: Site, maker: Site) -> Iterator[str]:
    """Yield strided ranks of which a leaf reads positions between the blocks that are made."""
    made = walk.bound_leaf(maker)
    for rank in walk.bound_leaf(site).ranks:
        terms = walk.space.derived.get(rank, ())
        if rank not in made.ranks or max((c for _, c in terms), default=1) == 1:
            continue
        if leaves_gaps(maker, site, terms):
            cut = " or ".join(term for term, c in terms if c > 1)
            allowed = f"no loop {cut} inside of the branch of do {made.name}, or the same one here"
            yield f"{allowed}: its pieces leave out some of {rank}, which {site.do.operator} reads"


def tile_home_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield intermediates that aren't kept outside the branches of their maker and reader."""
    op = walk.bound_leaf(site)
    for name, view in zip(op.names, op.inputs, strict=True):
        root = walk.root(name)
        for maker in walk.makers.get(view.name, ()):
            if isinstance(_diverging_node(site, maker), Part) or name != view.name:
                continue
            keeps = [next(end.keeps(root), None) for end in (site, maker)]
            shared = site.shared_steps(maker)
            if keeps == [None, None] or all(at is not None and at < shared for at in keeps):
                continue
            allowed = f"keep {root} {BUFFER} outside of the branches of {maker.do.operator} "
            yield f"{allowed}and {op.name}, which share it"


def shared_tile_faults(walk: TreeWalk) -> Iterator[Finding]:
    """Yield reads of a tensor's tile that another operator fills with other parts of the tensor.

    Keeps in branches that are moved by one loop outside are one tile.
    """
    kept: dict[str, tuple[object, int, str]] = {}
    moved: dict[tuple[str, str], tuple[TensorView, str]] = {}
    for site in walk.sites:
        op = walk.bound_leaf(site)
        for name, view in zip(op.names, op.inputs, strict=True):
            keep, home = next(site.keeps(name), None), walk.home(site, name, view)
            if keep is None or home is None or view.name in walk.makers:
                continue
            this, plain = (walk.dims(view), home, op.name), walk.space.plain(view)
            place = site.steps[home].place if home >= 0 else ""
            other, mover = moved.setdefault((name, place), (plain, op.name))
            dims, first_home, owner = kept.setdefault(site.steps[keep].place, this)
            cut = {rank for _, rank in site.cutting(home + 1)} & transposed_ranks((plain, other))
            if cut:
                ranks = " or ".join(sorted(cut))
                allowed = f"no loop {ranks} around both: {mover} reads other parts of {name}"
                yield site.place, node_text(site.do), allowed
            elif dims != this[0] and max(home, first_home) >= 0:
                allowed = f"a keep of {name} in a branch of its own: {owner} reads other parts"
                yield site.place, node_text(site.do), allowed


def in_place_faults(walk: TreeWalk, site: Site) -> Iterator[str]:
    """Yield operators that overwrite a tensor which is needed later, or has another layout."""
    op = walk.bound_leaf(site)
    made = op.output.name
    if made not in walk.aliases:
        return
    source, view = op.names[0], op.inputs[0]
    if view.ranks != op.output.ranks:
        yield f"keep {made} {BUFFER}: it isn't laid out as {source} is"
        return
    if view.name in walk.makers and view.name in walk.space.escapes:
        yield f"keep {made} {BUFFER}: {source} is needed outside of the group"
    for other in walk.sites[walk.sites.index(site) + 1 :]:
        if isinstance(_diverging_node(site, other), Part) or other.do.operator == op.name:
            continue
        if source in walk.bound_leaf(other).names:
            yield f"keep {made} {BUFFER}: {source} is read again by {other.do.operator}"


def ahead_faults(walk: TreeWalk) -> Iterator[Finding]:
    """Yield forks whose first branches can't run an iteration early."""
    forks = {
        step.place: (site, at)
        for site in walk.sites
        for at, step in enumerate(site.steps)
        if isinstance(step.node, Fork) and step.node.ahead
    }
    for place, (site, at) in forks.items():
        fork = site.steps[at].node
        assert isinstance(fork, Fork)  # noqa: S101 - narrows the type
        text = node_text(fork)
        loops = [n for n, _ in site.cutting(at)]
        if not loops:
            yield place, text, "a loop outside, of which an iteration comes early"
            continue
        if any(isinstance(step.node, Fork | Part) for step in site.steps[loops[-1] : at]):
            yield place, text, "a fork right below a loop, with no other fork or part between"
            continue
        inside = [leaf for leaf in walk.sites if any(s.place == place for s in leaf.steps)]
        early = [site for site in inside if site.steps[at].branch < fork.ahead]
        late = [site for site in inside if site.steps[at].branch >= fork.ahead]
        yield from _ahead_tile_faults(walk, (place, text, loops[-1]), early, late)


def _ahead_tile_faults(
    walk: TreeWalk, fork: tuple[str, str, int], early: Sequence[Site], late: Sequence[Site]
) -> Iterator[Finding]:
    place, text, loop = fork
    after = {name for site in late for name, _ in _touched_tiles(walk, site)}
    crossing: dict[str, str] = {}
    for site in early:
        for name, view in _touched_tiles(walk, site):
            home = walk.home(site, name, view)
            if name not in after or home is None:
                continue
            keep = site.steps[next(site.keeps(name))].node
            written = name in walk.makers or name in walk.aliases.values()
            if home < loop and written:
                crossing[name] = f"{name} kept so that the loop outside moves it"
            elif home >= loop and getattr(keep, "slots", 0) < 2:  # noqa: PLR2004 - this and the next
                allowed = f"two slots of {name}, which crosses from one iteration to the next"
                crossing[name] = allowed
    for allowed in crossing.values():
        yield place, text, allowed


def _touched_tiles(walk: TreeWalk, site: Site) -> Iterator[tuple[str, TensorView]]:
    """Yield the tiles that a leaf uses, also the sums that an online softmax rescales."""
    op = walk.bound_leaf(site)
    for use, view in op.uses:
        yield walk.root(use), view
    if isinstance(op.operator, Vector):
        axis = walk.space.axes.get(op.name)
        for other in walk.space.operators:
            if axis in other.reduced and op.output.name in {one.name for one in other.inputs}:
                yield walk.root(other.output.name), other.output
