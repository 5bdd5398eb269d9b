"""Datasets by h5py's low-level interface, equal to those of ``create_dataset`` but made faster.

A trace has 35 datasets. h5py's high-level interface makes property lists for each and opens each
again before it writes: half the time of a short trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t

LEVEL: Final = 1
"""Level of DEFLATE: files are a fifth larger than by default and take half as long."""

File = Any
"""An open ``h5py.File`` or ``h5py.Group`` (h5py has no types)."""
Growing = Any
"""An open, growing dataset of h5py's low-level interface."""


@cache
def _properties(chunks: tuple[int, ...] | None) -> Any:  # noqa: ANN401 - h5py has no types
    """Return how a dataset is stored: packed and with checksums if it has chunks."""
    stored = h5p.create(h5p.DATASET_CREATE)
    if chunks is not None:
        stored.set_chunk(chunks)
        stored.set_shuffle()
        stored.set_deflate(LEVEL)
        stored.set_fletcher32()
    stored.set_obj_track_times(False)
    return stored


def make_growing(group: File, name: str, dtype: Any, chunks: tuple[int, ...]) -> Growing:  # noqa: ANN401 - h5py has no types
    """Make an empty dataset in a group; it grows along all axes."""
    space = h5s.create_simple((0,) * len(chunks), (h5s.UNLIMITED,) * len(chunks))
    return _make(group, name, dtype, space, chunks)


def _make(group: File, name: str, dtype: Any, space: Any, chunks: tuple[int, ...] | None) -> Any:  # noqa: ANN401 - h5py has no types
    kind = h5t.py_create(np.dtype(dtype), logical=True)
    return h5d.create(group.id, name.encode(), kind, space, _properties(chunks))


def grow(column: Growing, first: int, values: np.ndarray) -> None:
    """Write entries from number ``first`` on; other axes become as long as those of ``values``."""
    column.set_extent((first + len(values), *values.shape[1:]))
    space = column.get_space()
    space.select_hyperslab((first,) + (0,) * (values.ndim - 1), values.shape)
    column.write(h5s.create_simple(values.shape), space, np.ascontiguousarray(values))


def text_type(width: int) -> Any:  # noqa: ANN401 - h5py has no types
    """Return the type of UTF-8 texts of a fixed width in bytes, which ``asstr`` reads."""
    return h5py.string_dtype("utf-8", width)


def write_texts(group: File, name: str, texts: Sequence[str]) -> None:
    """Write texts as a new dataset of a group."""
    encoded = [text.encode() for text in texts]
    width = max([1, *map(len, encoded)])
    write_array(group, name, np.array(encoded, dtype=text_type(width)))


def write_array(group: File, name: str, values: np.ndarray) -> None:
    """Write numbers as a new dataset of a group."""
    space, chunks = h5s.create_simple(values.shape), values.shape if values.size else None
    _make(group, name, values.dtype, space, chunks).write(h5s.ALL, h5s.ALL, values)


def describe(file: File, descriptions: Mapping[str, Mapping[str, str]]) -> None:
    """Attach text attributes to groups and datasets, both by name."""
    text, alone = h5t.py_create(h5py.string_dtype(), logical=True), h5s.create(h5s.SCALAR)
    for part, attributes in descriptions.items():
        for name, value in attributes.items():
            made = h5a.create(file.id, name.encode(), text, alone, obj_name=part.encode())
            made.write(np.array(value.encode(), dtype=object))
