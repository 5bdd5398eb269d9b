"""Published workloads and parts: YAML files in `simaccel/catalogue`, in the form of a user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, overload

from simaccel.errors import Fault, InputError, suggest
from simaccel.files.documents import parse_document

FOLDER: Final = Path(__file__).parents[1] / "catalogue"
_LAYERS: Final = "\nlayers:\n"
"""What stands before the layers of a network, one a line; names stand above it."""


class PublishedEntry(Protocol):
    """A published workload or part: its name, and where its figures stand."""

    @property
    def name(self) -> str:
        """The name of its file."""

    @property
    def source(self) -> str:
        """The publication of its sizes."""


PublishedT = TypeVar("PublishedT", bound=PublishedEntry)


class Catalogue(Sequence[PublishedT]):
    """The entries of one folder of the catalogue, in the order of their names; files are read once.

    ``parse`` makes an entry of its document.
    """

    def __init__(
        self, folder: str, parse: Callable[[Mapping[str, Any]], PublishedT], root: Path = FOLDER
    ) -> None:
        """Take a folder of the catalogue."""
        self.folder = root / folder
        self._parse = parse
        self._read: dict[str, PublishedT] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names without aliases, in order."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.yaml")))

    @cached_property
    def names_and_aliases(self) -> Mapping[str, str]:
        """The name of each workload by it and by its aliases."""
        aliases: dict[str, str] = {}
        for name in self.names:
            head = parse_document(self._text(name).partition(_LAYERS)[0])
            aliases |= dict.fromkeys((name, *head.get("aliases", ())), name)
        return aliases

    def has(self, name: str) -> bool:
        """Return whether a workload has this name or alias, in any case."""
        key = name.lower()
        return key in self.names or key in self.names_and_aliases

    def find(self, name: str) -> PublishedT:
        """Return the workload of this name or alias, in any case.

        Raises:
            InputError: there is none; says which is meant, or which there are.

        """
        key = str(name) if name in self.names else str(name).lower()
        if key in self.names:
            return self._load(key)
        if key in self.names_and_aliases:
            return self._load(self.names_and_aliases[key])
        allowed = suggest(key, self.names_and_aliases)
        if not allowed.startswith("did"):
            allowed = suggest("", self.names)
        raise InputError([Fault("workload", "model", name, allowed)])

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> PublishedT: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PublishedT]: ...

    def __getitem__(self, index: int | slice) -> PublishedT | Sequence[PublishedT]:
        """Return the workload at a place, or those of a slice."""
        if isinstance(index, slice):
            return [self._load(name) for name in self.names[index]]
        return self._load(self.names[index])

    def __iter__(self) -> Iterator[PublishedT]:
        """Go over the workloads in the order of their names."""
        return map(self._load, self.names)

    def _text(self, name: str) -> str:
        return (self.folder / f"{name}.yaml").read_text(encoding="utf-8")

    def _load(self, name: str) -> PublishedT:
        if name not in self._read:
            self._read[name] = self._parse(parse_document(self._text(name)))
        return self._read[name]
