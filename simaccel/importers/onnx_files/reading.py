"""Reading of ONNX files: dimensions set, shapes inferred, constants folded, branches inlined.

Needs the package `onnx` (`pip install simaccel[onnx]`). Only types and shapes of weights are read:
their values may be in other files, or missing.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import ABSENT, MEANT, Fault, InputError, require_none
from simaccel.files.accounting import AccountEntry
from simaccel.files.documents import read_bytes
from simaccel.files.limits import MAX_ONNX_BYTES, MAX_OPERATORS, require_at_most
from simaccel.importers.onnx_files.constant_folder import ConstantFolder
from simaccel.importers.onnx_files.constants import (
    Shape,
    graphs_of,
    graphs_within,
    nodes_within,
    take_constants,
)
from simaccel.importers.onnx_files.growth import require_few_nodes, require_small_shapes
from simaccel.workload.names import MAX_LAYER_SIZE, clean_name, size_faults

if TYPE_CHECKING:
    import numpy.typing as npt

    from simaccel.importers.onnx_files.constants import Proto

_IR_VERSION: Final = 8
"""The IR version that models are read as; below 4, constants had to be inputs."""
_STANDARD: Final = ("", "ai.onnx")
_RUNTIME: Final = "com.microsoft"
"""ONNX Runtime's domain."""
_LONGEST: Final = 60
"""Most letters of a name of the file in a message."""
_DOES: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
"""Signs of dimensions that exporters write as sums and products of others."""


@dataclass
class OnnxGraph:
    """The nodes of an ONNX graph after folding of constants, and its tensors, by name.

    ``shapes``: known shapes. ``values``: values of small constants. ``weights``: names of all
    constants. ``bits``: stored bits of an element. ``folded``: number of folded nodes.
    ``outputs``: names of the graph's outputs. ``opset``: version of the standard operators.
    ``distinct``: number of distinct elements of a constant that repeats other constants.
    ``missing``: external files with small constants that can't be read. ``dead``: account entries
    of removed nodes, on which no output depends; ``notes``: of other parts that are left out.
    """

    nodes: list[Any]
    shapes: dict[str, Shape]
    values: dict[str, npt.NDArray[Any]]
    weights: set[str]
    bits: dict[str, int]
    folded: int = 0
    outputs: tuple[str, ...] = ()
    opset: int = 1
    distinct: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    dead: tuple[AccountEntry, ...] = ()
    notes: tuple[AccountEntry, ...] = ()

    @cached_property
    def reads(self) -> Counter[str]:
        """Number of reads of each tensor, by nodes and as an output of the graph."""
        return Counter((*(name for node in self.nodes for name in node.input), *self.outputs))

    @cached_property
    def makers(self) -> dict[str, Proto]:
        """The node that makes each tensor."""
        return {name: node for node in self.nodes for name in node.output}


def read_network(path: Path, dims: Mapping[str, int]) -> OnnxGraph:
    """Read an ONNX file; ``dims`` has the sizes of its dynamic dimensions.

    Raises:
        InputError: the file is no ONNX model, or dimensions lack a size (with how to give it).
    """
    data = read_bytes(path, "ONNX", MAX_ONNX_BYTES)  # before the package, which takes long to load
    onnx = _package(path)
    try:
        model = onnx.load_model_from_string(data)
        if not model.HasField("graph"):
            raise _no_model(path, "a protobuf message without a graph")  # noqa: TRY301 - as others
        require_few_nodes(str(path), model)
        if model.functions:
            _fill_defaults(model)
            model = onnx.inliner.inline_local_functions(model)
        versions = [known.version for known in model.opset_import if known.domain in _STANDARD]
        opset = int(versions[0]) if versions else 1  # of ONNX's own operators
        foreign = _standardise(onnx, model, opset)
        constants = take_constants(onnx, model, path.parent)
        model.ir_version = max(model.ir_version, _IR_VERSION)
        _check(path, onnx, model, dims)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - protobuf and the checker raise what they like
        raise _no_model(path, str(error) or type(error).__name__) from None
    require_at_most(str(path), "nodes", len(model.graph.node), MAX_OPERATORS, "nodes")
    _set_dims(path, model, dims, constants.names)
    require_small_shapes(str(path), model.graph, constants.values)
    folder = ConstantFolder(onnx, model, constants, dims)
    errors = onnx.shape_inference.InferenceError, onnx.checker.ValidationError
    try:
        shapes, bits = folder.fold()
    except (*errors, RuntimeError, ValueError) as error:
        raise _no_model(path, str(error) or type(error).__name__) from None
    outputs = tuple(output.name for output in model.graph.output)
    _drop_empty_parts(model.graph.node, shapes)
    nodes, dead = _without_dead(model.graph.node, outputs)
    folder.fold_paddings(nodes, shapes, outputs)
    notes = (*constants.notes, *foreign, *folder.notes.values())
    known = shapes, folder.values, folder.constants, bits, folder.folded, outputs, opset
    return OnnxGraph(nodes, *known, folder.distinct, constants.missing, dead, notes)


