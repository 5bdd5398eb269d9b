"""Transformers over chips: which ranks tensor and data parallelism cut, operator by operator.

Tensor parallelism cuts heads in attention and the inner rank in feed-forward layers (Shoeybi et
al., "Megatron-LM: training multi-billion parameter language models using model parallelism", 2019):
the projections of Q, K and V and the first layers are cut by their columns, O and the last layer by
their rows. Where there are more chips than heads of K and V, query heads that share one are cut,
too, and K and V are on several chips. Logits are cut by the vocabulary where that can be divided.
Data parallelism cuts the sequences of a batch. Expert parallelism does so, too, but in layers of
experts, which it cuts instead (Lepikhin et al., "GShard", 2020). Sequence parallelism cuts norms
and residuals, which all chips of a layer would do alike, by tokens over them (Korthikanti et al.,
"Reducing activation recomputation in large transformer models", 2022). What follows, such as two
all-reduces a layer, a reduce-scatter and an all-gather in place of each, or all-to-alls before
and after experts, is found from the cuts (`simaccel.mapping.chips`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from simaccel.errors import Fault, InputError, MistakeError
from simaccel.hardware.chips import ChipPod
from simaccel.mapping.chips.keeps import rename_keeps
from simaccel.mapping.chips.sharding import CHIPS, Pod, replace_groups, shard
from simaccel.mapping.classes import RankClasses
from simaccel.mapping.tree import Do, Group, Keep, Spread, Tree, WorkloadReference
from simaccel.mapping.tree import Mapping as MappingTree
from simaccel.search.judge import mapping_of
from simaccel.search.problems import Options
from simaccel.units import SFU
from simaccel.workload import Einsum, Operator, Vector, Workload

KINDS: Final = ("transformer", "attention")
BATCH: Final = "b"
_HEADS: Final = ("g", "h", "r")
"""Ranks of heads, outermost first: of K and V (or of all), and of queries that share a head."""
_INNER: Final = "f"
_VOCABULARY: Final = "v"
_HIDDEN: Final = "e"
_TOKENS: Final = ("n", BATCH)
"""Ranks of tokens, of which the first divisible one is cut; in decode that of the batch."""
_EXPERTS: Final = "x"
SEQUENCE: Final = " with sequence"
GROUPS: Final = "u"
"""Rank of the groups of tokens that masks distribute to experts; in decode cut like the batch."""
_PLACES: Final = "t"
"""Rank of the tokens of an expert within a group."""
Spreads = Mapping[str, tuple[tuple[str, int], ...]]
"""Ranks and numbers of pieces by operator, outermost first."""
KeptOnce = Mapping[str, tuple[str, ...]]
"""Weights, by operator, that are stored once and sharded over the chips."""


@dataclass(frozen=True)
class ParallelDegrees:
    """Degrees of tensor, data and expert parallelism.

    ``sequence``: norms and residuals are cut by tokens over the chips of tensor parallelism.
    ``alike``: chips of expert parallelism do the same in all other layers, as the batch can't be
    cut over them.
    """

    tensor: int
    data: int
    expert: int = 1
    sequence: bool = False
    alike: bool = False

    @property
    def name(self) -> str:
        """The degrees in words.

        >>> ParallelDegrees(4, 1, 2).name
        'tensor 4 x data 1 x expert 2'
        """
        experts = f" x expert {self.expert}" if self.expert > 1 else ""
        sequence = SEQUENCE if self.sequence else ""
        return f"tensor {self.tensor} x data {self.data}{experts}{sequence}"

    @property
    def batch(self) -> int:
        """Number of parts that the batch is cut into."""
        return self.data if self.alike else self.data * self.expert


def degrees_of(
    chips: ChipPod,
    tensor: int | None,
    data: int | None,
    expert: int | None = None,
    *,
    sequence: bool = False,
    stages: int = 1,
    copies: int | None = None,
) -> ParallelDegrees:
    """Return the degrees of parallelism of a pod; one that isn't given takes the remaining chips.

    ``stages``: number of pipeline stages, each with these degrees; ``copies``: number of groups of
    chips with equal work, beside which chips may be idle.

    Raises:
        InputError: the degrees don't multiply to the number of chips.
    """
    expert = 1 if expert is None else expert
    left = chips.count // (expert * stages * (copies or 1))
    if data is None:
        data = 1 if tensor is None else max(1, left // tensor)
    if tensor is None:
        tensor = max(1, left // data)
    used = tensor * data * expert * stages * (copies or 1)
    if used > chips.count or (copies is None and used < chips.count):
        degrees = {"tensor": tensor, "data": data}
        more = {"expert": expert, "pipeline": stages}
        degrees |= {name: degree for name, degree in more.items() if degree > 1}
        value = " x ".join(f"{name} {degree}" for name, degree in degrees.items())
        options = ", ".join(f"--{name}-parallel" for name in degrees)
        allowed = f"a product of {chips.count} chips"
        raise InputError([Fault(options, "degrees", value, allowed)])
    return ParallelDegrees(tensor, data, expert, sequence)


def degrees_text(options: Options, chips: int) -> str:
    """Return the degrees of some options in words, and what becomes of the other chips."""
    tensor, data, expert = (degree or 1 for degree in options.degrees)
    copies = options.copies or 1
    name = ParallelDegrees(tensor, data, expert, options.sequence_parallel).name
    name += f", {copies} groups of chips alike" * (copies > 1)
    idle = chips - tensor * data * expert * copies
    return name + f", {idle} of {chips} chips idle" * (idle > 0)


def spread_over(workload: Workload, degrees: ParallelDegrees) -> Spreads:
    """Return how each operator of a transformer is cut over the chips.

    Raises:
        InputError: a size can't be divided by a degree.
    """
    if degrees.expert > 1:
        _require_experts(workload, degrees)
        batch = max(operator.ranks.get(BATCH, 1) for operator in workload.operators)
        degrees = replace(degrees, alike=batch % degrees.batch != 0)
    heads = _heads(workload, degrees.tensor)
    cuts = {op.name: tuple(_cuts(op, degrees, heads)) for op in workload.operators}
    if not degrees.sequence:
        return cuts
    adding = _adding_parts(workload)
    tokens = {op.name: tuple(_cuts_of_tokens(op, degrees)) for op in workload.operators}
    more = {name: own if name in adding else (*own, *tokens[name]) for name, own in cuts.items()}
    if more == cuts:
        allowed = f"nothing: tensor degree {degrees.tensor} divides tokens of no norm or residual"
        raise InputError([Fault("--sequence-parallel", "workload", workload.name, allowed)])
    return more


def _adding_parts(workload: Workload) -> set[str]:
    """Return vector operators between experts and the sum of what they make for a token.

    They read or write a box, as tokens of experts are boxes, or add what such or products make: all
    chips of a layer have their parts of it, so that sums over chips come behind them.
    """
    adding, parts = set[str](), set[str]()
    for operator in workload.operators:
        operands = (*operator.inputs, operator.output)
        added = [operand.tensor in parts for operand in operator.inputs]
        if isinstance(operator, Vector):
            behind = {"residual": all(added), "product": any(added)}.get(operator.kind, False)
            if behind or any(operand.start for operand in operands):
                adding.add(operator.name)
        if operator.name in adding or isinstance(operator, Einsum):
            parts.add(operator.output.tensor)
    return adding


def _cuts_of_tokens(operator: Operator, degrees: ParallelDegrees) -> Iterator[tuple[str, int]]:
    """Yield how the tokens of a norm or residual are cut over the chips that share a layer."""
    own = isinstance(operator, Vector) and _HIDDEN in operator.ranks and degrees.tensor > 1
    for rank in _TOKENS if own else ():
        size = operator.ranks.get(rank, 1) // (degrees.batch if rank == BATCH else 1)
        if size and size % degrees.tensor == 0:
            yield rank, degrees.tensor
            return


def expert_count(workload: Workload) -> int:
    """Return the number of experts of a workload; 0 if it has none."""
    return max((operator.ranks.get(_EXPERTS, 0) for operator in workload.operators), default=0)


def _require_experts(workload: Workload, degrees: ParallelDegrees) -> None:
    """Refuse expert parallelism of what has no experts, or not as many.

    Raises:
        InputError: says why.
    """
    experts, allowed = expert_count(workload), ""
    sizes = (op.ranks.get(_EXPERTS, 0) for op in workload.operators if _PLACES in op.ranks)
    used = max(sizes, default=0)
    if not experts:
        allowed = f"nothing: {workload.name} has no experts"
    elif not any(GROUPS in operator.ranks for operator in workload.operators):
        allowed = "nothing, but with --set experts=grouped"
    elif degrees.expert > experts:
        allowed = f"at most the {experts} experts of {workload.name}"
    elif used % degrees.expert:
        allowed = f"a degree that divides the {used} places of experts that tokens go to"
    if allowed:
        raise InputError([Fault("--expert-parallel", "expert", degrees.expert, allowed)])


def _heads(workload: Workload, tensor: int) -> dict[str, int]:
    """Return the pieces of each rank of heads."""
    operators = workload.operators
    sizes = {rank: max(operator.ranks.get(rank, 1) for operator in operators) for rank in _HEADS}
    pieces, left = {}, tensor
    for rank in _HEADS:
        pieces[rank] = math.gcd(left, sizes[rank])
        left //= pieces[rank]
    if left > 1:
        total = math.prod(sizes.values())
        allowed = f"a degree that divides the {total} heads of {workload.name}"
        raise InputError([Fault("--tensor-parallel", "tensor", tensor, allowed)])
    return pieces


def _cuts(
    operator: Operator, degrees: ParallelDegrees, heads: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    yield from _cuts_of_batch(operator, degrees)
    own = [rank for rank in _HEADS if rank in operator.ranks]
    if own:
        yield from ((rank, heads[rank]) for rank in own if heads[rank] > 1)
    elif _INNER in operator.ranks and degrees.tensor > 1:
        if operator.ranks[_INNER] % degrees.tensor:
            size, name = operator.ranks[_INNER], operator.name
            allowed = f"a degree that divides {size}, the inner size of {name}"
            raise InputError([Fault("--tensor-parallel", "tensor", degrees.tensor, allowed)])
        yield _INNER, degrees.tensor
    elif _VOCABULARY in operator.ranks and operator.ranks[_VOCABULARY] % degrees.tensor == 0:
        yield _VOCABULARY, degrees.tensor


def _cuts_of_batch(operator: Operator, degrees: ParallelDegrees) -> Iterator[tuple[str, int]]:
    """Yield how the tokens of an operator are cut, and the experts that have them."""
    ranks = operator.ranks
    cut = next((rank for rank in (BATCH, GROUPS, _PLACES) if rank in ranks), None)
    shares = degrees.expert > 1 and _PLACES in ranks
    if degrees.expert > 1 and GROUPS in ranks and cut is not None:
        # where groups can't be cut over the chips that share experts, each brings all tokens to
        # its experts, and what these make is added
        shares = degrees.alike or ranks[cut] % degrees.batch != 0
    parts = degrees.data if shares else degrees.batch
    if parts > 1 and cut is not None:
        if ranks[cut] % parts:
            kinds = ("data", "expert")
            options = [f"--{name}-parallel" for name in kinds if vars(degrees)[name] > 1]
            what = "batch" if cut == BATCH else "groups of tokens"
            allowed = f"a degree that divides the {what} of {ranks[cut]}"
            raise InputError([Fault(", ".join(options), "data", parts, allowed)])
        yield cut, parts
    if shares:
        yield _EXPERTS, degrees.expert


def sharded_weights(workload: Workload, spreads: Spreads, count: int) -> KeptOnce:
    """Return by operator the weights that can be sharded instead of replicated over the chips.

    Weights without a divisible dimension stay replicated.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for operator in workload.operators:
        pieces, names = dict(spreads[operator.name]), dict[str, None]()
        for operand in operator.inputs if isinstance(operator, Einsum) else ():
            own = [pieces.get(dim.outermost(operator.ranks) or "", 1) for dim in operand.projection]
            left, sizes = count // math.prod(own), operand.shape(operator.ranks)
            pairs = zip(sizes, own, strict=True)
            cuts = left > 1 and any(size % (cut * left) == 0 for size, cut in pairs)
            is_weight = workload.tensors[operand.tensor].kind == "weight"
            if is_weight and cuts and not operand.start:
                names[operand.tensor] = None
        kept[operator.name] = tuple(names)
    return kept


