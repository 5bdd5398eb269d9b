"""Workloads from YAML files, all faults of a file reported together.

A file is a mapping with a `kind`::

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
    layer: conv2           # all layers if left out, and then also:
    # scope: model         # linked, with poolings and shortcuts (default); or layers: each alone
    ---
    kind: layers           # a network of one's own: convolutions and gemms, one after another
    name: tail
    layers:
      conv5: {kind: conv, shape: {M: 256, C: 512, P: 7, Q: 7, R: 3, S: 3}, stride: 2}
      fc6: {kind: gemm, shape: {M: 1, K: 12544, N: 10}}   # M samples, K inputs, N outputs
    linked: false          # true: each reads what the layer before makes, or what `reads` names;
                           # poolings, sums (residual) and rectifiers (relu) may stand between, as
                           # in simaccel/catalogue/networks; the first reads `image`; loosely:
                           # sizes need not fit
    scope: model           # linked layers as one graph (default); layers: each layer alone
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
        visible: {row: m}  # of softmax: causal; row m sees positions up to m + before (0), with
                           # a window: the last so many
    ---
    kind: transformer      # llama3-8b, ...: layers with norms, cache, mask (simaccel workload list)
    model: llama3-8b       # or instead of it sizes of one's own:
    # name: small-lm       # hidden, heads, ff_size, and if not the usual: kv_heads, head_size,
    # hidden: 512          # layers, vocabulary, norm, activation, gated, biased, windows, tied,
    # heads: 8             # positions, experts: 8, experts_per_token, shared_ff, causal (false)
    # ff_size: 1536        # dense: [true, false, ...] with dense_ff (layers without experts),
    #                      # decoder_layers (beside an encoder, which isn't causal)
    phase: decode          # or prefill, of so many new tokens:
    prompt: 512
    kv_len: 2048           # tokens in the cache before; of a prefill 0 if left out
    batch: 1
    scope: model           # with embedding and logits; block is a layer, la attention alone
    causal_blocks: 8       # blocks of rows of a prefill, each with the keys that it sees
    experts: expected      # or uniform, drawn:SEED, or a list of tokens of each expert

A dimension of a projection is a rank, or a mapping {rank: coefficient, ...}. An operand with a
`start: [0, 4, ...]` is a box of its tensor that begins there; several operators may write boxes of
one tensor, and what none writes is zero. A tensor of the kind `cache` stays in DRAM from run to
run: operators may read it, and write parts of it. With `repeat: N`, operators listed in `once` run
once, before or behind the others.

Other kinds of operators, with their inputs: layer_norm (x, gain and bias if there are any),
rms_norm (x, a gain if there is one), gelu, silu, relu, product (of two), residual (the sum of
two), scale, mask (x and what is added to scale * x), soft_cap (its scale is the cap), rotary (x,
cosines, sines), lookup (rows of a table, their indices), pooling, average_pooling and largest (the
k-th, k being its scale; their windows are the ranks that the output lacks), copy (no pass: DMA
engines make it). The first input has all ranks, the others may lack some.
`simaccel/workload/vectors/` says what each does.

Files with sizes (attention, layers, transformer) may say their `source` and `aliases`, as those of
`simaccel/catalogue` do. All kinds of files but
einsums take `bytes_per_element` (2) and `bytes_by_tensor`, a mapping of exceptions; the
tensors of convolutions and of the layers of a network are I, W and O; of transformers there are
classes, too: weights, activations, cache. All kinds take `precision`, the numbers of these classes
(`{weights: int4, activations: int8, cache: fp8}`), which goes before element sizes. A tensor of
einsums may be `packed: true`: of 4 bits, two in a byte; `number`: fp4, fp8, fp16, int16, int32 or
tf32, for arrays that tell them apart.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest
from simaccel.files.documents import refuse_others
from simaccel.files.schema import faults_of, read_yaml
from simaccel.workload.attention import attention, attention_model, parse_model
from simaccel.workload.building import require_taken
from simaccel.workload.conv import conv2d
from simaccel.workload.documents import einsums_document
from simaccel.workload.einsum import (
    AffineDimension,
    Einsum,
    Operand,
    Operator,
    Vector,
    VisibleSpan,
)
from simaccel.workload.forms import (
    ConvForm,
    Document,
    EinsumsForm,
    GemmForm,
    KnownTransformerForm,
    LayersForm,
    ModelAttentionForm,
    NetworkForm,
    OperandForm,
    OperatorForm,
    OwnTransformerForm,
    PublishedForm,
    SizedAttentionForm,
    TransformerForm,
)
from simaccel.workload.language.build import transformer
from simaccel.workload.language.model import Transformer
from simaccel.workload.layers import layers_workload
from simaccel.workload.names import MAX_BYTES_PER_ELEMENT, size_faults
from simaccel.workload.networks import network, parse_network, whole_network
from simaccel.workload.precision import NATIVE, parse_precision, with_native, with_precision
from simaccel.workload.products import gemm
from simaccel.workload.tensors import bytes_document
from simaccel.workload.workload import Workload


def load_document(
    path: str | Path,
    parse: Callable[[Mapping[Any, Any], str], Workload] | None = None,
    *,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
    **sizes: Any,  # noqa: ANN401 - sizes
) -> Workload:
    """Return the workload of a YAML file; element sizes apply where the file has none.

    ``parse``: reader of the document, if it may also be of another form. ``sizes``: of a
    transformer's run, where the file has none.

    Raises:
        InputError: every fault, each with the file.
    """
    document, faults = read_yaml(Path(path), "a mapping that describes a workload")
    require_none(faults)
    read = parse or parse_workload
    if "kind" not in document:  # which is said first, unless the document is of another form
        read(document, str(path))
    is_transformer = document.get("kind") == "transformer"
    require_taken(str(path), "config" if is_transformer else "document", sizes)
    document = _name_expert_count(document, str(path))
    require_unsaid(document, sizes, path)
    document |= sizes
    parsed = read(document, str(path))
    if parsed.parameters["kind"] != "einsums":
        widths = bytes_document(bytes_per_element, bytes_by_tensor)
        said = {name: value for name, value in widths.items() if value}
        require_unsaid(document, said, path)
        return parse_workload({**document, **said}, str(path)) if said else parsed
    widths_of = dict(bytes_by_tensor or {})
    if bytes_per_element is not None:
        free = [name for name, tensor in parsed.tensors.items() if tensor.assumed]
        widths_of = {**dict.fromkeys(free, bytes_per_element), **widths_of}
        if not free:
            widths_of["*"] = bytes_per_element
    return _size_elements(parsed, widths_of, str(path)) if widths_of else parsed


def load_transformer(path: str | Path) -> tuple[str | Transformer, dict[str, Any]] | None:
    """Return the transformer of a YAML file and the parameters of its run; None for other kinds.

    Raises:
        InputError: every fault, each with the file.
    """
    document, faults = read_yaml(Path(path), "a mapping that describes a workload")
    require_none(faults)
    if document.get("kind") != "transformer":
        return None
    parse_workload(document, str(path))
    document = _name_expert_count(document, str(path))
    form = KnownTransformerForm if "model" in document else OwnTransformerForm
    without = {name: value for name, value in document.items() if name not in ("precision", NATIVE)}
    names = [*TransformerForm.model_fields, "precision"]
    run = {name: document[name] for name in names if name in document and name != "kind"}
    return _transformer_of(form.model_validate(without)), run


def require_unsaid(
    document: Mapping[Any, Any], sizes: Mapping[str, object], path: str | Path
) -> None:
    """Refuse sizes that a file sets, too.

    Raises:
        InputError: names each, with what the file says.
    """
    require_none(
        Fault("workload", name, value, f"nothing with {path}; it says {_entry(name, document)}")
        for name, value in sizes.items()
        if name in document
    )


def _entry(name: str, document: Mapping[Any, Any]) -> str:
    """Return a short entry as the file has it, of others the name."""
    value = document[name]
    return f"{name}: {value}" if isinstance(value, str | int | float) else f"{name} itself"


def _size_elements(workload: Workload, widths_of: Mapping[str, int], source: str) -> Workload:
    """Return a workload with element sizes for tensors whose file sets none."""
    faults = []
    for name, size in widths_of.items():
        if name in workload.tensors and workload.tensors[name].assumed:
            continue
        allowed = f"nothing with {source}; the file sets it"
        if name not in workload.tensors and name != "*":
            allowed = suggest(name, workload.tensors)
        field = "bytes_per_element" if name == "*" else f"bytes_by_tensor.{name}"
        faults.append(Fault("workload", field, size, allowed))
    sizes = {f"bytes_by_tensor.{name}": size for name, size in widths_of.items()}
    faults += size_faults("workload", sizes, MAX_BYTES_PER_ELEMENT)
    require_none(faults)
    sized = {
        name: replace(workload.tensors[name], bytes_per_element=size, assumed=False)
        for name, size in widths_of.items()
    }
    tensors = {**workload.tensors, **sized}
    document = einsums_document(workload.name, workload.operators, tensors.values())
    parts = {"repeat": workload.repeat, "once": sorted(workload.once)}
    return replace(workload, tensors=tensors, parameters={**document, **parts})


def parse_workload(document: object, source: str = "workload") -> Workload:
    """Return the workload of a document: a file's content, or a workload's `parameters`.

    Also of a trace's document, which has all operators besides the parameters.

    Raises:
        InputError: all faults of the document, with ``source`` as their file.
    """
    if not isinstance(document, Mapping):
        raise InputError([Fault(source, "document", document, "a mapping")])
    if {*document} == {"parameters", "workload"}:
        workload = parse_workload(document["workload"], source)
        return replace(workload, parameters=document["parameters"])
    document = _name_expert_count(dict(document), source)
    form = _form(document, source)
    precision = parse_precision(document.pop("precision", {}), source)
    native = parse_precision(document.pop(NATIVE, {}), source)
    try:
        made = _workload(form.model_validate(document))
        made = with_precision(made, precision) if precision else made
        return with_native(made, native)
    except ValidationError as error:
        raise InputError(faults_of(error, source, document, form)) from None
    except InputError as error:
        raise InputError([replace(fault, file=source) for fault in error.faults]) from None


def _form(document: Mapping[Any, Any], source: str) -> type[Document]:
    attention_form = ModelAttentionForm if "model" in document else SizedAttentionForm
    forms = {
        "attention": attention_form,
        "gemm": GemmForm,
        "conv": ConvForm,
        "network": NetworkForm,
        "transformer": KnownTransformerForm if "model" in document else OwnTransformerForm,
        "layers": LayersForm,
        "einsums": EinsumsForm,
    }
    kind = document.get("kind", ABSENT)
    refuse_others(document, "kind", source, f"a workload with a kind, {suggest('', forms)}")
    if not isinstance(kind, str) or kind not in forms:
        raise InputError([Fault(source, "kind", kind, suggest(str(kind), forms))])
    return forms[kind]


def _workload(form: Document) -> Workload:
    if isinstance(form, EinsumsForm):
        return _einsums(form)
    if isinstance(form, LayersForm):
        return _layers(form)
    fields = {name: value for name, value in form if name != "kind"}
    if isinstance(form, KnownTransformerForm | OwnTransformerForm):
        run = {name: fields[name] for name in TransformerForm.model_fields if name != "kind"}
        run = {name: value for name, value in run.items() if value is not None}
        return transformer(_transformer_of(form), **run)
    if isinstance(form, NetworkForm):
        return network(fields.pop("model"), **fields)
    if isinstance(form, GemmForm | ConvForm):
        make: Callable[..., Workload] = gemm if isinstance(form, GemmForm) else conv2d
        return make(**vars(fields.pop("shape")), **fields)
    return _attention(form, fields)


def _attention(form: Document, fields: dict[str, Any]) -> Workload:
    if isinstance(form, ModelAttentionForm):
        return attention_model(fields.pop("model"), **fields)
    dimensions = parse_model(fields).dimensions
    left_out = {*vars(dimensions), *PublishedForm.model_fields}
    return attention(dimensions, **{name: n for name, n in fields.items() if name not in left_out})


def _transformer_of(form: KnownTransformerForm | OwnTransformerForm) -> str | Transformer:
    """Return the transformer of a form, or its name in the catalogue."""
    return form.transformer() if isinstance(form, OwnTransformerForm) else form.model


def _layers(form: LayersForm) -> Workload:
    document = form.model_dump(mode="json", exclude_defaults=True)
    given = parse_network(document)
    widths = {name: getattr(form, name) for name in ("bytes_per_element", "bytes_by_tensor")}
    if not given.nodes:
        return layers_workload(form.name, given.layers, **widths)
    parameters = {**document, **bytes_document(**widths)}
    for name in ("aliases", "source"):
        parameters.pop(name, None)
    layers = layers_workload(form.name, given.layers, **widths, parameters=parameters)
    return layers if form.scope == "layers" else whole_network(given, layers)


def _einsums(form: EinsumsForm) -> Workload:
    tensors = {name: tensor_form.tensor(name) for name, tensor_form in form.tensors.items()}
    operators: list[Operator] = []
    faults: list[Fault] = []
    for name, operator_form in form.operators.items():
        try:
            operators.append(_operator(name, operator_form))
        except InputError as error:
            faults += error.faults
    require_none(faults)
    parameters = form.model_dump(exclude_none=True)
    once = frozenset(form.once)
    return Workload(form.name, tuple(operators), tensors, form.repeat, parameters, once)


def _operator(name: str, form: OperatorForm) -> Operator:
    inputs, output = tuple(map(_operand, form.inputs)), _operand(form.output)
    visible = None if form.visible is None else VisibleSpan(**vars(form.visible))
    if form.kind != "einsum":
        scale = 1.0 if form.scale is None else form.scale
        return Vector(name, form.kind, form.ranks, inputs, output, form.axis, scale, visible)
    own = {"axis": form.axis, "scale": form.scale, "visible": visible}
    require_none(
        Fault("workload", f"operators.{name}.{field}", value, "nothing, as an einsum has none")
        for field, value in own.items()
        if value is not None
    )
    return Einsum(name, form.ranks, inputs, output)


def _operand(given: OperandForm) -> Operand:
    projection = tuple(AffineDimension(tuple(dim.items())) for dim in given.projection)
    return Operand(given.tensor, projection, tuple(given.start))


def _name_expert_count(document: dict[Any, Any], source: str) -> dict[Any, Any]:
    """Return a transformer's document with a numeric `experts` renamed to `expert_count`.

    It then leaves open how tokens are spread.

    Raises:
        InputError: `expert_count` has another value.
    """
    count = document.get("experts")
    if type(count) is not int or document.get("kind") != "transformer" or "model" in document:
        return document
    if document.get("expert_count", count) != count:
        allowed = f"the same as expert_count, {document['expert_count']}, or how tokens are spread"
        raise InputError([Fault(source, "experts", count, allowed)])
    others = {name: value for name, value in document.items() if name != "experts"}
    return {**others, "expert_count": count}
