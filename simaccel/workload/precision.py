"""Precision by class: the number formats of weights, activations and caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from simaccel.errors import Fault, InputError, require_none, suggest
from simaccel.numbers import BITS, BYTE, PACKED_BITS, SUMS, TOLD_APART
from simaccel.workload.einsum import Tensor, Vector
from simaccel.workload.tensors import CLASSES, class_of
from simaccel.workload.vectors.single_pass import LOOKUP
from simaccel.workload.workload import Workload

Precision = Mapping[str, str]
"""The number format of each class: ``{"weights": "int4", "activations": "int8"}``."""
NATIVE: Final = "native_precision"
"""The parameter with an accelerator's number formats, for tensors of assumed element sizes."""
EXAMPLE: Final = "weights=int4,activations=int8"


def parse_precision(precision: object, source: str) -> Precision:
    """Return a precision from a mapping, or from a text such as ``weights=int4,activations=int8``.

    A single number format, such as ``fp16``, holds for all classes.

    Raises:
        InputError: all unknown classes and number formats, and repeated classes.
    """
    if not isinstance(precision, str | Mapping):
        allowed = f"a text such as {EXAMPLE}, or a mapping of these"
        raise InputError([Fault(source, "precision", precision, allowed)])
    if isinstance(precision, str) and "=" not in precision:
        return dict.fromkeys(CLASSES, _parse_format(precision.strip(), source))
    if isinstance(precision, Mapping):
        pairs = [*precision.items()]
    else:
        parts = (text.partition("=") for text in precision.split(","))
        pairs = [(name.strip(), number.strip()) for name, _, number in parts]
    sums = "nothing without an accelerator, whose array.accumulator has the sums"
    by_class: dict[str, str] = {}
    faults = []
    for name, number in pairs:
        field = f"precision.{name}"
        if name not in CLASSES:
            allowed = sums if name == SUMS else suggest(str(name), (*CLASSES, SUMS))
            faults.append(Fault(source, field, number, allowed))
        elif name in by_class:
            faults.append(Fault(source, field, number, "each class once"))
        elif not isinstance(number, str) or number not in BITS:
            faults.append(Fault(source, field, number, suggest(str(number), BITS)))
        else:
            by_class[name] = number
    require_none(faults)
    return by_class


def _parse_format(text: str, source: str) -> str:
    if text not in BITS:
        allowed = f"{suggest(text, BITS)}, or a text such as {EXAMPLE}"
        raise InputError([Fault(source, "precision", text, allowed)])
    return text


def with_precision(workload: Workload, precision: Precision) -> Workload:
    """Return a workload whose tensors have the number formats of their classes.

    Classes without an entry keep their element sizes, as do indices of lookups.

    >>> from simaccel.workload import gemm
    >>> one = with_precision(gemm(m=3, k=5, n=7), {"weights": "int4"})
    >>> one.tensors["B"].bits, one.tensor_bytes("B"), one.tensors["A"].bits
    (4, 18, 16)
    """
    indices = {
        operator.inputs[1].tensor
        for operator in workload.operators
        if isinstance(operator, Vector)
        and operator.kind == LOOKUP.name
        and len(operator.inputs) > 1
    }
    tensors = {
        name: tensor if name in indices else _set_number(tensor, precision)
        for name, tensor in workload.tensors.items()
    }
    known = workload.parameters.get("precision", {})
    parameters = {**workload.parameters, "precision": {**known, **precision}}
    return replace(workload, tensors=tensors, parameters=parameters)


def with_native(workload: Workload, precision: Precision) -> Workload:
    """Return a workload whose tensors of assumed element sizes have an accelerator's formats.

    If this changes no tensor, the same workload is returned; of one workload it is always the same.

    >>> from simaccel.workload import gemm
    >>> one = with_native(gemm(m=3, k=5, n=7, bytes_by_tensor={"C": 4}), {"activations": "int8"})
    >>> [one.tensors[name].bits for name in "ABC"]
    [8, 16, 32]
    """
    assumed = assumed_classes(workload)
    native = {name: number for name, number in precision.items() if name in assumed}
    if not native:
        return workload
    # kept beside what else is derived of the workload: each run of it asks again
    variants: dict[object, Workload] = vars(workload).setdefault("_native", {})
    key = tuple(sorted(native.items()))
    if key not in variants:
        tensors = {
            name: _set_number(tensor, native) if tensor.assumed else tensor
            for name, tensor in workload.tensors.items()
        }
        parameters = {**workload.parameters, NATIVE: native}
        variants[key] = replace(workload, tensors=tensors, parameters=parameters)
    return variants[key]


def assumed_classes(workload: Workload) -> set[str]:
    """Return the classes with tensors of assumed element sizes; a file with types assumes none."""
    if workload.parameters.get("typed"):
        return set()
    return {class_of(tensor.kind) for tensor in workload.tensors.values() if tensor.assumed}


def _set_number(tensor: Tensor, precision: Precision) -> Tensor:
    """Return a tensor in the number format of its class, if the precision has one."""
    number = precision.get(class_of(tensor.kind))
    if number is None:
        return tensor
    bits = BITS[number]
    return replace(
        tensor,
        bytes_per_element=-(-bits // BYTE),
        packed=bits == PACKED_BITS,
        assumed=False,
        number=number if number in TOLD_APART else "",
    )
