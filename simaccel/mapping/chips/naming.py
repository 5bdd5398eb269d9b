"""The tensors of one chip: one for each layout of a tensor, and the exchanges between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simaccel.hardware.chips import ChipAxis, ChipPod, Numbering
from simaccel.mapping.chips.exchanges import Exchange, choose_numbering
from simaccel.mapping.chips.layout import ChipLayout, ChipWindow, moves
from simaccel.mapping.chips.places import ChipPlace, remote_cores
from simaccel.mapping.chips.stored import divide_stored
from simaccel.workload import Einsum, Operand, Operator, Tensor, Vector, Workload

Cuts = Mapping[str, tuple[ChipAxis, ...]]
"""Rank of an operator -> the digits that cut it."""
_SUFFIX = {
    "all_reduce": "sum",
    "reduce_scatter": "scattered",
    "all_gather": "gathered",
    "all_to_all": "swapped",
    "halo": "halo",
    "shift": "halo",
    "swap": "halo",
}


def layout_of(operator: Operator, operand: Operand, cuts: Cuts, shape: Sequence[int]) -> ChipLayout:
    """Return the layout in which an operator with ``cuts`` makes or reads a tensor of a shape."""
    dims, windows = list[tuple[ChipAxis, ...]](), list[ChipWindow]()
    for at, dim in enumerate(operand.projection):
        rank, coefficient = next(((rank, n) for rank, n in dim.terms if cuts.get(rank)), (None, 0))
        dims.append(cuts[rank] if rank else ())
        if rank and not is_whole_part(operator, operand, at, rank, shape[at]):
            left = operator.ranks[rank] // math.prod(axis.size for axis in cuts[rank])
            size = dim.size({**operator.ranks, rank: left})
            start = operand.start[at] if operand.start else 0
            windows.append(ChipWindow(at, start, coefficient * left, size))
    summed: set[ChipAxis] = set()
    if isinstance(operator, Einsum) and operand is operator.output:
        for rank, digits in cuts.items():
            if rank not in operand.ranks:
                summed.update(digits)
    return ChipLayout(tuple(dims), frozenset(summed), windows=tuple(windows))


def sums_of(
    workload: Workload, cuts: Mapping[str, Cuts], *, carried: bool
) -> dict[str, frozenset[ChipAxis]]:
    """Return the digits over which each tensor is made as partial sums.

    Outputs of einsums that are cut along a rank that they sum over; if ``carried``, also those of
    linear vector operators of such outputs.
    """
    made: dict[str, ChipLayout] = {}
    for operator in workload.operators:
        ways = [
            layout_of(operator, operand, cuts[operator.name], workload.shapes[operand.tensor])
            for operand in (*operator.inputs, operator.output)
        ]
        if isinstance(operator, Vector) and carried:
            sums = _carried_sums(operator, ways[:-1], made, workload)
            own = {digit for digits in cuts[operator.name].values() for digit in digits}
            ways[-1] = replace(ways[-1], partial=frozenset() if own & sums else sums)
        made[operator.output.tensor] = ways[-1]
    return {name: layout.partial for name, layout in made.items()}


def _carried_sums(
    operator: Vector,
    reads: Sequence[ChipLayout],
    made: Mapping[str, ChipLayout],
    workload: Workload,
) -> frozenset[ChipAxis]:
    """Return the digits over which a vector operator's output is a partial sum; empty if it isn't.

    It must be linear in its partial inputs: both of a sum, one factor of a product. These must have
    the layout in which they are made, and all tensors one number format.
    """
    ways = [made.get(operand.tensor) for operand in operator.inputs]
    parts = [
        (way, replace(read, partial=way.partial))
        for way, read in zip(ways, reads, strict=True)
        if way is not None and way.partial
    ]
    sums = {way.partial for way, _ in parts}
    used = [workload.tensors[operand.tensor] for operand in (*operator.inputs, operator.output)]
    numbers = {(tensor.bits, tensor.number) for tensor in used}
    needed = {"product": 1, "residual": 2, "scale": 1}.get(operator.kind)
    is_linear = len(parts) == needed and len(sums) == len(numbers) == 1
    if not is_linear or any(way != read for way, read in parts):
        return frozenset()
    return next(iter(sums))


def is_whole_part(operator: Operator, given: Operand, at: int, rank: str, size: int) -> bool:
    """Return whether pieces of a rank are equal, disjoint parts of a dimension of this size."""
    dim = given.projection[at]
    whole = not given.start or (given.start[at] == 0 and dim.size(operator.ranks) == size)
    return whole and dim.outermost(operator.ranks) == rank


@dataclass
class TensorNames:
    """A chip's tensors, one for each layout of a tensor, and the exchanges between them."""

    workload: Workload
    cuts: Mapping[str, Cuts]
    spec: ChipPod
    places: Mapping[str, ChipPlace]
    """By operator."""
    found: list[tuple[str, object, str]] = field(default_factory=list)
    """What is wrong: (operator, value, what is allowed)."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, tuple[str, ChipLayout]] = field(default_factory=dict)
    names: dict[tuple[str, ChipLayout], str] = field(default_factory=dict)
    moved: dict[tuple[str, ChipLayout], tuple[ChipLayout | None, str]] = field(default_factory=dict)
    """(tensor, layout in which it is read) -> its layout and name after the collectives."""
    makers: dict[str, tuple[ChipLayout, str]] = field(default_factory=dict)
    """Tensor -> (layout, its last maker); of weights stored in parts (layout, first reader)."""
    sums: Mapping[str, frozenset[ChipAxis]] = field(default_factory=dict)
    """As of `sums_of`."""
    stored: Collection[str] = ()
    """Weights of which each chip stores a part."""
    digits: tuple[ChipAxis, ...] = ()
    """All digits of chips' numbers."""
    numbering: Numbering = ()
    """How these count the dimensions of the pod."""

    def __post_init__(self) -> None:
        """Find the layout in which each tensor is made."""
        is_one = len({place.first for place in self.places.values()}) == 1
        self.sums = sums_of(self.workload, self.cuts, carried=is_one)
        for one in self.workload.operators:
            name = one.output.tensor
            layout = self._layout(one, one.output)
            known = self.makers.get(name)
            if known is not None and known[0] != layout:
                allowed = f"cuts like those of {known[1]}, which makes another part of {name}"
                self.found.append((one.name, f"{one.name}: {name}", allowed))
            self.makers[name] = layout, one.name

    def _layout(self, operator: Operator, given: Operand) -> ChipLayout:
        """Return the layout, with its first chip, in which an operator makes or reads a tensor."""
        shape = self.workload.shapes[given.tensor]
        layout = layout_of(operator, given, self.cuts[operator.name], shape)
        if isinstance(operator, Vector) and (sums := self.sums[operator.output.tensor]):
            partial = sums & self.sums.get(given.tensor, sums)
            layout = replace(layout, partial=partial)
        return replace(layout, first=self.places[operator.name].first)

    def operator(self, operator: Operator) -> Operator:
        """Return a chip's part of an operator, which reads and makes the chip's tensors."""
        cuts = self.cuts[operator.name]
        ranks = {
            rank: size // math.prod(axis.size for axis in cuts.get(rank, ()))
            for rank, size in operator.ranks.items()
        }
        inputs = tuple(
            self._local(operator, operand, self._read(operator, operand))
            for operand in operator.inputs
        )
        made = self.makers[operator.output.tensor][0]
        name = self._name(operator.output.tensor, made, "")
        output = self._local(operator, operator.output, name)
        return replace(operator, ranks=ranks, inputs=inputs, output=output)

    def _local(self, operator: Operator, given: Operand, name: str) -> Operand:
        """Return an operand of a chip; dimensions with windows start at 0 on each chip."""
        start = list(given.start)
        for window in self._layout(operator, given).windows if start else ():
            start[window.dimension] = 0
        return replace(given, tensor=name, start=tuple(start))

    def in_group(self, operators: Sequence[str]) -> Callable[[str], str]:
        """Return a function from a tensor's name to a chip's, as some operators use the tensor."""
        found: dict[str, str] = {}
        for one in map(self.workload.operator, operators):
            made = self.makers[one.output.tensor][0]
            found[one.output.tensor] = self.names[one.output.tensor, made]
            for given in one.inputs:
                name = self.names[given.tensor, self._layout(one, given)]
                found.setdefault(given.tensor, name)
        return lambda name: found.get(name, name)

    def close(self) -> None:
        """Reduce outputs that are partial sums, check layers, and set tensors' kinds."""
        for name, (made, _) in self.makers.items() if not self.found else ():
            is_left = self.workload.tensors[name].kind != "intermediate"
            is_left |= not self.workload.readers.get(name)
            if made.partial and is_left and not any(each.tensor == name for each in self.exchanges):
                self._bring(name, made, replace(made, partial=frozenset()), "")
        self.numbering, faults = choose_numbering(self.exchanges, self.spec, self.workload.times)
        self.found += [(self.makers[each.tensor][1], *fault) for each, fault in faults]
        self.exchanges = [each.through(self.spec, self.numbering) for each in self.exchanges]
        self._require_layers()
        self._set_kinds()
        self.tensors = divide_stored(self.workload, self.tensors, self.layouts)

    def _require_layers(self) -> None:
        """Collect tensors that a repeated layer makes in another layout than the next reads."""
        if self.workload.repeat == 1:
            return
        once = self.workload.once
        layer = [operator for operator in self.workload.operators if operator.name not in once]
        read = {operand.tensor for operator in layer for operand in operator.inputs}
        made = {operator.output.tensor for operator in layer}
        kinds = self.workload.tensors
        taken = [n for n in read - made if kinds[n].kind not in ("weight", "cache")]
        for name in sorted(made - read):
            for other in sorted(taken):
                if self.workload.shapes[name] != self.workload.shapes[other]:
                    continue
                ways = {
                    self._layout(operator, operand)
                    for operator in layer
                    for operand in operator.inputs
                    if operand.tensor == other
                }
                layout = self.makers[name][0]
                if layout.partial or ways != {layout}:
                    allowed = f"cuts like those of {other}, which it is in the next layer"
                    maker = self.makers[name][1]
                    self.found.append((maker, f"{maker}: {name}", allowed))

    def _set_kinds(self) -> None:
        """Set the kinds of tensors: sources of exchanges are outputs, targets are inputs."""
        sources = {exchange.source for exchange in self.exchanges} | set(self.parts.values())
        targets = {exchange.target for exchange in self.exchanges} | set(self.parts)
        read = {
            self.names[operand.tensor, self._layout(operator, operand)]
            for operator in self.workload.operators
            for operand in operator.inputs
        }
        for name in list(self.tensors):
            if name not in read and (name in targets or self.layouts[name][0] in self.stored):
                del self.tensors[name]  # on its way to another exchange, or out
            elif name in targets and self.tensors[name].kind != "cache":
                self.tensors[name] = replace(self.tensors[name], kind="input")
            elif name in sources and self.tensors[name].kind == "intermediate":
                self.tensors[name] = replace(self.tensors[name], kind="output")

    def _name(self, tensor: str, layout: ChipLayout, suffix: str) -> str:
        """Return a chip's name of a tensor in a layout; a new tensor if it has none yet."""
        key = tensor, layout
        if key not in self.names:
            name = f"{tensor}.{suffix}" if suffix else tensor
            plain, number = name, 2
            while name in self.layouts or (name != tensor and name in self.workload.tensors):
                name, number = f"{plain}{number}", number + 1
            self.names[key] = name
            self.layouts[name] = tensor, layout
            whole = self.workload.tensors[tensor]
            self.tensors[name] = replace(whole, name=name, inside=(), whole=tensor)
        return self.names[key]

    def _read(self, operator: Operator, operand: Operand) -> str:
        """Return a chip's name of a tensor that an operator reads; add the exchanges it needs."""
        tensor, read = operand.tensor, self._layout(operator, operand)
        if tensor in self.stored and tensor not in self.makers:
            self.makers[tensor] = self._lay_once(tensor, read, operator.name), operator.name
        if tensor not in self.makers:
            firsts = [layout.first for name, layout in self.names if name == tensor]
            suffix = "part" if read.first in firsts else f"chip{read.first}"
            return self._name(tensor, read, suffix if firsts else "")
        made, _ = self.makers[tensor]
        if made == read:
            return self._name(tensor, made, "")
        if (tensor, read) not in self.names:
            self._bring(tensor, made, read, operator.name)
        return self._name(tensor, read, "part")

    def _lay_once(self, tensor: str, read: ChipLayout, reader: str) -> ChipLayout:
        """Return the layout of weights of which each chip stores another part.

        It cuts them as they are read, and by the other digits along the first dimension that these
        divide.
        """
        left = [digit for digit in self.digits if not any(digit in dim for dim in read.dims)]
        chips = math.prod(digit.size for digit in left)
        for at, size in enumerate(self.workload.shapes[tensor]):
            pieces = chips * math.prod(digit.size for digit in read.dims[at])
            if size % pieces == 0:
                dims = list(read.dims)
                dims[at] = (*dims[at], *left)
                return replace(read, dims=tuple(dims))
        shape = " x ".join(map(str, self.workload.shapes[tensor]))
        allowed = f"a dimension of {shape} that {chips} divide"
        self.found.append((reader, f"keep {tensor} chips", allowed))
        return read

    def _bring(self, tensor: str, made: ChipLayout, read: ChipLayout, reader: str) -> None:
        """Add the exchanges from the layout in which a tensor is made to that of a reader."""
        target = replace(read, first=made.first)
        if (tensor, target) not in self.moved:
            self.moved[tensor, target] = self._move(tensor, made, target, reader)
        layout, source = self.moved[tensor, target]
        if layout is None:
            return
        if target != read:
            self._send(tensor, layout, source, read)
        elif layout != read:
            self.parts[self._name(tensor, read, "part")] = source

    def _move(
        self, tensor: str, made: ChipLayout, read: ChipLayout, reader: str
    ) -> tuple[ChipLayout | None, str]:
        """Add the collectives among the chips that make a tensor; return its layout and name then.

        A tensor that is read after all layers is moved once, as the last layer has made it.
        """
        layout, source = made, self._name(tensor, made, "")
        whole, shape = self.workload.tensors[tensor], self.workload.shapes[tensor]
        maker, once = self.makers[tensor][1], self.workload.once
        is_stored = tensor in self.stored
        is_ahead = is_stored or (reader in once and maker not in once)
        is_beside = self.spec.links.overlap  # links do it in a place of their own, else the cores
        cores = remote_cores(made.first) if is_beside else self.places[maker].cores
        for move in moves(made, read, shape):
            if whole.kind == "cache":
                allowed = f"cuts of {tensor} like those of {maker}, or parts of it"
                self.found.append((maker, f"{tensor}, a cache", allowed))
                return None, source
            behind = replace(move.layout, first=made.first)
            target = self._name(tensor, behind, _SUFFIX[move.kind])
            elements = layout.elements(shape), behind.elements(shape)
            if move.halo is not None:
                elements = (int(elements[0] * move.halo),) * 2
            self._add_exchange(
                Exchange(
                    kind=move.kind,
                    tensor=tensor,
                    source=source,
                    target=target,
                    elements=elements,
                    bits=whole.bits,
                    digits=move.digits,
                    axes=(),
                    after=reader if is_ahead else maker,
                    source_layout=layout,
                    target_layout=behind,
                    cores=cores,
                    is_ahead=is_ahead,
                    is_stored=is_stored,
                )
            )
            layout, source = behind, target
        return layout, source

    def _add_exchange(self, exchange: Exchange) -> None:
        """Add an exchange, numbered among those of one kind of its source."""
        others = sum(
            other.source == exchange.source and other.kind == exchange.kind
            for other in self.exchanges
        )
        self.exchanges.append(replace(exchange, number=others + 1))

    def _send(self, tensor: str, made: ChipLayout, source: str, read: ChipLayout) -> None:
        """Add the message of a tensor from the chips that have it to those that read it."""
        whole, maker = self.workload.tensors[tensor], self.makers[tensor][1]
        if whole.kind == "cache":
            allowed = f"chips of {tensor} like those of {maker}"
            self.found.append((maker, f"{tensor}, a cache", allowed))
            return
        elements, place = read.elements(self.workload.shapes[tensor]), self.places[maker]
        self._add_exchange(
            Exchange(
                kind="point_to_point",
                tensor=tensor,
                source=source,
                target=self._name(tensor, read, f"chip{read.first}"),
                elements=(elements, elements),
                bits=whole.bits,
                digits=(),
                axes=place.pod.route(place.first, read.first),
                after=maker,
                source_layout=made,
                target_layout=read,
                cores=remote_cores(made.first),
            )
        )
