"""The base of all hardware specs: frozen, keyword-only, valid at construction, with a source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError


class Spec(BaseModel):
    """One unit of an accelerator: a section of ``hwconfigs/*.yaml``."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    REPLACED: ClassVar[Mapping[str, str]] = {}
    """Former fields, and their replacements."""
    OMITTED: ClassVar[Collection[str]] = ()
    """Fields that a document leaves out at their defaults, as it does all whose default is None."""
    WRITTEN: ClassVar[Collection[str]] = ()
    """Fields that a document has though their default is None, which is unlimited."""

    source: str = ""
    """The source of this section's figures."""

    @property
    def absent(self) -> set[str]:
        """The fields that are not set; a document leaves them out."""
        return {
            name
            for name, field in type(self).model_fields.items()
            if name in self.OMITTED or (field.default is None and name not in self.WRITTEN)
            if getattr(self, name) == field.get_default(call_default_factory=True)
        }

    def _impossible(self) -> Iterator[tuple[str, str]]:
        """Yield impossible fields (paths such as ``noc.shape``), each with its allowed values.

        Of a field that must not be left out, these may be empty: those of its type.
        """
        return iter(())

    @model_serializer(mode="wrap")
    def _without_absent(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = dump(self)
        absent = self.absent
        return {name: value for name, value in found.items() if name not in absent}

    @model_validator(mode="after")
    def _require_possible(self) -> Self:
        details = []
        for field, allowed in self._impossible():
            error = PydanticCustomError("impossible", "{allowed}", {"allowed": allowed})
            path, value = tuple(field.split(".")), self
            for name in path:
                holder, value = value, getattr(value, name)
            if isinstance(value, tuple | Spec):  # as a file has it: chips are 4x4, not [4, 4]
                value = holder.model_dump()[name]
            kind = error if allowed else "missing"
            details.append(InitErrorDetails(type=kind, loc=path, input=value))
        if details:
            raise ValidationError.from_exception_data(type(self).__name__, details)
        return self


Kind = TypeVar("Kind", bound=Spec)


def copy_spec(spec: Spec, kind: type[Kind], **fields: object) -> Kind:
    """Return a copy of a spec as another class (``kind``) with other values of some ``fields``.

    ``kind``: its own class, or a subclass with other costs. Cached rates are not copied, which
    ``model_copy`` would do.
    """
    own = {name: getattr(spec, name) for name in type(spec).model_fields}
    return kind.model_validate(own | fields)
