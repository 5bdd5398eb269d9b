"""Workloads from YAML files, all faults of a file reported together.

A file is a mapping with a `kind`:

    kind: attention        # a model of the catalogue, or instead of `model` its sizes:
    model: bert            # hidden, heads, head_size, ff_size, layers
    batch: 64
    seq_len: 512
    scope: block           # la, block or model
    ---
    kind: gemm
    shape: {M: 512, K: 64, N: 512, B: 4}
    ---
    kind: conv             # G groups with M output and C input channels each; N is the batch
    shape: {N: 1, G: 2, M: 128, C: 48, P: 27, Q: 27, R: 5, S: 5}
    stride: 1              # or [height, width]; dilation likewise; 1 if left out
    ---
    kind: network          # published layers: resnet50, alexnet, ... (simaccel workload list)
    model: alexnet
    batch: 4
    layer: conv2           # all layers if left out
    ---
    kind: layers           # a network of one's own: convolutions and gemms, one after another
    name: tail
    layers:
      conv5: {kind: conv, shape: {M: 256, C: 512, P: 7, Q: 7, R: 3, S: 3}, stride: 2}
      fc6: {kind: gemm, shape: {M: 1, K: 12544, N: 10}}   # M samples, K inputs, N outputs
    ---
    kind: einsums
    name: scores
    tensors: {A: {kind: input}, B: {kind: weight, bytes_per_element: 1},
              S: {kind: intermediate}, P: {kind: output}}
    operators:
      product:
        ranks: {m: 4, k: 8, n: 2}
        inputs: [{tensor: A, projection: [m, k]}, {tensor: B, projection: [k, n]}]
        output: {tensor: S, projection: [m, n]}
      normalise:
        kind: softmax
        ranks: {m: 4, n: 2}
        inputs: [{tensor: S, projection: [m, n]}]
        output: {tensor: P, projection: [m, n]}
        axis: n            # softmax, layer_norm, rms_norm and rotary go along one
        scale: 0.125       # of softmax, scale and mask; 1 if left out

A dimension of a projection is a rank, or a mapping {rank: coefficient, ...}.

Other kinds of operators, with their inputs: layer_norm (x, gain and bias if there are any),
rms_norm (x, a gain if there is one), gelu, silu, relu, product (of two), residual (the sum of
two), scale, mask (x and what is added to scale * x), rotary (x, cosines, sines), pooling and
average_pooling (their windows are the ranks that the output lacks). The first input has all
ranks, the others may lack some. `simaccel/workload/vectors/` says what each does.

All kinds of files but
the last take `bytes_per_element` (2) and `bytes_by_tensor`, a mapping of exceptions; the
tensors of convolutions and of the layers of a network are I, W and O.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from simaccel.errors import ABSENT, Fault, InputError, suggest
from simaccel.files.schema import faults_of, read_yaml
from simaccel.workload.attention import Dimensions, Scope, attention
from simaccel.workload.catalogue import Model, build, find_model
from simaccel.workload.conv import Conv, conv2d
from simaccel.workload.einsum import Affine, Einsum, Kind, Operand, Operator, Tensor, Vector
from simaccel.workload.gemm import gemm
from simaccel.workload.layers import Network, Product, Shape, layers_workload
from simaccel.workload.networks import find_network, network
from simaccel.workload.sizes import (
    MAX_BYTES_PER_ELEMENT,
    MAX_LAYER_SIZE,
    MAX_OPERATORS,
    MAX_SIZE,
)
from simaccel.workload.vectors import VECTORS
from simaccel.workload.workload import Workload


def _as_terms(value: object) -> object:
    if isinstance(value, str):
        return {value: 1}
    if isinstance(value, dict) and value:
        return value
    raise PydanticCustomError("terms", "a rank, or a mapping from ranks to coefficients")


def _as_known(value: str, find: Callable[[str], Model | Network]) -> str:
    try:
        return find(value).name
    except InputError as error:
        raise PydanticCustomError(
            "model", "{allowed}", {"allowed": error.faults[0].allowed}
        ) from None


def _as_operator(value: object) -> object:
    known = ("einsum", *VECTORS)
    if isinstance(value, str) and value in known:
        return value
    raise PydanticCustomError("kind", "{allowed}", {"allowed": suggest(str(value), known)})


def _as_pair(value: object) -> object:
    numbers = value if isinstance(value, list) else [value, value]
    if len(numbers) == 2:  # noqa: PLR2004 - height and width
        return tuple(numbers)
    raise PydanticCustomError("pair", "a number, or a list of two: height and width")


Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Bytes = Annotated[int, Field(ge=1, le=MAX_BYTES_PER_ELEMENT)]
Terms = Annotated[dict[str, Size], BeforeValidator(_as_terms)]
OperatorKind = Annotated[str, BeforeValidator(_as_operator)]
ModelName = Annotated[str, BeforeValidator(lambda value: _as_known(value, find_model))]
NetworkName = Annotated[str, BeforeValidator(lambda value: _as_known(value, find_network))]
LayerSize = Annotated[int, Field(ge=1, le=MAX_LAYER_SIZE)]
Pair = Annotated[tuple[LayerSize, LayerSize], BeforeValidator(_as_pair)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Attention(_Document):
    kind: Literal["attention"]
    batch: Size
    seq_len: Size
    scope: Scope = "block"
    bytes_per_element: Bytes = 2
    bytes_by_tensor: dict[str, Bytes] = {}


class _ModelAttention(_Attention):
    model: ModelName


class _SizedAttention(_Attention):
    hidden: Size
    heads: Size
    head_size: Size
    ff_size: Size
    layers: Size = 1


class _Shape(_Document):
    M: Size
    K: Size
    N: Size
    B: Size = 1


class _Gemm(_Document):
    kind: Literal["gemm"]
    shape: _Shape
    bytes_per_element: Bytes = 2
    bytes_by_tensor: dict[str, Bytes] = {}


class _ConvShape(_Document):
    M: LayerSize
    C: LayerSize
    P: LayerSize
    Q: LayerSize
    R: LayerSize
    S: LayerSize
    G: LayerSize = 1
    N: LayerSize = 1


class _ConvLayer(_Document):
    kind: Literal["conv"]
    shape: _ConvShape
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)


class _Conv(_ConvLayer):
    bytes_per_element: Bytes = 2
    bytes_by_tensor: dict[str, Bytes] = {}


class _ProductShape(_Document):
    M: LayerSize
    K: LayerSize
    N: LayerSize
    B: LayerSize = 1


class _ProductLayer(_Document):
    kind: Literal["gemm"]
    shape: _ProductShape
    transposed: Annotated[tuple[bool, bool], BeforeValidator(_as_pair)] = (False, False)


class _Layers(_Document):
    kind: Literal["layers"]
    name: str
    layers: Annotated[
        dict[str, Annotated[_ConvLayer | _ProductLayer, Field(discriminator="kind")]],
        Field(max_length=MAX_OPERATORS),
    ]
    bytes_per_element: Bytes = 2
    bytes_by_tensor: dict[str, Bytes] = {}


class _Network(_Document):
    kind: Literal["network"]
    model: NetworkName
    batch: LayerSize = 1
    layer: str | None = None
    bytes_per_element: Bytes = 2
    bytes_by_tensor: dict[str, Bytes] = {}


class _Tensor(_Document):
    kind: Kind
    bytes_per_element: Bytes = 2


class _Operand(_Document):
    tensor: str
    projection: list[Terms]


class _Operator(_Document):
    kind: OperatorKind = "einsum"
    ranks: dict[str, Size]
    inputs: list[_Operand]
    output: _Operand
    axis: str | None = None
    scale: float | None = None


class _Einsums(_Document):
    kind: Literal["einsums"]
    name: str
    repeat: Size = 1
    tensors: dict[str, _Tensor]
    operators: Annotated[dict[str, _Operator], Field(max_length=MAX_OPERATORS)]


def load_workload(path: str | Path) -> Workload:
    """Return the workload of a YAML file; InputError with every fault, each with the file."""
    document, faults = read_yaml(Path(path), "a mapping that describes a workload")
    if faults:
        raise InputError(faults)
    return parse_workload(document, str(path))


def parse_workload(document: object, source: str = "workload") -> Workload:
    """Return the workload of a document: a workload's `parameters`, or the data of a file."""
    if not isinstance(document, Mapping):
        raise InputError([Fault(source, "document", document, "a mapping")])
    form = _form(document, source)
    try:
        return _workload(form.model_validate(dict(document)))
    except ValidationError as error:
        raise InputError(faults_of(error, source, document, form)) from None
    except InputError as error:
        raise InputError([replace(fault, file=source) for fault in error.faults]) from None


