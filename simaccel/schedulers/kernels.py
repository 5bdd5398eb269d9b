"""A workload as a chip's compiler sees it, with the operators that the compiler adds.

The vector unit converts number formats that the array doesn't multiply and repeats keys for the
query heads that share them, and a program's inputs lie on the chip (`CompilerSpec`). Values stay
the same. A workload that is already compiled is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.mapping.chips.sharding import Pod
from simaccel.search.candidate_set import capacity
from simaccel.search.problems import parts
from simaccel.workload import Einsum, Operand, Operator, Vector, Workload
from simaccel.workload.einsum import Tensor
from simaccel.workload.stages import with_parameters
from simaccel.workload.vectors.single_pass import COPY

CONVERTED: Final = "converted"
"""Part of the names of converted tensors and of the operators that convert them."""
ROOT_KIND: Final = "inverse_deviation"
"""Kind of the operator that computes one number for each row of a layer norm."""
REPEATED: Final = "repeated"
"""Suffix of keys and values that are repeated for each query head, and of their operators."""

MEAN, SQUARE, ROOT = "mean", "square", "root"
"""Suffixes of a norm's row statistics, and of the operators that compute them."""


def compile_graph(
    workload: Workload, accelerator: Accelerator, share: Callable[[Workload], Pod | None]
) -> Workload:
    """Return a workload as the accelerator's compiler sees it; unchanged without a compiler.

    ``share``: returns one chip's part of the workload if it is cut over several; None: each does
    all.
    """
    if not accelerator.compiler.described:
        return workload
    workload = _in_query_blocks(workload, accelerator)
    numbers = frozenset(accelerator.compiler.converts)
    workload = _Conversions(workload, numbers).make() if numbers else workload
    if accelerator.compiler.norms == "apart":
        workload = _norms_apart(workload)
    if accelerator.compiler.attention.repeats_keys:
        workload = _repeat_keys(workload, accelerator, share)
    if accelerator.compiler.stays:
        sizes = _sizes_on_chip(workload, share(workload))
        for what in accelerator.compiler.stays:
            old, names = workload.tensors, _STAYING[what](workload, capacity(accelerator), sizes)
            kept = {name: replace(old[name], shared=True) for name in names if not old[name].shared}
            workload = replace(workload, tensors={**old, **kept}) if kept else workload
    return workload


def _sizes_on_chip(workload: Workload, pod: Pod | None) -> Mapping[str, int]:
    """Return the bytes of each tensor on a chip; the largest share if there are several."""
    if pod is None:
        return {name: workload.tensor_bytes(name) for name in workload.tensors}
    sizes = dict.fromkeys(workload.tensors, 0)
    for name in pod.workload.tensors:
        whole, _ = pod.layouts.get(name, (name, None))
        sizes[whole] = max(sizes[whole], pod.workload.tensor_bytes(name))
    return sizes


