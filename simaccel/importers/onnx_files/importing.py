"""An ONNX model as a workload, with a list of what became of each node."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from simaccel.errors import Fault, InputError, require_none
from simaccel.files.accounting import AccountEntry, FileAccount
from simaccel.importers.onnx_files.builder import WorkloadBuilder
from simaccel.importers.onnx_files.constants import graphs_of
from simaccel.importers.onnx_files.extensions import attribute_of
from simaccel.importers.onnx_files.layers import add_attention
from simaccel.importers.onnx_files.operators import (
    DOMAINS,
    FREE,
    HANDLERS,
    PRODUCTS,
    UNCOUNTED,
    hidden_work,
    unread_attributes,
)
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.reading import OnnxGraph, read_network
from simaccel.importers.onnx_files.view_nodes import LOOKUPS, index_names, move
from simaccel.numbers import BYTE
from simaccel.workload.documents import einsums_document
from simaccel.workload.layers import distinct_names
from simaccel.workload.names import MAX_BYTES_PER_ELEMENT, clean_name, size_faults
from simaccel.workload.workload import Workload

DENSE, EXACT = "dense", "exact"
"""Ways to map a transposed convolution."""
_PASSED = frozenset(("Mul", "Div", "Add", "Where", "Cast", "Identity", "Dropout"))
"""Nodes between L, softmax and A that scale, mask, or do nothing."""
_RESHAPES = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze"))


@dataclass(frozen=True)
class ImportedWorkload:
    """A workload with an account of what became of each node of its file."""

    workload: Workload
    constants: int
    through_dram: tuple[str, ...] = ()
    """Tensors of the graph that are stored for a reader that needs them in another form."""


def load_onnx(
    path: str | Path,
    dims: Mapping[str, int] | None = None,
    bytes_per_element: int | None = None,
    transposed: str = DENSE,
) -> ImportedWorkload:
    """Return the workload of an ONNX file; ``dims`` has the sizes of dynamic dimensions.

    Elements are as large as the types of the file say, if ``bytes_per_element`` doesn't; indices
    of lookups always are. ``transposed``: transposed convolutions are ``dense`` convolutions, which
    multiply zeros around the input, or ``exact``, in pieces that don't.

    Raises:
        InputError: no ONNX, dimensions without a size, nothing that could be mapped.
    """
    sizes = {} if bytes_per_element is None else {"bytes_per_element": bytes_per_element}
    faults = size_faults(str(path), sizes, MAX_BYTES_PER_ELEMENT)
    if transposed not in (DENSE, EXACT):
        faults.append(Fault(str(path), "transposed", transposed, f"{DENSE} or {EXACT}"))
    require_none(faults)
    version = 0, 0
    with suppress(OSError, ValueError):
        status = Path(path).stat()
        version = status.st_mtime_ns, status.st_size
    dim_sizes = tuple(sorted((dims or {}).items()))
    return _load(str(path), version, dim_sizes, bytes_per_element, exact=transposed == EXACT)


@lru_cache(maxsize=4)
def _load(
    path: str,
    version: tuple[int, int],  # noqa: ARG001 - a key of the cache
    dims: tuple[tuple[str, int], ...],
    width: int | None,
    *,
    exact: bool,
) -> ImportedWorkload:
    network = read_network(Path(path), dict(dims))
    bits = network.bits
    if width is not None:
        indices = index_names(network)
        bits = {name: size if name in indices else BYTE * width for name, size in bits.items()}
    builder = WorkloadBuilder(
        network.shapes, bits, network.weights, splits(network), network.distinct, exact
    )
    importer = _Importer(network, builder)
    rows = importer.rows()
    name = clean_name(Path(path).stem)
    if not builder.pending:
        left = {row.kind: f"{row.kind} ({row.why})" for row in rows if row.why}
        kinds = ", ".join(sorted({left.get(row.kind, row.kind) for row in rows})[:8])
        value = f"none is modelled of {kinds}" if kinds else "none: all is constant"
        raise InputError([Fault(path, "nodes", value, "at least one that is an operator")])
    operators, tensors = builder.finish(network.outputs)
    parameters = {**einsums_document(name, operators, tensors.values()), "typed": True}
    unmoved = (*builder.notes, *network.notes, *_copies(network, builder))
    account = FileAccount(path, (*rows, *network.dead, *unmoved))
    workload = Workload(name, tuple(operators), tensors, parameters=parameters, account=account)
    return ImportedWorkload(workload, network.folded, tuple(sorted(builder.through_dram)))


@dataclass
class _Importer:
    """Conversion of a graph's nodes, in order, to operators of a workload."""

    network: OnnxGraph
    builder: WorkloadBuilder
    attentions: dict[int, list[int]] = field(default_factory=dict)
    """Number of the last node of an attention, where it is mapped -> numbers of all its nodes."""
    fused: set[int] = field(default_factory=set)
    """Numbers of the other nodes of attentions."""

    def __post_init__(self) -> None:
        """Name the nodes, and find the last reader of each tensor."""
        nodes = self.network.nodes
        names = [clean_name(node.name) or f"{node.op_type}_{at}" for at, node in enumerate(nodes)]
        named = zip(nodes, distinct_names(names), strict=True)
        self.places = [NodePlace(*each, self.network, self.builder) for each in named]
        self.readers = {name: at for at, node in enumerate(nodes) for name in node.input}

    def rows(self) -> list[AccountEntry]:
        """Map all nodes in the file's order, attentions at their last node; return entries."""
        entries: dict[int, AccountEntry] = {}
        for at, place in enumerate(self.places):
            self._note_attention(at)
            if at in self.fused:
                continue
            node = place.node
            self.builder.read_tensors.clear()
            self.builder.attributes.clear()
            self.builder.begun = len(self.builder.pending)
            self.builder.made_bits = self.builder.bits.get(next(iter(node.output), ""), 32)
            if at in self.attentions:
                entries |= self._attention(self.attentions[at])
            else:
                entries[at] = _map_node(place)
            if entries[at].how != "not taken":
                self.builder.notes += unread_attributes(place)
            for name in {*node.input} - self.builder.read_tensors - self.network.weights:
                self.builder.store_in_dram(name)
            self._note_sources(place, entries[at].how)
        return [entries[at] for at in sorted(entries)]

    def _note_sources(self, place: NodePlace, how: str) -> None:
        """Record the sources of elements that a node only moves; keep what leaves the model.

        Inputs of a node that isn't modelled leave it.
        """
        builder, node = self.builder, place.node
        if how == "not taken":
            for name in node.input:
                if name in builder.views:
                    builder.views[name].root.keep(leaves=True)
        elif how == "harmless":
            moved = [name for name in node.input if name not in self.network.values]
            builder.record_origins(node.output, moved if node.op_type == "Concat" else moved[:1])

    def _note_attention(self, at: int) -> None:
        """Find the attention (L, softmax, A) that begins with a node, if there is one."""
        place = self.places[at]
        begins = place.node.op_type == "MatMul" and place.has_shapes and at not in self.attentions
        chain = self._chain_from(at) if begins else None
        if chain is None:
            return
        last = self.places[chain[-1]]
        query, key, value = place.shape(0), place.shape(1), last.shape(1)
        has_rows = min(map(len, (query, key, value))) > 1 and 0 not in (*query, *key, *value)
        if not has_rows or key[-1] != value[-2]:
            return
        widened = math.prod(last.shape(0)) > math.prod(place.out_shape)  # by a mask
        if query[:-2] == key[:-2] == value[:-2] and not widened:
            self.attentions[chain[-1]] = [at, *chain]
            self.fused |= {at, *chain[:-1]}

    def _attention(self, chain: Sequence[int]) -> dict[int, AccountEntry]:
        """Map the nodes of an attention: product, others, softmax, product; return entries."""
        first, *inner, softmax, last = (self.places[number] for number in chain)
        operands = first.shaped_input(0), first.shaped_input(1), last.shaped_input(1)
        last.set_output(
            add_attention(self.builder, (first.name, softmax.name, last.name), operands)
        )
        for name in {*first.node.input} - self.builder.read_tensors - self.network.weights:
            self.builder.store_in_dram(name)
        made = {name for number in chain for name in self.network.nodes[number].output}
        for inside in inner:
            for at, name in enumerate(inside.node.input):
                self.builder.store_in_dram(name)
                if name not in made:
                    inside.report_input(at, "a mask or bias of the scores: not read")
        logit, _, attend = self.builder.pending[-3:]
        rows = [inside.take_node("a part of softmax", macs=0) for inside in inner]
        rows.insert(0, first.take_node("L of an attention", macs=logit.macs))
        rows.append(softmax.take_node("softmax", macs=0))
        rows.append(last.take_node("A of an attention", macs=attend.macs))
        return dict(zip(chain, rows, strict=True))

    def _chain_from(self, at: int) -> list[int] | None:
        """Return the nodes after a product up to the product whose first factor is its softmax.

        The softmax is the last but one. None if there is no such chain.
        """
        chain: list[int] = []
        softmax = False
        while True:
            made = self.network.nodes[at].output[0]
            if self.network.reads[made] != 1 or made in self.network.outputs:
                return None
            at = self.readers[made]
            place, node = self.places[at], self.network.nodes[at]
            if not place.has_shapes:
                return None
            chain.append(at)
            if node.op_type == "Softmax" and not softmax:
                softmax = True
                rank = len(self.network.shapes[made])
                if place.attribute("axis", -1) % rank != rank - 1:
                    return None
                softmax_at = len(chain) - 1
            elif node.op_type == "MatMul" and softmax and node.input[0] == made:
                return [*chain[:softmax_at], *chain[softmax_at + 1 : -1], chain[softmax_at], at]
            elif node.op_type not in _PASSED:
                return None


