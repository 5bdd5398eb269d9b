"""The public tool's formula for fused attention, to reproduce its curves point by point.

Per head: M rows of all sequences, head size K, N keys; heads run in parallel, so that every buffer
is multiplied by them. Words of two bytes; buffers in bytes, accesses in words. ``charged``: how
often K and V are charged where a block of them stays in the buffer: the tool says once, although
each sequence of the batch has its own.
"""

from __future__ import annotations

from simaccel.analytic.sizes import divisors

Points = list[tuple[int, int]]
ROWS, HEAD, KEYS, HEADS, BATCH = 32768, 128, 2048, 32, 16
_WORD = 2


def _front(points: Points) -> Points:
    found: Points = []
    for room, moved in sorted(points):
        if not found or moved < found[-1][1]:
            found.append((room, moved))
    return found


def _resident() -> tuple[int, int]:
    """Both of K and V in the buffer, and a row of everything else."""
    room = 2 * HEAD * KEYS + 2 * HEAD + KEYS
    return HEADS * _WORD * room, HEADS * (2 * HEAD * KEYS * BATCH + 2 * ROWS * HEAD)


def flat() -> Points:
    """Whole rows of the intermediate: Q and Z in pieces, K and V again for each block of rows."""
    points = [_resident()]
    for rows in divisors(ROWS).tolist():
        blocks = max(ROWS // rows, BATCH)
        room = rows * KEYS + rows + 1
        moved = 2 * HEAD * KEYS * blocks + 2 * ROWS * HEAD
        points.append((HEADS * _WORD * room, HEADS * moved))
    return _front(points)


def flash(charged: int = 1) -> Points:
    """Tiles of the intermediate, with all rows for each block of keys: Q and Z come again."""
    points = [_resident()]
    for rows in divisors(ROWS).tolist():
        for keys in divisors(KEYS)[:-1].tolist():
            blocks = KEYS // keys
            again = ROWS * HEAD * (blocks + 2 * blocks - 1)
            streamed = rows * HEAD + rows * keys + 1
            kept = rows * HEAD + rows * keys + HEAD * keys
            weights = 2 * HEAD * KEYS
            points += [
                (HEADS * _WORD * streamed, HEADS * (weights * ROWS // rows + again)),
                (HEADS * _WORD * kept, HEADS * (weights * charged + again)),
            ]
    return _front(points)
