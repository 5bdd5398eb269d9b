"""The ways in which the machine executes an attention, as mappings.

``flex-2``: flex whose softmax is split so that the logits cross DRAM twice: its statistics are
taken where L's results leave the array, and it normalises where A's operands come in. (Both vector
steps pass once over their elements; the statistics themselves, two numbers a row, aren't moved.)
``table-1``: FLAT as its table 1 has it: K and V of a tile's heads whole, two slots for all that
meets DRAM, one for the logits. All others are dataflows of simaccel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from simaccel.analytic.prediction import predict
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.mapping.space import mergeable
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, ResidentScope, Tree
from simaccel.schedulers import NothingFitsError, Options
from simaccel.search.judge import Judge, mapping_of
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Vector, Workload

ATTENTION = ("L", "softmax", "A")
TWICE = (("L", "statistics"), ("normalise", "A"))
_WIDTHS = 2
"""Widths of a row block's tiles that are tried, the largest that fit."""
_PIPELINED = ("flat", "flash", "best")

Body = tuple[Group | ResidentScope, ...]


def crossing_twice(workload: Workload) -> Workload:
    """Return an attention whose softmax is two operators, ``statistics`` and ``normalise``."""
    softmax = workload.operator("softmax")
    between = replace(softmax.output, tensor="T")
    split = (
        Vector("statistics", "scale", softmax.ranks, softmax.inputs, between),
        Vector("normalise", "scale", softmax.ranks, (between,), softmax.output),
    )
    operators = [
        part
        for operator in workload.operators
        for part in (split if operator is softmax else (operator,))
    ]
    tensors = {**workload.tensors, "T": replace(workload.tensors["S"], name="T")}
    return replace(workload, operators=tuple(operators), tensors=tensors)


def attended(workload: Workload, accelerator: Accelerator, way: str) -> Body:
    """Return L, softmax and A of a workload in one of the ways.

    Raises:
        NothingFitsError: the way has no mapping that fits the buffer.
    """
    if way == "flex-2":
        return tuple(_half(workload.select_operators(part), accelerator) for part in TWICE)
    alone = workload.select_operators(ATTENTION)
    if way == "table-1":
        return (_table_1(alone, accelerator),)
    options = Options(tolerance=0.0, pipeline=way.startswith(_PIPELINED))
    return tuple(schedule_workload(alone, accelerator, way, options).body)


def _table_1(workload: Workload, accelerator: Accelerator) -> Group:
    """Return the fastest tile of table 1: heads together, or rows of one head."""
    plain = Group(operators=ATTENTION, tree=(), merged=mergeable(workload, ATTENTION))
    room, smallest, trees = accelerator.buffer.capacity_bytes or 0, 0, []
    for heads, rows in _tiles(workload, accelerator.systolic.rows):
        need = table_1_bytes(workload, heads, rows)
        smallest = min(smallest or need, need)
        if need <= room:
            pairs = product(STATIONARITIES, STATIONARITIES)
            trees += [table_1_tree(heads, rows, pair) for pair in pairs]
    if not trees:
        raise NothingFitsError(f"table 1: the smallest tile needs {smallest} B, there are {room} B")
    return _fastest(workload, accelerator, [replace(plain, tree=tree) for tree in trees])


def _fastest(workload: Workload, accelerator: Accelerator, groups: Sequence[Group]) -> Group:
    """Return the fastest on the machine of those that fit: no bound of others is below it."""
    room = accelerator.buffer.capacity_bytes
    candidates: list[tuple[int, int, Group]] = []
    for group in groups:
        mapping = mapping_of(workload, "by hand", [group])
        predicted = predict(workload, mapping, accelerator)
        if room is None or predicted.buffer_bytes <= room:
            candidates.append((predicted.bound_cycles, len(candidates), group))
    judge, best, fastest = Judge(accelerator), groups[0], float("inf")
    for bound, _, group in sorted(candidates, key=lambda candidate: candidate[:2]):
        if bound >= fastest:
            break
        (cycles,) = judge.cycles(workload, [(group,)], fastest)
        if cycles < fastest:
            best, fastest = group, cycles
    return best


