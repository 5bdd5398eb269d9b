"""A workload: operators and tensors as one graph, checked when it is made."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx as nx

from simaccel.errors import ABSENT, Fault, InputError, suggest
from simaccel.workload.einsum import Operator, Tensor, operands_of
from simaccel.workload.frozen import FrozenDict
from simaccel.workload.names import name_faults, title_faults
from simaccel.workload.sizes import size_faults

if TYPE_CHECKING:
    Graph = nx.DiGraph[tuple[str, str]]

_FILE = "workload"
_FINGERPRINT_DIGITS = 16


@dataclass(frozen=True)
class Workload:
    """What is computed: operators over tensors, `repeat` times (the layers of a model).

    `operators` are of one repetition, in a topological order that keeps the given order where
    it can. `parameters` (plain data) is the document that `parse_workload` makes it from again;
    equality, hash and fingerprint leave it out.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: Mapping[str, Tensor]
    repeat: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Refuse what does not fit together; order the operators."""
        object.__setattr__(self, "tensors", FrozenDict(self.tensors))
        object.__setattr__(self, "parameters", FrozenDict(self.parameters))
        faults = size_faults(_FILE, {"repeat": self.repeat}) + _name_faults(self)
        if not faults:
            faults = _shape_faults(self) + _role_faults(self) + _cycle_faults(self)
        if faults:
            raise InputError(faults)
        object.__setattr__(self, "operators", _topological(self))

    @cached_property
    def graph(self) -> "Graph":
        """Nodes ("operator", name) and ("tensor", name), edges tensor -> operator -> tensor."""
        graph: Graph = nx.DiGraph()
        for operator in self.operators:
            node = ("operator", operator.name)
            graph.add_edges_from((("tensor", given.tensor), node) for given in operator.inputs)
            graph.add_edge(node, ("tensor", operator.output.tensor))
        nx.freeze(graph)
        return graph

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor: elements per dimension."""
        return FrozenDict(
            {
                given.tensor: given.shape(operator.ranks)
                for operator in self.operators
                for _, given in operands_of(operator)
            }
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all einsums and all repetitions."""
        return self.repeat * sum(operator.macs for operator in self.operators)

    @property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the canonical text."""
        return hashlib.sha256(canonical_text(self).encode()).hexdigest()[:_FINGERPRINT_DIGITS]

    def operator(self, name: str) -> Operator:
        """Return the operator of this name; KeyError if there is none."""
        return {operator.name: operator for operator in self.operators}[name]

    def alone(self, names: Iterable[str]) -> "Workload":
        """Return a few of the operators, once each, as a workload: what others make comes in."""
        chosen = set(names)
        operators = tuple(one for one in self.operators if one.name in chosen)
        made = {one.output.tensor for one in operators}
        others = [one for one in self.operators if one.name not in chosen]
        wanted = {given.tensor for one in others for given in one.inputs}
        read = {given.tensor for one in operators for given in one.inputs}
        tensors = {}
        for name in dict.fromkeys((*read, *made)):
            tensor = self.tensors[name]
            if name not in made and tensor.kind not in ("input", "weight"):
                tensor = replace(tensor, kind="input")
            elif name in made and (name in wanted or name not in read):
                tensor = replace(tensor, kind="output")
            tensors[name] = tensor
        ordered = {name: tensors[name] for name in self.tensors if name in tensors}
        return Workload(self.name, operators, ordered)

    def tensor_bytes(self, name: str) -> int:
        """Return the size of a whole tensor in bytes."""
        return math.prod(self.shapes[name]) * self.tensors[name].bytes_per_element


def canonical_text(workload: Workload) -> str:
    """Return what is computed as text; names of workload and parameters have no part in it."""
    lines = [f"repeat {workload.repeat}"]
    for operator in workload.operators:
        ranks = " ".join(f"{rank}={size}" for rank, size in operator.ranks.items())
        lines.append(f"{operator} with {ranks}")
    for name, tensor in sorted(workload.tensors.items()):
        lines.append(f"{tensor.kind} {name}, {tensor.bytes_per_element} bytes per element")
    return "\n".join(lines)


def _name_faults(workload: Workload) -> list[Fault]:
    ranks = {rank for operator in workload.operators for rank in operator.ranks}
    faults = [
        *title_faults(_FILE, workload.name),
        *name_faults(_FILE, "operators", (operator.name for operator in workload.operators)),
        *name_faults(_FILE, "tensors", workload.tensors),
        *name_faults(_FILE, "ranks", sorted(ranks)),
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
                given.tensor,
                suggest(given.tensor, workload.tensors),
            )
            for label, given in operands_of(operator)
            if given.tensor not in workload.tensors
        ]
    return faults


def _shape_faults(workload: Workload) -> list[Fault]:
    first: dict[str, tuple[tuple[int, ...], str]] = {}
    faults = []
    for operator in workload.operators:
        for label, given in operands_of(operator):
            shape, path = given.shape(operator.ranks), f"operators.{operator.name}.{label}"
            known, where = first.setdefault(given.tensor, (shape, path))
            if shape != known:
                allowed = f"shape {known} of {given.tensor}, as at {where}"
                faults.append(Fault(_FILE, path, shape, allowed))
    return faults


def _role_faults(workload: Workload) -> list[Fault]:
    writers: dict[str, list[str]] = {name: [] for name in workload.tensors}
    read = {given.tensor for operator in workload.operators for given in operator.inputs}
    for operator in workload.operators:
        writers[operator.output.tensor].append(operator.name)
    faults = []
    for name, tensor in workload.tensors.items():
        path, made = f"tensors.{name}", tensor.kind in {"intermediate", "output"}
        if len(writers[name]) > 1:
            faults.append(Fault(_FILE, path, writers[name], "one operator that writes it"))
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
    try:
        cycle = nx.find_cycle(workload.graph)
    except nx.NetworkXNoCycle:
        return []
    path = " -> ".join(source[1] for source, *_ in cycle)
    return [Fault(_FILE, "operators", path, "operators and tensors without a cycle")]


def _topological(workload: Workload) -> tuple[Operator, ...]:
    position = {("operator", op.name): index for index, op in enumerate(workload.operators)}
    order = nx.lexicographical_topological_sort(workload.graph, lambda node: position.get(node, -1))
    return tuple(workload.operators[position[node]] for node in order if node in position)
