"""Lowering of softmax, of staged (Flex) and of fused (FLAT, flash) attention."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simaccel.mapping.choices import FusedMapping, SoftmaxMapping, StagedGroup
from simaccel.program.lower_gemm import GemmViews, Region, blocks, lower_gemm
from simaccel.program.program import (
    Compute,
    Folds,
    Load,
    Loop,
    Node,
    Operator,
    Sfu,
    Store,
    Tile,
    View,
)


@dataclass(frozen=True)
class SoftmaxViews:
    """Tensors [g,q,c] of a softmax, its name and what multiplies the logits."""

    name: str
    logits: View
    weights: View
    scale: float

    @property
    def tile_view(self) -> View:
        """The view that an in-place tile is wide enough for."""
        return _wider(self.logits, self.weights)

    def step(self, step: str, tile: Tile, shape: tuple[int, ...] | None = None) -> Sfu:
        """Give a step in place, on a tile of the rows or of what they are summed to [g,q,e]."""
        on_rows = "c" in tile.view.ranks
        return Sfu(
            operator=self.name,
            work="softmax",
            step=step,
            out=tile,
            inputs=(tile,),
            ranks=tile.view.ranks,
            shape=shape or tile.shape,
            axis="c" if on_rows else "",
            scale=self.scale if on_rows else 1.0,
        )


@dataclass(frozen=True, kw_only=True)
class AttentionViews:
    """Tensors of L, softmax and A: q[g,q,d], k[g,d,c], logits and weights [g,q,c], v, z."""

    q: View
    k: View
    rows: SoftmaxViews
    v: View
    z: View

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Sizes of g (sample and head), q (rows), c (keys), d (of L), e (of A)."""
        g, q, d = self.q.shape
        return g, q, self.k.shape[2], d, self.v.shape[2]


def lower_softmax(views: SoftmaxViews, mapping: SoftmaxMapping, region: Region) -> tuple[Node, ...]:
    """Lower a softmax from DRAM to DRAM over rows of ``region`` (in g and q)."""
    logits = views.logits
    body: list[Node] = []
    cols = min(mapping.cols, logits.shape[2])
    for start, trips, rows in blocks(0, region.m[1], mapping.rows):
        if cols == logits.shape[2]:
            tiles, nodes = _whole_rows(views, rows, mapping.slots)
        else:
            tiles, nodes = (), _row_segments(views, (rows, cols), mapping.slots)
        body.append(Loop(rank="q", trips=trips, step=rows, start=start, tiles=tiles, body=nodes))
    heads = Loop(rank="g", trips=region.g[1], start=region.g[0], body=tuple(body))
    if region.m[0]:
        return (Loop(rank="q", trips=1, start=region.m[0], body=(heads,)),)
    return (heads,)


def _stored_as(tile_view: View, view: View) -> View | None:
    return None if view == tile_view else view


def _whole_rows(
    views: SoftmaxViews, rows: int, slots: int
) -> tuple[tuple[Tile, ...], tuple[Node, ...]]:
    logits, weights, view = views.logits, views.weights, views.tile_view
    tile = Tile(name=logits.name, view=view, shape=(1, rows, logits.shape[2]), slots=slots)
    return (tile,), (
        Load(tile=tile, view=_stored_as(view, logits)),
        views.step("whole", tile),
        Store(tile=tile, view=_stored_as(view, weights)),
    )


def _wider(logits: View, weights: View) -> View:
    """Give the view that an in-place tile is wide enough for."""
    return logits if logits.bytes_per_element >= weights.bytes_per_element else weights


def _row_segments(views: SoftmaxViews, shape: tuple[int, int], slots: int) -> tuple[Node, ...]:
    """Rows too long for the buffer: read twice, for their statistics and to be normalised."""
    logits, weights = views.logits, views.weights
    passes: list[Node] = []
    for step in ("statistics", "normalise"):
        view = logits if step == "statistics" else views.tile_view
        for start, trips, cols in blocks(0, logits.shape[2], shape[1]):
            tile = Tile(
                name=logits.name if step == "statistics" else weights.name,
                view=view,
                shape=(1, shape[0], cols),
                slots=slots,
            )
            nodes: list[Node] = [
                Load(tile=tile, view=_stored_as(view, logits)),
                views.step(step, tile),
            ]
            if step == "normalise":
                nodes.append(Store(tile=tile, view=_stored_as(view, weights)))
            passes.append(
                Loop(
                    rank="c", trips=trips, step=cols, start=start, tiles=(tile,), body=tuple(nodes)
                )
            )
    return tuple(passes)


@dataclass(frozen=True)
class _Piece:
    """Rows of the intermediate that share a fate: kept in ``tile``, or spilled (None)."""

    region: Region
    tile: Tile | None


