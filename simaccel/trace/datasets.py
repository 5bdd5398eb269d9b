"""Datasets as h5py's ``create_dataset``, ``resize`` and assignment make them, in less time.

A trace has 35 of them. h5py's high interface makes property lists for each, and looks again at what
it has made before it writes: half of what a short trace costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t

LEVEL: Final = 1
"""Of DEFLATE: files are a fifth larger than by default, and take half as long."""

File = Any
"""An open ``h5py.File`` or ``h5py.Group`` (h5py has no types)."""
Growing = Any
"""An open data set of h5py's low interface that grows."""


def _properties(chunks: tuple[int, ...] | None) -> Any:  # noqa: ANN401 - h5py has no types
    """Return how a data set is stored: packed and with checksums, if it has chunks."""
    found = h5p.create(h5p.DATASET_CREATE)
    if chunks is not None:
        found.set_chunk(chunks)
        found.set_shuffle()
        found.set_deflate(LEVEL)
        found.set_fletcher32()
    found.set_obj_track_times(False)
    return found


def make_growing(group: File, types: dict[str, Any], chunks: tuple[int, ...]) -> dict[str, Growing]:
    """Make empty data sets in a group, by name with their types, that grow along all axes."""
    stored = _properties(chunks)
    space = h5s.create_simple((0,) * len(chunks), (h5s.UNLIMITED,) * len(chunks))
    return {
        name: h5d.create(group.id, name.encode(), _type(dtype), space, stored)
        for name, dtype in types.items()
    }


def _type(dtype: Any) -> Any:  # noqa: ANN401 - h5py has no types
    return h5t.py_create(np.dtype(dtype), logical=True)


def grow(column: Growing, first: int, values: np.ndarray) -> None:
    """Write entries from number ``first`` on; further axes become as long as in ``values``."""
    column.set_extent((first + len(values), *values.shape[1:]))
    space = column.get_space()
    space.select_hyperslab((first,) + (0,) * (values.ndim - 1), values.shape)
    column.write(h5s.create_simple(values.shape), space, np.ascontiguousarray(values))


def text_type(width: int) -> Any:  # noqa: ANN401 - h5py has no types
    """Return the type of texts as UTF-8 of a fixed width: h5py's ``asstr`` reads them."""
    return h5py.string_dtype("utf-8", width)


def write_texts(group: File, name: str, texts: Sequence[str]) -> None:
    """Write texts to a data set of their own."""
    encoded = [text.encode() for text in texts]
    width = max([1, *map(len, encoded)])
    write_array(group, name, np.array(encoded, dtype=text_type(width)))


def write_array(group: File, name: str, values: np.ndarray) -> None:
    """Write numbers to a data set of their own."""
    space = h5s.create_simple(values.shape)
    stored = _properties(values.shape if values.size else None)
    made = h5d.create(group.id, name.encode(), _type(values.dtype), space, stored)
    made.write(h5s.ALL, h5s.ALL, values)


def describe(file: File, descriptions: Mapping[str, Mapping[str, str]]) -> None:
    """Give groups and datasets, by their names, attributes that are texts."""
    text, alone = h5t.py_create(h5py.string_dtype(), logical=True), h5s.create(h5s.SCALAR)
    for part, attributes in descriptions.items():
        for name, value in attributes.items():
            made = h5a.create(file.id, name.encode(), text, alone, obj_name=part.encode())
            made.write(np.array(value.encode(), dtype=object))
