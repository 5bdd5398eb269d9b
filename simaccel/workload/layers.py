"""Lists of layers: convolutions and matrix products one after another, each with its own tensors.

Published networks have pooling, padding and concatenation between these layers, so the output of
one is not the input of the next: layers share no tensor and run in the given order. The tensors of
layer `conv1` are `conv1.I`, `conv1.W` and `conv1.O`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from simaccel.errors import Fault, InputError, require_none, suggest
from simaccel.workload.conv import KINDS, Conv, conv_faults
from simaccel.workload.einsum import Einsum, operand
from simaccel.workload.names import MAX_LAYER_SIZE, size_faults
from simaccel.workload.tensors import bytes_document, make_tensors
from simaccel.workload.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Product:
    """The sizes of O[b,m,n] = I[b,m,k] W[b,k,n]; ``transposed``: how each factor is stored.

    A fully connected layer has a row (m) for each sample, its inputs as k and its outputs as n.
    """

    m: int
    k: int
    n: int
    b: int = 1
    transposed: tuple[bool, bool] = (False, False)

    @property
    def ranks(self) -> dict[str, int]:
        """The sizes of the ranks by name."""
        return {"b": self.b, "m": self.m, "k": self.k, "n": self.n}

    @property
    def weights(self) -> int:
        """Elements of the second factor."""
        return self.b * self.k * self.n

    def document(self) -> dict[str, object]:
        """Return the sizes in the form of a workload file."""
        shape = {"M": self.m, "K": self.k, "N": self.n, "B": self.b}
        return {"kind": "gemm", "shape": shape, "transposed": list(self.transposed)}

    def einsum(self, name: str, tensors: tuple[str, str, str] = ("I", "W", "O")) -> Einsum:
        """Return the einsum over tensors with these names: first factor, second, result."""
        first = "b k m" if self.transposed[0] else "b m k"
        second = "b n k" if self.transposed[1] else "b k n"
        inputs = (operand(f"{tensors[0]} {first}"), operand(f"{tensors[1]} {second}"))
        return Einsum(name, self.ranks, inputs, operand(f"{tensors[2]} b m n"))


_MOST_LISTED = 20
"""Layers that a message lists at most."""

LayerShape = Conv | Product
Layers = Mapping[str, LayerShape]
"""Layers by name, in order."""


def layers_workload(
    name: str,
    layers: Layers,
    *,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Workload:
    """Return layers as a workload; `bytes_by_tensor` has entries `I`, `W` and `O` for all layers.

    Raises:
        InputError: all wrong sizes, or no layer at all.
    """
    roles, faults = make_tensors(name, KINDS, bytes_per_element, bytes_by_tensor)
    if not layers:
        faults.append(Fault(name, "layers", "no layers", "at least one layer"))
    for layer, shape in layers.items():
        faults += _faults(name, f"layers.{layer}.", shape)
    require_none(faults)
    tensors, einsums = {}, []
    for layer, shape in layers.items():
        names = {role: f"{layer}.{role}" for role in KINDS}
        einsums.append(shape.einsum(layer, (names["I"], names["W"], names["O"])))
        for role, named in names.items():
            tensors[named] = replace(roles[role], name=named)
    if parameters is None:
        parameters = {
            "kind": "layers",
            "name": name,
            "layers": {layer: shape.document() for layer, shape in layers.items()},
            **bytes_document(bytes_per_element, bytes_by_tensor),
        }
    return Workload(name, tuple(einsums), tensors, parameters=parameters)


def with_batch(layers: Layers, batch: int) -> Layers:
    """Return layers with `batch` times as many samples; of a product, as many times the rows."""
    return {
        name: replace(shape, n=shape.n * batch)
        if isinstance(shape, Conv)
        else replace(shape, m=shape.m * batch)
        for name, shape in layers.items()
    }


def one_layer(layers: Layers, layer: str | None, file: str = "workload") -> Layers:
    """Return the layer of this name alone; all layers if the name is None.

    Raises:
        InputError: no layer has this name; the message suggests one, or lists them.
    """
    if layer is None:
        return layers
    if layer not in layers:
        allowed = suggest(layer, layers)
        if len(layers) > _MOST_LISTED and not allowed.startswith("did"):
            first = ", ".join(list(layers)[:3])
            allowed = f"one of {len(layers)} layers: {first}, ... (simaccel workload show {file})"
        raise InputError([Fault(file, "layer", layer, allowed)])
    return {layer: layers[layer]}


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return the names with _2, _3, ... after those that came before.

    >>> distinct_names(["fc", "conv", "fc"])
    ['fc', 'conv', 'fc_2']
    """
    wanted = list(names)
    taken, distinct = set(wanted), []
    seen: set[str] = set()
    for name in wanted:
        chosen, count = name, 1
        while chosen in seen or (count > 1 and chosen in taken):
            count += 1
            chosen = f"{name}_{count}"
        seen.add(chosen)
        distinct.append(chosen)
    return distinct


def _faults(file: str, path: str, shape: LayerShape) -> list[Fault]:
    if isinstance(shape, Conv):
        return conv_faults(file, shape, path)
    sizes = {f"{path}{rank.upper()}": size for rank, size in shape.ranks.items()}
    return size_faults(file, sizes, MAX_LAYER_SIZE)