def _map_node(place: NodePlace) -> AccountEntry:
    try:
        return _map_complete(place)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        del place.builder.pending[place.builder.begun :]
        works = None if place.node.op_type in PRODUCTS else 0
        return place.pass_node("not taken", "inputs or attributes that no such node has", works)


def _map_complete(place: NodePlace) -> AccountEntry:
    kind = place.node.op_type
    if kind == "Pad" and not place.node.input:
        return place.pass_node("harmless", "pads of the convolutions that read it")
    if _moves(place):
        return _map_move(place)
    why, macs = _omission(place)
    if why:
        return place.pass_node("not taken", why, macs)
    if 0 in place.out_shape:
        return place.pass_node("harmless", "no elements")
    if place.node.input and 0 in place.network.shapes.get(place.node.input[0], ()):
        return place.pass_node("not taken", "what is made of no elements")
    return HANDLERS[kind](place)


def _map_move(place: NodePlace) -> AccountEntry:
    """Map a node that only moves elements; a reshape that has not as many before is not taken."""
    shapes, node = place.network.shapes, place.node
    ends = [name for name in (*node.input[:1], *node.output[:1]) if name in shapes]
    had, made = (math.prod(shapes[name]) for name in ends) if len(ends) > 1 else (0, 0)
    if had != made and node.op_type in _RESHAPES:
        why = f"{had} elements become {made}: the file fits other sizes"
        return place.pass_node("not taken", why, None)
    return move(place)


