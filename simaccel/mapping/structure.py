"""Checks of a group's structure: known names, valid sizes, and nodes where they may stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from simaccel.errors import suggest
from simaccel.mapping.node_text import Finding, node_text
from simaccel.mapping.space import BoundOperator, IterationSpace, space_of
from simaccel.mapping.tree import (
    BUFFER,
    DRAM,
    PE,
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Node,
    Part,
    Spread,
    Tree,
    nodes,
)
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector, Workload, operands_of

LEVELS = (BUFFER, PE)


def structure_faults(workload: Workload, group: Group) -> list[Finding]:
    """Return the faults of a group's operators or, if they have none, of the nodes of its tree."""
    found = fusion_faults(workload, group)
    if found:
        return found
    space = space_of(workload, group)
    checker = _Checker(space, frozenset(use for op in space.operators for use, _ in op.uses))
    return list(checker.tree(group.tree, "tree", dict(space.sizes), frozenset(space.sizes)))


def fusion_faults(workload: Workload, group: Group) -> list[Finding]:
    """Return why no tree can fuse a group's operators with its merged and padded ranks."""
    found = list(_operator_faults(workload, group))
    if found:
        return found
    plain = space_of(workload, replace(group, merged={}, padded={}))
    return [
        *_size_faults(plain),
        *(_merged_rank_faults(group, plain) if group.merged else ()),
        *(_padded_rank_faults(group, plain) if group.padded else ()),
    ]


def _size_faults(plain: IterationSpace) -> Iterator[Finding]:
    """Yield operators whose size of a rank, before padding, isn't that of the group's rank.

    A derived rank has the size that follows from its terms, halo included.
    """
    if plain.circular:
        text = ", ".join(sorted(plain.circular))
        yield "operators", text, "another group: in this one it would be a sum of itself"
        return
    sizes = plain.widen(plain.sizes)
    for at, op in enumerate(plain.operators):
        for rank, own in zip(op.ranks, op.operator.ranks.items(), strict=True):
            if sizes[rank] != own[1]:
                text = f"{own[0]} {own[1]} of {op.name}"
                yield f"operators[{at}]", text, f"another group: here {rank} is {sizes[rank]}"


def _operator_faults(workload: Workload, group: Group) -> Iterator[Finding]:
    known = workload.by_name
    if not group.operators:
        yield "operators", "none", f"some of {', '.join(known)}"
    for at, name in enumerate(group.operators):
        if name not in known:
            yield f"operators[{at}]", name, suggest(name, [*known])
        elif name in group.operators[:at]:
            yield f"operators[{at}]", name, "each operator once"
    if not set(group.operators) - known.keys():
        yield from _separate_group_faults(workload, group)


def _separate_group_faults(workload: Workload, group: Group) -> Iterator[Finding]:
    """Yield operators that can't be in one group: they use other boxes of a tensor, or repeat.

    Two tensors of one chip that are parts of one tensor of all chips are other boxes of it.
    """
    boxes: dict[str, tuple[tuple[str, tuple[slice, ...]], str]] = {}
    first = group.operators[0] if group.operators else ""
    for at, name in enumerate(group.operators):
        operator, where = workload.operator(name), f"operators[{at}]"
        if workload.times(name) != workload.times(first):
            yield where, name, f"operators that run as often as {first}"
        for _, operand in operands_of(operator):
            box = operand.tensor, operand.box(operator.ranks)
            whole = workload.tensors[operand.tensor].whole or operand.tensor
            known, other = boxes.setdefault(whole, (box, name))
            if box != known and other != name:
                yield (
                    where,
                    str(operand),
                    f"another group: {other} sees another box of {operand.tensor}",
                )


