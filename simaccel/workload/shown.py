"""The parser of operands as ``workload show`` prints them: ``Q[n+8,2*p+r+0]``."""

from __future__ import annotations

import re
from typing import Final

_SHOWN: Final = re.compile(r"([^\[\]\s]{1,200})\[([^\[\]]{0,2000})\]")
_TERM: Final = re.compile(r"(?:([0-9]{1,15})\*)?([A-Za-z_][A-Za-z_0-9]{0,99})|([0-9]{1,15})")


def _read_dimension(dim: object) -> tuple[object, int | None]:
    """Return the terms of a dimension that is written as a sum, and its start, None without one.

    >>> _read_dimension("2*p+r+8"), _read_dimension("n")
    (({'p': 2, 'r': 1}, 8), ('n', None))
    """
    if not isinstance(dim, str) or not {"+", "*"} & set(dim):
        return dim.strip() if isinstance(dim, str) else dim, None
    terms: dict[str, int] = {}
    start = None
    for text in dim.split("+"):
        term = _TERM.fullmatch(text.strip())
        if term is None or term[2] in terms or (term[3] and start is not None):
            return dim, None
        if term[3]:
            start = int(term[3])
        else:
            terms[term[2]] = int(term[1] or 1)
    return (terms, start) if terms else (dim, None)


def read_shown(operand: object) -> object:
    """Return the document of a printed operand, or of printed dimensions; other values unchanged.

    >>> read_shown("Q[n+8,d+0]")
    {'tensor': 'Q', 'projection': [{'n': 1}, {'d': 1}], 'start': [8, 0]}
    """
    if isinstance(operand, str) and (whole := _SHOWN.fullmatch(operand.strip())):
        operand = {
            "tensor": whole[1],
            "projection": whole[2].split(",") if whole[2].strip() else [],
        }
    if not isinstance(operand, dict) or not isinstance(operand.get("projection"), list):
        return operand
    read = [_read_dimension(dim) for dim in operand["projection"]]
    begins = any(start is not None for _, start in read) and "start" not in operand
    starts = {"start": [start or 0 for _, start in read]} if begins else {}
    return {**operand, "projection": [terms for terms, _ in read], **starts}