def share_of(
    workload: Workload, spreads: Spreads, chips: ChipPod, once: KeptOnce | None = None
) -> Pod:
    """Return each chip's workload and the exchanges, before anything is mapped.

    ``once``: weights that are sharded over the chips.

    Raises:
        InputError: what can't be cut.
    """
    groups = []
    for operator in workload.operators:
        name, cuts = operator.name, spreads[operator.name]
        tree: Tree = (*_keeps(once, [name]), *_nodes(operator, cuts), Do(name, SFU))
        groups.append(Group(operators=(name,), tree=tree))
    pod, findings = shard(workload, mapping_of(workload, "", groups), chips)
    if pod is None:
        raise InputError([Fault("chips", *finding) for finding in dict.fromkeys(findings)])
    return pod


def _keeps(once: KeptOnce | None, operators: Sequence[str]) -> tuple[Keep, ...]:
    """Return nodes of weights that lie once on all chips."""
    names = (name for operator in operators for name in (once or {}).get(operator, ()))
    return tuple(Keep(name, CHIPS) for name in dict.fromkeys(names))


def _nodes(one: Operator, cuts: Sequence[tuple[str, int]]) -> tuple[Spread, ...]:
    left, found = dict(one.ranks), []
    for rank, pieces in cuts:
        left[rank] //= pieces
        found.append(Spread(rank, left[rank], CHIPS))
    return tuple(found)


