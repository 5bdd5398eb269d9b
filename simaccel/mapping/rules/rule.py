"""A rule of a group's tree, by what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simaccel.mapping.node_text import node_text
from simaccel.mapping.structure import Finding
from simaccel.mapping.walk import Site, TreeStep, TreeWalk

Located = tuple[TreeStep, str]
"""A step to a leaf, and what is allowed in its place."""


@dataclass(frozen=True)
class GroupRule:
    """A rule of leaves beside one another; ``check`` yields findings."""

    check: Callable[[TreeWalk], Iterator[Finding]]

    def findings(self, walk: TreeWalk) -> Iterator[Finding]:
        """Yield what breaks the rule."""
        return self.check(walk)


@dataclass(frozen=True)
class LeafRule:
    """A rule of a leaf with what is outside of it; ``check`` yields what is allowed instead."""

    check: Callable[[TreeWalk, Site], Iterator[str]]

    def findings(self, walk: TreeWalk) -> Iterator[Finding]:
        """Yield the leaves that break the rule."""
        for site in walk.sites:
            for allowed in self.check(walk, site):
                yield site.place, node_text(site.do), allowed


@dataclass(frozen=True)
class PathRule:
    """A rule of the nodes outside of a leaf; ``check`` yields those that break it.

    A node outside of several leaves is reported once.
    """

    check: Callable[[TreeWalk, Site], Iterator[Located]]

    def findings(self, walk: TreeWalk) -> Iterator[Finding]:
        """Yield the nodes that break the rule."""
        by_place: dict[str, Finding] = {}
        for site in walk.sites:
            for step, allowed in self.check(walk, site):
                by_place[step.place] = step.place, node_text(step.node), allowed
        yield from by_place.values()
