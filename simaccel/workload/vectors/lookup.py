"""Lookup: rows of a table at the places that indices give; one pass.

The first input are the rows as they are read, one for each index, the second the indices, which
lack the ranks within a row. The values of indices are not modelled: any row of the table may come.
"""

from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _rows(rows: Array, *_indices: Array) -> Array:
    return rows


LOOKUP = VectorKind(name="lookup", optional=1, steps=one_pass(whole(_rows), inputs=2))
