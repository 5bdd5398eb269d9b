"""Tiles of the buffer that one tile of PEs comes from: free when the last of that has been brought.

The NoC brings tiles as far ahead as they have slots in PEs. A tile of the buffer that nothing else
reads is let go when the NoC has brought the last part of it, and not when that has been used.
"""

from __future__ import annotations

from collections.abc import Iterator

from simaccel.analytic.bodies import Bodies, Tiled
from simaccel.analytic.pointwise import anywhere, without
from simaccel.mapping.tree import BUFFER

Supply = dict[int, list[Tiled]]
"""Tiles of the buffer that a tile of PEs comes from, one for each body in which it may live."""


def supply(top: Bodies) -> Supply:
    """Return the tiles of the buffer of each tile of PEs (by its key) that comes ahead."""
    found: Supply = {}
    others: set[int] = set()
    for body in bodies_of(top):
        for tiled in body.tiles:
            if not tiled.read or tiled.stores or tiled.level != BUFFER:
                continue
            keys, every = _users(body, tiled)
            if len(keys) == 1 and every is not None:
                found.setdefault(keys.pop(), []).append(tiled)
                tiled.far = max(tiled.far, tiled.most + max(one.most for one in every))
            else:
                others |= keys
    return {key: tiles for key, tiles in found.items() if key not in others}


def sums_ahead(top: Bodies) -> set[int]:
    """Return the keys of sums in PEs that come back as soon as they have a slot.

    Those whose tile in the buffer stays there until all that is added to it has been.
    """
    every = list(bodies_of(top))
    if any(body.ahead or body.shares for body in every):
        return set()
    tiles = [tiled for body in every for tiled in body.tiles]
    go = {tiled.key for tiled in tiles if tiled.level == BUFFER and tiled.may_spill}
    sums = {one.key for one in tiles if one.maker is not None and one.outside is not None}
    other = {one.key for one in tiles if not one.may_spill or one.outside in go}
    return sums - other


def bodies_of(body: Bodies) -> Iterator[Bodies]:
    """Yield a body and all below it."""
    yield body
    for item in body.items:
        if isinstance(item, Bodies):
            yield from bodies_of(item)


def _users(body: Bodies, source: Tiled) -> tuple[set[int], list[Tiled] | None]:
    """Return the keys of what comes from a tile, and the tiles; None if they don't come ahead."""
    tiles = [one for inside in bodies_of(body) for one in inside.tiles if one.outside == source.key]
    keys = {one.key for one in tiles}
    left = source.own
    for one in tiles:
        left = left & without(one.own)
    alone = not anywhere(left) and all(one.maker is None for one in tiles)
    for inside in bodies_of(body):
        below = [one for one in tiles if any(one in more.tiles for more in bodies_of(inside))]
        if below and (inside.ahead or inside.shares):
            alone = False
    alone = alone and not any(source.key in work.keys for work in body.works)
    return keys, tiles if alone else None