def _omission(place: NodePlace) -> tuple[str, int | None]:
    """Return why a node isn't modelled (empty if it is), and its MACs; None if unknown."""
    kind, domain = place.node.op_type, place.node.domain
    if any(True for _ in graphs_of(place.node)):
        return hidden_work(place.node)
    if domain not in DOMAINS:
        return f"a node of the domain {domain}, which isn't known", None
    if kind not in HANDLERS:
        return "no such kind of node", 0 if not domain and kind not in UNCOUNTED else None
    names = (*place.node.input, *place.node.output[:1])
    unknown = [name for name in names if name and name not in place.network.shapes]
    files = ", ".join(dict.fromkeys(place.network.missing))
    known = f"without {files}, which can't be read" if files else "that is known"
    why = f"{unknown[0]} has no shape {known}" if unknown else ""
    why = "channels are the last dimension" if attribute_of(place.node, "channels_last", 0) else why
    return why, None if kind in PRODUCTS else 0


def _copies(network: OnnxGraph, builder: WorkloadBuilder) -> Iterator[AccountEntry]:
    """Yield an entry for each output of the graph that is written in part or not at all."""
    for name in network.outputs:
        maker, view, why = network.makers.get(name), builder.views.get(name), ""
        kind = "" if maker is None else maker.op_type
        stored = view if view is not None and view.root.made else None
        count = math.prod(network.shapes.get(name, ()))
        if kind in FREE and stored is None and name in network.shapes:
            why = "a copy of what is stored: not written"
        elif maker and kind in HANDLERS and maker.output[0] != name and not view and count > 1:
            why = "made beside the first output: not written"
        elif stored is not None and stored.repeats:
            why = f"{count} elements, written as the {stored.elements} that differ"
        if why:
            yield AccountEntry(name, "not taken", why, "output", 0, count)


def splits(network: OnnxGraph) -> dict[int, tuple[int, ...]]:
    """Return size of a repeated dimension -> (size before, repetitions).

    Query heads are split like this, too, so that their form is that of keys and values, which are
    stored once for several heads.
    """
    parted: dict[int, tuple[int, ...]] = {}
    for node in network.nodes:
        if node.op_type == "Tile" and node.input:
            single, many = (
                network.shapes.get(name, ()) for name in (node.input[0], node.output[0])
            )
            pairs = zip(single[:-2], many[:-2], strict=False)
            parted |= {size: (size // had, had) for had, size in pairs if 1 < had < size}
        before = network.makers.get(next(iter(node.input), ""))
        if node.op_type != "Reshape" or before is None or before.op_type not in {"Expand", "Tile"}:
            continue
        had, wide, shape = (
            network.shapes.get(name, ())
            for name in (before.input[0], node.input[0], node.output[0])
        )
        for at, size in enumerate(wide[1:] if before.input[0] in network.shapes else (), 1):
            old = had[at - len(wide)] if len(had) >= len(wide) - at else 1
            if old == 1 < size and wide[at - 1] > 1 and wide[at - 1] * size in shape:
                parted[wide[at - 1] * size] = (wide[at - 1], size)
    return parted


def _moves(place: NodePlace) -> bool:
    """Return whether a node only moves elements, as a lookup at constants or of one element."""
    node, network = place.node, place.network
    if node.domain not in DOMAINS or node.op_type not in LOOKUPS:
        return node.domain in DOMAINS and node.op_type in FREE
    made = network.shapes.get(node.output[0])
    single = made is not None and math.prod(made) < 2  # noqa: PLR2004 - one element
    return single or node.input[1] in network.values or node.input[1] in network.weights
