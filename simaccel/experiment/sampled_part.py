"""The part of a program that a sampled check executes: a span of each rank that can be sampled."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from simaccel.program.program import (
    Compute,
    Load,
    Node,
    Operator,
    ProgramLoop,
    Sfu,
    Tile,
    UnitCommand,
)

Span = tuple[int, int]
"""The first position, and the one after the last."""


def written_views(body: Sequence[Node]) -> set[str]:
    """Return the views of the tiles that engines write: results of iterations, more in each."""
    views: set[str] = set()
    for node in body:
        if isinstance(node, ProgramLoop | Operator):
            views |= written_views(node.body)
        elif isinstance(node, Compute | Sfu | UnitCommand):
            views.add(node.out.view.name)
    return views


def widen(body: Sequence[Operator], span: Span, rank: str, made: Collection[str]) -> Span:
    """Return a span of a rank, and all that is made with it, of tensors that are ``made`` here."""
    while True:
        low, high = span
        for first, end in _pieces(body, 0, rank, span, made):
            low, high = min(low, first), max(high, end)
        if (low, high) == span:
            return span
        span = low, high


def _pieces(
    body: Sequence[Node], at: int, rank: str, span: Span, made: Collection[str]
) -> Iterator[Span]:
    """Yield what the commands and tiles that share positions with a span have of a rank."""
    for node in body:
        pieces: list[Span] = []
        starts = [at]
        if isinstance(node, ProgramLoop) and node.rank == rank:
            starts = [start for start in _starts(node, at) if takes_part(node, start, span)]
            starts = starts[:: max(1, len(starts) - 1)]
            if any(rank in names for names in _slid_ranks(node.body)):
                first = at + node.start - node.step
                pieces += [(first, start + _extent(node.body, rank)) for start in starts]
        if isinstance(node, ProgramLoop | Operator):
            for start in starts:
                yield from _pieces(node.body, start, rank, span, made)
                pieces += [
                    piece
                    for tile in node.tiles
                    if tile.view.name in made
                    for piece in _tile(tile, start, rank)
                ]
        elif isinstance(node, Compute | Sfu) and rank in node.ranks:
            pieces.append((at, at + node.shape[node.ranks.index(rank)]))
        yield from (piece for piece in pieces if piece[0] < span[1] and span[0] < piece[1])


def _slid_ranks(body: Sequence[Node]) -> Iterator[Collection[str]]:
    """Yield the ranks of tiles that keep what they share with those of the iteration before."""
    for node in body:
        if isinstance(node, Load) and node.slides:
            yield node.tile.view.names
        elif isinstance(node, ProgramLoop):
            yield from (names for names in _slid_ranks(node.body) if node.rank not in names)


def _starts(loop: ProgramLoop, at: int) -> range:
    first = at + loop.start
    return range(first, first + loop.trips * max(1, loop.step), max(1, loop.step))


def _tile(tile: Tile, at: int, rank: str) -> Iterator[Span]:
    origin = tile.origin or (0,) * len(tile.shape)
    for dim, first, size in zip(tile.view.terms, origin, tile.shape, strict=True):
        if rank in dict(dim):
            yield at + first, at + first + size


def takes_part(loop: ProgramLoop, start: int, span: Span) -> bool:
    """Return whether an iteration of a loop over a rank has positions of a span."""
    return start < span[1] and span[0] < start + max(1, _extent(loop.body, loop.rank))


@lru_cache(maxsize=4096)
def _extent(body: tuple[Node, ...], rank: str) -> int:
    """Return how many positions of a rank the commands of a body have."""
    found = 0
    for node in body:
        if isinstance(node, ProgramLoop):
            more = (node.trips - 1) * node.step + node.start if node.rank == rank else 0
            inner = _extent(node.body, rank)
            found = max(found, more + inner if inner else 0)
        elif isinstance(node, Compute | Sfu):
            found = max(found, dict(zip(node.ranks, node.shape, strict=True)).get(rank, 1))
    return found


def work(
    body: Sequence[Node], at: Mapping[str, int], spans: Mapping[str, Span], least: int = 0
) -> int:
    """Return the MACs, and elements of vector operators, of the part: ``least`` a command."""
    total = 0
    for node in body:
        if isinstance(node, Compute):
            total += max(node.macs, least)
        elif isinstance(node, Sfu):
            total += max(node.elements, least)
        elif isinstance(node, ProgramLoop):
            starts = _starts(node, at.get(node.rank, 0))
            if node.rank not in spans:
                total += len(starts) * work(node.body, at, spans, least)
            else:
                part = [start for start in starts if takes_part(node, start, spans[node.rank])]
                total += sum(
                    work(node.body, {**at, node.rank: start}, spans, least) for start in part
                )
    return total
