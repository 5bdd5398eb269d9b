"""Workloads from YAML files, all faults of a file reported together.

A file is a mapping with a `kind` (attention, gemm, conv, network, layers, einsums or transformer);
the guide has an example of each (`docs/guide/workloads.md`), and `forms` their fields.
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