def _form(document: Mapping[Any, Any], source: str) -> type[_Document]:
    attention_form = _ModelAttention if "model" in document else _SizedAttention
    forms = {
        "attention": attention_form,
        "gemm": _Gemm,
        "conv": _Conv,
        "network": _Network,
        "layers": _Layers,
        "einsums": _Einsums,
    }
    kind = document.get("kind", ABSENT)
    if not isinstance(kind, str) or kind not in forms:
        raise InputError([Fault(source, "kind", kind, suggest(str(kind), forms))])
    return forms[kind]


def _workload(form: _Document) -> Workload:
    if isinstance(form, _Einsums):
        return _einsums(form)
    if isinstance(form, _Layers):
        return _layers(form)
    parameters = form.model_dump()
    del parameters["kind"]
    if isinstance(form, _Network):
        return network(parameters.pop("model"), **parameters)
    if isinstance(form, _Gemm | _Conv):
        return _operator_of_shape(form, parameters)
    return _attention(form, parameters)


def _operator_of_shape(form: _Gemm | _Conv, parameters: dict[str, Any]) -> Workload:
    shape = parameters.pop("shape")
    if isinstance(form, _Conv):
        return conv2d(**{rank.lower(): size for rank, size in shape.items()}, **parameters)
    sizes = {"m": shape["M"], "k": shape["K"], "n": shape["N"], "batch": shape["B"]}
    return gemm(**sizes, **parameters)


