"""A lane's whole run as a small tree: rows, and bodies that happen several times.

This is what the page holds. Only lengths are kept, no start cycles: the rows of a lane tile the
run, so where a row starts is the sum of what stands before it. A body is kept once, however
often it happens, so the tree grows with the stored rows and never with the cycles of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simaccel.trace.schema import KEY, Cycles, Events
from simaccel.trace.track import Chain, Leaf, Node, Repeat

Activity = tuple[int, ...]
"""Numbers of cause, waited-for tile, kind and engine, and site; of a tile's row also its bytes."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a lane one after the other."""

    lengths: Cycles
    """Cycles of each row."""
    activities: Cycles
    """What happens in each row: numbers in ``Activities``."""
    amounts: Cycles
    """Cycles of service in each row of a channel; bytes held in each row of a tile; 0 else."""

    @property
    def cycles(self) -> int:
        """Cycles of all rows."""
        return int(self.lengths.sum())


@dataclass(frozen=True, eq=False)
class Again:
    """A body that happens ``times`` times in a row, ``times`` > 1."""

    times: int
    body: Sequence[Rows | Again]

    @property
    def cycles(self) -> int:
        """Cycles of all repetitions."""
        return self.times * cycles_of(self.body)


Tree = Sequence[Rows | Again]


def cycles_of(tree: Tree) -> int:
    """Length of a stretch in cycles."""
    return sum(node.cycles for node in tree)


class Activities:
    """Activities by number: each different one is kept once for all lanes."""

    def __init__(self) -> None:
        self._numbers: dict[Activity, int] = {}

    def __iter__(self) -> Iterator[Activity]:
        return iter(self._numbers)

    def number(self, rows: Events, extra: Cycles | None = None) -> Cycles:
        """Give the number of each row's activity; ``extra`` also tells activities apart."""
        columns = [rows[name].astype(np.int64) for name in KEY]
        keys = np.stack([*columns, *([] if extra is None else [extra])], axis=1)
        found, back = np.unique(keys, axis=0, return_inverse=True)
        known = self._numbers
        numbers = [known.setdefault(tuple(key), len(known)) for key in found.tolist()]
        return np.array(numbers, dtype=np.int64)[back.reshape(-1)]


def lane_tree(track: Chain, activities: Activities, *, with_amounts: bool, holds: bool) -> Tree:
    """Turn a track of a trace into the page's tree.

    ``holds`` says that an amount is what the lane holds (the bytes of a tile), so that rows of
    different amounts are different activities.
    """

    def rows_of(leaf: Leaf) -> Rows:
        rows = leaf.rows
        amounts = rows["amount"] if with_amounts else np.zeros(len(rows), dtype=np.int64)
        numbers = activities.number(rows, amounts if holds else None)
        return Rows(rows["end"] - rows["start"], numbers, amounts)

    def nodes_of(node: Node) -> Iterator[Rows | Again]:
        if isinstance(node, Leaf):
            yield rows_of(node)
        elif isinstance(node, Repeat):
            yield Again(node.times + 1, list(nodes_of(node.body)))
        elif isinstance(node, Chain):
            for inner in node.nodes:
                yield from nodes_of(inner)

    return list(nodes_of(track))