def _merged_rank_faults(group: Group, plain: IterationSpace) -> Iterator[Finding]:
    uses = [view for operator in plain.operators for _, view in operator.uses]
    sums = [*plain.derived.values(), *(dim for view in uses for dim in view.terms)]
    alone = {rank for dim in sums if len(dim) > 1 or dim[0][1] > 1 for rank, _ in dim}
    alone |= {*plain.unmerged, *plain.derived}
    taken: set[str] = set()
    for name, ranks in group.merged.items():
        where = f"merged.{name}"
        if name in set(plain.sizes) - set(ranks):
            yield where, name, "a name that no other rank has"
        apart = [view for view in uses if 0 < len(view.names & set(ranks)) < len(set(ranks))]
        if apart:
            allowed = f"ranks that {apart[0].name} has together, or not at all"
            yield where, ",".join(ranks), allowed
        for rank in ranks:
            if rank not in {*plain.sizes, *alone}:
                yield where, rank, suggest(rank, plain.sizes)
            elif rank in alone:
                allowed = (
                    "no axis of a vector operator nor row of a mask, no part of a sum of ranks, "
                    "and none that stands in different dimensions of a tensor"
                )
                yield where, rank, allowed
            elif rank in taken:
                yield where, rank, "each rank in one of the merged ones"
            taken.add(rank)


def _padded_rank_faults(group: Group, plain: IterationSpace) -> Iterator[Finding]:
    for rank, size in group.padded.items():
        where = f"padded.{rank}"
        if rank not in plain.sizes:
            yield where, size, suggest(rank, plain.sizes)
        elif size < plain.sizes[rank]:
            yield where, size, f"{plain.sizes[rank]} or more"
        elif any(rank in plain.axis_ranks(name) for name in plain.axes):
            yield where, size, "no rank that is the axis of a vector operator"


