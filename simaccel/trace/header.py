"""What a trace says of itself and of the run: read, refused, and parsed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import h5py

from simaccel.errors import InputError
from simaccel.files.documents import parse_document
from simaccel.hardware import Accelerator
from simaccel.mapping.choices import Mapping
from simaccel.program.program import Program, ProgramError
from simaccel.program.text import parse_program
from simaccel.trace.rows import damaged
from simaccel.trace.schema import FORMAT, SCHEMA_VERSION, TEXTS, Site, TraceError, TraceHeader
from simaccel.trace.store import File
from simaccel.workload import Workload, parse_workload

_SUPERBLOCK_BYTES, _VERSION_AT, _FLAGS_AT, _END_AT = 48, 8, 11, 28
_VERSION: Final = 3
"""Of the HDF5 file format's superblock: where this version keeps flags and the file's end."""


def open_file(path: Path) -> File:
    """Open a file, also one that its writer has not closed because it was killed.

    Such a file can only be opened as one that is still being written, which makes HDF5 try again
    and again where data are missing: first see that they are there.

    Raises:
        TraceError: it is no HDF5 file, or cut off.

    """
    if not h5py.is_hdf5(path):
        raise TraceError(path, "is not an HDF5 file", "a trace file")
    with path.open("rb") as stream:
        superblock = stream.read(_SUPERBLOCK_BYTES)
    ours = superblock[_VERSION_AT] == _VERSION
    still_open = ours and bool(superblock[_FLAGS_AT])
    end = int.from_bytes(superblock[_END_AT : _END_AT + 8], "little") if ours else 0
    if path.stat().st_size < end:
        raise damaged(path, f"{path.stat().st_size} of {end} bytes")
    return h5py.File(path, "r", swmr=still_open)


def require_trace(path: Path, attributes: Any) -> None:  # noqa: ANN401 - h5py has no types
    """Refuse other files and other versions."""
    if attributes.get("format") != FORMAT or "schema_version" not in attributes:
        raise TraceError(path, "is an HDF5 file but no trace", "a trace file")
    version = attributes["schema_version"]
    if version != SCHEMA_VERSION:
        age = "a newer" if version > SCHEMA_VERSION else "an older"
        problem = f"has schema version {version}, of {age} simaccel"
        raise TraceError(path, problem, f"schema version {SCHEMA_VERSION}")


def read_texts(dataset: Any) -> list[str]:  # noqa: ANN401 - h5py has no types
    """Give the texts of a dataset."""
    return [str(text) for text in dataset.asstr()[:]]


def read_header(file: File) -> TraceHeader:
    """Give what reproduces the run."""
    sites = file["sites"]
    places = map(Site, read_texts(sites["operator"]), read_texts(sites["command"]))
    return TraceHeader(
        **{name: read_texts(file["header"][name])[0] for name in TEXTS},
        seed=int(file.attrs["seed"]),
        sites=dict(zip(sites["site"][:].tolist(), places, strict=True)),
    )


class Reproduction:
    """The objects of the run, parsed from the texts of a header."""

    path: Path
    header: TraceHeader

    def accelerator(self) -> Accelerator:
        """Load the accelerator of the run.

        Raises:
            TraceError: the header does not hold one; so for ``workload`` and the others.

        """
        with self._parsing("accelerator"):
            return Accelerator.model_validate(parse_document(self.header.accelerator))

    def workload(self) -> Workload:
        """Load the workload of the run."""
        with self._parsing("workload"):
            return parse_workload(parse_document(self.header.workload), str(self.path))

    def mapping(self) -> Mapping:
        """Load the mapping of the run."""
        with self._parsing("mapping"):
            return Mapping.model_validate(parse_document(self.header.mapping))

    def program(self) -> Program:
        """Parse the program of the run."""
        with self._parsing("program"):
            return parse_program(self.header.program)

    @contextmanager
    def _parsing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, InputError, ProgramError) as error:
            first, *_ = str(error).splitlines()
            raise damaged(self.path, f"its {what} can't be read: {first}") from None
