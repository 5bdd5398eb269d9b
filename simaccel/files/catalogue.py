"""Published workloads and parts: YAML files in `simaccel/catalogue`, in the form of user files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from simaccel.errors import Fault, InputError, suggest
from simaccel.files.documents import parse_document

FOLDER: Final = Path(__file__).parents[1] / "catalogue"
_LAYERS: Final = "\nlayers:\n"
"""The line before the layers of a network; looking up aliases parses only what is above it."""
PublishedT = TypeVar("PublishedT")


class Catalogue(Mapping[str, PublishedT]):
    """The entries of one folder of the catalogue by name, in order; each file is read once.

    ``parse``: function from a document to its entry.
    """

    def __init__(
        self, folder: str, parse: Callable[[Mapping[str, Any]], PublishedT], root: Path = FOLDER
    ) -> None:
        """Open a folder of the catalogue."""
        self.folder = root / folder
        self._parse = parse
        self._read: dict[str, PublishedT] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names without aliases, in order."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.yaml")))

    @cached_property
    def names_and_aliases(self) -> Mapping[str, str]:
        """The name of each entry, by name and by alias."""
        aliases: dict[str, str] = {}
        for name in self.names:
            head = parse_document(self._text(name).partition(_LAYERS)[0])
            aliases |= dict.fromkeys((name, *head.get("aliases", ())), name)
        return aliases

    def has(self, name: str) -> bool:
        """Return whether an entry has this name or alias, in upper or lower case."""
        key = name.lower()
        return key in self.names or key in self.names_and_aliases

    def find(self, name: str) -> PublishedT:
        """Return the entry of this name or alias, in upper or lower case.

        Raises:
            InputError: there is none; the message suggests one, or lists them.
        """
        key = str(name) if name in self.names else str(name).lower()
        if key in self.names:
            return self[key]
        if key in self.names_and_aliases:
            return self[self.names_and_aliases[key]]
        allowed = suggest(key, self.names_and_aliases, self.names)
        raise InputError([Fault("workload", "model", name, allowed)])

    def __getitem__(self, name: str) -> PublishedT:
        """Return the entry of a name."""
        if name not in self.names:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = self._parse(parse_document(self._text(name)))
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        """Return whether an entry has this name; its file is not read."""
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        """Yield the names in order."""
        return iter(self.names)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.names)

    def _text(self, name: str) -> str:
        return (self.folder / f"{name}.yaml").read_text(encoding="utf-8")