def _no_model(path: Path, why: str) -> InputError:
    return InputError([Fault(str(path), "file", why.splitlines()[0], "an ONNX model")])


def _package(path: Path) -> ModuleType:
    try:
        import onnx  # noqa: PLC0415 - an extra
        import onnx.inliner  # noqa: PLC0415 - an extra
        import onnx.reference  # noqa: PLC0415 - an extra
    except ImportError:
        allowed = "the package onnx: pip install 'simaccel[onnx]'"
        raise InputError([Fault(str(path), "file", "an ONNX model", allowed)]) from None
    return onnx


def _check(path: Path, onnx: ModuleType, model: Proto, dims: Mapping[str, int]) -> None:
    """Check a model by the package `onnx`; its inputs and outputs need no shapes.

    Inputs in ``dims`` get as many dimensions as are numbered there; outputs are inferred.
    """
    for tensor in model.graph.input:
        kind = tensor.type.tensor_type
        if tensor.type.HasField("tensor_type") and not kind.HasField("shape"):
            kind.shape.SetInParent()
            while f"{tensor.name}.{len(kind.shape.dim)}" in dims:
                kind.shape.dim.add()
            if not kind.shape.dim:
                what = f"dim={tensor.name}.0=SIZE and so on: input {tensor.name} says no shape"
                raise InputError([Fault(str(path), f"--dim {tensor.name}.0", ABSENT, what)])
    unknown = [
        output.type.tensor_type
        for output in model.graph.output
        if output.type.HasField("tensor_type") and not output.type.tensor_type.HasField("shape")
    ]
    for kind in unknown:
        kind.shape.SetInParent()
    onnx.checker.check_model(model, full_check=False)
    for kind in unknown:
        kind.ClearField("shape")


def _fill_defaults(model: Proto) -> None:
    """Add the default attributes to calls of functions, which onnx's inliner would drop."""
    defaults = {(made.domain, made.name): made.attribute_proto for made in model.functions}
    for node in nodes_within(model.graph, *model.functions):
        names = {attribute.name for attribute in node.attribute}
        usual = defaults.get((node.domain, node.op_type), ())
        node.attribute.extend(default for default in usual if default.name not in names)


def _standardise(onnx: ModuleType, model: Proto, opset: int) -> list[AccountEntry]:
    """Replace kinds of nodes that ONNX Runtime writes in its own way by ONNX's.

    Its concatenations of quantised tensors, whose inputs are scale and zero point of what is made,
    then each tensor with its own two, become plain ones. What it puts among ONNX's own kinds
    without ONNX knowing it (norms, before the version that has them) is of its own domain. Returns
    the entries of attributes that ONNX doesn't define for a node's kind, which are removed.
    """
    taken, why = [], "no attribute of ONNX's kind: another tool's"
    for node in nodes_within(model.graph):
        node.domain = "" if node.domain in _STANDARD else node.domain
        if node.op_type == "QLinearConcat" and node.domain == _RUNTIME:
            tensors = list(node.input[2::3])
            del node.input[:]
            node.input.extend(tensors)
            node.op_type, node.domain = "Concat", ""
        if node.domain:
            continue
        known = onnx.defs.has(node.op_type, opset, "")
        schema = onnx.defs.get_schema(node.op_type, opset) if known else None
        if schema is None or schema.deprecated:
            node.domain = _RUNTIME
            continue
        foreign = [
            attribute for attribute in node.attribute if attribute.name not in schema.attributes
        ]
        for attribute in foreign:
            name = f"{clean_name(node.name or node.op_type)}.{attribute.name[:_LONGEST]}"
            taken.append(AccountEntry(name, "not taken", why, "attribute"))
            node.attribute.remove(attribute)
    if _RUNTIME not in {opset_of.domain for opset_of in model.opset_import}:
        model.opset_import.add(domain=_RUNTIME, version=1)
    return taken


