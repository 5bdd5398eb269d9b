"""The header of a trace and its figures: read, checked, and parsed into the objects of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import h5py
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from simaccel.errors import InputError, SimaccelError
from simaccel.files.documents import parse_document
from simaccel.files.schema import faults_of
from simaccel.files.targets import PARTIAL
from simaccel.hardware import Accelerator
from simaccel.trace.guard import TraceError, damaged_error, read_superblock
from simaccel.trace.schema import SCHEMA_VERSION, TEXTS, CommandSite, TraceHeader
from simaccel.trace.store import File, Parts

if TYPE_CHECKING:
    from simaccel.mapping.tree import Mapping
    from simaccel.program.program import Program
    from simaccel.workload import Workload


@contextmanager
def open_file(path: Path) -> Iterator[File]:
    """Open a file for the ``with`` block; also a partial one that a killed writer left.

    Raises:
        TraceError: it is no HDF5 file, or it is truncated.
    """
    read_superblock(path)
    partial = path.suffix == PARTIAL
    with h5py.File(path, "r", swmr=partial, rdcc_nbytes=0) as file:  # chunks are read once
        yield file


def read_texts(dataset: Any) -> list[str]:  # noqa: ANN401 - h5py has no types
    """Return the texts of a dataset."""
    return [str(text) for text in dataset.asstr()[:]]


def read_header(seed: int, code: str, parts: Parts) -> TraceHeader:
    """Return the texts from which the run can be reproduced."""
    places = map(
        CommandSite, read_texts(parts["sites/operator"]), read_texts(parts["sites/command"])
    )
    return TraceHeader(
        **{name: read_texts(parts[f"header/{name}"])[0] for name in TEXTS},
        code=code,
        seed=seed,
        sites=dict(zip(parts["sites/site"][:].tolist(), places, strict=True)),
    )


_OLD_DRAM = ("turn_cycles", "max_outstanding")
"""Fields of the DRAM in schema 2 that exist no more."""


class RunRecord:
    """The accelerator, workload, mapping and program of a run, parsed from its header's texts."""

    path: Path
    header: TraceHeader
    schema_version: int

    def accelerator(self) -> Accelerator:
        """Parse the accelerator of the run.

        Raises:
            TraceError: the header lacks it or it is damaged; so for all methods here.
        """
        with self._parsing("accelerator"):
            raw = dict(parse_document(self.header.accelerator))
            if self.schema_version < SCHEMA_VERSION:
                raw["dram"] = {n: v for n, v in raw["dram"].items() if n not in _OLD_DRAM}
            return Accelerator.model_validate(raw)

    def workload(self) -> Workload:
        """Parse the workload of the run.

        Older files have only the document that it was built from, so it is built again. If the
        file has a mapping, the fingerprints have to agree (else ``TraceError``).
        """
        from simaccel.workload import parse_workload  # noqa: PLC0415 - few need it

        with self._parsing("workload"):
            workload = parse_workload(parse_document(self.header.workload), str(self.path))
        if self.header.mapping:
            with self._parsing("mapping"):
                mapping = dict(parse_document(self.header.mapping))
                wanted = str(mapping["workload"]["fingerprint"])
            with self._parsing("workload"):
                if wanted not in ("", workload.fingerprint):
                    raise ValueError(f"its fingerprint is {workload.fingerprint}, not {wanted}")
        return workload

    def mapping(self) -> Mapping:
        """Parse the mapping of the run."""
        from simaccel.mapping.documents import parse_mapping  # noqa: PLC0415 - few need it

        self._require_present()
        with self._parsing("mapping"):
            return parse_mapping(parse_document(self.header.mapping), str(self.path))

    def dataflow(self) -> str:
        """Return the name of the dataflow, which is read even if the mapping can't be parsed."""
        with self._parsing("mapping"):
            return str(dict(parse_document(self.header.mapping))["dataflow"])

    def program(self) -> Program:
        """Parse the program of the run."""
        from simaccel.program.text import parse_program  # noqa: PLC0415 - few need it

        self._require_present()
        with self._parsing("program"):
            return parse_program(self.header.program)

    def unreadable(self) -> str:
        """Return the reason why mapping and program can't be parsed; empty if they can."""
        if self.schema_version == SCHEMA_VERSION:
            return ""
        return f"mapping and program are in the language of schema version {self.schema_version}"

    def _require_present(self) -> None:
        """Refuse mapping and program of older versions, which have another form."""
        if missing := self.unreadable():
            allowed = f"schema version {SCHEMA_VERSION}; run it again"
            raise TraceError(self.path, f"can't be read whole: {missing}", allowed)

    @contextmanager
    def _parsing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError, SimaccelError) as error:
            first, *_ = str(error).splitlines()
            raise damaged_error(self.path, f"its {what} can't be read: {first}") from None


_MOST: Final = 2**60
"""More bytes, MACs or cycles than any run has; sums of a few still fit 64 bits."""

Count = Annotated[int, Field(ge=0, le=_MOST)]
Share = Annotated[float, Field(allow_inf_nan=False)]


class _PartFigures(BaseModel):
    """Figures that a run and each of its operators have; bytes by memory, direction and tensor."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    cycles: Count | None = None
    macs: Count | None = None
    utilisation: Share | None = None
    bytes: dict[str, dict[str, dict[str, Count]]] | None = None

    @model_validator(mode="after")
    def _check_dram(self) -> _PartFigures:
        if self.bytes and self.bytes.get("dram", {}).keys() not in (set(), {"read", "write"}):
            raise ValueError("what the DRAM read and what it wrote")
        return self


class _OperatorFigures(_PartFigures):
    name: str


class _Figures(_PartFigures):
    workload: str | None = None
    accelerator: str | None = None
    dataflow: str | None = None
    dram_by_class: dict[str, Count] | None = None
    operators: list[_OperatorFigures] = []


def read_figures(path: Path, data: bytes, cycles: int) -> dict[str, Any]:
    """Return a run's figures from their JSON text; ``cycles`` is the length of the trace.

    Raises:
        TraceError: it is no JSON object, a figure has the wrong type, or the cycles differ.
    """
    try:
        figures = json.loads(data)
        _Figures.model_validate(figures)
    except ValidationError as error:
        first = InputError(faults_of(error, "header/figures", figures)[:1])
        raise damaged_error(path, str(first)) from None
    except (ValueError, RecursionError) as error:
        raise damaged_error(path, f"header/figures is no JSON: {error}") from None
    document: dict[str, Any] = figures
    if document.get("cycles", cycles) != cycles:
        raise damaged_error(
            path, f"header/figures is of {document['cycles']} cycles, the run has {cycles}"
        )
    return document
