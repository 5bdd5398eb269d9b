"""The run's figures in a trace, with the types that reports rely on checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from simaccel.errors import InputError
from simaccel.files.schema import faults_of
from simaccel.trace.guard import damaged_error

_MOST: Final = 2**60
"""More bytes, MACs or cycles than any run has; sums of a few still fit 64 bits."""

Count = Annotated[int, Field(ge=0, le=_MOST)]
Share = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    cycles: Count | None = None
    macs: Count | None = None
    utilisation: Share | None = None
    bytes: dict[str, dict[str, dict[str, Count]]] | None = None

    @model_validator(mode="after")
    def _check_dram(self) -> _Part:
        if self.bytes and self.bytes.get("dram", {}).keys() not in (set(), {"read", "write"}):
            raise ValueError("what the DRAM read and what it wrote")
        return self


class _Operator(_Part):
    name: str


class _Figures(_Part):
    workload: str | None = None
    accelerator: str | None = None
    dataflow: str | None = None
    operators: list[_Operator] = []


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