def _pieces(logits: View, weights: View, resident_rows: int) -> list[_Piece]:
    """Cut the rows of all heads: whole heads kept, part of one head kept, the rest spilled."""
    heads, rows, cols = logits.shape
    kept, part = divmod(min(resident_rows, heads * rows), rows)
    view = _wider(logits, weights)
    pieces: list[_Piece] = []
    if kept:
        tile = Tile(name=f"{logits.name}_kept", view=view, shape=(kept, rows, cols))
        pieces.append(_Piece(Region((0, kept), (0, rows)), tile))
    if part:
        tile = Tile(
            name=f"{logits.name}_kept_part",
            view=view,
            shape=(1, part, cols),
            origin=(kept, 0, 0),
        )
        pieces.append(_Piece(Region((kept, 1), (0, part)), tile))
        pieces.append(_Piece(Region((kept, 1), (part, rows - part)), None))
    left = heads - kept - bool(part)
    if left:
        pieces.append(_Piece(Region((kept + bool(part), left), (0, rows)), None))
    return pieces


def lower_staged(views: AttentionViews, group: StagedGroup) -> tuple[Node, ...]:
    """Lower L, softmax and A as three operators with part of the intermediate kept on chip."""
    pieces = _pieces(views.rows.logits, views.rows.weights, group.resident_rows)
    logit: list[Node] = []
    softmax: list[Node] = []
    attend: list[Node] = []
    base = GemmViews(a=views.q, b=views.k, out=views.rows.logits, ranks=("g", "q", "d", "c"))
    after = GemmViews(a=views.rows.weights, b=views.v, out=views.z, ranks=("g", "q", "c", "e"))
    for piece in pieces:
        logit += lower_gemm(replace(base, kept_out=piece.tile), group.logit, piece.region)
        softmax += _softmax_piece(views, group.softmax, piece)
        attend += lower_gemm(replace(after, kept_a=piece.tile), group.attend, piece.region)
    kept = tuple(piece.tile for piece in pieces if piece.tile)
    operators = tuple(
        Operator(name=name, body=tuple(body))
        for name, body in zip(group.operators, (logit, softmax, attend), strict=True)
    )
    return (Loop(rank="kept", trips=1, tiles=kept, body=operators),) if kept else operators


def _softmax_piece(
    views: AttentionViews, mapping: SoftmaxMapping, piece: _Piece
) -> tuple[Node, ...]:
    if piece.tile is None:
        return lower_softmax(views.rows, mapping, piece.region)
    (g_start, g_trips), (_, q_size) = piece.region.g, piece.region.m
    body = []
    for start, trips, rows in blocks(0, q_size, mapping.rows):
        shape = (1, rows, views.rows.logits.shape[2])
        work = views.rows.step("whole", piece.tile, shape)
        body.append(Loop(rank="q", trips=trips, step=rows, start=start, body=(work,)))
    return (Loop(rank="g", trips=g_trips, start=g_start, body=tuple(body)),)


def lower_fused(views: AttentionViews, mapping: FusedMapping, name: str) -> Operator:
    """Lower L, softmax and A as one operator with shared outer loops (FLAT, section 5)."""
    fused = _Fused(views, mapping)
    body = []
    for start, trips, heads in blocks(0, views.shape[0], mapping.heads):
        tiles, nodes, ahead = fused.heads(heads)
        body.append(
            Loop(
                rank="g", trips=trips, step=heads, start=start, tiles=tiles, body=nodes, ahead=ahead
            )
        )
    return Operator(name=name, body=tuple(body))


Part = tuple[tuple[Tile, ...], tuple[Node, ...], int]
"""Tiles, nodes and how many of the nodes run ahead, of one body."""


