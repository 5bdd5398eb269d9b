"""The reading of a Hugging Face configuration: values, and the account of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simaccel.errors import ABSENT, Fault, suggest
from simaccel.files.accounting import AccountEntry
from simaccel.workload.language.model import Activation

ACTIVATIONS: Final[Mapping[str, Activation]] = {
    **dict.fromkeys(("silu", "swish"), "silu"),
    **dict.fromkeys(("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu"), "gelu"),
    "relu": "relu",
}
"""Activations of feed-forward networks by their names in files."""
PART: Final = "part"
"""The kind of account entries for parts of a model outside of its blocks."""


@dataclass
class Configuration:
    """A configuration that is being read: the keys that were taken, and those that are missing.

    ``usual`` are the defaults of its family, used if it is ``inside`` of another configuration,
    whose files leave them out. ``left`` are the parts of its family that are not taken.
    """

    file: str
    given: Mapping[str, Any]
    usual: Mapping[str, Any] = field(default_factory=dict)
    inside: bool = False
    taken: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    left: list[AccountEntry] = field(default_factory=list)

    def get(self, *names: str, default: object = ABSENT) -> Any:  # noqa: ANN401 - plain data
        """Return the value of the first name that is present; without any, note a fault."""
        self.taken.update(names)
        for name in names:
            if self.given.get(name) is not None:
                return self.given[name]
        absent = [name for name in names if name in self.usual and name not in self.given]
        if absent and (self.inside or default is not ABSENT):
            return self.usual[absent[0]]
        if default is ABSENT:
            self.faults.append(Fault(self.file, names[0], ABSENT, "a whole number from 1"))
            return 1
        return default

    def size(self, *names: str, default: object = ABSENT) -> int:
        """Return a whole number."""
        found = self.get(*names, default=default)
        if type(found) is int:
            return found
        self.faults.append(Fault(self.file, names[0], found, "a whole number"))
        return 1

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        given = self.get(name, default=default)
        if type(given) is bool:
            return given
        self.faults.append(Fault(self.file, name, given, "true or false"))
        return default

    def activation(self, *names: str, default: str) -> Activation:
        """Return the activation of the feed-forward network."""
        found = str(self.get(*names, default=default))
        if found in ACTIVATIONS:
            return ACTIVATIONS[found]
        self.faults.append(Fault(self.file, names[0], found, suggest(found, ACTIVATIONS)))
        return "gelu"

    def leave(self, name: str, why: str, kind: str = "key") -> None:
        """Note a part of the model that is not taken; the work of a ``PART`` can't be counted."""
        self.taken.add(name)
        macs = 0 if kind == "key" else None
        self.left.append(AccountEntry(name, "not taken", why, kind, macs))
