"""Kinds of rules of a group's tree: over the whole group, a leaf, or the nodes around a leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simaccel.mapping.node_text import Finding, node_text
from simaccel.mapping.walk import Site, TreeStep, TreeWalk

Located = tuple[TreeStep, str]
"""(a node that encloses a leaf, what is allowed in its place)."""


@dataclass(frozen=True)
class GroupRule:
    """A rule over all leaves of a group; ``check`` yields the findings."""

    check: Callable[[TreeWalk], Iterator[Finding]]

    def findings(self, walk: TreeWalk) -> Iterator[Finding]:
        """Yield what breaks the rule."""
        return self.check(walk)


@dataclass(frozen=True)
class LeafRule:
    """A rule of one leaf and the nodes around it; ``check`` yields what is allowed in its place."""

    check: Callable[[TreeWalk, Site], Iterator[str]]

    def findings(self, walk: TreeWalk) -> Iterator[Finding]:
        """Yield the leaves that break the rule."""
        for site in walk.sites:
            for allowed in self.check(walk, site):
                yield site.place, node_text(site.do), allowed


@dataclass(frozen=True)
class PathRule:
    """A rule of the nodes around a leaf; ``check`` yields those that break it.

    A node around several leaves is reported once.
    """

    check: Callable[[TreeWalk, Site], Iterator[Located]]

    def findings(self, walk: TreeWalk) -> Iterator[Finding]:
        """Yield the nodes that break the rule."""
        by_place: dict[str, Finding] = {}
        for site in walk.sites:
            for step, allowed in self.check(walk, site):
                by_place[step.place] = step.place, node_text(step.node), allowed
        yield from by_place.values()