@dataclass(frozen=True)
class _Checker:
    """Checks of the nodes of a group's tree; ``tensors``: names by which its operators use them."""

    space: IterationSpace
    tensors: frozenset[str]

    def tree(
        self, tree: Tree, place: str, sizes: Mapping[str, int], uncut: frozenset[str]
    ) -> Iterator[Finding]:
        """Yield the faults of a tree.

        ``sizes``: of ranks at its top. ``uncut``: ranks that no loop outside cuts; parts may.
        """
        if not tree:
            yield place, "no nodes", "nodes, the last of them do, fork or part"
        for at, node in enumerate(tree):
            where, text = f"{place}[{at}]", node_text(node)
            ends, last = isinstance(node, Do | Fork | Part), at == len(tree) - 1
            if ends != last:
                more = "loop, spread or keep; do, fork and part stand last"
                yield where, text, "do, fork or part, as this node is the last" if last else more
            wrong = list(self._node(node, where, tree[at + 1 :], sizes))
            yield from wrong
            if wrong and not isinstance(node, Keep | Do | Fork):
                return
            if isinstance(node, Fork | Part):
                yield from self._branches(node, where, sizes, uncut)
            elif isinstance(node, Loop | Spread):
                whole = sizes[node.rank]
                if whole > node.tile:
                    uncut = uncut - {node.rank}
                sizes = {**sizes, node.rank: min(whole, node.tile)}

    def _node(
        self, node: Node, where: str, below: Tree, sizes: Mapping[str, int]
    ) -> Iterator[Finding]:
        if isinstance(node, Loop | Spread):
            text = node_text(node)
            yield from self._check_rank(node.rank, where, text, below)
            most = self.space.sizes.get(node.rank, node.tile)
            if not 1 <= node.tile <= most:
                yield where, text, f"pieces of 1 to {most}, the size of {node.rank}"
        elif isinstance(node, Keep):
            yield from self._keep(node, where, below)
        elif isinstance(node, Do):
            yield from self._do(node, where)
        elif isinstance(node, Fork):
            if not node.branches:
                yield where, node_text(node), "at least one branch"
            elif not 0 <= node.ahead < len(node.branches):
                yield where, node_text(node), f"ahead 0 to {len(node.branches) - 1}"
        else:
            yield from self._part(node, where, sizes)

    def _check_rank(self, rank: str, where: str, text: str, below: Tree) -> Iterator[Finding]:
        if rank in self.space.derived:
            terms = "+".join(term for term, _ in self.space.derived[rank])
            yield where, text, f"a rank that isn't the sum of others; {rank} is {terms}"
        elif rank not in self.space.sizes:
            yield where, text, f"a rank of the group; {suggest(rank, self.space.sizes)}"
        elif rank not in self._ranks(below):
            known = ", ".join(self._ranks(below)) or "there is none, and a tree ends with do"
            yield where, text, f"a rank of an operator below: {known}"

    def _ranks(self, below: Tree) -> list[str]:
        ranks = (rank for op in self._operators(below) for rank in op.ranks)
        return list(dict.fromkeys(self.space.plain_ranks(ranks)))

    def _operators(self, below: Tree) -> list[BoundOperator]:
        done = {node.operator for node in nodes(below) if isinstance(node, Do)}
        return [op for op in self.space.operators if op.name in done]

    def _keep(self, node: Keep, where: str, below: Tree) -> Iterator[Finding]:
        text = node_text(node)
        used = {use for op in self._operators(below) for use, _ in op.uses}
        if node.tensor not in self.tensors:
            yield (
                where,
                text,
                f"a tensor of the group; {suggest(node.tensor, sorted(self.tensors))}",
            )
        elif node.tensor not in used:
            yield where, text, f"a tensor that an operator below uses: {', '.join(sorted(used))}"
        if node.level not in LEVELS:
            more = "; DRAM has what is kept nowhere else" if node.level == DRAM else ""
            yield where, text, f"level {' or '.join(LEVELS)}{more}"
        if node.slots < 1:
            yield where, text, "at least one slot"
        if node.anew and (node.level != BUFFER or node.tensor in self.space.made):
            yield where, text, "anew only after a tensor that is loaded into the buffer"
        elif node.anew and any(
            isinstance(below_node, Keep) and below_node.tensor == node.tensor
            for below_node in nodes(below)
        ):
            yield where, text, "anew where no keep inside holds the tensor"
        if node.region:
            yield where, text, "no region; a keep around groups may have one"

    def _do(self, node: Do, where: str) -> Iterator[Finding]:
        text = node_text(node)
        known = [op.name for op in self.space.operators]
        if node.operator not in known:
            yield where, text, f"an operator of the group; {suggest(node.operator, known)}"
            return
        vector = isinstance(self.space.bound_operator(node.operator).operator, Vector)
        if vector != (node.unit == SFU):
            allowed = "sfu, as it is a vector operator" if vector else "array or mac, for an einsum"
            yield where, text, allowed
        elif (node.unit == ARRAY) != (node.stationarity is not None):
            yield where, text, "a stationarity (ws, os or is) after array, and nowhere else"
        elif node.diagonal and node.unit != ARRAY:
            yield where, text, "diagonal after array and a stationarity, and nowhere else"

    def _part(self, node: Part, where: str, sizes: Mapping[str, int]) -> Iterator[Finding]:
        text, below = node_text(node), tuple(child for tree in node.branches for child in tree)
        unknown = list(self._check_rank(node.rank, where, text, below))
        yield from unknown
        if unknown:
            return
        whole = sizes[node.rank]
        if min(node.sizes, default=0) < 1 or sum(node.sizes) > whole:
            yield where, text, f"sizes of 1 or more, together at most {whole}"
        if len(node.branches) != len(node.sizes) + 1:
            branches = f"{len(node.sizes) + 1} branches"
            yield where, f"{len(node.branches)} branches", f"{branches}, the last for the rest"

    def _branches(
        self, node: Fork | Part, where: str, sizes: Mapping[str, int], uncut: frozenset[str]
    ) -> Iterator[Finding]:
        if isinstance(node, Fork):
            for at, branch in enumerate(node.branches):
                yield from self.tree(branch, f"{where}.fork[{at}]", sizes, uncut)
            return
        if node.rank not in uncut:
            yield where, node_text(node), "a rank that no loop outside cuts"
        for at, _, size, branch in node.shares(sizes[node.rank]):
            inside = {**sizes, node.rank: size}
            yield from self.tree(branch, f"{where}.part[{at}]", inside, uncut | {node.rank})
