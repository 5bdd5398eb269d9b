"""Dataflows of MAESTRO descriptions with the layers that they are for; all faults with places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from simaccel.errors import ABSENT, Fault, InputError, require_none
from simaccel.papers.maestro.dataflows.dataflow import (
    Cluster,
    Dataflow,
    DimMap,
    complete,
    couplings,
    pes_of_cluster,
    split,
)
from simaccel.papers.maestro.dataflows.described import (
    OF_INPUT,
    SLIDING,
    DescribedLayer,
    Evaluator,
    choices_of,
    described_layers,
)
from simaccel.papers.maestro.language.syntax import (
    ClusterDirective,
    DataflowBlock,
    Description,
    Layer,
    MapDirective,
    Node,
)
from simaccel.workload.layers import one_layer

MAX_LEVELS: Final = 4
"""The most cluster levels: the tool has so many NoCs."""
_MOST_SPATIAL = 2
_SPATIAL = "SpatialMap"


@dataclass(frozen=True, kw_only=True)
class DirectedLayer:
    """A layer with its dataflow, and the places of the directives in the file."""

    layer: DescribedLayer
    dataflow: Dataflow
    nodes: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.layer.name


@dataclass(frozen=True, kw_only=True)
class Directives:
    """All layers of a description with their dataflows.

    ``notes`` are located remarks: what is allowed but probably not what was meant.
    """

    file: str
    name: str
    layers: tuple[DirectedLayer, ...]
    notes: tuple[Fault, ...] = ()

    def select_layer(self, layer: str | None) -> Directives:
        """Return one of the layers alone; InputError if there is none of this name."""
        known = {one.name: one for one in self.layers}
        shapes = {name: one.layer.shape() for name, one in known.items()}
        names = one_layer(shapes, layer, self.file)
        return replace(self, layers=tuple(known[name] for name in names))


def load_directives(path: str) -> Directives:
    """Return the layers and dataflows of a file.

    Raises:
        InputError: all faults of its syntax, layers and dataflows.
    """
    from simaccel.papers.maestro.language.reading import description_text  # noqa: PLC0415 - a parser

    return parse_directives(description_text(path), path)


def parse_directives(text: str, source: str = "description") -> Directives:
    """Return the layers and dataflows of a text; raises as ``load_directives``."""
    from simaccel.papers.maestro.language.reading import interpret  # noqa: PLC0415 - a parser

    return interpret(text, source, directives_of)


def directives_of(description: Description, file: str) -> Directives:
    """Return the layers and dataflows of a description; raises as ``load_directives``."""
    layers, evaluator = described_layers(description, file)
    known = {id(described.node): described for described in layers}
    directeds: list[DirectedLayer] = []
    notes: list[Fault] = []
    writer: _EvaluatedBlock | None = None
    for node in description.layers:
        layer = known.get(id(node))
        own = [member for member in node.members if isinstance(member, DataflowBlock)]
        for repeated in own[1:]:
            evaluator.fault(repeated, "Dataflow", "one Dataflow in a layer")
        if own and layer is None:
            _look_through(own[0], node, evaluator)
        if own and own[0].directives and layer is not None:
            writer = _EvaluatedBlock(own[0], layer, evaluator)
        if layer is None or (writer is None and evaluator.faults):
            continue  # what it would inherit is perhaps in what is wrong
        if writer is None:
            evaluator.fault(node, f"Layer {node.name} without Dataflow", "a Dataflow in the first")
            continue
        reader = _Reader(layer, writer, evaluator)
        dataflow = reader.read()
        notes += reader.notes
        directeds.append(
            DirectedLayer(layer=layer, dataflow=dataflow, nodes=writer.block.directives)
        )
    if evaluator.faults:
        raise InputError(list(dict.fromkeys(evaluator.faults)))
    name = next(
        (network.name.text for network in description.networks if network.name.text), "Network"
    )
    return Directives(file=file, name=name, layers=tuple(directeds), notes=tuple(notes))


def require_pes(directives: Directives, pes: int) -> None:
    """Refuse dataflows whose clusters need more PEs than there are.

    Raises:
        InputError: names each of them with the place of its first Cluster.
    """
    faults = []
    for layer in directives.layers:
        needed = pes_of_cluster(layer.dataflow)
        if needed > pes:
            clusters = [node for node in layer.nodes if isinstance(node, ClusterDirective)]
            where = f"{clusters[0].place} (layer {layer.name})" if clusters else layer.name
            allowed = f"clusters of at most {pes} PEs, as many as there are"
            faults.append(Fault(directives.file, where, f"{needed} PEs in a cluster", allowed))
    require_none(faults)


def _look_through(block: DataflowBlock, layer: Layer, evaluator: Evaluator) -> None:
    """Note what is wrong with a dataflow whatever the sizes of its layer, which has faults."""
    choices = choices_of(layer)
    sizes = dict.fromkeys(choices, 1)
    for directive in block.directives:
        if isinstance(directive, ClusterDirective):
            evaluator.value(directive.units, sizes)
            continue
        for value in (directive.size, directive.offset):
            evaluator.value(value, sizes, at_least=None)
        if directive.dim.text not in choices:
            allowed = f"a dimension of {layer.name}: one of {', '.join(choices)}"
            evaluator.fault(directive.dim, directive.dim.text, allowed)


class _EvaluatedBlock:
    """A Dataflow block with its numbers, which are those of the layer that has it."""

    def __init__(self, block: DataflowBlock, layer: DescribedLayer, evaluator: Evaluator) -> None:
        self.block, self.layer = block, layer
        sizes = dict(layer.sizes)
        for outer, dim in OF_INPUT.items() if layer.slides else ():
            sizes[outer] = sizes[dim] - sizes[SLIDING[dim]] + 1
        known = len(evaluator.faults)
        clusters: list[DimMap | Cluster] = []
        for directive in block.directives:
            if isinstance(directive, ClusterDirective):
                clusters.append(Cluster(evaluator.value(directive.units, sizes)))
            else:
                size, offset = (
                    evaluator.value(v, sizes) for v in (directive.size, directive.offset)
                )
                clusters.append(
                    DimMap(directive.dim.text, size, offset, directive.keyword == _SPATIAL)
                )
        self.dataflow = tuple(clusters)
        self.is_sound = len(evaluator.faults) == known


class _Reader:
    """A check of a dataflow for one layer."""

    def __init__(self, layer: DescribedLayer, block: _EvaluatedBlock, evaluator: Evaluator) -> None:
        self.layer, self.block, self.evaluator = layer, block, evaluator
        self.dataflow = block.dataflow
        self.suffix = "" if block.layer is layer else f" (layer {layer.name})"
        self.notes: list[Fault] = []

    def read(self) -> Dataflow:
        """Return the dataflow; whatever is wrong with it is noted."""
        if not self.block.is_sound:
            return self.block.dataflow
        known = len(self.evaluator.faults)
        self.dataflow = tuple(map(self._covering, self.block.dataflow))
        for directive, node in zip(self.dataflow, self.block.block.directives, strict=True):
            if isinstance(directive, DimMap) and isinstance(node, MapDirective):
                self._map(directive, node)
        if self.layer.up is not None:
            note = "an analysis as a CONV, as the tool's: up-sampling is --workload's alone"
            self.notes.append(self._fault_at(self.block.block, "TRCONV", note))
        for depth, (maps, nodes) in enumerate(self._levels()):
            self._level(depth, maps, nodes)
        if len(self.evaluator.faults) == known:
            self._outputs()
        return self.dataflow

    def _covering(self, one: DimMap | Cluster) -> DimMap | Cluster:
        """Return a map in time that covers its filter's dimension as it is: it never steps."""
        if isinstance(one, Cluster) or one.spatial or one.dim not in SLIDING.values():
            return one
        size = self.layer.sizes.get(one.dim, one.size + 1) if self.layer.slides else one.size + 1
        return replace(one, size=size, offset=size) if one.size >= size else one

    def _levels(self) -> Iterator[tuple[list[DimMap], list[Node]]]:
        """Yield the maps of each level with their nodes; the Cluster of a level comes first."""
        nodes: list[list[Node]] = [[]]
        for node in self.block.block.directives:
            if isinstance(node, ClusterDirective):
                nodes.append([node])
            else:
                nodes[-1].append(node)
        yield from zip(split(self.dataflow)[0], nodes, strict=True)

    def _map(self, dim_map: DimMap, node: MapDirective) -> None:
        outer = OF_INPUT if self.layer.slides else {}
        dim = outer.get(dim_map.dim, dim_map.dim)
        if dim not in self.layer.sizes:
            names = ", ".join((*self.layer.sizes, *outer))
            self._fault(node.dim, dim_map.dim, f"a dimension of {self.layer.name}: one of {names}")
            return
        size = self.layer.sizes[dim]
        if dim_map.dim in outer:
            size -= self.layer.sizes[SLIDING[dim]] - 1
        is_filter = self.layer.slides and dim in SLIDING.values()
        if is_filter and not dim_map.spatial and not dim_map.size == dim_map.offset == size:
            allowed = f"({size},{size}): a TemporalMap of {dim} has all of it"
            self._fault(node, f"({dim_map.size},{dim_map.offset})", allowed)
        elif dim_map.size > size:
            note = f"at most {size}, all of {dim_map.dim}, to fill a tile"
            self.notes.append(self._fault_at(node.size, dim_map.size, note))

    def _level(self, depth: int, maps: Sequence[DimMap], nodes: Sequence[Node]) -> None:
        where: Node = nodes[0] if nodes else self.block.block
        if depth == MAX_LEVELS:
            self._fault(where, f"Cluster {depth}", f"at most {MAX_LEVELS - 1} clusters")
        if depth and not maps:
            self._fault(where, "a Cluster with nothing inside", "maps after each Cluster")
            return
        named = [node for node in nodes if isinstance(node, MapDirective)]
        self._refuse_repeats(maps, named)
        spatial = [node for directive, node in zip(maps, named, strict=True) if directive.spatial]
        if not spatial:
            self._fault(where, ABSENT, "a SpatialMap at each level")
        for node in spatial[_MOST_SPATIAL:]:
            self._fault(node, "a third SpatialMap", f"at most {_MOST_SPATIAL} at a level")
        self._check_coupling(maps, named)

    def _refuse_repeats(self, maps: Sequence[DimMap], nodes: Sequence[MapDirective]) -> None:
        seen: set[str] = set()
        for one, node in zip(maps, nodes, strict=True):
            dim = OF_INPUT.get(one.dim, one.dim)
            if dim in seen:
                note = "each dimension once at a level; the released tool takes its last state"
                self.notes.append(self._fault_at(node.dim, one.dim, note))
            seen.add(dim)

    def _check_coupling(self, maps: Sequence[DimMap], nodes: Sequence[MapDirective]) -> None:
        """Refuse what the tool can't know: Y' without R, and dimensions of no input below."""
        dims = {directive.dim for directive in maps}
        coupled = couplings(self.layer)
        inputs = {*coupled["input"], *coupled["filter"]}
        has_clusters = any(isinstance(nested, Cluster) for nested in self.dataflow)
        for directive, node in zip(maps, nodes, strict=True):
            dim = OF_INPUT.get(directive.dim, directive.dim)
            if directive.dim in OF_INPUT and self.layer.slides and SLIDING[dim] not in dims:
                allowed = f"a map of {SLIDING[dim]} at the same level, or {dim}"
                self._fault(node.dim, directive.dim, allowed)
            if has_clusters and dim in self.layer.sizes and dim not in inputs:
                allowed = f"no {dim} with clusters: no input of a {self.layer.kind} has it"
                self._fault(node.dim, directive.dim, allowed)

    def _outputs(self) -> None:
        """Note maps of fewer rows than the filter's, from which no output comes."""
        pes = pes_of_cluster(self.dataflow)
        for (_, nodes), level in zip(
            self._levels(), complete(self.layer, self.dataflow, pes), strict=True
        ):
            known = {directive.dim: directive for directive in level.maps}
            for dim, reach in SLIDING.items() if self.layer.slides else ():
                if known[dim].size >= known[reach].size:
                    continue
                at = next(
                    (n for n in nodes if isinstance(n, MapDirective) and n.dim.text == dim),
                    nodes[0],
                )
                allowed = f"at least {known[reach].size}, as the map of {reach} has, for an output"
                self.notes.append(
                    self._fault_at(at, f"{known[dim].size} positions of {dim}", allowed)
                )

    def _fault(self, node: Node, value: object, allowed: str) -> None:
        self.evaluator.faults.append(self._fault_at(node, value, allowed))

    def _fault_at(self, node: Node, value: object, allowed: str) -> Fault:
        return Fault(self.evaluator.file, f"{node.place}{self.suffix}", value, allowed)
