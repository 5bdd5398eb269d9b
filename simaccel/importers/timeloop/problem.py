"""Timeloop problems (`problem: {shape: ..., instance: ...}`) as workloads of one einsum.

A data space that is `read_write` is the output, the others are inputs. A dimension of a projection
is a sum of products, each a rank alone or with a coefficient: `[[R, Wdilation], [P, Wstride]]`. Of
the shapes of Timeloop's library that files name, `cnn-layer` (with output channels M or K, by the
sizes) and `gemm-ABZ` are known; old files that name none have a `cnn-layer`. Densities are
accounted for: all is dense. A size that nothing uses is a fault, if it isn't 1, or of the input (H,
W and their pads), which Timeloop takes from the projections. A problem does not contain element
sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest
from simaccel.files.accounting import AccountEntry, FileAccount, account_keys
from simaccel.workload.documents import einsums_document
from simaccel.workload.einsum import AffineDimension, Einsum, Kind, Operand, Tensor
from simaccel.workload.names import size_faults
from simaccel.workload.workload import Workload


def _convolution(channels: str) -> Mapping[str, Any]:
    """Return the convolution of Timeloop's library; ``channels``: the rank of output channels."""
    coefficients = ("Wstride", "Hstride", "Wdilation", "Hdilation")
    rows = [["R", "Wdilation"], ["P", "Wstride"]]
    columns = [["S", "Hdilation"], ["Q", "Hstride"]]
    outputs = [[["N"]], [[channels]], [["Q"]], [["P"]]]
    return {
        "name": "CNN-Layer",
        "dimensions": ["C", channels, "R", "S", "N", "P", "Q"],
        "coefficients": [{"name": name, "default": 1} for name in coefficients],
        "data_spaces": [
            {"name": "Weights", "projection": [[["C"]], [[channels]], [["R"]], [["S"]]]},
            {"name": "Inputs", "projection": [[["N"]], [["C"]], rows, columns]},
            {"name": "Outputs", "projection": outputs, "read_write": True},
        ],
    }


_CNN_LAYER: Final = _convolution("M")
"""As the library has it (problem-shapes/cnn-layer.yaml)."""
_GEMM: Final[Mapping[str, Any]] = {
    "name": "gemm-ABZ",
    "dimensions": ["M", "N", "K"],
    "data_spaces": [
        {"name": "A", "projection": [[["M"]], [["K"]]]},
        {"name": "B", "projection": [[["N"]], [["K"]]]},
        {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True},
    ],
}
"""The product of its library (problem-shapes/gemm-ABZ.yaml)."""
_NAMED: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(("cnn-layer", "conv"), _CNN_LAYER),
    "gemm-abz": _GEMM,
}
_INPUT_SIZES: Final = dict.fromkeys(
    ("H", "W", "Hpad", "Wpad"), "inputs are as large as the projections reach, with their padding"
)
_OF_PROBLEM: Final = ("version", "shape", "name")
_OF_SHAPE: Final = ("name", "dimensions", "coefficients", "data_spaces", "data-spaces")
_OF_SPACE: Final = ("name", "projection", "read_write", "read-write")
_OF_HARDWARE: Final = (
    *("architecture", "arch", "components", "mapper", "mapping", "variables", "globals"),
    *("constraints", "architecture_constraints", "mapspace_constraints", "mapspace"),
)
_DENSITIES: Final = ("densities", "commonDensity", "common_density")
_LOOKS = "this looks like a Timeloop problem, whose {} must be {}"


def is_timeloop(document: Mapping[Any, Any]) -> bool:
    """Return whether a document is a Timeloop problem, or a part of one."""
    shape = document.get("shape")
    alone = isinstance(shape, Mapping) and bool({"data_spaces", "data-spaces"} & {*shape})
    return "kind" not in document and ("problem" in document or alone)


