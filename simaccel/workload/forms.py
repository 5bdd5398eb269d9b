"""Forms of the documents that describe workloads, one for each kind."""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from simaccel.errors import Fault, InputError, suggest
from simaccel.files.limits import MAX_OPERATORS
from simaccel.numbers import BITS, BYTE, PACKED_BITS
from simaccel.workload.attention import Model, Scope, find_model
from simaccel.workload.einsum import Kind, Tensor
from simaccel.workload.language.model import (
    Activation,
    NormKind,
    Transformer,
    find_transformer,
    parse_transformer,
)
from simaccel.workload.language.phase import PhaseName
from simaccel.workload.names import ASSUMED_BYTES, MAX_BYTES_PER_ELEMENT, MAX_LAYER_SIZE, MAX_SIZE
from simaccel.workload.networks import Network, find_network
from simaccel.workload.shown import read_shown
from simaccel.workload.vectors import VECTORS


def _as_terms(value: object) -> object:
    if isinstance(value, str):
        return {value: 1}
    if isinstance(value, dict) and value:
        return value
    raise PydanticCustomError("terms", "a rank, or a mapping from ranks to coefficients")


def _find_known(value: str, find: Callable[[str], Model | Network | Transformer]) -> str:
    try:
        return find(value).name
    except InputError as error:
        allowed = {"allowed": error.faults[0].allowed}
        raise PydanticCustomError("model", "{allowed}", allowed) from None


def _as_operator(value: object) -> object:
    if isinstance(value, str) and (value == "einsum" or value in VECTORS):
        return value
    allowed = suggest(str(value), ("einsum", *VECTORS))
    raise PydanticCustomError("kind", "{allowed}", {"allowed": allowed})


def _as_pair(value: object) -> object:
    numbers = value if isinstance(value, list) else [value, value]
    if len(numbers) == 2:  # noqa: PLR2004 - height and width
        return tuple(numbers)
    raise PydanticCustomError("pair", "a number, or a list of two: height and width")


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Count = Annotated[int, Field(ge=0, le=MAX_SIZE)]
Bytes = Annotated[int, Field(ge=1, le=MAX_BYTES_PER_ELEMENT)]
ModelName = Annotated[str, BeforeValidator(lambda value: _find_known(value, find_model))]
NetworkName = Annotated[str, BeforeValidator(lambda value: _find_known(value, find_network))]
TransformerName = Annotated[
    str, BeforeValidator(lambda value: _find_known(value, find_transformer))
]
LayerSize = Annotated[int, Field(ge=1, le=MAX_LAYER_SIZE)]
Pair = Annotated[tuple[LayerSize, LayerSize], BeforeValidator(_as_pair)]


