"""Collectives as messages between chips, with what is in each: who sends which piece to whom.

Written from the algorithms' papers (`simaccel.hardware.chips`), not from simaccel's costs. A piece
is in two halves, as a ring of an even number of chips gets the last piece from both sides. What a
chip has is followed: a collective that leaves out or adds twice is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from simaccel.hardware.chips import ChipPod, Collective

HALVES = (0, 1)
Item = tuple[int, int, int]
"""A piece: whose it is, which half, and (all-to-all) whom it is for."""


@dataclass(frozen=True)
class Message:
    """Bytes from one chip of a group to another, over the link between them."""

    source: int
    target: int
    n_bytes: int
    items: tuple[Item, ...] = ()


Step = list[Message]


def steps_of(
    kind: Collective, n_bytes: int, rings: Sequence[int], spec: ChipPod
) -> Iterator[tuple[int, Step]]:
    """Yield for each step the ring (its place in ``rings``) and its messages, by place on it.

    ``n_bytes``: of the tensor where a chip has most of it; of an all-to-all what each chip has.
    """
    if kind == "point_to_point":
        yield 0, [Message(i, (i + 1) % rings[0], n_bytes) for i in range(rings[0])]
    elif kind == "all_to_all":
        for at, size in enumerate(rings):
            yield from ((at, step) for step in _swapped(size, -(-n_bytes // size), spec))
    else:
        gathered = list(_gathered_on_rings(n_bytes, rings, spec))
        scattered = [(at, list(_backwards(steps))) for at, steps in gathered]
        phases = {"reduce_scatter": scattered, "all_gather": gathered[::-1]}
        phases["all_reduce"] = scattered + gathered[::-1]
        yield from ((at, step) for at, steps in phases[kind] for step in steps)


def _gathered_on_rings(
    n_bytes: int, rings: Sequence[int], spec: ChipPod
) -> Iterator[tuple[int, list[Step]]]:
    """Yield the all-gather on each ring; the one on the last ring is done first."""
    for at, size in enumerate(rings):
        n_bytes = -(-n_bytes // size)
        yield at, _gathered(size, n_bytes, spec)


def _backwards(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps of a reduce-scatter: each message of an all-gather goes back, last first."""
    for step in reversed(steps):
        yield [Message(one.target, one.source, one.n_bytes, one.items) for one in step]


def _half(piece: int, half: int) -> int:
    return piece // 2 if half else piece - piece // 2


def _whole(owner: int, target: int = 0) -> tuple[Item, ...]:
    return tuple((owner, half, target) for half in HALVES)


def _gathered(n: int, piece: int, spec: ChipPod) -> list[Step]:
    """Return the steps of an all-gather on one ring; all that is sent is proved to arrive."""
    way = "direct" if n == 2 else spec.links.runs
    steps = list(_GATHERS[way](n, piece)) if n > 1 else []
    _require_gathered(n, steps)
    _require_reduced(n, steps)
    return steps


def _to_all(n: int, piece: int) -> Iterator[Step]:
    yield [Message(i, j, piece, _whole(i)) for i in range(n) for j in range(n) if i != j]


def _one_way(n: int, piece: int) -> Iterator[Step]:
    for s in range(n - 1):
        yield [Message(i, (i + 1) % n, piece, _whole((i - s) % n)) for i in range(n)]


def _doubling(n: int, piece: int) -> Iterator[Step]:
    for bit in range((n - 1).bit_length()):
        size = 1 << bit
        known = [
            tuple(item for k in range(size) for item in _whole(i // size * size + k))
            for i in range(n)
        ]
        yield [Message(i, i ^ size, piece * size, known[i]) for i in range(n)]


def _both_ways(n: int, piece: int) -> Iterator[Step]:
    far = (n - 1) // 2
    for s in range(far):
        right = [Message(i, (i + 1) % n, piece, _whole((i - s) % n)) for i in range(n)]
        left = [Message(i, (i - 1) % n, piece, _whole((i + s) % n)) for i in range(n)]
        yield right + left
    if n % 2 == 0:
        ways = ((1, -far, 0), (-1, far, 1))  # what comes to the chip opposite, half from each side
        yield [
            Message(i, (i + way) % n, _half(piece, half), (((i + owner) % n, half, 0),))
            for i in range(n)
            for way, owner, half in ways
        ]


_GATHERS: Mapping[str, Callable[[int, int], Iterator[Step]]] = {
    "direct": _to_all,
    "ring": _one_way,
    "bidirectional_ring": _both_ways,
    "halving_doubling": _doubling,
}


def _swapped(n: int, piece: int, spec: ChipPod) -> list[Step]:
    """Return the steps of an all-to-all on one ring: each chip has a piece for each other one."""
    if n == 1:
        return []
    if n == 2 or spec.links.runs == "direct":
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
        steps = [[Message(i, j, piece, _whole(i, j)) for i, j in pairs]]
    elif spec.topology == "switch":
        places = [[(i, (i + s) % n) for i in range(n)] for s in range(1, n)]
        steps = [[Message(i, j, piece, _whole(i, j)) for i, j in step] for step in places]
    else:
        steps = list(_handed_on(n, piece, both=spec.links.runs == "bidirectional_ring"))
    _require_swapped(n, steps)
    return steps


def _handed_on(n: int, piece: int, *, both: bool) -> Iterator[Step]:
    """Yield steps in which each chip hands on all that is not at its place, by the shorter way."""
    going: dict[tuple[int, int], list[Item]] = {}
    for i in range(n):
        for j in range(n):
            for half in HALVES if i != j else ():
                right, left = (j - i) % n, (i - j) % n
                shorter = 1 if right < left or (right == left and half == 0) else -1
                going.setdefault((i, shorter if both else 1), []).append((i, half, j))
    while going:
        step, then = [], dict[tuple[int, int], list[Item]]()
        for (chip, way), items in sorted(going.items()):
            target = (chip + way) % n
            n_bytes = sum(_half(piece, half) for _, half, _ in items)
            step.append(Message(chip, target, n_bytes, tuple(items)))
            on = [item for item in items if item[2] != target]
            if on:
                then[target, way] = on
        yield step
        going = then


def _require_gathered(n: int, steps: Sequence[Step]) -> None:
    """Require that each chip sends what it has, and has all in the end."""
    has = {i: set(_whole(i)) for i in range(n)}
    for step in steps:
        if any(not has[one.source].issuperset(one.items) for one in step):
            raise AssertionError("a chip sends what it doesn't have")
        for one in step:
            has[one.target].update(one.items)
    if any(len(items) != n * len(HALVES) for items in has.values()):
        raise AssertionError("a chip lacks a piece")


def _require_reduced(n: int, steps: Sequence[Step]) -> None:
    """Require that the steps backwards add up each piece at its owner, each chip's part once."""
    sums = {i: {u: Counter([i]) for k in range(n) for u in _whole(k)} for i in range(n)}
    for step in _backwards(steps):
        sent = [(one, {u: sums[one.source].pop(u) for u in one.items}) for one in step]
        for one, parts in sent:
            for unit, part in parts.items():
                sums[one.target][unit] += part
    for i in range(n):
        if any(sums[i][unit] != Counter(range(n)) for unit in _whole(i)):
            raise AssertionError("a part is missing, or added twice")


def _require_swapped(n: int, steps: Sequence[Step]) -> None:
    """Require that each piece comes to whom it is for."""
    last = {item: one.target for step in steps for one in step for item in one.items}
    if len(last) != n * (n - 1) * len(HALVES) or any(at != to for (_, _, to), at in last.items()):
        raise AssertionError("a piece is not where it should be")
