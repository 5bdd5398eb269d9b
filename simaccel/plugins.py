"""Plug-ins: what other installed packages add to simaccel, found by their entry points.

    [project.entry-points."simaccel.dataflows"]
    whole = "my_package:whole"

The name of the entry point is the name that users write, or the ending of their files. Entry
points are looked for only where a name is none of simaccel's own, or where all names are shown; a
module of a plug-in is imported only where its name is used. So a broken plug-in only affects those
who use it.

Guests that come with simaccel (`papers`) are found the same way, before what is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from simaccel.errors import SimaccelError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Thing = TypeVar("Thing")
GROUPS: Final = {
    "simaccel.dataflows": "dataflow",
    "simaccel.workloads": "workload",
    "simaccel.accelerators": "accelerator",
    "simaccel.vector_operators": "vector operator",
    "simaccel.workload_files": "reader of files",
    "simaccel.commands": "command",
    "simaccel.functions": "function",
    "simaccel.axes": "axis of a design space of its own",
    "simaccel.dram_bounds": "bound of DRAM bytes",
    "simaccel.exhibits": "exhibit",
}
"""The groups of entry points, and what one of each is."""
_GUESTS: Final = Path(__file__).with_name("papers")
"""The folder with the `entry_points.txt` of simaccel's own guests."""


class PluginError(SimaccelError):
    """A plug-in that can't be used; the message names it and the package that it comes from."""


@dataclass(frozen=True)
class Plugin:
    """One entry point: ``target`` is what it names (``module:attribute``)."""

    group: str
    name: str
    package: str
    target: str
    load: Callable[[], Any]

    def __str__(self) -> str:
        return f"{GROUPS[self.group]} {self.name!r} of the plug-in {self.package} ({self.target})"

    def error(self, problem: str) -> PluginError:
        """Return an error that names the plug-in."""
        return PluginError(f"{self}: {problem}")

    @contextmanager
    def running(self, what: str, *passing: type[BaseException]) -> Iterator[None]:
        """Name the plug-in in whatever its code raises, apart from errors of simaccel.

        Exceptions of the types ``passing`` are left as they are.

        Raises:
            PluginError: the code failed; its own exception is the cause.
        """
        try:
            yield
        except BaseException as error:  # whatever foreign code raises, SystemExit among it
            own = isinstance(error, SimaccelError) and type(error).__module__.startswith(
                "simaccel."
            )
            if own or isinstance(error, (KeyboardInterrupt, *passing)):
                raise
            raise self.error(f"{what} failed: {type(error).__name__}: {error}") from error


def plugins(group: str) -> dict[str, tuple[Plugin, ...]]:
    """Return the plug-ins of a group by name, those of one name in several packages together."""
    return _scan_group(group, tuple(sys.path)) if group else {}


@lru_cache
def _scan_group(group: str, _path: tuple[str, ...]) -> dict[str, tuple[Plugin, ...]]:
    from importlib.metadata import Distribution  # noqa: PLC0415 - as slow as numpy

    found: dict[str, tuple[Plugin, ...]] = {}
    for one in sorted(_points(group), key=lambda one: (one.name, one.value)):
        package = f"{one.dist.name} {one.dist.version}" if one.dist else "an unnamed package"
        plugin = Plugin(group, one.name, package, one.value, one.load)
        found[one.name] = (*found.get(one.name, ()), plugin)
    guests = Distribution.at(_GUESTS).entry_points.select(group=group)
    return found | {
        each.name: (Plugin(group, each.name, "simaccel", each.value, each.load),) for each in guests
    }


def _points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group, without those of packages whose metadata is damaged."""
    from importlib.metadata import distributions, entry_points  # noqa: PLC0415 - as slow as numpy

    try:
        return entry_points(group=group)
    except Exception:  # noqa: BLE001 - of some package, which need not be a plug-in at all
        points: list[EntryPoint] = []
        for one in distributions():
            with suppress(Exception):
                points += one.entry_points.select(group=group)
        return points


def plugin(group: str, name: str) -> Plugin | None:
    """Return the plug-in of a name, None if there is none.

    Raises:
        PluginError: several packages have one of this name.
    """
    named = plugins(group).get(name, ())
    if len(named) > 1:
        packages = ", ".join(each.package for each in named)
        what = f"{GROUPS[group]} {name!r}"
        raise PluginError(f"{what} is in several plug-ins: {packages}; uninstall all but one")
    return named[0] if named else None


class Registry(MutableMapping[str, Thing], Generic[Thing]):
    """Objects by name: simaccel's ``own``, then those of plug-ins (a group of entry points).

    ``accept`` converts the object that an entry point loads, and raises ``plugin.error`` if it has
    the wrong type. simaccel's own names can't be overridden.
    """

    def __init__(
        self, group: str, own: Mapping[str, Thing], accept: Callable[[Plugin, object], Thing]
    ) -> None:
        self.group = group
        self.own = dict(own)
        self._accept = accept
        self._loaded: dict[Plugin, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        if name in self.own:
            return self.own[name]
        found = plugin(self.group, name)
        if found is None:
            raise KeyError(name)
        if found not in self._loaded:
            with found.running("loading"):
                self._loaded[found] = self._accept(found, found.load())
        return self._loaded[found]

    def __setitem__(self, name: str, thing: Thing) -> None:
        self.own[name] = thing

    def __delitem__(self, name: str) -> None:
        del self.own[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in plugins(self.group)

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self.plugin_names()

    def __len__(self) -> int:
        return len(self.own) + len(self.plugin_names())

    @contextmanager
    def running(self, name: str, what: str) -> Iterator[None]:
        """Name the plug-in in whatever its code raises, if the name is of one."""
        found = None if name in self.own else plugin(self.group, name)
        with nullcontext() if found is None else found.running(what):
            yield

    def plugin_names(self) -> dict[str, str]:
        """Return the names of plug-ins that simaccel's own don't hide, and their packages."""
        found = plugins(self.group)
        return {
            name: ", ".join(one.package for one in ones)
            for name, ones in found.items()
            if name not in self.own
        }
