"""Collectives as units of data that chips hand on, over every link of every chip.

Written from the algorithms alone, not from simaccel's costs: each unit has a tree of links from
the chip that owns it to all others, through the dimensions in the order of its colour and, in each,
both ways. Going down the tree it is gathered, going up it is summed. A link takes one unit after
the other, the first that is there first; a chip hands a unit on when all of it has come.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from simaccel.hardware.collectives import Collective, LinkAxis

Chip = tuple[int, ...]
"""The place of a chip in each dimension."""
Order = tuple[int, ...]
"""Dimensions as a colour goes through them."""


@dataclass
class Transfer:
    """One unit over one link, once what it waits for has come."""

    source: Chip
    target: Chip
    awaits: int = 0
    then: list[Transfer] = field(default_factory=list)

    def follow(self, *before: Transfer) -> Transfer:
        """Let it wait for others."""
        for other in before:
            other.then.append(self)
            self.awaits += 1
        return self


def units_of(
    kind: Collective, axes: Sequence[LinkAxis], colours: Sequence[Order]
) -> Iterator[Transfer]:
    """Yield the transfers of a collective: of each piece one unit for each colour and each way."""
    chips = list(product(*(range(axis.size) for axis in axes)))
    for owner, order, way in product(chips, colours, (1, -1)):
        if kind == "all_to_all":
            for chip in chips:
                yield from _chain(_steps(owner, chip, axes, order, way))
            continue
        tree = _tree(owner, axes, order, way)
        if len(tree) != len(chips) - 1 or {child for _, child in tree} != {*chips} - {owner}:
            raise AssertionError("a chip lacks a piece, or has it twice")
        yield from _both(tree) if kind == "all_reduce" else _one(tree, up=kind != "all_gather")


def _chain(steps: Sequence[tuple[Chip, Chip]]) -> Iterator[Transfer]:
    last: list[Transfer] = []
    for source, target in steps:
        last = [Transfer(source, target).follow(*last)]
        yield last[0]


def _one(tree: Sequence[tuple[Chip, Chip]], *, up: bool) -> Iterator[Transfer]:
    """Yield the transfers of a tree; ``up``: each chip adds what comes to its own, and sends it."""
    into: dict[Chip, list[Transfer]] = {}
    for parent, child in reversed(tree) if up else tree:
        source, target = (child, parent) if up else (parent, child)
        transfer = Transfer(source, target).follow(*into.get(source, ()))
        into.setdefault(target, []).append(transfer)
        yield transfer


def _both(tree: Sequence[tuple[Chip, Chip]]) -> Iterator[Transfer]:
    """Yield transfers up a tree, then down."""
    up, down = list(_one(tree, up=True)), list(_one(tree, up=False))
    root = tree[0][0]
    summed = [transfer for transfer in up if transfer.target == root]
    for transfer in down:
        if transfer.source == root:
            transfer.follow(*summed)
    yield from (*up, *down)


def _tree(owner: Chip, axes: Sequence[LinkAxis], order: Order, way: int) -> list[tuple[Chip, Chip]]:
    """Return (parent, child) of each link of a tree, parents first."""
    reached, links = [owner], list[tuple[Chip, Chip]]()
    for number in order:
        ends = [(chip, place) for chip in reached for place in range(axes[number].size)]
        steps = dict.fromkeys(
            step
            for chip, place in ends
            for step in _steps(chip, _at(chip, number, place), axes, (number,), way)
        )
        links += steps
        reached += [child for _, child in steps]
    return links


def _at(chip: Chip, number: int, place: int) -> Chip:
    return (*chip[:number], place, *chip[number + 1 :])


def _steps(
    first: Chip, last: Chip, axes: Sequence[LinkAxis], order: Order, way: int
) -> list[tuple[Chip, Chip]]:
    """Return the links from a chip to another; ``way``: round a ring to the chip opposite."""
    steps = []
    for number in order:
        size, form = axes[number].size, axes[number].form
        while first[number] != last[number]:
            ahead = (last[number] - first[number]) % size
            if form == "all_to_all":
                place = last[number]
            elif form == "line":
                place = first[number] + (1 if last[number] > first[number] else -1)
            elif 2 * ahead == size:
                place = first[number] + way
            else:
                place = first[number] + (1 if 2 * ahead < size else -1)
            then = _at(first, number, place % size)
            steps.append((first, then))
            first = then
    return steps


def place_units(
    transfers: Sequence[Transfer], axes: Sequence[LinkAxis], first: Chip, shape: Sequence[int]
) -> list[Transfer]:
    """Return transfers as those between chips of a torus, of which a collective has a part.

    ``first``: its first chip; its chips are ``stride`` links apart, each of which is a transfer.
    """
    placed = []
    for unit in transfers:
        (at,) = (n for n, _ in enumerate(axes) if unit.source[n] != unit.target[n])
        size, stride = axes[at].size, axes[at].stride
        ahead = (unit.target[at] - unit.source[at]) % (size if size > 2 else 4) == 1
        chips = [
            tuple(f + axis.stride * n for f, axis, n in zip(first, axes, unit.source, strict=True))
        ]
        for _ in range(stride):
            place = (chips[-1][at] + (1 if ahead else -1)) % shape[at]
            chips.append(_at(chips[-1], at, place))
        unit.source, unit.target, then, unit.then = *chips[:2], unit.then, []
        way = [unit]
        for source, target in pairwise(chips[1:]):
            way.append(Transfer(source, target).follow(way[-1]))
        way[-1].then = then
        placed += way
    return placed


def over_links(transfers: Sequence[Transfer]) -> Counter[tuple[Chip, Chip]]:
    """Return the units over each link, one way."""
    return Counter((one.source, one.target) for one in transfers)


def last_arrival(transfers: Sequence[Transfer], cycles: int, hop_cycles: int) -> int:
    """Return the cycle in which the last unit has come; each takes so many cycles of a link."""
    free: Counter[tuple[Chip, Chip]] = Counter()
    ready = [
        (0, number, transfer) for number, transfer in enumerate(transfers) if not transfer.awaits
    ]
    heapq.heapify(ready)
    number, latest = len(transfers), 0
    while ready:
        now, _, transfer = heapq.heappop(ready)
        link = transfer.source, transfer.target
        if free[link] > now:  # in use: again when that is through
            heapq.heappush(ready, (free[link], number, transfer))
            number += 1
            continue
        free[link] = now + cycles
        latest = max(latest, there := now + cycles + hop_cycles)
        for following in transfer.then:
            following.awaits -= 1
            if not following.awaits:
                heapq.heappush(ready, (there, number, following))
                number += 1
    return latest
