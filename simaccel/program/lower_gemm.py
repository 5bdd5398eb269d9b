"""Lowering of GEMMs: tile loops with peeled remainders, loads where a tile is first needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from simaccel.mapping.choices import GemmMapping
from simaccel.program.program import Compute, Folds, Load, Loop, Node, Reserve, Store, Tile, View

Body = tuple[tuple[Tile, ...], tuple[Node, ...]]


@dataclass(frozen=True)
class Region:
    """Which part of a GEMM to compute: ``g`` and ``m`` as (start, size)."""

    g: tuple[int, int]
    m: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class GemmViews:
    """A GEMM's tensors: a[g, m, k], b[g, k, n], out[g, m, n] under their rank names.

    ``kept_a`` and ``kept_out`` are tiles of an enclosing body that hold the operand already.
    """

    a: View
    b: View
    out: View
    ranks: tuple[str, str, str, str] = ("g", "m", "k", "n")
    kept_a: Tile | None = None
    kept_out: Tile | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Sizes of g, m, k, n."""
        g, m, k = self.a.shape
        return g, m, k, self.b.shape[2]


def blocks(start: int, extent: int, tile: int) -> Iterator[tuple[int, int, int]]:
    """Give (start, trips, size) of the full tiles of a rank and of the smaller last one.

    >>> list(blocks(0, 10, 4))
    [(0, 2, 4), (8, 1, 2)]
    """
    full, rest = divmod(extent, tile)
    if full:
        yield start, full, tile
    if rest:
        yield start + full * tile, 1, rest


def lower_gemm(views: GemmViews, mapping: GemmMapping, region: Region) -> tuple[Node, ...]:
    """Lower one GEMM (or the part of it that ``region`` names) to loops and commands."""
    nest = _Nest(views, mapping, region)
    start, count = region.g
    tiles, body = nest.body(0, {}, first=True)
    whole = Loop(rank=views.ranks[0], trips=count, start=start, tiles=tiles, body=body)
    if region.m[0]:
        return (Loop(rank=views.ranks[1], trips=1, start=region.m[0], body=(whole,)),)
    return (whole,)


@dataclass
class _Nest:
    views: GemmViews
    mapping: GemmMapping
    region: Region
    order: str = ""
    built: dict[tuple[object, ...], Body] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.extents = {"m": self.region.m[1], "k": self.views.shape[2], "n": self.views.shape[3]}
        self.tile = {r: min(getattr(self.mapping, r), self.extents[r]) for r in "mkn"}
        self.order = "".join(r for r in self.mapping.order if self.tile[r] < self.extents[r])
        # a tile lives in the body of the innermost loop over one of its ranks
        self.depth_of = {
            name: max((self.order.find(r) + 1 for r in ranks), default=0)
            for name, ranks in (("a", "mk"), ("b", "kn"), ("out", "mn"))
        }
        self.spills = 0 < self.order.find("k") + 1 < self.depth_of["out"]

    def body(self, depth: int, sizes: dict[str, int], *, first: bool) -> Body:
        """Build the body below ``depth`` loops; ``first``: nothing has been summed up yet."""
        key = (depth, tuple(sorted(sizes.items())), first)
        if key not in self.built:
            self.built[key] = self._build(depth, sizes, first=first)
        return self.built[key]

    def _build(self, depth: int, sizes: dict[str, int], *, first: bool) -> Body:
        tiles = {
            name: tile
            for name, at in self.depth_of.items()
            if at == depth and (tile := self._tile(name, sizes)) and not self._kept(name)
        }
        nodes: list[Node] = []
        if "a" in tiles:
            nodes.append(Load(tile=tiles["a"], queue=0))
        if "b" in tiles:
            nodes.append(Load(tile=tiles["b"], queue=1))
        if "out" in tiles and self.spills:
            kind = Reserve if first else Load
            nodes.append(kind(tile=tiles["out"], queue=2))
        nodes += self._inner(depth, sizes, first=first)
        if "out" in tiles:
            nodes.append(Store(tile=tiles["out"]))
        return tuple(tiles.values()), tuple(nodes)

    def _inner(self, depth: int, sizes: dict[str, int], *, first: bool) -> list[Node]:
        if depth == len(self.order):
            return [self._gemm(sizes, first=first)]
        rank = self.order[depth]
        nodes: list[Node] = []
        for start, trips, size, begins in self._blocks(rank):
            tiles, body = self.body(depth + 1, sizes | {rank: size}, first=first and begins)
            name = self.views.ranks["gmkn".index(rank)]
            nodes.append(
                Loop(rank=name, trips=trips, step=size, start=start, tiles=tiles, body=body)
            )
        return nodes

    def _blocks(self, rank: str) -> Iterator[tuple[int, int, int, bool]]:
        """Blocks of a rank; the first step of a reduction is peeled, it has no sums to read."""
        for at, trips, size in blocks(0, self.extents[rank], self.tile[rank]):
            if rank != "k":
                yield at, trips, size, True
            elif at == 0:
                yield at, 1, size, True
                if trips > 1:
                    yield at + size, trips - 1, size, False
            else:
                yield at, trips, size, False

    def _kept(self, name: str) -> Tile | None:
        return {"a": self.views.kept_a, "out": self.views.kept_out}.get(name)

    def _tile(self, name: str, sizes: dict[str, int]) -> Tile:
        view: View = getattr(self.views, name)
        ranks = {"a": "mk", "b": "kn", "out": "mn"}[name]
        shape = (1, *(sizes.get(r, self.tile[r]) for r in ranks))
        spilled = name == "out" and self.spills
        tile = f"{view.name}_sums" if spilled else view.name
        return Tile(name=tile, view=view, shape=shape, slots=self._slots(name, spilled=spilled))

    def _slots(self, name: str, *, spilled: bool) -> int:
        """One slot for a tile that is loaded once.

        No more for partial sums than there are tiles of them in one step of the reduction:
        then a slot that is free tells that the sums to be loaded into it have been stored.
        """
        slots = int(getattr(self.mapping, f"{name}_slots"))
        if self.region.g[1] == 1 and self.depth_of[name] == 0:
            return 1
        if not spilled:
            return slots
        inside = self.order[self.order.index("k") + 1 :]
        tiles = math.prod(-(-self.extents[r] // self.tile[r]) for r in inside)
        return min(slots, int(tiles))

    def _gemm(self, sizes: dict[str, int], *, first: bool) -> Compute:
        shape = {r: sizes.get(r, self.tile[r]) for r in "mkn"}
        return Compute(
            out=self._kept("out") or self._tile("out", sizes),
            inputs=(self._kept("a") or self._tile("a", sizes), self._tile("b", sizes)),
            ranks=self.views.ranks,
            shape=(1, shape["m"], shape["k"], shape["n"]),
            on=Folds(self.mapping.stationarity),
            accumulate=not first,
        )