def with_spreads(
    workload: Workload,
    spreads: Spreads,
    pod: Pod,
    mapping: MappingTree,
    once: KeptOnce | None = None,
) -> MappingTree:
    """Return the mapping of all chips: that of one chip, with spreads outermost in each group."""

    def spread_group(group: Group) -> Group:
        operators = [workload.operator(name) for name in group.operators]
        classes = RankClasses(operators)
        nodes: tuple[Spread, ...] = ()
        for at, operator in enumerate(operators):
            inner = tuple(
                replace(node, rank=classes.name((at, node.rank)))
                for node in _nodes(operator, spreads[operator.name])
            )
            nodes = max(nodes, inner, key=len)
        return replace(group, tree=(*_keeps(once, group.operators), *nodes, *group.tree))

    named = rename_keeps(mapping, lambda _: lambda name: pod.layouts.get(name, (name,))[0])
    reference = WorkloadReference(workload.name, workload.fingerprint)
    return replace(replace_groups(named, spread_group), workload=reference)


def whole_mapping(
    workload: Workload,
    spreads: Spreads,
    pod: Pod,
    mapping: MappingTree,
    chips: ChipPod,
    once: KeptOnce | None = None,
) -> MappingTree:
    """Return the mapping of all chips (`with_spreads`), checked.

    Raises:
        MistakeError: it would not be this mapping on each chip.
    """
    joined = with_spreads(workload, spreads, pod, mapping, once)
    pod_again, _ = shard(workload, joined, chips)
    if pod_again is None or pod_again.mapping != mapping:
        raise MistakeError(f"{workload.name}: the mapping of one chip is no part of that of all")
    return joined
