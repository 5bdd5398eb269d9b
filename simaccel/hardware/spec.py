"""The base of all hardware specs: frozen, keyword-only, valid at birth, with their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """One unit of an accelerator as a section of ``hwconfigs/*.yaml`` describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    REPLACED: ClassVar[Mapping[str, str]] = {}
    """Fields of before, and what stands in their place."""

    source: str = ""
    """Where the figures of this section come from."""
