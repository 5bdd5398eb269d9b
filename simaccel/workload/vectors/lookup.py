"""Lookup of rows of a table by indices; one pass.

The first input is the rows that are read, one per index; the second is the indices, which lack the
ranks within a row. Values of indices are not modelled: any row of the table may be read.
"""

from simaccel.workload.vectors.kind import Array, VectorKind, one_pass, whole


def _rows(rows: Array, *_indices: Array) -> Array:
    return rows


LOOKUP = VectorKind(name="lookup", optional=1, steps=one_pass(whole(_rows), inputs=2))