@dataclass(frozen=True)
class _Fused:
    views: AttentionViews
    mapping: FusedMapping

    def heads(self, heads: int) -> Part:
        """Build the body of one block of heads."""
        rows, keys = self.views.shape[1:3]
        streamed = self.mapping.keys < keys or self.mapping.online
        if streamed:
            return (), tuple(self._row_loops(heads, streamed=True)), 0
        k, v = self._k(heads, keys), self._v(heads, keys)
        load_k, load_v = Load(tile=k, queue=1), Load(tile=v, queue=2)
        if self.mapping.rows < rows:
            return (k, v), (load_k, load_v, *self._row_loops(heads, streamed=False)), 0
        tiles, nodes, ahead = self._rows(heads, rows, streamed=False)
        load_q, logit, *rest = nodes
        # K is done with L, V is not needed before A: what runs ahead holds no slot longer
        body = (load_k, load_q, logit, load_v, *rest)
        return (k, v, *tiles), body, ahead + 1 if ahead else 0

    def _row_loops(self, heads: int, *, streamed: bool) -> list[Node]:
        loops: list[Node] = []
        for start, trips, rows in blocks(0, self.views.shape[1], self.mapping.rows):
            tiles, nodes, ahead = (
                self._online_rows(heads, rows)
                if self.mapping.online
                else self._rows(heads, rows, streamed=streamed)
            )
            loops.append(
                Loop(
                    rank="q",
                    trips=trips,
                    step=rows,
                    start=start,
                    tiles=tiles,
                    body=nodes,
                    ahead=ahead,
                )
            )
        return loops

    def _rows(self, heads: int, rows: int, *, streamed: bool) -> Part:
        """Build one row block: whole rows of logits, so softmax is plain."""
        keys = self.views.shape[2]
        q, z = self._q(heads, rows), self._z(heads, rows)
        s = self._s(heads, rows, keys)
        logit: list[Node] = [Load(tile=q, queue=0)]
        attend: list[Node] = []
        if streamed:
            for start, trips, size, first in self._key_blocks():
                k, v = self._k(heads, size), self._v(heads, size)
                logit.append(
                    self._keys(
                        start, trips, size, k, Load(tile=k, queue=1), self._logit(s, q, k, rows)
                    )
                )
                attend.append(
                    self._keys(
                        start,
                        trips,
                        size,
                        v,
                        Load(tile=v, queue=2),
                        self._attend(z, s, v, rows, first=first),
                    )
                )
        else:
            logit.append(self._logit(s, q, self._k(heads, keys), rows))
            attend.append(self._attend(z, s, self._v(heads, keys), rows, first=True))
        softmax = self.views.rows.step("whole", s)
        ahead = len(logit) if self.mapping.pipelined else 0
        return (q, s, z), (*logit, softmax, *attend, Store(tile=z)), ahead

    def _online_rows(self, heads: int, rows: int) -> Part:
        """Build one row block with key tiles and online softmax (Dao et al. 2022)."""
        q, z = self._q(heads, rows), self._z(heads, rows)
        nodes: list[Node] = [Load(tile=q, queue=0)]
        for start, trips, size, first in self._key_blocks():
            k, v, s = self._k(heads, size), self._v(heads, size), self._s(heads, rows, size)
            body: list[Node] = [
                Load(tile=k, queue=1),
                self._logit(s, q, k, rows),
                Load(tile=v, queue=2),
                self.views.rows.step("online", s),
            ]
            if not first:
                body.append(self.views.rows.step("rescale", z))
            body.append(self._attend(z, s, v, rows, first=first))
            nodes.append(
                Loop(
                    rank="c",
                    trips=trips,
                    step=size,
                    start=start,
                    tiles=(k, v, s),
                    body=tuple(body),
                    ahead=2 if self.mapping.pipelined and trips > 1 else 0,
                )
            )
        nodes += [self.views.rows.step("divide", z), Store(tile=z)]
        return (q, z), tuple(nodes), 0

    def _key_blocks(self) -> list[tuple[int, int, int, bool]]:
        """Blocks of keys; the first is peeled, it has no partial sums to add to."""
        found: list[tuple[int, int, int, bool]] = []
        for start, trips, size in blocks(0, self.views.shape[2], self.mapping.keys):
            if start == 0:
                found.append((0, 1, size, True))
                if trips > 1:
                    found.append((size, trips - 1, size, False))
            else:
                found.append((start, trips, size, False))
        return found

    @staticmethod
    def _keys(start: int, trips: int, size: int, tile: Tile, load: Load, gemm: Compute) -> Loop:
        return Loop(rank="c", trips=trips, step=size, start=start, tiles=(tile,), body=(load, gemm))

    def _q(self, heads: int, rows: int) -> Tile:
        view = self.views.q
        return Tile(
            name=view.name,
            view=view,
            shape=(heads, rows, view.shape[2]),
            slots=self.mapping.in_slots,
        )

    def _k(self, heads: int, keys: int) -> Tile:
        view = self.views.k
        return Tile(
            name=view.name,
            view=view,
            shape=(heads, view.shape[1], keys),
            slots=self.mapping.in_slots,
        )

    def _v(self, heads: int, keys: int) -> Tile:
        view = self.views.v
        return Tile(
            name=view.name,
            view=view,
            shape=(heads, keys, view.shape[2]),
            slots=self.mapping.in_slots,
        )

    def _s(self, heads: int, rows: int, keys: int) -> Tile:
        view = _wider(self.views.rows.logits, self.views.rows.weights)
        return Tile(
            name=self.views.rows.logits.name,
            view=view,
            shape=(heads, rows, keys),
            slots=self.mapping.tile_slots,
        )

    def _z(self, heads: int, rows: int) -> Tile:
        view = self.views.z
        return Tile(
            name=view.name,
            view=view,
            shape=(heads, rows, view.shape[2]),
            slots=self.mapping.out_slots,
        )

    def _logit(self, s: Tile, q: Tile, k: Tile, rows: int) -> Compute:
        heads, depth, keys = k.shape
        return Compute(
            out=s,
            inputs=(q, k),
            ranks=("g", "q", "d", "c"),
            shape=(heads, rows, depth, keys),
            on=Folds(self.mapping.logit_stationarity),
        )

    def _attend(self, z: Tile, s: Tile, v: Tile, rows: int, *, first: bool) -> Compute:
        heads, keys, width = v.shape
        return Compute(
            out=z,
            inputs=(s, v),
            ranks=("g", "q", "c", "e"),
            shape=(heads, rows, keys, width),
            on=Folds(self.mapping.attend_stationarity),
            accumulate=not first,
        )
