"""Workloads by name: of the catalogue, of a shape, or of a plug-in.

A size that a kind of workload does not take is refused with the reason; no argument is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any, Final, NamedTuple, TypedDict, Unpack

from simaccel.errors import ABSENT, Fault, InputError, name_arguments, require_none, suggest
from simaccel.plugins import Plugin, Registry
from simaccel.workload.attention import MODELS, attention_model
from simaccel.workload.conv import conv2d
from simaccel.workload.language.build import transformer
from simaccel.workload.language.model import TRANSFORMERS, Transformer
from simaccel.workload.names import MAX_LAYER_SIZE, MAX_SIZE, parse_sizes
from simaccel.workload.networks import NETWORKS, network
from simaccel.workload.precision import Precision, parse_precision, with_precision
from simaccel.workload.products import bmm, gbmm, gemm
from simaccel.workload.workload import Workload

SEQ_LEN: Final = 512
BATCH: Final = 1
SCOPE: Final = "block"
"""Default of the scope; the defaults above are of the tokens and the batch."""


class WorkloadSizes(TypedDict, total=False):
    """Sizes and choices of a workload besides its name; None means: not given.

    - Attention models: ``seq_len`` (512), ``batch`` (1), ``scope`` (``block``).
    - Networks, topologies and descriptions: ``batch``, ``layer``; networks also ``scope``
      (``layers``, each alone, or ``model``).
    - Transformers: ``phase``, ``prompt``, ``kv_len``, ``experts``, ``causal_blocks``, ``batch``,
      ``scope``.
    - gemm, bmm, gbmm and conv: ``shape``, as text (``M=512,K=64,N=512``) or by name.
    - ONNX models: ``dims``, the sizes of dynamic dimensions; ``transposed``, how transposed
      convolutions are mapped: ``dense`` or ``exact``, without products with zeros at the edges.
    - All: ``bytes_per_element`` (2), ``bytes_by_tensor`` for exceptions, and ``precision``, the
      number format of each class of tensors, as text (``weights=int4,cache=fp8``) or by name, which
      has priority over element sizes.
    """

    seq_len: int | None
    batch: int | None
    scope: str | None
    shape: str | Mapping[str, int] | None
    layer: str | None
    phase: str | None
    prompt: int | None
    kv_len: int | None
    experts: str | list[int] | None
    causal_blocks: int | None
    bytes_per_element: int | None
    bytes_by_tensor: Mapping[str, int] | None
    dims: Mapping[str, int] | None
    transposed: str | None
    precision: str | Precision | None


_NO_ATTENTION = "it has no attention blocks"
_NO_LAYERS = "only networks, topologies and descriptions have layers to choose"
_NO_SHAPE = "only the workloads gemm, bmm, gbmm and conv have a shape"
_FILE_SAYS = "the file sets it"
PHASE_FIELDS: Final = ("phase", "prompt", "kv_len", "experts", "causal_blocks")
_NO_ONNX: Final = {
    "dims": "only ONNX models have dynamic dimensions",
    "transposed": "only ONNX models have transposed convolutions",
}
_ALWAYS: Final = _NO_ONNX | dict.fromkeys(
    PHASE_FIELDS, "it has no phases, masks or experts; llama3-8b and others of `workload list` do"
)
_BY_PHASE: Final = {
    "seq_len": "`prompt` and `kv_len` say it",
    "shape": _NO_SHAPE,
    "layer": _NO_LAYERS,
    **_NO_ONNX,
}
REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "transformer": _BY_PHASE,
    "config": _BY_PHASE,
    "network": {**_ALWAYS, "seq_len": _NO_ATTENTION, "shape": _NO_SHAPE},
    "model": {**_ALWAYS, "shape": _NO_SHAPE, "layer": _NO_LAYERS},
    "onnx": {
        **dict.fromkeys(
            ("seq_len", "batch", "scope", "shape", *PHASE_FIELDS), f"{_FILE_SAYS}, and `dims`"
        ),
        "layer": _NO_LAYERS,
    },
    "topology": {
        **_ALWAYS,
        **dict.fromkeys(("seq_len", "scope"), _NO_ATTENTION),
        "shape": _NO_SHAPE,
    },
    "description": {**_ALWAYS, **dict.fromkeys(("seq_len", "batch", "scope", "shape"), _FILE_SAYS)},
    "document": {
        **_ALWAYS,
        **dict.fromkeys(("seq_len", "batch", "scope", "shape", "layer"), _FILE_SAYS),
    },
}
"""Sizes that a kind of workload does not take, with the reason."""


class _ShapedWorkload(NamedTuple):
    """A workload with a shape: how it is built, the keys of its sizes, and an example."""

    make: Callable[..., Workload]
    batch: str
    needed: Sequence[str]
    example: str
    optional: Sequence[str] = ()
    limit: int = MAX_SIZE


_OF_SHAPE: Final[Mapping[str, _ShapedWorkload]] = {
    "gemm": _ShapedWorkload(gemm, "B", "MKN", "M=512,K=64,N=512", "B"),
    "bmm": _ShapedWorkload(bmm, "H", "HMKN", "H=32,M=4096,K=128,N=4096"),
    "gbmm": _ShapedWorkload(gbmm, "H", "GHMKN", "G=8,H=32,M=4096,K=128,N=4096"),
    "conv": _ShapedWorkload(
        conv2d,
        "N",
        "MCPQRS",
        "M=64,C=3,P=112,Q=112,R=7,S=7,stride=2",
        ("G", "N", "stride", "dilation"),
        MAX_LAYER_SIZE,
    ),
}


def accept_builder(plugin: Plugin, made_by: object) -> Callable[..., Workload]:
    """Return a plug-in's function that builds workloads, wrapped so that errors name the plug-in.

    Raises:
        PluginError: it is no function; or, when called, it fails or returns no workload.
    """
    if not callable(made_by):
        raise plugin.error(f"is a {type(made_by).__name__}, not a function that returns a Workload")

    def make_workload(**sizes: Any) -> Workload:  # noqa: ANN401 - whatever the plug-in takes
        with plugin.running("building"):
            _refuse_unknown(plugin, made_by, sizes)
            workload = made_by(**sizes)
        if not isinstance(workload, Workload):
            raise plugin.error(f"gives a {type(workload).__name__}, not a Workload")
        return workload

    return make_workload


PLUGGED: Registry[Callable[..., Workload]] = Registry("simaccel.workloads", {}, accept_builder)
"""Functions of plug-ins that return workloads, by name."""


def _refuse_unknown(
    plugin: Plugin, make: Callable[..., object], given: Mapping[str, object]
) -> None:
    """Refuse arguments that a plug-in's function has no parameter for."""
    taken = signature(make).parameters
    if any(one.kind is Parameter.VAR_KEYWORD for one in taken.values()):
        return
    allowed = f"nothing with {plugin.name}; its plug-in takes {', '.join(taken) or 'nothing'}"
    require_none(Fault("workload", n, v, allowed) for n, v in given.items() if n not in taken)


