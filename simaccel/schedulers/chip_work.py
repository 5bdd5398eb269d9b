"""Work of one of several chips, estimated before anything is mapped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Final

from simaccel.analytic.native import ideal_cycles
from simaccel.hardware import STATIONARITIES, Accelerator, ArraySpec
from simaccel.hardware.fold_grid import spatial
from simaccel.numbers import in_bytes
from simaccel.schedulers.parallel import KeptOnce, Spreads, sharded_weights
from simaccel.workload import VECTORS, Einsum, Operator, Vector, Workload
from simaccel.workload.roles import part_of

_LASTING: Final = ("weight", "cache")
"""Kinds of tensors that occupy memory for every layer at the same time."""
_Cuts = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class ChipWork:
    """Bytes and cycles of one chip's share of a workload that is cut along ranks.

    ``slowdowns``: by operator, how many times as long as its estimate it takes, where a dataflow is
    known to be that slow. ``shard_weights``: chips have parts of weights that they would replicate.
    """

    workload: Workload
    accelerator: Accelerator
    slowdowns: Mapping[str, Fraction] = field(default_factory=dict)
    shard_weights: bool = False
    known: dict[tuple[str, _Cuts], Fraction] = field(default_factory=dict)

    def cycles(self, spreads: Spreads) -> Fraction:
        """Return a lower bound of the cycles: the sum over operators, times their `slowdowns`.

        An operator takes the longest of its MACs, vector work and bytes.
        """
        cycles = (self.operator_cycles(name, cuts) for name, cuts in spreads.items())
        return sum(cycles, Fraction())

    def operator_cycles(self, name: str, cuts: _Cuts) -> Fraction:
        """Return the cycles of an operator, all the times that it runs."""
        key = name, tuple(cuts)
        if key not in self.known:
            slowdown = self.slowdowns.get(name, Fraction(1))
            once = self._least_cycles(self.workload.operator(name), key[1])
            self.known[key] = self.workload.times(name) * slowdown * once
        return self.known[key]

    def used_chips(self, spreads: Spreads) -> int:
        """Return the number of chips with work: all, if the different pieces divide them."""
        pieces = math.lcm(*(math.prod(n for _, n in cuts) for cuts in spreads.values()))
        count = self.accelerator.pod.count
        return pieces if count % pieces else count

    def weights_kept_once(self, spreads: Spreads) -> KeptOnce:
        """Return by operator the weights of which each chip has a part, if they are sharded."""
        if not self.shard_weights:
            return {}
        return sharded_weights(self.workload, spreads, self.used_chips(spreads))

    def bytes_beyond(self, spreads: Spreads) -> int:
        """Return the bytes of weights and caches of all layers beyond the capacity of a chip."""
        workload, lasting, most = self.workload, dict[str, int](), 1
        once, chips = self.weights_kept_once(spreads), self.used_chips(spreads)
        for operator in workload.operators:
            cuts, parts = dict(spreads[operator.name]), once.get(operator.name, ())
            for tensor, ranks in ((workload.tensors[o.tensor], o.ranks) for o in operator.inputs):
                pieces = 1 if tensor.table else math.prod(cuts.get(rank, 1) for rank in ranks)
                pieces = chips if tensor.name in parts else pieces
                if tensor.kind in _LASTING:
                    n_bytes = workload.stored_bytes(tensor.name) // pieces
                    held = workload.times(operator.name) * n_bytes
                    lasting[tensor.name] = max(held, lasting.get(tensor.name, 0))
                if tensor.kind == "weight" and not tensor.stored:
                    most = max(most, pieces)
        for name in lasting:
            lasting[name] //= most if workload.tensors[name].table else 1
        room = self.accelerator.dram.capacity_bytes
        return 0 if room is None else max(0, sum(lasting.values()) - room)

    def _least_cycles(self, operator: Operator, cuts: _Cuts) -> Fraction:
        """Return the least cycles of a chip's part of an operator, once."""
        ranks = dict(operator.ranks)
        for rank, pieces in cuts:
            ranks[rank] //= pieces
        tensors = self.workload.tensors
        moved = {
            operand.tensor: in_bytes(math.prod(operand.shape(ranks)), tensors[operand.tensor].bits)
            for operand in (*operator.inputs, operator.output)
        }
        channels = self.accelerator.dram.channels
        memory = int(self.accelerator.channel_rate.cycles(sum(moved.values()) // channels))
        if isinstance(operator, Vector):
            sfu, step = self.accelerator.sfu, VECTORS[operator.kind].steps["whole"]
            elements = math.prod(ranks.values())  # in one block
            rows = elements // ranks.get(operator.axis or "", 1)
            work = sfu.cycles(sfu.choose_form(step, step.merged), elements, rows)
            return Fraction(max(memory, work))
        ideal = self._ideal[operator.name] / math.prod(pieces for _, pieces in cuts)
        return max(ideal * self._padding(operator, ranks), Fraction(memory))

    @cached_property
    def _ideal(self) -> dict[str, Fraction]:
        """Cycles of each operator's MACs on all PEs, of the whole workload."""
        names = [operator.name for operator in self.workload.operators]
        alone = {name: self.workload.select_operators([name]) for name in names}
        return {name: ideal_cycles(alone[name], self.accelerator) for name in names}

    def _padding(self, operator: Einsum, ranks: Mapping[str, int]) -> Fraction:
        """Return how many PEs are taken for each that works, as sides are those of the array."""
        array = self.accelerator.array
        if not isinstance(array, ArraySpec) or len(operator.inputs) != 2:  # noqa: PLR2004
            return Fraction(1)
        names = [operand.ranks for operand in (*operator.inputs, operator.output)]
        sizes = dict.fromkeys("gmkn", 1)
        taps = self._single_taps(operator)
        for rank, size in ranks.items():
            sizes["g" if rank in taps else part_of(rank, names) or "g"] *= size
        free = () if self.accelerator.compiler.described else STATIONARITIES
        kinds = free if array.stationarity == "free" else (array.stationarity,)
        sides = (spatial(sizes["m"], sizes["k"], sizes["n"], kind)[:2] for kind in kinds or ("ws",))
        return min(
            Fraction(-(-high // array.rows) * array.rows, high)
            * Fraction(-(-wide // array.cols) * array.cols, wide)
            for high, wide in sides
        )

    def _single_taps(self, operator: Einsum) -> set[str]:
        """Return the taps of a filter that a compiler works on one after the other."""
        compiler = self.accelerator.compiler
        dims = [dim for operand in operator.inputs for dim in operand.projection]
        windows = [dim for dim in dims if len(dim.terms) > 1]
        if not compiler.described:
            return set()
        chosen = windows[:-1] if compiler.merged_taps else windows
        return {rank for dim in chosen for rank, _ in dim.terms} - {*operator.output.ranks}