def _set_dims(
    path: Path, model: Proto, dims: Mapping[str, int], constants: Collection[str]
) -> None:
    """Set the sizes of dynamic dimensions of inputs."""
    named = {f"--dim {name}": size for name, size in dims.items()}
    faults = size_faults(str(path), named, MAX_LAYER_SIZE, least=0)
    missing: dict[str, str] = {}
    used: set[str] = set()
    for input_name, at, dim in _dynamic(model, constants):
        names = [f"{input_name}.{at}", *([dim.dim_param] if dim.dim_param else [])]
        known = [name for name in names if name in dims]
        used.update(known)
        size = None if known else _expression_size(dim.dim_param, dims, used)
        if size is not None:
            dim.dim_value = size
        elif not known:
            missing[names[-1][:_LONGEST]] = f"dimension {at} of input {input_name[:_LONGEST]}"
        elif not faults:
            dim.dim_value = dims[known[0]]
    known_as = {name.lower(): name for name in reversed(missing)}
    meant = {n: known_as[n.lower()] for n in dims if n.lower() in known_as and n not in used}
    faults += [
        Fault(str(path), f"--dim {name}", ABSENT, f"dim={name}=SIZE, the size of {what}")
        for name, what in missing.items()
        if name not in meant.values()
    ]
    for name in (name for name in dims if name not in used):
        allowed = (
            f"{MEANT} {meant[name]!r}?" if name in meant else "a dynamic dimension of an input"
        )
        faults.append(Fault(str(path), f"--dim {name}", dims[name], allowed))
    require_none(faults)


def _dynamic(model: Proto, constants: Collection[str]) -> Iterator[tuple[str, int, Any]]:
    """Yield (input, number, dimension) of dimensions without a size."""
    for given in model.graph.input:
        for at, dim in enumerate(given.type.tensor_type.shape.dim):
            if given.name not in constants and (dim.dim_param or dim.dim_value < 1):
                yield given.name, at, dim


def _drop_empty_parts(nodes: Sequence[Proto], shapes: Mapping[str, Shape]) -> None:
    """Remove inputs without elements, such as a cache of no tokens, from concatenations."""
    for node in nodes:
        if node.op_type == "Concat" and not node.domain:
            parts = [name for name in node.input if 0 not in shapes.get(name, ())]
            if parts:
                node.input[:] = parts


def _without_dead(
    nodes: Sequence[Proto], outputs: Collection[str]
) -> tuple[list[Proto], tuple[AccountEntry, ...]]:
    """Return (nodes that outputs of the graph depend on, account entries of the others)."""
    wanted, alive, dead = {*outputs}, list[Any](), list[AccountEntry]()
    for node in reversed(nodes):
        if outputs and wanted.isdisjoint(node.output):
            name = clean_name(node.name or node.output[0])
            dead.append(AccountEntry(name, "harmless", "nothing reads it", node.op_type))
            continue
        alive.append(node)
        wanted.update(node.input)
        for graph in (inner for own in graphs_of(node) for inner in graphs_within(own)):
            wanted.update(*(inside.input for inside in graph.node))
            wanted.update(output.name for output in graph.output)
    return alive[::-1], tuple(dead[::-1])


def _expression_size(text: str, dims: Mapping[str, int], used: set[str]) -> int | None:
    """Return a size that follows from sizes of other dimensions, whose names become ``used``.

    None if one of them isn't known, or it is nothing of the kind.

    >>> used = set()
    >>> _expression_size("past + 2*tokens", {"past": 5, "tokens": 3}, used), sorted(used)
    (11, ['past', 'tokens'])
    >>> _expression_size("past + 1", {}, used), _expression_size("s 1", {"s": 1}, used)
    (None, None)
    """
    try:
        body = ast.parse(text, mode="eval").body
        size = _evaluate(body, dims)
    except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError):
        return None
    used.update(node.id for node in ast.walk(body) if isinstance(node, ast.Name))
    return size if 0 <= size <= MAX_LAYER_SIZE else None


def _evaluate(node: ast.expr, dims: Mapping[str, int]) -> int:
    if isinstance(node, ast.BinOp):
        does = _DOES[type(node.op)]
        return does(_evaluate(node.left, dims), _evaluate(node.right, dims))
    if isinstance(node, ast.Name):
        return dims[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise ValueError(ast.dump(node))