@name_arguments()
def build(name: str | Transformer, **sizes: Unpack[WorkloadSizes]) -> Workload:
    """Return a workload by its name: of the catalogue, of a shape, or of a plug-in.

    Instead of a name, a `Transformer` with sizes of its own.

    >>> build("bert", seq_len=128).name
    'bert'

    Raises:
        InputError: every fault, or an unknown name.
        PluginError: the plug-in with this name is broken.
    """
    if not isinstance(name, str | Transformer):
        raise InputError([Fault("workload", "name", name, "the name of a workload")])
    return size_workload(partial(_build_named, name), sizes)


def size_workload(make: Callable[[dict[str, Any]], Workload], sizes: WorkloadSizes) -> Workload:
    """Return the workload that ``make`` builds from the given sizes, in the given precision.

    Raises:
        InputError: a size of an unknown name, and what ``make`` refuses.
    """
    known = WorkloadSizes.__annotations__
    require_none(
        Fault("workload", name, value, f"no such size; {suggest(name, known)}")
        for name, value in sizes.items()
        if name not in known
    )
    require_none(_wrong_kinds(sizes))
    options = {name: value for name, value in sizes.items() if value is not None and value != {}}
    asked = options.pop("precision", None)
    precision = {} if asked is None else parse_precision(asked, "workload")
    workload = make(options)
    return with_precision(workload, precision) if precision else workload


_BY_NAME: Final = {
    "dims": "sizes by names of dimensions, such as {'n': 1}",
    "bytes_by_tensor": "bytes by names of tensors, such as {'A': 2}",
}