def _half(workload: Workload, accelerator: Accelerator) -> Group:
    """Return L with its statistics, or A with what normalises its operands, in tiles that fit."""
    names = tuple(one.name for one in workload.operators)
    plain = Group(operators=names, tree=(), merged=mergeable(workload, names))
    trees = [
        _half_tree(tile, held, slots, logit="L" in names)
        for tile in _half_tiles(workload, accelerator)
        for held in STATIONARITIES
        for slots in (1, 2)
    ]
    return _fastest(workload, accelerator, [replace(plain, tree=tree) for tree in trees])


def _half_tiles(workload: Workload, accelerator: Accelerator) -> Iterator[tuple[int, int, int]]:
    """Yield (heads, rows, keys) of tiles that fit: the widest of each height, whole heads together.

    Raises:
        NothingFitsError: none does.
    """
    logit = next(operator for operator in workload.operators if operator.macs)
    sizes, side = logit.ranks, accelerator.systolic.rows
    length, d = sizes["q"], sizes["d"]
    width = workload.tensors["T"].bytes_per_element
    room = (accelerator.buffer.capacity_bytes or 0) // width

    def fits(heads: int, rows: int, keys: int) -> bool:
        return heads * (2 * rows * d + 2 * keys * d + 3 * rows * keys) <= room

    tiles = []
    for rows in _doubled(side, length):
        widths = [keys for keys in _doubled(side, length) if fits(1, rows, keys)]
        tiles += [(1, rows, keys) for keys in widths[-_WIDTHS:]]
    heads = _doubled(2, sizes["b"] * sizes["h"])
    tiles += [(count, length, length) for count in heads if fits(count, length, length)]
    if not tiles:
        raise NothingFitsError(f"{logit.name}: no tile fits into {room} elements")
    yield from tiles


def _half_tree(tile: tuple[int, int, int], held: Stationarity, slots: int, *, logit: bool) -> Tree:
    """Return one half as a tree; with two slots between them array and SFU overlap."""
    heads, rows, keys = tile
    around, along = ("Q", "K") if logit else ("Z", "V")
    between, array = ("S", "L") if logit else ("P", "A")
    first, second = Do(array, "array", held), Do("statistics" if logit else "normalise", "sfu")
    return (
        Loop("bh", heads),
        Loop("q", rows),
        Keep(around, slots=2),
        Loop("c", keys),
        Keep(along, slots=2),
        Keep("T", slots=2),
        Keep(between, slots=slots),
        Fork(((first,), (second,)) if logit else ((second,), (first,)), ahead=slots - 1),
    )


def _doubled(side: int, most: int) -> list[int]:
    """Return side, twice that, and so on, up to all."""
    found = [min(side, most)]
    while found[-1] < most:
        found.append(min(2 * found[-1], most))
    return found


def _tiles(workload: Workload, side: int) -> Iterator[tuple[int, int]]:
    """Yield (heads, rows): rows of one head down to one, one head, samples, up to all of them."""
    sizes = workload.operator("L").ranks
    heads, length = sizes["b"] * sizes["h"], sizes["q"]
    rows = 1
    while rows < length:
        yield 1, rows
        rows *= 2
    for blocks in (3, 5, 6, 7):
        if side * blocks < length:
            yield 1, side * blocks
    count = 1
    while count < heads:
        yield count, length
        count *= 2
    yield heads, length


def table_1_bytes(workload: Workload, heads: int, rows: int) -> int:
    """Return the bytes of a tile of table 1: K and V whole, Q and the output of its rows."""
    sizes = workload.operator("L").ranks
    width = workload.tensors["S"].bytes_per_element
    d, length = sizes["d"], sizes["c"]
    return width * heads * (4 * rows * d + 4 * length * d + rows * length)


def table_1_tree(
    heads: int, rows: int, held: tuple[Stationarity, Stationarity] = ("ws", "ws")
) -> Tree:
    """Return table 1 as a tree, with what the array holds in L and in A."""
    logit, attend = Do("L", "array", held[0]), Do("A", "array", held[1])
    return (
        Loop("bh", heads),
        Keep("K", slots=2),
        Keep("V", slots=2),
        Loop("q", rows),
        Keep("Q", slots=2),
        Keep("Z", slots=2),
        Keep("S"),
        Fork(((logit,), (Do("softmax", "sfu"),), (attend,))),
    )