def timeloop_problem(document: Mapping[Any, Any], source: str) -> Workload:
    """Return a problem as a workload, with assumed sizes of elements.

    Raises:
        InputError: all that is missing, or can't be read.
    """
    problem = document.get("problem", ABSENT)
    if not isinstance(problem, Mapping):
        allowed = "a mapping with a shape and its sizes; several shapes are a workload of einsums"
        raise InputError([Fault(source, "problem", problem, allowed)])
    instance: Mapping[Any, Any] = {n: size for n, size in problem.items() if n not in _OF_PROBLEM}
    if "instance" in problem or not instance:  # old files have sizes beside the shape
        instance = _section(problem, "instance", "a mapping of sizes", source)
    shape = _shape(problem, source, instance)
    spaces = _spaces(shape)
    ranks, coefficients = _sizes(shape, instance, source)
    if not isinstance(spaces, list) or not spaces:
        raise _fault(source, "problem.shape.data_spaces", spaces, "a list of data spaces")
    operands, written = [], []
    for at, space in enumerate(spaces):
        path = f"problem.shape.data_spaces[{at}]"
        if not isinstance(space, Mapping) or not isinstance(space.get("name"), str):
            raise _fault(source, path, space, "a mapping with name and projection")
        operands.append(_operand(space, ranks, coefficients, (source, path)))
        writes = space.get("read_write", space.get("read-write", False))
        if not isinstance(writes, bool):
            raise _fault(source, f"{path}.read_write", writes, "true or false")
        written.append(writes)
    if written.count(True) != 1:
        raise _fault(source, "problem.shape.data_spaces", written, "one that is read_write")
    name = str(shape.get("name", "problem"))
    out = operands[written.index(True)]
    read = [operand for operand, write in zip(operands, written, strict=True) if not write]
    inputs = tuple(sorted(read, key=lambda operand: _kind(operand) == "weight"))  # the second role
    einsum = Einsum("problem", ranks, inputs, out)
    kinds: dict[str, Kind] = {operand.tensor: _kind(operand) for operand in inputs}
    kinds[out.tensor] = "output"
    tensors = {tensor: Tensor(tensor, kind=kind, assumed=True) for tensor, kind in kinds.items()}
    parameters = einsums_document(name, (einsum,), tensors.values())
    taken = AccountEntry("problem", "taken", "an einsum", macs=einsum.macs)
    entries = (taken, *_entries(document, shape, instance, {**ranks, **coefficients}))
    account = FileAccount(source, entries)
    return Workload(name, (einsum,), tensors, parameters=parameters, account=account)


def _shape(
    problem: Mapping[Any, Any], source: str, instance: Mapping[Any, Any]
) -> Mapping[Any, Any]:
    """Return the shape of a problem: its own, a named one of the library, or the default."""
    named = problem.get("shape", ABSENT if "instance" in problem else "cnn-layer")
    if not isinstance(named, str):
        return _section(problem, "shape", "a mapping with dimensions and data_spaces", source)
    known = _NAMED.get(named.lower().removesuffix(".yaml").replace("_", "-"))
    if known is None:
        allowed = (
            f"a mapping with dimensions and data_spaces, or a named shape, {' or '.join(_NAMED)}; "
            f"of others in Timeloop's library write out the file of problem-shapes ({named})"
        )
        raise InputError([Fault(source, "problem.shape", named, allowed)])
    if known is _CNN_LAYER and "K" in instance and "M" not in instance:
        return _convolution("K")
    return known


def _entries(
    document: Mapping[Any, Any],
    shape: Mapping[Any, Any],
    instance: Mapping[Any, Any],
    sizes: Mapping[str, int],
) -> Iterator[AccountEntry]:
    """Yield the account entry of every key."""
    others = dict.fromkeys(_OF_HARDWARE, "no part of the problem")
    yield from account_keys(document, ("problem",), others, macs=0)
    problem, flat = document["problem"], "instance" not in document["problem"]
    names = (*_OF_PROBLEM, "instance", *(instance if flat else ()))
    yield from account_keys(problem, names, within="problem", macs=None)
    if "shape" not in problem:
        yield AccountEntry("problem.shape", "harmless", "none: cnn-layer, as Timeloop has it")
    own = shape if isinstance(problem.get("shape"), Mapping) else {}
    yield from account_keys(own, _OF_SHAPE, within="problem.shape", macs=None)
    for space in _spaces(own) or ():
        within = f"problem.shape.data_spaces.{space['name']}"
        yield from account_keys(space, _OF_SPACE, within=within, macs=None)
    for name, value in instance.items():
        path = f"problem.instance.{name}"
        if name in sizes:
            yield AccountEntry(path, "taken", "a size")
        elif name in _DENSITIES:
            dense = AccountEntry(path, "harmless", "1.0: dense")
            sparse = AccountEntry(path, "not taken", "sparsity is not modelled", macs=None)
            yield dense if _is_dense(value) else sparse
        elif name in _INPUT_SIZES:
            yield AccountEntry(path, "harmless", _INPUT_SIZES[name])
        elif value == 1:
            yield AccountEntry(path, "harmless", "1, of nothing that there is")