def _wrong_kinds(sizes: Mapping[str, object]) -> Iterator[Fault]:
    """Yield a fault of each size that is no mapping from names, or no list, where one is needed."""
    for name, allowed in _BY_NAME.items():
        given = sizes.get(name)
        named = isinstance(given, Mapping) and all(isinstance(key, str) for key in given)
        if given is not None and not named:
            yield Fault("workload", name, given, allowed)
    if not isinstance(experts := sizes.get("experts"), str | list | tuple | None):
        yield Fault("workload", "experts", experts, "a text such as 'expected', or a count each")


def _build_named(name: str | Transformer, options: dict[str, Any]) -> Workload:
    if isinstance(name, Transformer):
        require_taken(name.name, "transformer", options)
        return transformer(name, **options)
    key = name.lower()
    if key in _OF_SHAPE:
        return _of_shape(key, options)
    if key not in MODELS:
        for kind, catalogue, make in (
            ("transformer", TRANSFORMERS, transformer),
            ("network", NETWORKS, network),
        ):
            if catalogue.has(key):
                require_taken(name, kind, options)
                return make(name, **options)
    if not MODELS.has(key) and name in PLUGGED:
        return PLUGGED[name](**options)
    return _attention_model(name, options)


def _attention_model(name: str, options: Mapping[str, Any]) -> Workload:
    """Return a model's attention blocks; of an unknown name only sizes of such models are read."""
    if MODELS.has(name.lower()):
        require_taken(name, "model", options)
    taken = {size: value for size, value in options.items() if size not in REFUSED["model"]}
    try:
        return attention_model(
            name, **{"batch": BATCH, "seq_len": SEQ_LEN, "scope": SCOPE, **taken}
        )
    except InputError as error:
        raise InputError([_of_name(fault) for fault in error.faults]) from None


def require_taken(name: str, kind: str, given: Mapping[str, object]) -> None:
    """Refuse sizes that a kind of workload (a key of ``REFUSED``) does not take.

    Raises:
        InputError: every refused size, with the reason.
    """
    _refuse(name, REFUSED[kind], given)


def _refuse(name: str, reasons: Mapping[str, str], given: Mapping[str, object]) -> None:
    require_none(
        Fault("workload", field, value, f"nothing with {name}; {reasons[field]}")
        for field, value in given.items()
        if field in reasons
    )


def _of_shape(name: str, options: dict[str, Any]) -> Workload:
    shaped = _OF_SHAPE[name]
    said = f"`shape` says it ({shaped.batch} is the batch)"
    reasons = {**_ALWAYS, **dict.fromkeys(("seq_len", "batch", "scope"), said), "layer": _NO_LAYERS}
    _refuse(name, reasons, options)
    shape = options.pop("shape", None)
    if shape is None:
        allowed = f"the sizes of the {name}, as in `shape` {shaped.example}"
        raise InputError([Fault("workload", "shape", ABSENT, allowed)])
    if isinstance(shape, Mapping):
        shape = ",".join(f"{rank}={size}" for rank, size in shape.items())
    if not isinstance(shape, str):
        raise InputError([Fault("workload", "shape", shape, shaped.example)])
    if name == "conv" and re.search(r"\b(h|w|pad|padding) *=", shape, re.IGNORECASE):
        allowed = "no H, W or padding: P and Q count outputs, P = (H + 2 padding - R) / stride + 1"
        raise InputError([Fault("shape", "shape", shape, allowed)])
    sizes = parse_sizes(
        shape,
        "shape",
        needed=shaped.needed,
        optional=shaped.optional,
        example=shaped.example,
        limit=shaped.limit,
    )
    return shaped.make(**sizes, **options)


def _of_name(fault: Fault) -> Fault:
    """Return the fault of an unknown name with the names that there are."""
    if fault.field != "model":
        return fault
    catalogues = (MODELS, TRANSFORMERS, NETWORKS)
    names = [name for catalogue in catalogues for name in catalogue.names]
    aliases = [name for catalogue in catalogues for name in catalogue.names_and_aliases]
    allowed = suggest(
        str(fault.value).lower(), [*names, *aliases, *_OF_SHAPE, *PLUGGED], [*names, *PLUGGED]
    )
    kinds = "a model, a network, gemm, bmm, gbmm, conv"
    files = "a .yaml, .csv, .onnx, .m or config.json file"
    return Fault("workload", "name", fault.value, f"{kinds} or {files}; {allowed}")
