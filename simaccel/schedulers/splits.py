"""Splits of any workload over chips: all that are legal, and which of them is fastest.

A transformer is cut by its degrees (`simaccel.schedulers.parallel`). Any workload is cut along a
rank that no weights have, such as its batch or its tokens, or by channels: each operator along the
dimension that weights give its output, vector operators as what they read. What can't be cut so is
done by all chips alike. Collectives follow from the cuts, and what isn't legal says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

from simaccel.analytic.link_work import link_works
from simaccel.analytic.native import ideal_cycles
from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipAxis
from simaccel.mapping.chips.sharding import Pod
from simaccel.mapping.chips.uncuttable import uncuttable_ranks
from simaccel.mapping.classes import RankClasses
from simaccel.schedulers.parallel import (
    BATCH,
    KINDS,
    ParallelDegrees,
    Spreads,
    share_of,
    spread_over,
)
from simaccel.workload import Einsum, Operator, Vector, Workload

_CHANNELS: Final = "channels"
_LASTING: Final = ("weight", "cache")
"""Tensors of which each layer has its own, all the time."""


@dataclass(frozen=True)
class LegalSplit:
    """A way to cut a workload over chips, and what each of them does."""

    name: str
    spreads: Spreads
    pod: Pod

    def order(self, accelerator: Accelerator) -> tuple[int, Fraction]:
        """Return bytes of weights and caches that a chip has no room for, then its least cycles."""
        workload, lasting = self.pod.workload, dict[str, int]()
        for operator in workload.operators:
            for operand in operator.inputs:
                if workload.tensors[operand.tensor].kind in _LASTING:
                    n_bytes = workload.times(operator.name) * workload.tensor_bytes(operand.tensor)
                    lasting[operand.tensor] = max(n_bytes, lasting.get(operand.tensor, 0))
        room = accelerator.dram.capacity_bytes
        beyond = 0 if room is None else max(0, sum(lasting.values()) - room)
        return beyond, self.least_cycles(accelerator)

    def least_cycles(self, accelerator: Accelerator) -> Fraction:
        """Return the least cycles of a chip: MACs or bytes of each operator, then collectives."""
        workload, total = self.pod.workload, Fraction()
        rate, channels = accelerator.channel_rate, accelerator.dram.channels
        for operator in workload.operators:
            alone = replace(workload.select_operators([operator.name]), repeat=1)
            names = {operand.tensor for operand in (*operator.inputs, operator.output)}
            n_bytes = sum(map(alone.tensor_bytes, names))
            moved = Fraction(int(rate.cycles(n_bytes // channels)))
            cycles = max(ideal_cycles(alone, accelerator), moved)
            total += workload.times(operator.name) * cycles
        for exchange in self.pod.exchanges:
            for work in link_works(exchange, accelerator, workload.times(exchange.after)):
                total += work.times * work.cycles
        return total


def fastest_split(workload: Workload, accelerator: Accelerator) -> LegalSplit:
    """Return the split of the least cycles of a chip, the first of equal ones.

    If none over all chips is legal, or fits a chip's memory, groups of fewer chips do the same: of
    as many as one is legal for and fits, else the one that is least too large.

    Raises:
        InputError: no split is legal; it says why of each.

    """
    reasons, nearest = dict[str, str](), list[tuple[tuple[int, Fraction], LegalSplit]]()
    for count in _divisors(accelerator.pod.count)[:-1]:
        legal, why = legal_splits(workload, accelerator, count)
        reasons |= why
        pairs = [(split.order(accelerator), split) for split in legal]
        nearest += [min(pairs, key=lambda pair: pair[0])] if pairs else []
        if nearest and nearest[-1][0][0] == 0:
            return nearest[-1][1]
    if nearest:
        return min(nearest, key=lambda pair: pair[0])[1]
    raise InputError(
        [Fault("chips", name, workload.name, allowed) for name, allowed in reasons.items()]
    )


def spread_by_degrees(workload: Workload, degrees: ParallelDegrees) -> Spreads:
    """Return the spreads of each operator of any workload.

    Of a transformer as of `spread_over`. Else data parallelism cuts a rank that no weights have,
    the one of most operators that it divides (images, tokens, rows of a product), and tensor
    parallelism the channels.

    Raises:
        InputError: a size can't be divided by a degree, or there is nothing to cut so.

    """
    if workload.parameters.get("kind") in KINDS:
        return spread_over(workload, degrees)
    for option, is_asked in (
        ("--expert-parallel", degrees.expert > 1),
        ("--sequence-parallel", degrees.sequence),
    ):
        if is_asked:
            allowed = "nothing, as the workload is no transformer"
            raise InputError([Fault(option, "workload", workload.name, allowed)])
    cuts: dict[str, tuple[tuple[str, int], ...]] = dict.fromkeys(workload.by_name, ())
    if degrees.data > 1:
        ways = _RankCuts(workload, degrees.data)
        name = next((rank for rank, n in ways.free_ranks.items() if n % degrees.data == 0), None)
        if name is None:
            sizes = ", ".join(f"{rank} of {n}" for rank, n in ways.free_ranks.items())
            allowed = f"a degree that divides a rank that no weights have: {sizes or 'none'}"
            raise InputError([Fault("--data-parallel", "data", degrees.data, allowed)])
        cuts.update(ways.spreads_along(name))
    if degrees.tensor > 1:
        channels = _RankCuts(workload, degrees.tensor).channels()
        if not any(channels.values()):
            allowed = f"a degree that divides channels of {workload.name}"
            raise InputError([Fault("--tensor-parallel", "tensor", degrees.tensor, allowed)])
        cuts = {name: (*own, *channels[name]) for name, own in cuts.items()}
    return cuts


def legal_splits(
    workload: Workload, accelerator: Accelerator, count: int
) -> tuple[list[LegalSplit], dict[str, str]]:
    """Return all legal splits into ``count`` pieces, and by name what others would need."""
    legal, reasons = list[LegalSplit](), dict[str, str]()
    for name, spreads in _possible_splits(workload, count, reasons):
        try:
            pod = share_of(workload, spreads, accelerator.pod)
        except InputError as error:
            reasons[name] = error.faults[0].allowed
            continue
        legal.append(LegalSplit(name, spreads, pod))
    return legal, reasons


def name_legal_splits(
    error: InputError, workload: Workload, accelerator: Accelerator
) -> InputError:
    """Return an error of a split with the names of all that are legal."""
    names = "none"
    for count in _divisors(accelerator.pod.count)[:-1]:
        legal, _ = legal_splits(workload, accelerator, count)
        if legal:
            names = ", ".join(split.name for split in legal)
            break
    return InputError(
        [
            replace(fault, allowed=f"{fault.allowed}; legal on these chips: {names}")
            for fault in error.faults
        ]
    )


def _divisors(count: int) -> list[int]:
    """Return the divisors of a number, itself first."""
    return [n for n in range(count, 0, -1) if count % n == 0]


def _possible_splits(
    workload: Workload, count: int, reasons: dict[str, str]
) -> Iterator[tuple[str, Spreads]]:
    """Yield splits by name, and note those that a size doesn't allow."""
    is_transformer = workload.parameters.get("kind") in KINDS
    for tensor in _divisors(count) if is_transformer else ():
        name = f"tensor {tensor} x data {count // tensor}"
        try:
            yield name, spread_over(workload, ParallelDegrees(tensor, count // tensor))
        except InputError as error:
            reasons[name] = error.faults[0].allowed
    cuts = _RankCuts(workload, count)
    for rank, size in cuts.free_ranks.items():
        if is_transformer and rank == BATCH:
            continue  # data parallelism
        if size % count:
            reasons[f"{rank} {count}"] = f"a number that divides {size}, the size of {rank}"
        else:
            yield f"{rank} {count}", cuts.spreads_along(rank)
    channels = cuts.channels()
    if any(channels.values()):
        yield f"{_CHANNELS} {count}", channels
    else:
        reasons[f"{_CHANNELS} {count}"] = f"a number that divides channels of {workload.name}"


@dataclass(frozen=True)
class _RankCuts:
    """Cuts of a workload's operators along one rank each, in ``count`` pieces."""

    workload: Workload
    count: int

    @cached_property
    def classes(self) -> RankClasses:
        """The ranks of all operators that are one, as they index the same dimension."""
        return RankClasses(self.workload.operators)

    @cached_property
    def free_ranks(self) -> dict[str, int]:
        """Ranks of most products' outputs that no weights have, those of most operators first.

        With the size of each.
        """
        sizes: dict[str, int] = {}
        numbers: Counter[str] = Counter()
        products: Counter[str] = Counter()
        for at, operator in enumerate(self.workload.operators):
            for rank in self._free(operator):
                name = self.classes.name((at, rank))
                numbers[name] += 1
                sizes[name] = operator.ranks[rank]
                products[name] += isinstance(operator, Einsum)
        most = max(products.values(), default=0)
        return {name: sizes[name] for name, _ in numbers.most_common() if 2 * products[name] > most}

    def spreads_along(self, name: str) -> Spreads:
        """Return cuts of operators along a rank, of products without it along another such."""
        cuts = {}
        for at, operator in enumerate(self.workload.operators):
            own = [rank for rank in operator.ranks if self.classes.name((at, rank)) == name]
            if not own and isinstance(operator, Einsum):
                own = [rank for rank in self._free(operator) if self._is_cut(operator, rank)][:1]
            cuts[operator.name] = tuple((rank, self.count) for rank in own)
        return cuts

    def channels(self) -> Spreads:
        """Return cuts of products by ranks of outputs that weights have, of others as they read."""
        cuts: dict[str, tuple[tuple[str, int], ...]] = {}
        dimensions: dict[str, int] = {}
        for operator in self.workload.operators:
            outermost = [dim.outermost(operator.ranks) for dim in operator.output.projection]
            rank = None
            if isinstance(operator, Vector):
                at = dimensions.get(operator.input.tensor)
                rank = None if at is None else operator.input.projection[at].terms[0][0]
            else:
                weighted = self._weight_ranks(operator)
                wide = [r for r in outermost if r in weighted and self._is_cut(operator, str(r))]
                rank = max(wide, key=lambda r: operator.ranks[str(r)], default=None)
            if rank in outermost and rank is not None and self._is_cut(operator, rank):
                dimensions[operator.output.tensor] = outermost.index(rank)
                cuts[operator.name] = ((rank, self.count),)
            else:
                cuts[operator.name] = ()
        return cuts

    def _weight_ranks(self, operator: Operator) -> set[str]:
        """Return the ranks of an operator's weights."""
        kinds = self.workload.tensors
        weights = (one for one in operator.inputs if kinds[one.tensor].kind == "weight")
        return {rank for one in weights for rank in one.ranks}

    def _free(self, operator: Operator) -> Iterator[str]:
        """Yield the ranks of an operator's output that no weights of it have."""
        weighted = self._weight_ranks(operator) if isinstance(operator, Einsum) else set[str]()
        yield from (rank for rank in operator.output.ranks if rank not in weighted)

    def _is_cut(self, operator: Operator, rank: str) -> bool:
        """Return whether an operator can be cut along a rank."""
        cuts = {rank: (ChipAxis(1, self.count),)}
        whole = operator.ranks[rank] % self.count == 0
        return whole and not any(uncuttable_ranks(operator, cuts, self.workload))
