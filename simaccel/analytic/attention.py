"""Closed form of softmax, of staged (Flex) and of fused (FLAT, flash) attention."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from simaccel.analytic.array import Widths
from simaccel.analytic.gemm import GemmProblem, GemmTiles, gemm_work
from simaccel.analytic.pace import Flow, Slots, Step, loop_cycles
from simaccel.analytic.work import (
    Bools,
    Cost,
    Ints,
    Level,
    Traffic,
    Work,
    ints,
    over_blocks,
    split,
)
from simaccel.hardware import Accelerator
from simaccel.workload import VECTORS


@dataclass(frozen=True, kw_only=True)
class AttentionProblem:
    """L, softmax and A: g heads of all samples, q rows, c keys, d (of L), e (of A).

    ``names`` and ``widths`` (bytes per element) by role: q, k, logits, weights, v, z.
    """

    g: int
    q: int
    c: int
    d: int
    e: int
    names: dict[str, str]
    widths: dict[str, int]

    @property
    def tile_width(self) -> int:
        """Bytes per element of the intermediate on chip, logits and weights in place."""
        return max(self.widths["logits"], self.widths["weights"])

    @property
    def tile_name(self) -> str:
        """Tensor that the intermediate on chip is counted as: the wider one, logits if equal."""
        wide = self.widths["logits"] >= self.widths["weights"]
        return self.names["logits" if wide else "weights"]

    def logit(self) -> GemmProblem:
        """L as a GEMM."""
        w, n = self.widths, self.names
        return GemmProblem(
            g=self.g,
            m=self.q,
            k=self.d,
            n=self.c,
            names=(n["q"], n["k"], n["logits"]),
            widths=Widths(w["q"], w["k"], w["logits"]),
        )

    def attend(self) -> GemmProblem:
        """A as a GEMM."""
        w, n = self.widths, self.names
        return GemmProblem(
            g=self.g,
            m=self.q,
            k=self.c,
            n=self.e,
            names=(n["weights"], n["v"], n["z"]),
            widths=Widths(w["weights"], w["v"], w["z"]),
        )


@dataclass(frozen=True)
class SfuPass:
    """One piece of SFU work: cycles as executed, of the lanes alone, bytes, port cycles."""

    cycles: Ints
    lanes: Ints
    elements: Ints
    read_bytes: Ints
    write_bytes: Ints
    read_port: Ints
    write_port: Ints


def sfu_pass(accelerator: Accelerator, step: str, elements: Ints, width: int) -> SfuPass:
    """Charge one step of a softmax, in place, on ``elements`` elements of ``width`` bytes."""
    work = VECTORS["softmax"].steps[step]
    cost = accelerator.sfu.chosen(work, work.merged)
    (reads,), writes = cost.reads, cost.writes
    lanes = accelerator.sfu.cycles(cost.passes, elements)
    read = accelerator.read_rate.cycles(reads * elements * width)
    write = accelerator.write_rate.cycles(writes * elements * width)
    return SfuPass(
        cycles=np.maximum(lanes, np.maximum(read, write)),
        lanes=lanes,
        elements=cost.passes * elements,
        read_bytes=reads * elements * width,
        write_bytes=writes * elements * width,
        read_port=read,
        write_port=write,
    )


def softmax_work(
    problem: AttentionProblem,
    rows: Ints,
    cols: Ints,
    slots: int,
    accelerator: Accelerator,
    *,
    kept: bool = False,
) -> Work:
    """Predict a softmax on its own, from DRAM to DRAM, or in place on a kept intermediate."""
    cols = np.minimum(cols, problem.c)
    whole = np.asarray(cols >= problem.c)
    parts = _whole_rows(problem, rows, slots, accelerator, kept=kept)
    if kept or whole.all():
        return parts
    cut = _segments(problem, rows, cols, slots, accelerator)
    return _choose(whole, parts, cut)


def _choose(which: Bools, yes: Work, no: Work) -> Work:
    """Take ``yes`` where ``which`` holds and ``no`` elsewhere."""

    def pick(a: Ints, b: Ints) -> Ints:
        return np.where(which, a, b)

    zero = ints(0)
    levels = sorted(yes.moved.keys() | no.moved.keys())
    names = sorted(yes.tiles.keys() | no.tiles.keys())
    rest = {
        f.name: pick(getattr(yes, f.name), getattr(no, f.name))
        for f in fields(Work)
        if f.name not in ("moved", "tiles")
    }
    return Work(
        moved={k: pick(yes.moved.get(k, zero), no.moved.get(k, zero)) for k in levels},
        tiles={
            k: (
                pick(yes.tiles.get(k, (zero, zero))[0], no.tiles.get(k, (zero, zero))[0]),
                pick(yes.tiles.get(k, (zero, zero))[1], no.tiles.get(k, (zero, zero))[1]),
            )
            for k in names
        },
        **rest,
    )


def _rows_over(problem: AttentionProblem, rows: Ints, cols: Ints, cost: Cost) -> Ints:
    return problem.g * over_blocks(
        lambda h, w: cost(h * w) * ((h > 0) & (w > 0)),
        (ints(problem.q), np.minimum(rows, problem.q)),
        (ints(problem.c), cols),
    )


def _whole_rows(
    problem: AttentionProblem, rows: Ints, slots: int, accelerator: Accelerator, *, kept: bool
) -> Work:
    """Blocks of whole rows: load, softmax in place, store."""
    width, traffic = problem.tile_width, Traffic(accelerator)
    w_in, w_out = problem.widths["logits"], problem.widths["weights"]
    cols = ints(problem.c)

    def total(what: str) -> Ints:
        return _rows_over(
            problem,
            rows,
            cols,
            lambda n: getattr(sfu_pass(accelerator, "whole", n, width), what),
        )

    dma = 0 if kept else 1
    names = problem.names
    size = problem.g * problem.q * problem.c
    tile = problem.tile_name
    moved: dict[Level, Ints] = {
        ("dram_read", names["logits"]): ints(size * w_in * dma),
        ("dram_write", names["weights"]): ints(size * w_out * dma),
    }
    _add(moved, ("buffer_write", names["logits"]), ints(size * w_in * dma))
    _add(moved, ("buffer_read", names["weights"]), ints(size * w_out * dma))
    _add(moved, ("buffer_read", tile), total("read_bytes"))
    _add(moved, ("buffer_write", tile), total("write_bytes"))
    load = dma * _rows_over(problem, rows, cols, lambda n: traffic.dram(n * w_in))
    store = dma * _rows_over(problem, rows, cols, lambda n: traffic.dram(n * w_out))
    reads = dma * _rows_over(problem, rows, cols, lambda n: traffic.read(n * w_out))
    writes = dma * _rows_over(problem, rows, cols, lambda n: traffic.write(n * w_in))
    first = np.minimum(rows, problem.q) * problem.c
    last = ((problem.q - 1) % rows + 1) * problem.c
    chain = total("cycles")
    return Work(
        macs=ints(0),
        elements=total("elements"),
        moved=moved,
        tiles={} if kept else {names["logits"]: (first * width, ints(slots))},
        array=ints(0),
        sfu=total("lanes"),
        dram=load + store,
        read_port=total("read_port") + reads,
        write_port=total("write_port") + writes,
        chain=chain,
        pace=chain if kept else _pace(problem, (rows, cols), slots, ("whole",), accelerator),
        fill=dma * (traffic.dram(first * w_in) + traffic.latency),
        drain=dma * traffic.dram(last * w_out),
    )


def _pace(
    problem: AttentionProblem,
    tile: tuple[Ints, Ints],
    slots: int,
    works: tuple[str, ...],
    accelerator: Accelerator,
) -> Ints:
    """Give the time of blocks that are loaded, worked on in place and stored.

    A block's load has to wait for the store of the block that had its slot.
    Rows in segments pass twice, first for their statistics (nothing is stored).
    """
    traffic = Traffic(accelerator)
    buffering = Slots(
        latency=traffic.latency,
        turnaround=accelerator.dram.turnaround_cycles,
        come=ints(slots),
        go=ints(slots),
        chained=np.ones((), dtype=bool),
    )
    w_in, w_out = problem.widths["logits"], problem.widths["weights"]
    rows, cols = split(ints(problem.q), tile[0]), split(ints(problem.c), tile[1])
    always = np.ones((), dtype=bool)

    def step(work: str, n: Ints) -> Step:
        done = sfu_pass(accelerator, work, n, problem.tile_width).cycles * 1.0
        own = Flow(traffic.dram(n * w_in) * 1.0)
        if work != "statistics":
            own = own.plus(Flow(store=traffic.dram(n * w_out) * 1.0))
        # a block's store takes turns with the load of the next one as long as both last
        beside = np.maximum(0, own.load - traffic.latency - done) / np.maximum(1, own.load)
        turns = 1 + (slots > 1) * beside * traffic.turns(n * w_in)
        own = Flow(own.load, own.store, turns, turns * (work != "statistics"))
        return Step(done, Flow(), own)

    if works == ("whole",):
        (n, high), (has, rest) = rows
        blocks = ((n, step("whole", high * problem.c)), (has, step("whole", rest * problem.c)))
        return ints(problem.g * loop_cycles(*blocks, buffering, always))
    total = np.zeros(())
    for n_rows, high in rows:
        for work in works:
            (n, wide), (has, rest) = cols
            segments = ((n, step(work, high * wide)), (has, step(work, high * rest)))
            total = total + n_rows * loop_cycles(*segments, buffering, always)
    return ints(problem.g * total)


def _add(moved: dict[Level, Ints], level: Level, n_bytes: Ints) -> None:
    moved[level] = moved.get(level, ints(0)) + n_bytes


def _segments(
    problem: AttentionProblem, rows: Ints, cols: Ints, slots: int, accelerator: Accelerator
) -> Work:
    """Rows in segments: read for their statistics, read again, normalised and stored."""
    width, traffic = problem.tile_width, Traffic(accelerator)
    w_in, w_out = problem.widths["logits"], problem.widths["weights"]

    def over(cost: Cost) -> Ints:
        return _rows_over(problem, rows, cols, cost)

    def total(what: str) -> Ints:
        return over(
            lambda n: (
                getattr(sfu_pass(accelerator, "statistics", n, w_in), what)
                + getattr(sfu_pass(accelerator, "normalise", n, width), what)
            )
        )

    names = problem.names
    size = problem.g * problem.q * problem.c
    moved: dict[Level, Ints] = {
        ("dram_read", names["logits"]): ints(2 * size * w_in),
        ("dram_write", names["weights"]): ints(size * w_out),
        ("buffer_write", names["logits"]): ints(2 * size * w_in),
        ("buffer_read", names["weights"]): ints(size * w_out),
    }
    tile = problem.tile_name
    _add(moved, ("buffer_read", names["logits"]), ints(size * w_in))
    _add(moved, ("buffer_read", tile), ints(size * width))
    _add(moved, ("buffer_write", tile), ints(size * width))
    load, store = over(lambda n: traffic.dram(n * w_in)), over(lambda n: traffic.dram(n * w_out))
    first = np.minimum(rows, problem.q) * cols
    chain = total("cycles")
    return Work(
        macs=ints(0),
        elements=total("elements"),
        moved=moved,
        tiles={
            names["logits"]: (first * w_in, ints(slots)),
            names["weights"]: (first * width, ints(slots)),
        },
        array=ints(0),
        sfu=total("lanes"),
        dram=2 * load + store,
        read_port=total("read_port") + over(lambda n: traffic.read(n * w_out)),
        write_port=total("write_port") + 2 * over(lambda n: traffic.write(n * w_in)),
        chain=chain,
        pace=_pace(problem, (rows, cols), slots, ("statistics", "normalise"), accelerator),
        fill=traffic.dram(first * w_in) + traffic.latency,
        drain=traffic.dram(first * w_out),
    )


@dataclass(frozen=True)
class Piece:
    """Rows that share a fate: g heads of q rows, kept on chip or spilled."""

    g: int
    q: int
    kept: bool = field(kw_only=True)


def pieces(problem: AttentionProblem, resident_rows: int) -> list[Piece]:
    """Cut the intermediate: whole heads kept, part of one head kept, its rest, other heads."""
    kept, part = divmod(min(resident_rows, problem.g * problem.q), problem.q)
    left = problem.g - kept - (part > 0)
    found = [
        Piece(kept, problem.q, kept=True),
        Piece(int(part > 0), part, kept=True),
        Piece(int(part > 0), problem.q - part, kept=False),
        Piece(left, problem.q, kept=False),
    ]
    return [piece for piece in found if piece.g]


def staged_gemm_work(
    problem: AttentionProblem,
    which: str,
    tiles: GemmTiles,
    resident_rows: int,
    accelerator: Accelerator,
) -> Work:
    """Predict L (``which`` = "logit") or A ("attend") with part of the intermediate kept."""
    works = [
        gemm_work(_piece_gemm(problem, which, piece), tiles, accelerator)
        for piece in pieces(problem, resident_rows)
    ]
    return _joined(works, _kept_bytes(problem, resident_rows))


def _piece_gemm(problem: AttentionProblem, which: str, piece: Piece) -> GemmProblem:
    """Give L or A on one piece; a kept intermediate has the wider of its two element sizes."""
    base = problem.logit() if which == "logit" else problem.attend()
    base = replace(base, g=piece.g, m=piece.q)
    if not piece.kept:
        return base
    a, b, out = base.names
    kept, width = problem.tile_name, problem.tile_width
    if which == "logit":
        widths = replace(base.widths, out=width)
        return replace(base, kept_out=True, names=(a, b, kept), widths=widths)
    return replace(base, kept_a=True, names=(kept, b, out), widths=replace(base.widths, a=width))


def staged_softmax_work(
    problem: AttentionProblem,
    rows: Ints,
    cols: Ints,
    slots: int,
    resident_rows: int,
    accelerator: Accelerator,
) -> Work:
    """Predict the softmax between them."""
    works = [
        softmax_work(
            replace(problem, g=piece.g, q=piece.q), rows, cols, slots, accelerator, kept=piece.kept
        )
        for piece in pieces(problem, resident_rows)
    ]
    return _joined(works, _kept_bytes(problem, resident_rows))


def _kept_bytes(problem: AttentionProblem, resident_rows: int) -> int:
    return min(resident_rows, problem.g * problem.q) * problem.c * problem.tile_width


def _joined(works: list[Work], kept_bytes: int) -> Work:
    whole = works[0]
    for work in works[1:]:
        whole = whole.plus(work)
    whole.tiles = whole.tiles | {"kept": (ints(kept_bytes), ints(1))}
    return whole