def _in_query_blocks(workload: Workload, accelerator: Accelerator) -> Workload:
    """Return a transformer whose causal attention has the compiler's blocks of rows.

    A decode step has one row.
    """
    rows, parameters = accelerator.compiler.attention.query_rows, workload.parameters
    is_asked = parameters.get("causal_blocks") is not None
    is_prefill = parameters.get("kind") == "transformer" and parameters["phase"] == "prefill"
    if rows is None or is_asked or not is_prefill:
        return workload
    blocks = max(1, -(-int(parameters["prompt"]) // rows))
    return replace(with_parameters(workload, causal_blocks=blocks), split=workload.split)


@dataclass
class _Conversions:
    """A graph that is rebuilt with operators that convert number formats."""

    workload: Workload
    numbers: frozenset[str]
    operators: list[Operator] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)

    def make(self) -> Workload:
        """Return the workload; unchanged where nothing is to be converted."""
        self.tensors |= self.workload.tensors
        self.once |= self.workload.once
        for operator in self.workload.operators:
            self._add(operator)
        if len(self.operators) == len(self.workload.operators):
            return self.workload
        return replace(
            self.workload,
            operators=tuple(self.operators),
            tensors=self.tensors,
            once=frozenset(self.once),
        )

    def _add(self, operator: Operator) -> None:
        """Add an operator with converted operands; the output of an einsum is converted, too."""
        is_new = f".{CONVERTED}." in operator.name
        if is_new or not any(map(self._foreign, operator.inputs)) or not self._is_plain(operator):
            self.operators.append(operator)
            return
        operands = dict.fromkeys(filter(self._foreign, operator.inputs))
        known = {item: self._copy_of(operator, item) for item in operands}
        for entries, made in known.items():
            self._turn(operator, entries.tensor, entries, made)
        inputs = tuple(known.get(item, item) for item in operator.inputs)
        if isinstance(operator, Vector) or not self._foreign(operator.output):
            self.operators.append(replace(operator, inputs=inputs))
            return
        sums = self._copy_of(operator, operator.output)
        self.operators.append(replace(operator, inputs=inputs, output=sums))
        self._turn(operator, operator.output.tensor, sums, operator.output)

    def _is_plain(self, operator: Operator) -> bool:
        """Return whether each operand is read and written element by element, in its numbers.

        Statistics of rows, and rows by their statistics, are made of what is read in wider numbers;
        copies move any.
        """
        operands = (*operator.inputs, operator.output)
        if isinstance(operator, Vector):
            widths = {self.tensors[each.tensor].bytes_per_element for each in operands}
            if operator.axis is not None or operator.kind == COPY.name or len(widths) > 1:
                return False
        return all(each.is_unit for each in operands)

    def _foreign(self, operand: Operand) -> bool:
        """Return whether an operand has a number format that has to be converted."""
        return self.tensors[operand.tensor].number in self.numbers

    def _copy_of(self, operator: Operator, operand: Operand) -> Operand:
        """Return an operand as a new tensor in a format that the array multiplies."""
        width = self.tensors[operand.tensor].bytes_per_element
        name = f"{operator.name}.{CONVERTED}.{operand.tensor}"
        self.tensors.setdefault(name, Tensor(name, width, "intermediate"))
        return Operand(name, operand.projection)

    def _turn(self, operator: Operator, tensor: str, given: Operand, made: Operand) -> None:
        """Add the conversion of an operand, which is ``tensor`` outside the operator."""
        name = f"{operator.name}.{CONVERTED}.{tensor}"
        ranks = {rank: operator.ranks[rank] for rank in given.ranks}
        self.operators.append(Vector(name, "scale", ranks, (given,), made))
        if operator.name in self.workload.once:
            self.once.add(name)


def _norms_apart(workload: Workload) -> Workload:
    """Return a workload whose layer norms are operators on rows, on their numbers, on rows again.

    What is known of a row has 32 bits.
    """
    operators, tensors, once = list[Operator](), dict(workload.tensors), set(workload.once)
    for operator in workload.operators:
        if not isinstance(operator, Vector) or operator.kind != "layer_norm":
            operators.append(operator)
            continue
        several = _norm_kernels(operator)
        operators += several
        known = [kernel.output.tensor for kernel in several[:-1]]
        tensors |= {tensor: Tensor(tensor, 4, "intermediate") for tensor in known}
        once |= {*known} if operator.name in once else set()
    if len(operators) == len(workload.operators):
        return workload
    return replace(workload, operators=tuple(operators), tensors=tensors, once=frozenset(once))


def _norm_kernels(norm: Vector) -> list[Vector]:
    """Return the operators of a layer norm, each with the name of what it makes but the last."""
    rows = tuple(dim for dim in norm.input.projection if dim.terms[0][0] != norm.axis)
    mean, square, root = (Operand(f"{norm.name}.{part}", rows) for part in (MEAN, SQUARE, ROOT))
    ranks = {rank: size for rank, size in norm.ranks.items() if rank != norm.axis}
    inputs = (norm.input, mean, root, *norm.inputs[1:])
    return [
        Vector(mean.tensor, "average_pooling", norm.ranks, (norm.input,), mean),
        Vector(square.tensor, "mean_square", norm.ranks, (norm.input,), square),
        Vector(root.tensor, ROOT_KIND, ranks, (square, mean), root),
        Vector(norm.name, "normalised", norm.ranks, inputs, norm.output),
    ]


def is_elementwise(operator: Operator) -> bool:
    """Return whether an operator is elementwise, but neither a copy nor a part of a norm."""
    each = (*operator.inputs, operator.output)
    return (
        isinstance(operator, Vector)
        and operator.kind not in (COPY.name, ROOT_KIND)
        and all(set(operand.ranks) == set(operator.ranks) for operand in each)
    )


def is_same_product(workload: Workload, name: str, other: str) -> bool:
    """Return whether two einsums read different boxes of the same weights.

    They are one grouped product, as that of experts with different numbers of tokens.
    """
    boxes = [
        {
            operand.tensor: operand.start
            for operand in operator.inputs
            if workload.tensors[operand.tensor].kind == "weight"
        }
        for operator in (workload.operator(name), workload.operator(other))
        if isinstance(operator, Einsum)
    ]
    return len(boxes) == 2 and any(  # noqa: PLR2004 - both are einsums
        tensor in boxes[1] and start != boxes[1][tensor] for tensor, start in boxes[0].items()
    )


def _repeat_keys(
    workload: Workload, accelerator: Accelerator, share: Callable[[Workload], Pod | None]
) -> Workload:
    """Return a decode whose keys and values lie on the chip for each query head, if they fit."""
    if workload.parameters.get("phase") != "decode":
        return workload
    for part in parts(workload):
        if isinstance(part, tuple):
            workload = _repeat_for(workload, accelerator, (part[0], part[2]), share)
    return workload


def _repeat_for(
    workload: Workload,
    accelerator: Accelerator,
    products: tuple[str, str],
    share: Callable[[Workload], Pod | None],
) -> Workload:
    """Return a workload in which one attention's keys and values are repeated, if they fit.

    ``products``: its logits, and what it attends to; ``share``: as of `compile_graph`.
    """
    logit, attend = products
    spec, most = accelerator.compiler.attention, accelerator.buffer.capacity_bytes
    scores = workload.operator(logit)
    rows, keys = scores.inputs
    lacking = [rank for rank in rows.ranks if rank not in keys.ranks and scores.ranks[rank] > 1]
    heads = frozenset(lacking) & frozenset(scores.output.ranks)
    if most is None or not heads:
        return workload
    n_bytes = workload.tensors[keys.tensor].bytes_per_element
    times = math.prod(scores.ranks[rank] for rank in heads)
    each = times * math.prod(keys.shape(scores.ranks)) * n_bytes
    beside = math.prod(rows.shape(scores.ranks)) * spec.row_tile * n_bytes
    needed, room = 2 * each + 2 * beside, most - (spec.reserved_bytes or 0)
    pieces = accelerator.pod.count
    if room < needed <= room * pieces:  # chips may cut the ranks in fewer pieces
        pod, cut = share(workload), {*heads, *keys.ranks}
        cuts = pod.cuts.get(logit, {}).items() if pod is not None else ()
        pieces = math.prod(axis.size for rank, axes in cuts if rank in cut for axis in axes)
    if needed > room * pieces:
        return workload
    tensors, operators = dict(workload.tensors), list[Operator]()
    for operator in workload.operators:
        if operator.name not in (logit, attend):
            operators.append(operator)
            continue
        first, second = operator.inputs
        name = f"{second.tensor}.{REPEATED}"
        front = tuple(dim for dim in first.projection if {rank for rank, _ in dim.terms} & heads)
        tensors[name] = Tensor(name, n_bytes, "intermediate", shared=True)
        made = Operand(name, (*second.projection[:1], *front, *second.projection[1:]))
        ranks = {rank: operator.ranks[rank] for rank in made.ranks}
        operators.append(Vector(name, "repeat", ranks, (second,), made))
        operators.append(replace(operator, inputs=(first, made)))
    added = {name for name in tensors if name not in workload.tensors}
    once = workload.once | added if logit in workload.once else workload.once
    return replace(workload, operators=tuple(operators), tensors=tensors, once=once)


def _is_part(workload: Workload) -> bool:
    """Return whether a model has other layers, whose operands need the same room on the chip."""
    return bool(workload.parameters.get("scope", "model") != "model")


def _bytes_of_all_layers(workload: Workload, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of each tensor, of a weight or a cache those of all layers together."""
    times = {
        operand.tensor: workload.times(operator.name)
        for operator in workload.operators
        for operand in operator.inputs
        if workload.tensors[operand.tensor].kind in ("weight", "cache")
    }
    return {name: n_bytes * times.get(name, 1) for name, n_bytes in sizes.items()}


def _given_operands(workload: Workload, room: int, sizes: Mapping[str, int]) -> set[str]:
    """Return the external operands of a whole program's products, if all of them fit the chip."""
    if _is_part(workload) or sum(_bytes_of_all_layers(workload, sizes).values()) > room:
        return set()
    read, made = set[str](), set[str]()
    for operator in workload.operators:
        made.add(operator.output.tensor)
        of, _, _ = operator.name.partition(f".{CONVERTED}.")
        if isinstance(workload.operator(of), Einsum):  # a product, or what converts its operands
            read |= {operand.tensor for operand in operator.inputs}
    return read - made


def _rows(workload: Workload, room: int, sizes: Mapping[str, int]) -> set[str]:
    """Return what operators along an axis read and make of other operators, if it is small."""
    outcome = set[str]()
    for operator in workload.operators:
        if isinstance(operator, Vector) and operator.axis and operator.kind != "softmax":
            outcome |= {operator.input.tensor, operator.output.tensor}
    return {
        name
        for name in outcome
        if workload.tensors[name].kind == "intermediate" and 4 * sizes[name] <= room
    }


def _copies(workload: Workload, room: int, sizes: Mapping[str, int]) -> set[str]:
    """Return what copies make, if it fits beside as much."""
    operators = (one for one in workload.operators if isinstance(one, Vector))
    made = (operator.output.tensor for operator in operators if operator.kind == COPY.name)
    return {name for name in made if 2 * sizes[name] <= room}


def _moving(workload: Workload, operator: Operator, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes that an operator reads and writes, without weights."""
    names = dict.fromkeys(operand.tensor for operand in (*operator.inputs, operator.output))
    return {name: sizes[name] for name in names if workload.tensors[name].kind != "weight"}


def _activations(workload: Workload, room: int, sizes: Mapping[str, int]) -> set[str]:
    """Return the activations of operators that have room for them, but the first and last ones.

    A cache is none: each layer has its own, and it grows from step to step.
    """
    needed = [_moving(workload, operator, sizes) for operator in workload.operators]
    small = [names for names in needed if sum(names.values()) <= room]
    large = {name for names in needed if names not in small for name in names}
    first, last = workload.operators[0], workload.operators[-1]
    read_first = {operand.tensor for operand in first.inputs}
    caches = {name for name, tensor in workload.tensors.items() if tensor.kind == "cache"}
    left_out = {*large, *read_first, last.output.tensor, *caches}
    return {name for names in small for name in names} - left_out


def _resident_weights(workload: Workload, room: int, sizes: Mapping[str, int]) -> set[str]:
    """Return the weights for which there is room beside activations, in the operators' order.

    Of layers that are repeated all have to fit. Of a part of a model none stay.
    """
    if _is_part(workload):
        return set()
    needed = (sum(_moving(workload, operator, sizes).values()) for operator in workload.operators)
    room, outcome = room - max((n for n in needed if n <= room), default=0), set[str]()
    every = _bytes_of_all_layers(workload, sizes)
    for operator in workload.operators:
        for operand in operator.inputs:
            name, n_bytes = operand.tensor, every[operand.tensor]
            if workload.tensors[name].kind == "weight" and name not in outcome and n_bytes <= room:
                outcome.add(name)
                room -= n_bytes
    return outcome


_STAYING: Final = {
    "operands": _given_operands,
    "rows": _rows,
    "copies": _copies,
    "activations": _activations,
    "weights": _resident_weights,
}
"""Functions that find the tensors named by `CompilerSpec.stays`."""
