"""Whether bytes can be an ONNX model: its outermost fields, read without the package `onnx`.

A model is a protobuf message: keys and values, one after the other. A damaged file or one of
another kind seldom looks like that to its very end.
"""

from __future__ import annotations

from typing import Final

GRAPH: Final = 7
"""The number of the field that holds the graph (onnx.proto, ``ModelProto``)."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT = 10


def wire_fault(data: bytes) -> str:
    """Return the fault of a message, or None; `onnx` finds all others.

    >>> wire_fault(bytes((7 << 3 | 2, 2, 8, 1)))
    ''
    >>> wire_fault(bytes((7 << 3 | 2, 3, 8, 1)))
    'no protobuf message: cut off, or damaged, at byte 0'
    """
    at, fields = 0, set[int]()
    while at < len(data):
        number, end = _field(data, at)
        if not number or end > len(data):
            return f"no protobuf message: cut off, or damaged, at byte {at}"
        fields.add(number)
        at = end
    return "" if GRAPH in fields else "a protobuf message without a graph"


def _field(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of a field, 0 of none, and where it ends."""
    key, at = _varint(data, at)
    number, kind = key >> 3, key & 7
    if kind in _FIXED:
        return number, at + _FIXED[kind]
    if kind == _VARINT:
        _, end = _varint(data, at)
        return number, end
    if kind == _BYTES:
        length, at = _varint(data, at)
        return number, at + length
    return 0, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends: after the data, if it doesn't."""
    value = 0
    for place, byte in enumerate(data[at : at + _MOST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, at + place + 1
    return 0, len(data) + 1
