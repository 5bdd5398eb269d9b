"""Networks: layers one after another, perhaps linked, of the catalogue or of a user's own file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from simaccel.errors import Fault, InputError, name_arguments, require_none, suggest
from simaccel.files.catalogue import Catalogue
from simaccel.workload.conv import Conv
from simaccel.workload.layers import (
    Layers,
    layers_workload,
    one_layer,
    with_batch,
)
from simaccel.workload.linking import (
    LayerDocument,
    NetworkNode,
    link_layers,
    link_nodes,
    read_shape,
)
from simaccel.workload.names import MAX_LAYER_SIZE, size_faults
from simaccel.workload.tensors import bytes_document
from simaccel.workload.workload import Workload

SCOPES: Final = ("layers", "model")
"""Scopes of a network: its layers, each alone, or the linked network with poolings and sums."""


@dataclass(frozen=True)
class Network:
    """A published list of layers for one sample, with its names and source.

    Layers of a list of kernels have batches of their own. ``nodes``: the linked layers, poolings
    and sums, if the connections are known.
    """

    name: str
    aliases: tuple[str, ...]
    layers: Layers
    source: str
    nodes: tuple[NetworkNode, ...] = ()

    @property
    def samples(self) -> int:
        """Samples at a batch of 1; of a list of kernels, the most of any."""
        return max(
            shape.n if isinstance(shape, Conv) else shape.m for shape in self.layers.values()
        )


def parse_network(document: Mapping[str, Any]) -> Network:
    """Return the network of a document with the fields of `LayersForm`.

    Raises:
        InputError: every layer that does not fit its inputs.
    """
    documents: Mapping[str, LayerDocument] = document["layers"]
    shapes = {name: read_shape(layer) for name, layer in documents.items()}
    layers = {name: shape for name, shape in shapes.items() if shape is not None}
    nodes = link_layers(document["name"], documents, layers, document.get("linked", False))
    return Network(
        document["name"],
        tuple(document.get("aliases", ())),
        layers,
        document.get("source", ""),
        tuple(nodes),
    )


NETWORKS: Final = Catalogue("networks", parse_network)
"""The published networks, and lists of kernels."""
find_network = NETWORKS.find


@name_arguments()
def network(
    name: str,
    *,
    batch: int = 1,
    layer: str | None = None,
    scope: str | None = None,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return the layers of a published network for `batch` images, or one of them.

    With the scope `layers` each layer has its own tensors; with `model` the layers are linked, with
    poolings and shortcuts. The default is `model` if the connections are known and no layer is
    chosen. `bytes_by_tensor` has the element sizes of `I`, `W` and `O` of all layers; in a linked
    network `I` is the image alone.

    Raises:
        InputError: every fault.
    """
    published = find_network(name)
    layers, faults = _choose_layers(published, batch, layer)
    if scope is None:
        scope = "model" if published.nodes and layer is None else "layers"
    faults += _scope_faults(published, scope, layer)
    parameters = {
        "kind": "network",
        "model": published.name,
        "batch": batch,
        **({"scope": scope} if layer is None else {"layer": layer}),
        **bytes_document(bytes_per_element, bytes_by_tensor),
    }
    try:
        workload = layers_workload(
            published.name,
            layers,
            bytes_per_element=bytes_per_element,
            bytes_by_tensor=bytes_by_tensor,
            parameters=parameters,
        )
    except InputError as error:
        raise InputError([*faults, *error.faults]) from None
    require_none(faults)
    return whole_network(published, workload, batch) if scope == "model" else workload


def whole_network(network: Network, layers: Workload, batch: int = 1) -> Workload:
    """Return a network as one graph, with the element sizes and parameters of ``layers``."""
    roles = {name[-1]: tensor for name, tensor in layers.tensors.items()}
    operators, kinds = link_nodes(network.nodes, network.samples * batch)
    tensors = {
        name: replace(roles[{"weight": "W", "input": "I"}.get(kind, "O")], name=name, kind=kind)
        for name, kind in kinds.items()
    }
    return Workload(network.name, tuple(operators), tensors, parameters=layers.parameters)


def _scope_faults(published: Network, scope: str, layer: str | None) -> list[Fault]:
    if scope not in SCOPES:
        return [Fault(published.name, "scope", scope, suggest(str(scope), SCOPES))]
    if scope == "layers":
        return []
    if not published.nodes:
        allowed = f"layers; what lies between the layers of {published.name} is not known here"
        return [Fault(published.name, "scope", scope, allowed)]
    if layer is not None:
        return [Fault(published.name, "layer", layer, "nothing with scope model, which has all")]
    return []


def _choose_layers(published: Network, batch: int, layer: str | None) -> tuple[Layers, list[Fault]]:
    """Return the chosen layers for the batch; with faults, all layers for one image."""
    layers = published.layers
    faults = size_faults(published.name, {"batch": batch}, MAX_LAYER_SIZE)
    if not faults and published.samples != 1 and batch != 1:
        allowed = f"1; the kernels of {published.name} state their batches"
        faults.append(Fault(published.name, "batch", batch, allowed))
    try:
        chosen = one_layer(layers, layer, published.name)
    except InputError as error:
        return layers, [*faults, *error.faults]
    return (layers, faults) if faults else (with_batch(chosen, batch), [])
