"""Published networks and kernels, layer by layer, each with its source."""

from collections.abc import Mapping
from dataclasses import replace

from simaccel.errors import Fault, InputError, suggest
from simaccel.workload.layers import Layers, Network, layers_workload, one_layer, with_batch
from simaccel.workload.networks import (
    alexnet,
    deepbench,
    mobilenet_v2,
    resnet50,
    tpu_v1,
    vgg16,
)
from simaccel.workload.sizes import MAX_LAYER_SIZE, size_faults
from simaccel.workload.tensors import bytes_document
from simaccel.workload.whole import linked
from simaccel.workload.workload import Workload

SCOPES = ("layers", "model")
"""What there is of a network: its layers, each alone, or all of it."""
NETWORKS = (
    resnet50.NETWORK,
    resnet50.NETWORK_V1,
    alexnet.NETWORK,
    vgg16.NETWORK,
    mobilenet_v2.NETWORK,
    deepbench.NETWORK,
    *tpu_v1.NETWORKS,
)


def network_names() -> dict[str, Network]:
    """Return the networks by their names and aliases."""
    return {name: one for one in NETWORKS for name in (one.name, *one.aliases)}


def find_network(name: str) -> Network:
    """Return the network of this name or alias, in any case.

    Raises:
        InputError: there is none; says which is meant, or which there are.

    """
    known, key = network_names(), str(name).lower()
    if key not in known:
        allowed = suggest(key, known)
        if not allowed.startswith("did"):
            allowed = suggest("", [one.name for one in NETWORKS])
        raise InputError([Fault("workload", "model", name, allowed)])
    return known[key]


def network(
    name: str,
    *,
    batch: int = 1,
    layer: str | None = None,
    scope: str = "layers",
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return the layers of a network for `batch` images, or one of them.

    Of the scope `layers` each has tensors of its own; of the scope `model` the network is whole:
    what one makes the next reads, with poolings and shortcuts. `bytes_by_tensor` has the element
    sizes of `I`, `W` and `O` in all layers; of a whole network `I` is the image alone.

    Raises:
        InputError: all that is wrong.

    """
    found = find_network(name)
    layers, faults = _chosen(found, batch, layer)
    faults += _scope_faults(found, scope, layer)
    parameters = {
        "kind": "network",
        "model": found.name,
        "batch": batch,
        **({} if layer is None else {"layer": layer}),
        **({} if scope == "layers" else {"scope": scope}),
        **bytes_document(bytes_per_element, bytes_by_tensor),
    }
    try:
        workload = layers_workload(
            found.name,
            layers,
            bytes_per_element=bytes_per_element,
            bytes_by_tensor=bytes_by_tensor,
            parameters=parameters,
        )
    except InputError as error:
        raise InputError([*faults, *error.faults]) from None
    if faults:
        raise InputError(faults)
    return _whole(found, workload) if scope == "model" else workload


def _scope_faults(found: Network, scope: str, layer: str | None) -> list[Fault]:
    if scope not in SCOPES:
        return [Fault(found.name, "scope", scope, suggest(str(scope), SCOPES))]
    if scope == "layers":
        return []
    if found.whole is None:
        allowed = f"layers; what lies between the layers of {found.name} is not known here"
        return [Fault(found.name, "scope", scope, allowed)]
    if layer is not None:
        return [Fault(found.name, "layer", layer, "nothing with scope model, which has all")]
    return []


def _whole(found: Network, layers: Workload) -> Workload:
    """Return a network as one graph, with the batch and element sizes of a list of its layers."""
    assert found.whole is not None  # noqa: S101 - refused before
    roles = {name[-1]: one for name, one in layers.tensors.items()}
    operators, kinds = linked(found.whole(), found.samples * layers.parameters["batch"])
    tensors = {
        name: replace(roles[{"weight": "W", "input": "I"}.get(kind, "O")], name=name, kind=kind)
        for name, kind in kinds.items()
    }
    return Workload(found.name, tuple(operators), tensors, parameters=layers.parameters)


def _chosen(found: Network, batch: int, layer: str | None) -> tuple[Layers, list[Fault]]:
    """Return the chosen layers for the batch, or all layers for one image and what is wrong."""
    layers = found.layers()
    faults = size_faults(found.name, {"batch": batch}, MAX_LAYER_SIZE)
    if not faults and found.kernels and batch != 1:
        allowed = f"1; the kernels of {found.name} state their batches"
        faults.append(Fault(found.name, "batch", batch, allowed))
    try:
        chosen = one_layer(layers, layer, found.name)
    except InputError as error:
        return layers, [*faults, *error.faults]
    return (layers, faults) if faults else (with_batch(chosen, batch), [])