def _attention(form: _Document, parameters: dict[str, Any]) -> Workload:
    if isinstance(form, _ModelAttention):
        return build(parameters.pop("model"), **parameters)
    names = ("hidden", "heads", "head_size", "ff_size", "layers")
    dimensions = Dimensions(**{name: parameters.pop(name) for name in names})
    return attention(dimensions, **parameters)


def _layers(form: _Layers) -> Workload:
    shapes: dict[str, Shape] = {}
    for name, given in form.layers.items():
        sizes = {rank.lower(): size for rank, size in given.shape.model_dump().items()}
        shapes[name] = (
            Conv(**sizes, stride=given.stride, dilation=given.dilation)
            if isinstance(given, _ConvLayer)
            else Product(**sizes, transposed=given.transposed)
        )
    return layers_workload(
        form.name,
        shapes,
        bytes_per_element=form.bytes_per_element,
        bytes_by_tensor=form.bytes_by_tensor,
    )


def _einsums(form: _Einsums) -> Workload:
    tensors = {
        name: Tensor(name, given.bytes_per_element, given.kind)
        for name, given in form.tensors.items()
    }
    operators: list[Operator] = []
    faults: list[Fault] = []
    for name, given in form.operators.items():
        try:
            operators.append(_operator(name, given))
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    parameters = form.model_dump(exclude_none=True)
    return Workload(form.name, tuple(operators), tensors, form.repeat, parameters)


def _operator(name: str, given: _Operator) -> Operator:
    inputs, output = tuple(_operand(one) for one in given.inputs), _operand(given.output)
    if given.kind != "einsum":
        scale = 1.0 if given.scale is None else given.scale
        return Vector(name, given.kind, given.ranks, inputs, output, given.axis, scale)
    faults = [
        Fault("workload", f"operators.{name}.{field}", value, "nothing, as an einsum has none")
        for field, value in {"axis": given.axis, "scale": given.scale}.items()
        if value is not None
    ]
    if faults:
        raise InputError(faults)
    return Einsum(name, given.ranks, inputs, output)


def _operand(given: _Operand) -> Operand:
    return Operand(given.tensor, tuple(Affine(tuple(dim.items())) for dim in given.projection))