class Document(BaseModel):
    """A document that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class PublishedForm(Document):
    """Sizes that a user or a publication gives, with their source and other names."""

    aliases: list[str] = []
    source: str = ""


class AttentionForm(Document):
    """Fields of every attention block."""

    kind: Literal["attention"]
    batch: Size
    seq_len: Size
    scope: Scope = "block"
    bytes_per_element: Bytes | None = None
    bytes_by_tensor: dict[str, Bytes] = {}


class ModelAttentionForm(AttentionForm):
    """An attention block of a model of the catalogue."""

    model: ModelName


class SizedAttentionForm(AttentionForm, PublishedForm):
    """An attention block with all its sizes."""

    batch: Size = 1
    seq_len: Size = 512
    name: str = "attention"
    hidden: Size
    heads: Size
    head_size: Size
    ff_size: Size
    layers: Size = 1


class ShapeForm(Document):
    """Sizes of a GEMM."""

    M: Size
    K: Size
    N: Size
    B: Size = 1


class GemmForm(Document):
    """A GEMM."""

    kind: Literal["gemm"]
    shape: ShapeForm
    bytes_per_element: Bytes | None = None
    bytes_by_tensor: dict[str, Bytes] = {}


class ConvShapeForm(Document):
    """Sizes of a convolution."""

    M: LayerSize
    C: LayerSize
    P: LayerSize
    Q: LayerSize
    R: LayerSize
    S: LayerSize
    G: LayerSize = 1
    N: LayerSize = 1


class ConvSizesForm(Document):
    """Fields of every convolution."""

    kind: Literal["conv"]
    shape: ConvShapeForm
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)


class ConvForm(ConvSizesForm):
    """A convolution."""

    bytes_per_element: Bytes | None = None
    bytes_by_tensor: dict[str, Bytes] = {}


class ReaderForm(Document):
    """A layer of a linked network; ``reads``: its inputs, if not the layer before."""

    reads: Annotated[list[str], BeforeValidator(_as_list)] = []


class ConvLayerForm(ConvSizesForm, ReaderForm):
    """A convolution of a network; ``padding``: rows and columns of zeros before its image."""

    padding: Annotated[int, Field(ge=0, le=MAX_LAYER_SIZE)] = 0


class WindowShapeForm(Document):
    """Sizes of a pooling: output positions, and the window of each."""

    P: LayerSize
    Q: LayerSize
    R: LayerSize
    S: LayerSize


class PoolingLayerForm(ReaderForm):
    """A pooling of a linked network."""

    kind: Literal["pooling", "average_pooling"]
    shape: WindowShapeForm
    stride: Pair = (1, 1)
    padding: Annotated[int, Field(ge=0, le=MAX_LAYER_SIZE)] = 0


class PointwiseLayerForm(ReaderForm):
    """A sum of two layers of a linked network (``residual``), or a rectifier as a layer."""

    kind: Literal["residual", "relu"]


class ProductShapeForm(Document):
    """Sizes of a matrix product of a network."""

    M: LayerSize
    K: LayerSize
    N: LayerSize
    B: LayerSize = 1


class ProductLayerForm(ReaderForm):
    """A matrix product of a network."""

    kind: Literal["gemm"]
    shape: ProductShapeForm
    transposed: Annotated[tuple[bool, bool], BeforeValidator(_as_pair)] = (False, False)


LayerForm = Annotated[
    ConvLayerForm | ProductLayerForm | PoolingLayerForm | PointwiseLayerForm,
    Field(discriminator="kind"),
]


class LayersForm(PublishedForm):
    """A network with all its layers.

    ``linked``: layers read outputs of others; ``loosely``: sizes need not fit. The default
    ``scope`` of a linked network is ``model``.
    """

    kind: Literal["layers"]
    name: str
    linked: bool | Literal["loosely"] = False
    scope: Literal["layers", "model"] | None = None
    layers: Annotated[dict[str, LayerForm], Field(max_length=MAX_OPERATORS)]
    bytes_per_element: Bytes | None = None
    bytes_by_tensor: dict[str, Bytes] = {}


class NetworkForm(Document):
    """A network of the catalogue."""

    kind: Literal["network"]
    model: NetworkName
    batch: LayerSize = 1
    layer: str | None = None
    scope: Literal["layers", "model"] | None = None
    bytes_per_element: Bytes | None = None
    bytes_by_tensor: dict[str, Bytes] = {}


class TransformerForm(Document):
    """Fields of every run of a transformer."""

    kind: Literal["transformer"]
    phase: PhaseName = "prefill"
    prompt: Size = 512
    kv_len: Count | None = None
    batch: Size = 1
    scope: Scope = "block"
    causal_blocks: Size | None = None
    experts: str | list[int] = "expected"
    bytes_per_element: Bytes | None = None
    bytes_by_tensor: dict[str, Bytes] = {}


class KnownTransformerForm(TransformerForm):
    """A run of a transformer of the catalogue."""

    model: TransformerName


class OwnTransformerForm(TransformerForm, PublishedForm):
    """A run of a transformer with all its sizes; the fields are those of `Transformer`."""

    REPLACED: ClassVar[Mapping[str, str]] = {"chosen": "experts_per_token"}
    name: str = "transformer"
    hidden: Size
    layers: Size = 1
    heads: Size
    kv_heads: Size | None = None
    head_size: Size | None = None
    ff_size: Size
    vocabulary: Size = 32000
    norm: NormKind = "rms_norm"
    norm_bias: bool = True
    post_norms: bool = False
    shared_norm: bool = False
    head_norms: bool = False
    positions: Count = 0
    activation: Activation = "silu"
    gated: bool = True
    biased: list[Literal["qkv", "o", "ff", "router", "logits"]] = []
    windows: list[Size | None] = [None]
    tied: bool = False
    scaled_embedding: bool = False
    attention_cap: Annotated[float, Field(gt=0)] | None = None
    logits_cap: Annotated[float, Field(gt=0)] | None = None
    score_scale: Annotated[float, Field(gt=0)] | None = None
    expert_count: Count = 0
    experts_per_token: Count = 0
    shared_ff: Count = 0
    shared_gate: bool = False
    dense: list[bool] = [False]
    dense_ff: Count = 0
    patches: Annotated[list[Size], Field(min_length=2, max_length=2)] | None = None
    causal: bool = True
    rotary: bool | None = None
    decoder_layers: Count = 0
    relative: Count = 0
    relative_each: bool = False

    def transformer(self) -> Transformer:
        """Return the model."""
        sizes = self.model_dump(exclude={*TransformerForm.model_fields})
        sizes["kv_heads"] = self.kv_heads or self.heads
        sizes["head_size"] = self.head_size or max(1, self.hidden // self.heads)
        sizes["source"] = self.source or "sizes of one's own"
        return parse_transformer(sizes)


class TensorForm(Document):
    """A tensor of einsums; the fields are those of `simaccel.workload.einsum.Tensor`."""

    kind: Kind
    number: Literal["fp4", "fp8", "fp16", "int16", "int32", "tf32"] | None = None
    bytes_per_element: Bytes | None = None
    packed: bool | None = None
    inside: list[Annotated[list[Count], Field(min_length=2, max_length=2)]] | None = None
    distinct: Count | None = None

    def tensor(self, name: str) -> Tensor:
        """Return the tensor.

        Raises:
            InputError: the number format has other bits than the elements.
        """
        said = self.bytes_per_element
        bits = PACKED_BITS if self.packed else BYTE * (said or ASSUMED_BYTES)
        if self.number is not None and bits != BITS[self.number]:
            allowed = f"elements of {BITS[self.number]} bits; these have {bits}"
            raise InputError([Fault("workload", f"tensors.{name}.number", self.number, allowed)])
        return Tensor(
            name,
            said or (1 if self.packed else ASSUMED_BYTES),
            self.kind,
            packed=bool(self.packed),
            assumed=said is None,
            inside=tuple((first, last) for first, last in self.inside or ()),
            distinct=self.distinct,
            number=self.number or "",
        )


class OperandForm(Document):
    """An operand; with a ``start`` it is a box of its tensor.

    A dimension, or the whole operand, may be written as ``workload show`` prints it.
    """

    tensor: str
    projection: list[Annotated[dict[str, Size], BeforeValidator(_as_terms)]]
    start: list[Count] = []

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, given: object) -> object:
        return read_shown(given)


class VisibleForm(Document):
    """The mask of a vector operator; the fields are those of `VisibleSpan`."""

    row: str
    before: Count = 0
    window: Size | None = None


class OperatorForm(Document):
    """An einsum or vector operator."""

    kind: Annotated[str, BeforeValidator(_as_operator)] = "einsum"
    ranks: dict[str, Size]
    inputs: list[OperandForm]
    output: OperandForm
    axis: str | None = None
    scale: float | None = None
    visible: VisibleForm | None = None


class EinsumsForm(Document):
    """Operators and tensors in full; ``typed``: no accelerator changes their precision."""

    kind: Literal["einsums"]
    name: str
    typed: Literal[True] | None = None
    repeat: Size = 1
    once: list[str] = []
    tensors: dict[str, TensorForm]
    operators: Annotated[dict[str, OperatorForm], Field(max_length=MAX_OPERATORS)]