def _is_dense(density: Any) -> bool:  # noqa: ANN401 - a number, or a mapping of them
    """Return whether all densities are 1."""
    if isinstance(density, Mapping):
        parts = density if "density" not in density else {"": density["density"]}
        return all(map(_is_dense, parts.values()))
    return bool(density == 1)


def _spaces(shape: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - whatever the file has
    return shape.get("data_spaces", shape.get("data-spaces"))


def _kind(given: Operand) -> Kind:
    return "weight" if "weight" in given.tensor.lower() else "input"


def _section(problem: Mapping[Any, Any], name: str, what: str, source: str) -> Mapping[Any, Any]:
    found = problem.get(name, ABSENT)
    if not isinstance(found, Mapping):
        raise _fault(source, f"problem.{name}", found, what)
    return found


def _fault(source: str, field: str, value: object, what: str) -> InputError:
    allowed = _LOOKS.format(field.rpartition(".")[2], what)
    return InputError([Fault(source, field, value, allowed)])


def _sizes(
    shape: Mapping[Any, Any], instance: Mapping[Any, Any], source: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Return (sizes of ranks, coefficients of projections)."""
    names = shape.get("dimensions", ABSENT)
    if not isinstance(names, list) or not all(isinstance(rank, str) for rank in names):
        raise _fault(source, "problem.shape.dimensions", names, "a list of names")
    ranks = {name: instance.get(name, ABSENT) for name in names}
    coefficients: dict[str, object] = {}
    listed = shape.get("coefficients", [])
    for entry in listed if isinstance(listed, list) else [listed]:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            allowed = "a list of mappings such as {name: Wstride, default: 1}"
            raise _fault(source, "problem.shape.coefficients", entry, allowed)
        coefficients[entry["name"]] = instance.get(entry["name"], entry.get("default", 1))
    known = {**ranks, **coefficients}
    faults = size_faults(source, {f"problem.instance.{name}": n for name, n in known.items()})
    used = {str(name) for term in _terms(shape) for name in term}
    for name, value in instance.items():
        if name in _DENSITIES or value == 1 or (name in known and name in {*ranks, *used}):
            continue
        if name in _INPUT_SIZES and name not in used:
            continue
        near = "it is in a projection only" if name in used else suggest(name, sorted(used))
        why = f"a size of a dimension, or of a coefficient in a projection; {near}"
        faults.append(Fault(source, f"problem.instance.{name}", value, why))
    require_none(faults)
    return ranks, coefficients  # type: ignore[return-value]


def _terms(shape: Mapping[Any, Any]) -> Iterator[list[Any]]:
    """Yield the factors of each term of the projections, leaving out what isn't a list."""
    spaces = _spaces(shape)
    for space in spaces if isinstance(spaces, list) else []:
        dims = space.get("projection") if isinstance(space, Mapping) else None
        for dim in dims if isinstance(dims, list) else []:
            for term in dim if isinstance(dim, list) else []:
                yield term if isinstance(term, list) else [term]


def _operand(
    space: Mapping[Any, Any],
    ranks: Mapping[str, int],
    coefficients: Mapping[str, int],
    where: tuple[str, str],
) -> Operand:
    source, path = where
    dims = space.get("projection")
    if not isinstance(dims, list):
        raise _fault(source, f"{path}.projection", dims, "a list of dimensions")
    projection = []
    for number, dim in enumerate(dims):
        terms: dict[str, int] = {}
        for term in dim if isinstance(dim, list) else [None]:
            names = [str(name) for name in (term if isinstance(term, list) else [term])]
            known = [name for name in names if name in ranks]
            factors = [coefficients.get(name) for name in names if name not in ranks]
            if len(known) != 1 or len(factors) > 1 or None in factors:
                what = f"sums of a rank ({', '.join(ranks)}), or of a rank and a coefficient: "
                what += "[[R, Wdilation], [P]]"
                raise _fault(source, f"{path}.projection[{number}]", dim, what)
            factor = next((number for number in factors if number is not None), 1)
            terms[known[0]] = terms.get(known[0], 0) + factor
        projection.append(AffineDimension(tuple(terms.items())))
    return Operand(space["name"], tuple(projection))
