"""Timeloop problems (`problem: {shape: ..., instance: ...}`) as workloads of one einsum.

A data space that is `read_write` is the output, the others are inputs. A dimension of a projection
is a sum of products, each a rank alone or with a coefficient: `[[R, Wdilation], [P, Wstride]]`.
Densities and named shapes of Timeloop's library (`shape: cnn-layer`) aren't read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simaccel.errors import ABSENT, Fault, InputError
from simaccel.workload.documents import einsums_document
from simaccel.workload.einsum import Affine, Einsum, Kind, Operand, Tensor
from simaccel.workload.sizes import size_faults
from simaccel.workload.workload import Workload

_LOOKS = "this looks like a Timeloop problem, whose {} must be {}"


def is_timeloop(document: Mapping[Any, Any]) -> bool:
    """Return whether a document is a Timeloop problem."""
    return "kind" not in document and isinstance(document.get("problem"), Mapping)


def timeloop_problem(document: Mapping[Any, Any], source: str) -> Workload:
    """Return a problem as a workload; elements have 2 bytes.

    Raises:
        InputError: what it lacks, or what isn't read.

    """
    problem = document["problem"]
    shape = _section(problem, "shape", "a mapping with dimensions and data_spaces", source)
    instance = _section(problem, "instance", "a mapping of sizes", source)
    spaces = shape.get("data_spaces", shape.get("data-spaces"))
    ranks, coefficients = _sizes(shape, instance, source)
    if not isinstance(spaces, list) or not spaces:
        raise _fault(source, "problem.shape.data_spaces", spaces, "a list of data spaces")
    operands, written = [], []
    for at, space in enumerate(spaces):
        path = f"problem.shape.data_spaces[{at}]"
        if not isinstance(space, Mapping) or not isinstance(space.get("name"), str):
            raise _fault(source, path, space, "a mapping with name and projection")
        operands.append(_operand(space, ranks, coefficients, (source, path)))
        written.append(bool(space.get("read_write", space.get("read-write", False))))
    if written.count(True) != 1:
        raise _fault(source, "problem.shape.data_spaces", written, "one that is read_write")
    name = str(shape.get("name", "problem"))
    out = operands[written.index(True)]
    read = [one for one, write in zip(operands, written, strict=True) if not write]
    inputs = tuple(sorted(read, key=lambda one: _kind(one) == "weight"))  # the second role
    einsum = Einsum("problem", ranks, inputs, out)
    kinds: dict[str, Kind] = {one.tensor: _kind(one) for one in inputs}
    kinds[out.tensor] = "output"
    tensors = {tensor: Tensor(tensor, kind=kind) for tensor, kind in kinds.items()}
    parameters = einsums_document(name, (einsum,), tensors.values())
    return Workload(name, (einsum,), tensors, parameters=parameters)


def _kind(given: Operand) -> Kind:
    return "weight" if "weight" in given.tensor.lower() else "input"


def _section(problem: Mapping[Any, Any], name: str, what: str, source: str) -> Mapping[Any, Any]:
    found = problem.get(name, ABSENT)
    if not isinstance(found, Mapping):
        raise _fault(source, f"problem.{name}", found, what)
    assert isinstance(found, Mapping)  # noqa: S101 - narrows the type
    return found


def _fault(source: str, field: str, value: object, what: str) -> InputError:
    allowed = _LOOKS.format(field.rpartition(".")[2], what)
    return InputError([Fault(source, field, value, allowed)])


def _sizes(
    shape: Mapping[Any, Any], instance: Mapping[Any, Any], source: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of ranks, and the coefficients."""
    names = shape.get("dimensions", ABSENT)
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise _fault(source, "problem.shape.dimensions", names, "a list of names")
    ranks = {name: instance.get(name, 1) for name in names}
    coefficients: dict[str, object] = {}
    for one in shape.get("coefficients", []):
        if isinstance(one, Mapping) and isinstance(one.get("name"), str):
            coefficients[one["name"]] = instance.get(one["name"], one.get("default", 1))
    known = {f"problem.instance.{name}": size for name, size in {**ranks, **coefficients}.items()}
    if faults := size_faults(source, known):
        raise InputError(faults)
    return ranks, coefficients  # type: ignore[return-value]


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
    found = []
    for number, dim in enumerate(dims):
        terms: dict[str, int] = {}
        for term in dim if isinstance(dim, list) else [None]:
            names = term if isinstance(term, list) else [term]
            known = [name for name in names if isinstance(name, str) and name in ranks]
            factors = [coefficients.get(str(name)) for name in names if name not in ranks]
            if len(known) != 1 or len(factors) > 1 or None in factors:
                what = "sums of a rank, or of a rank and a coefficient: [[R, Wdilation], [P]]"
                raise _fault(source, f"{path}.projection[{number}]", dim, what)
            terms[known[0]] = next((one for one in factors if one is not None), 1)
        found.append(Affine(tuple(terms.items())))
    return Operand(space["name"], tuple(found))
