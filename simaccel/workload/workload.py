"""A workload: operators and tensors as one graph, checked at construction."""

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest
from simaccel.files.accounting import FileAccount
from simaccel.numbers import in_bytes
from simaccel.workload.einsum import Operand, Operator, Tensor, Vector, operands_of
from simaccel.workload.frozen import FrozenDict
from simaccel.workload.names import name_faults, size_faults, title_faults

_FILE = "workload"
_FINGERPRINT_DIGITS = 16
_SHOWN_OPERATORS = 8
_Shape = tuple[tuple[int, ...], str]
"""A tensor's shape, and the path of the operand that it follows from."""


@dataclass(frozen=True, repr=False)
class Workload:
    """Operators over tensors, run `repeat` times (the layers of a model).

    Operators in `once` run once, before or after all repetitions (embedding, logits); `operators`
    are of one repetition, in a topological order, the given one if possible. `parameters`: what
    `parse_workload` turns into the same workload; `account`: of an import; `split`: the cut over
    chips for which a compiler made this form; `source`: name and text of a file of which a dataflow
    reads more than operators. Equality, hash and fingerprint ignore all four.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: Mapping[str, Tensor]
    repeat: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict, compare=False)
    once: frozenset[str] = frozenset()
    account: FileAccount = field(default=FileAccount(), compare=False)
    split: str = field(default="", compare=False)
    source: tuple[str, str] = field(default=("", ""), compare=False)

    def __post_init__(self) -> None:
        """Refuse operators and tensors that do not fit together; sort the operators."""
        object.__setattr__(self, "tensors", FrozenDict(self.tensors))
        object.__setattr__(self, "parameters", FrozenDict(self.parameters))
        faults = size_faults(_FILE, {"repeat": self.repeat}) + _name_faults(self)
        if not faults:
            faults = _shape_faults(self) + _role_faults(self) + _cycle_faults(self)
        require_none(faults)
        object.__setattr__(self, "operators", _topological(self))
        if self.once and (broken := _once_faults(self)):
            raise InputError(broken)

    def __repr__(self) -> str:
        names = [operator.name for operator in self.operators]
        more = f", ... ({len(names)} in all)" if len(names) > _SHOWN_OPERATORS else ""
        times = f", {self.repeat} times" if self.repeat > 1 else ""
        shown = ", ".join(names[:_SHOWN_OPERATORS])
        return f"<Workload {self.name}: {shown}{more}{times}; {self.macs:,} MACs>"

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor: elements per dimension, large enough for all boxes."""
        found: dict[str, tuple[int, ...]] = {}
        for operator in self.operators:
            for _, given in operands_of(operator):
                ends = tuple(span.stop for span in given.box(operator.ranks))
                known = found.get(given.tensor, ends)
                found[given.tensor] = tuple(map(max, known, ends))
        return FrozenDict(found)

    @cached_property
    def in_place(self) -> Mapping[str, str]:
        """The first input of each vector operator's output that can be written over it.

        Both are whole tensors with the same layout.
        """
        return FrozenDict(
            {
                operator.output.tensor: operator.input.tensor
                for operator in self.operators
                if isinstance(operator, Vector)
                and operator.input.projection == operator.output.projection
                and not (operator.input.start or operator.output.start)
            }
        )

    @property
    def packed(self) -> bool:
        """Whether a tensor has elements of 4 bits, two in a byte."""
        return any(one.packed for one in self.tensors.values())

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all einsums and all repetitions."""
        return sum(self.times(operator.name) * operator.macs for operator in self.operators)

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of its canonical text.

        Number formats are left out: a mapping holds for all formats of the same width.
        """
        text = canonical_text(self, numbers=False)
        return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT_DIGITS]

    def times(self, name: str) -> int:
        """Return the number of times that an operator runs; without a name, what is beside all."""
        return 1 if name in self.once or not name else self.repeat

    def operator(self, name: str) -> Operator:
        """Return the operator of this name; KeyError if there is none."""
        return self.by_name[name]

    @cached_property
    def by_name(self) -> Mapping[str, Operator]:
        """All operators by name."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def readers(self) -> Mapping[str, frozenset[str]]:
        """The names of the operators that read each tensor."""
        found: dict[str, set[str]] = {}
        for operator in self.operators:
            for given in operator.inputs:
                found.setdefault(given.tensor, set()).add(operator.name)
        return FrozenDict({tensor: frozenset(names) for tensor, names in found.items()})

    def select_operators(self, names: Iterable[str]) -> "Workload":
        """Return the named operators, once each, as a workload; outputs of others become inputs."""
        (of_operators, of_tensors), chosen = self._places, self.by_name.keys() & set(names)
        operators = tuple(map(self.operator, sorted(chosen, key=of_operators.__getitem__)))
        made = {operator.output.tensor for operator in operators}
        read = {operand.tensor for operator in operators for operand in operator.inputs}
        wanted = {name for name in made if self.readers.get(name, chosen) - chosen}
        tensors = {}
        for name in dict.fromkeys((*read, *made)):
            tensor = self.tensors[name]
            if name not in made and tensor.kind not in ("input", "weight"):
                tensor = replace(tensor, kind="input")
            elif name in made and (name in wanted or name not in read):
                tensor = replace(tensor, kind="output")
            tensors[name] = tensor
        ordered = sorted(tensors, key=of_tensors.__getitem__)
        kept = {name: tensors[name] for name in ordered}
        return Workload(self.name, operators, kept, source=self.source)

    @cached_property
    def _places(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        first, second = (
            {name: at for at, name in enumerate(names)} for names in (self.by_name, self.tensors)
        )
        return first, second

    def tensor_bytes(self, name: str) -> int:
        """Return the size of a whole tensor in bytes."""
        return in_bytes(math.prod(self.shapes[name]), self.tensors[name].bits)

    def stored_bytes(self, name: str) -> int:
        """Return the bytes of a tensor in memory, including parts that no operator reads.

        Of rows of a table these are the table's, or none if it is another tensor of the workload.
        """
        tensor = self.tensors[name]
        every = in_bytes(tensor.stored or 0, tensor.bits)
        if not tensor.table:
            return max(self.tensor_bytes(name), every)
        is_tied = any(tensor.table in (one.name, one.whole) for one in self.tensors.values())
        return 0 if is_tied else every


def canonical_text(workload: Workload, *, numbers: bool = True) -> str:
    """Return operators and tensors as text, without the workload's name and parameters.

    ``numbers``: include the number formats of tensors besides their widths.
    """
    lines = [f"repeat {workload.repeat}"]
    lines += [f"once {' '.join(sorted(workload.once))}"] if workload.once else []
    for operator in workload.operators:
        ranks = " ".join(f"{rank}={size}" for rank, size in operator.ranks.items())
        lines.append(f"{operator} with {ranks}")
    for name, tensor in sorted(workload.tensors.items()):
        size = "4 bits" if tensor.packed else f"{tensor.bytes_per_element} bytes"
        number = f" of {tensor.number}" if numbers and tensor.number else ""
        lines.append(f"{tensor.kind} {name}, {size} per element{number}")
    return "\n".join(lines)


def _name_faults(workload: Workload) -> list[Fault]:
    faults = [
        *title_faults(_FILE, workload.name),
        *name_faults(_FILE, "operators", (operator.name for operator in workload.operators)),
        *name_faults(_FILE, "tensors", workload.tensors),
        *name_faults(
            _FILE, "ranks", sorted({rank for op in workload.operators for rank in op.ranks})
        ),
    ]
    faults += [] if workload.operators else [Fault(_FILE, "operators", (), "at least one operator")]
    counts = Counter(operator.name for operator in workload.operators)
    faults += [
        Fault(_FILE, f"operators.{name}", f"{count} operators", "one operator of a name")
        for name, count in counts.items()
        if count > 1
    ]
    faults += [
        Fault(_FILE, f"tensors.{key}", tensor.name, f"its key, {key!r}")
        for key, tensor in workload.tensors.items()
        if key != tensor.name
    ]
    for operator in workload.operators:
        faults += [
            Fault(
                _FILE,
                f"operators.{operator.name}.{label}.tensor",
                operand.tensor,
                suggest(operand.tensor, workload.tensors),
            )
            for label, operand in operands_of(operator)
            if operand.tensor not in workload.tensors
        ]
    return faults


def _shape_faults(workload: Workload) -> list[Fault]:
    first: dict[str, _Shape] = {}
    faults = []
    for operator in workload.operators:
        for label, operand in operands_of(operator):
            if operand.start:
                continue
            shape, path = operand.shape(operator.ranks), f"operators.{operator.name}.{label}"
            known, where = first.setdefault(operand.tensor, (shape, path))
            if shape != known:
                allowed = f"shape {known} of {operand.tensor}, as at {where}"
                faults.append(Fault(_FILE, path, shape, allowed))
    if any(operand.start for op in workload.operators for _, operand in operands_of(op)):
        faults += _box_faults(workload, first) + _two_box_faults(workload)
    return faults


def _two_box_faults(workload: Workload) -> list[Fault]:
    """Return faults of operators with two different boxes of one tensor.

    An operator's tiles have the tensor's name, so the two would be one tile.
    """
    faults = []
    for operator in workload.operators:
        seen: dict[str, tuple[Operand, str]] = {}
        for label, operand in operands_of(operator):
            other, where = seen.setdefault(operand.tensor, (operand, label))
            if not (operand.start or other.start) or operand == other:
                continue
            if operand.box(operator.ranks) != other.box(operator.ranks):
                allowed = f"the box of {operand.tensor} that {where} is, or another tensor"
                path = f"operators.{operator.name}.{label}"
                faults.append(Fault(_FILE, path, str(operand), allowed))
    return faults


def _box_faults(workload: Workload, whole: Mapping[str, _Shape]) -> list[Fault]:
    """Return faults of boxes that exceed their tensor, or that overlap if both are written."""
    faults: list[Fault] = []
    written: dict[str, list[tuple[tuple[slice, ...], str, tuple[int, ...]]]] = {}
    sizes: dict[str, int] = {}
    for operator in workload.operators:
        for label, operand in operands_of(operator):
            size = sizes.setdefault(operand.tensor, len(operand.projection))
            if not operand.start and label != "output":
                continue
            path, box = f"operators.{operator.name}.{label}", operand.box(operator.ranks)
            ends = tuple(span.stop for span in box)
            known, where = whole.get(operand.tensor, (ends, path))
            if operand.start and len(box) != size:
                allowed = f"{size} dimensions, as {operand.tensor} has elsewhere"
                faults.append(Fault(_FILE, path, f"{len(box)} dimensions", allowed))
            elif operand.start and any(map(int.__gt__, ends, known)):
                allowed = f"a box inside shape {known} of {operand.tensor}, as at {where}"
                faults.append(Fault(_FILE, path, str(operand), allowed))
            elif label == "output":
                others = written.setdefault(operand.tensor, [])
                faults += [
                    Fault(_FILE, path, str(operand), f"a box that {other} doesn't write")
                    for written_box, other, part in others
                    if (operand.start or part) and _overlap(box, written_box)
                ]
                others.append((box, operator.name, operand.start))
    return faults


def _overlap(one: Sequence[slice], two: Sequence[slice]) -> bool:
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, two, strict=True))


def _role_faults(workload: Workload) -> list[Fault]:
    writers: dict[str, list[tuple[str, bool]]] = {name: [] for name in workload.tensors}
    read = {operand.tensor for operator in workload.operators for operand in operator.inputs}
    for operator in workload.operators:
        output = operator.output
        writers[output.tensor].append((operator.name, not output.start))
    faults = []
    for name, tensor in workload.tensors.items():
        path, made = f"tensors.{name}", tensor.kind in {"intermediate", "output"}
        if tensor.kind == "cache":
            continue
        if len(whole := [writer for writer in writers[name] if writer[1]]) > 1:
            names = [writer for writer, _ in whole]
            faults.append(Fault(_FILE, path, names, "one operator that writes it"))
        if writers[name] and not made:
            allowed = "'intermediate' or 'output', as an operator writes it"
            faults.append(Fault(_FILE, f"{path}.kind", tensor.kind, allowed))
        if made and not writers[name]:
            allowed = f"an operator that writes it, as its kind is {tensor.kind!r}"
            faults.append(Fault(_FILE, path, ABSENT, allowed))
        if tensor.kind != "output" and name not in read:
            allowed = f"an operator that reads it, as its kind is {tensor.kind!r}"
            faults.append(Fault(_FILE, path, ABSENT, allowed))
    return faults


def _cycle_faults(workload: Workload) -> list[Fault]:
    left = {op.name for op in workload.operators} - {op.name for op in _topological(workload)}
    if not left:
        return []
    # What was never ready waits for a tensor that another such operator writes: go back from one
    # to the next until one comes again.
    operators = {op.name: op for op in workload.operators}
    writers = {operators[name].output.tensor: name for name in sorted(left, reverse=True)}
    path, name = [], min(left)
    while name not in path:
        tensor = next(use.tensor for use in operators[name].inputs if use.tensor in writers)
        path += [name, tensor]
        name = writers[tensor]
    cycle = path[path.index(name) :][::-1]
    text = " -> ".join((*cycle[-2:], *cycle[:-2]))
    return [Fault(_FILE, "operators", text, "operators and tensors without a cycle")]


def _once_faults(workload: Workload) -> list[Fault]:
    """Return operators of `once` that don't exist, or that stand between repeated ones."""
    known = [operator.name for operator in workload.operators]
    faults = [
        Fault(_FILE, f"once.{name}", name, suggest(name, known))
        for name in sorted(workload.once)
        if name not in known
    ]
    repeated = [at for at, name in enumerate(known) if name not in workload.once]
    if not repeated:
        faults.append(Fault(_FILE, "once", "all operators", "not all operators"))
    elif workload.repeat > 1:
        between = set(range(repeated[0], repeated[-1])) - set(repeated)
        faults += [
            Fault(_FILE, f"once.{known[at]}", known[at], "operators before or after the others")
            for at in sorted(between)
        ]
    return faults


def _topological(workload: Workload) -> tuple[Operator, ...]:
    """Order the operators; those on a cycle, and after one, are missing."""
    readers: dict[str, list[int]] = {}
    waits = [0] * len(workload.operators)
    written = Counter(operator.output.tensor for operator in workload.operators)
    for at, operator in enumerate(workload.operators):
        for tensor in {operand.tensor for operand in operator.inputs}:
            readers.setdefault(tensor, []).append(at)
            waits[at] += written[tensor]
    ready = [at for at, number in enumerate(waits) if not number]
    order = []
    while ready:
        operator = workload.operators[heapq.heappop(ready)]
        order.append(operator)
        for at in readers.get(operator.output.tensor, ()):
            waits[at] -= 1
            if not waits[at]:
                heapq.heappush(ready, at)
    return tuple(order)
