"""A systolic array in plain numpy that steps every PE every cycle.

It is the independent model for the array's cycle counts: nothing here computes a number of cycles.
Operands carry tags (which element they are, `BUBBLE` if none), each PE checks that the tags which
meet belong together, and a run ends when the last needed result has left the array or, output
stationary, has been accumulated. Registers latch at the end of a cycle: whatever a PE reads was
written in an earlier cycle.

Dataflows, for A[M, K] @ B[K, N]:

- `ws`: K on rows, N on columns; B is preloaded from the top, rows of A stream in from the left,
  sums flow down and leave below.
- `is`: K on rows, M on columns; A transposed is preloaded, columns of B stream in.
- `os`: M on rows, N on columns; A streams in from the left, B from the top, the sums stay.

An edge fold is padded with zeros and steps all PEs, or, with `used_only`, consists of the used rows
and columns only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)
Stationarity = Literal["ws", "os", "is"]

BUBBLE = -1


def gemm(
    a: Ints, b: Ints, *, rows: int, cols: int, stationarity: Stationarity, used_only: bool = False
) -> tuple[Ints, int]:
    """The product A @ B and its cycles on a rows x cols array, fold after fold."""
    if stationarity == "is":
        product, cycles = gemm(
            b.T, a.T, rows=rows, cols=cols, stationarity="ws", used_only=used_only
        )
        return product.T, cycles
    (m, k), n = a.shape, b.shape[1]
    product = np.zeros((m, n), np.int64)
    cycles = 0
    for row, col in _folds(k if stationarity == "ws" else m, n, rows, cols):
        if stationarity == "ws":
            here = (slice(m), col)
            left, top = a[:, row], b[row, col]
            if not used_only:
                left, top = _pad(left, m, rows), _pad(top, rows, cols)
            part, spent = weight_stationary_fold(top, left)
        else:
            here = (row, col)
            left, top = a[row], b[:, col]
            if not used_only:
                left, top = _pad(left, rows, k), _pad(top, k, cols)
            part, spent = output_stationary_fold(left, top)
        target = product[here]
        target += part[: target.shape[0], : target.shape[1]]
        cycles += spent
    return product, cycles


def weight_stationary_fold(weights: Ints, stream: Ints) -> tuple[Ints, int]:
    """The product stream[T, R] @ weights[R, C] and its cycles, from preload to the last exit."""
    rows, cols = weights.shape
    length = stream.shape[0]
    held = np.zeros((rows, cols), np.int64)
    cycles = 0
    for row in weights[::-1]:
        held = _shift_down(held, row)
        cycles += 1
    operand, psum = np.zeros((2, rows, cols), np.int64)
    operand_tag, psum_tag = np.full((2, rows, cols), BUBBLE)
    product = np.zeros((length, cols), np.int64)
    left = 0
    start = cycles
    while left < length * cols:
        tag = cycles - start - np.arange(rows)
        tag[(tag < 0) | (tag >= length)] = BUBBLE
        entering = np.where(tag != BUBBLE, stream[tag, np.arange(rows)], 0)
        operand, operand_tag = _shift_right(operand, entering), _shift_right(operand_tag, tag)
        psum = _shift_down(psum, np.zeros(cols, np.int64)) + held * operand
        psum_tag = _shift_down(psum_tag, operand_tag[0])
        assert (psum_tag == operand_tag).all(), "a partial sum met another row's operand"
        done = psum_tag[-1] != BUBBLE
        product[psum_tag[-1, done], np.flatnonzero(done)] = psum[-1, done]
        left += int(done.sum())
        cycles += 1
    return product, cycles


def output_stationary_fold(left: Ints, top: Ints) -> tuple[Ints, int]:
    """The product left[R, K] @ top[K, C] and its cycles, until the last sum is complete."""
    (rows, depth), cols = left.shape, top.shape[1]
    from_left, from_top, total = np.zeros((3, rows, cols), np.int64)
    left_tag, top_tag = np.full((2, rows, cols), BUBBLE)
    accumulated = np.zeros((rows, cols), np.int64)
    cycles = 0
    while (accumulated < depth).any():
        row_tag, col_tag = cycles - np.arange(rows), cycles - np.arange(cols)
        row_tag[(row_tag < 0) | (row_tag >= depth)] = BUBBLE
        col_tag[(col_tag < 0) | (col_tag >= depth)] = BUBBLE
        row_in = np.where(row_tag != BUBBLE, left[np.arange(rows), row_tag], 0)
        col_in = np.where(col_tag != BUBBLE, top[col_tag, np.arange(cols)], 0)
        from_left, left_tag = _shift_right(from_left, row_in), _shift_right(left_tag, row_tag)
        from_top, top_tag = _shift_down(from_top, col_in), _shift_down(top_tag, col_tag)
        assert (left_tag == top_tag).all(), "operands of different k met"
        total += from_left * from_top
        accumulated += left_tag != BUBBLE
        cycles += 1
    return total, cycles


def stream_gemm(
    a: Ints, b: Ints, *, rows: int, cols: int, used_only: bool = False
) -> tuple[Ints, int]:
    """As `gemm` with `ws`, with the next fold's weights loaded behind the current fold.

    Sums of a `used_only` fold leave at its last used row instead of the array's.
    """
    (m, k), n = a.shape, b.shape[1]
    places = list(_folds(k, n, rows, cols))
    array = _StreamArray(
        weights=np.stack([_pad(b[row, col], rows, cols) for row, col in places]),
        streams=np.stack([_pad(a[:, row], m, rows) for row, _ in places]),
        used=np.array(
            [(r.stop - r.start, c.stop - c.start) if used_only else (rows, cols) for r, c in places]
        ),
    )
    while not array.finished:
        array.step()
    product = np.zeros((m, n), np.int64)
    for part, (_, col) in zip(array.products, places, strict=True):
        product[:, col] += part[:, : col.stop - col.start]
    return product, array.cycles


@dataclass
class _StreamArray:
    """A weight-stationary array with a shadow weight register in each PE.

    Weights enter at the top, last row first, column c delayed by c, and move down one row per
    cycle; a weight stays in the row it belongs to. So the load is a wave along the same diagonals
    as the operands: a PE takes its shadow weight with a fold's first operand, and the wave of the
    fold after may overwrite the shadow at the end of that very cycle.
    """

    weights: Ints  # [fold, R, C]
    streams: Ints  # [fold, T, R]
    used: Ints  # [fold, 2]: rows, columns

    def __post_init__(self) -> None:
        self.folds, self.rows, self.cols = self.weights.shape
        self.length = self.streams.shape[1]
        shape = (self.rows, self.cols)
        self.held, self.shadow, self.operand, self.psum = np.zeros((4, *shape), np.int64)
        # Tags are (fold, element): element is the row of a weight, the stream index of an operand.
        self.held_fold = np.full(shape, BUBBLE)
        self.shadow_tag, self.operand_tag, self.psum_tag = np.full((3, *shape, 2), BUBBLE)
        self.products = np.zeros((self.folds, self.length, self.cols), np.int64)
        self.missing: int = int(self.used[:, 1].sum()) * self.length
        self.cycles = 0
        # What entered row 0 and column 0, latest first; row r and column c see it r and c later.
        self.entered_left = np.full((self.rows, 2), BUBBLE)
        self.entered_top = np.full((self.cols, 2), BUBBLE)

    @property
    def finished(self) -> bool:
        """Whether every needed result has left the array."""
        return self.missing == 0

    def step(self) -> None:
        """One cycle of every PE."""
        self.entered_left = np.vstack([self._next_operand(), self.entered_left[:-1]])
        self.entered_top = np.vstack([self._next_weight(), self.entered_top[:-1]])
        self._move_operands()
        self._switch_weights()
        self._move_weights()
        self._accumulate()
        self._collect()
        self.cycles += 1

    def _next_operand(self) -> Ints:
        """What enters row 0: the same fold's next, or the next fold's first if its weight waits."""
        fold, element = self.entered_left[0]
        if fold != BUBBLE and element + 1 < self.length:
            return np.array([fold, element + 1])
        following = self.held_fold[0, 0] + 1
        if following < self.folds and tuple(self.shadow_tag[0, 0]) == (following, 0):
            return np.array([following, 0])
        return np.array([BUBBLE, BUBBLE])

    def _next_weight(self) -> Ints:
        """What enters column 0: the load's next row, or a new load as the shadow is read."""
        fold, row = self.entered_top[0]
        if fold != BUBBLE and row > 0:
            return np.array([fold, row - 1])
        operand_fold, element = self.entered_left[0]
        following = operand_fold + 1 if element == 0 else BUBBLE
        if self.cycles == 0:
            following = 0
        if following in range(self.folds):
            return np.array([following, self.used[following, 0] - 1])
        return np.array([BUBBLE, BUBBLE])

    def _move_operands(self) -> None:
        fold, element = self.entered_left.T
        row = np.arange(self.rows)
        valid = (fold != BUBBLE) & (row < self.used[fold, 0])
        value = np.where(valid, self.streams[fold, element, row], 0)
        self.operand = _shift_right(self.operand, value)
        tag = np.where(valid[:, None], self.entered_left, BUBBLE)
        self.operand_tag = _shift_right(self.operand_tag, tag)

    def _switch_weights(self) -> None:
        fold, element = self.operand_tag[..., 0], self.operand_tag[..., 1]
        first = element == 0
        row = np.broadcast_to(np.arange(self.rows)[:, None], first.shape)
        assert (self.shadow_tag[first, 0] == fold[first]).all(), "the weight of another fold"
        assert (self.shadow_tag[first, 1] == row[first]).all(), "the weight of another row"
        self.held = np.where(first, self.shadow, self.held)
        self.held_fold = np.where(first, fold, self.held_fold)

    def _move_weights(self) -> None:
        fold, row = self.entered_top.T
        value = np.where(fold != BUBBLE, self.weights[fold, row, np.arange(self.cols)], 0)
        passing = self.shadow_tag[..., 1] > np.arange(self.rows)[:, None]
        arriving = _shift_down(passing, fold != BUBBLE)
        self.shadow = np.where(arriving, _shift_down(self.shadow, value), self.shadow)
        tag = _shift_down(self.shadow_tag, self.entered_top)
        self.shadow_tag = np.where(arriving[..., None], tag, self.shadow_tag)

    def _accumulate(self) -> None:
        self.psum = _shift_down(self.psum, np.zeros(self.cols, np.int64))
        self.psum = self.psum + self.held * self.operand
        self.psum_tag = _shift_down(self.psum_tag, self.operand_tag[0])
        assert (self.psum_tag == self.operand_tag).all(), "a partial sum met another operand"
        busy = self.operand_tag[..., 0] != BUBBLE
        assert (self.held_fold == self.operand_tag[..., 0])[busy].all(), (
            "the weight of another fold"
        )

    def _collect(self) -> None:
        fold, element = self.psum_tag[..., 0], self.psum_tag[..., 1]
        done = (fold != BUBBLE) & (np.arange(self.rows)[:, None] == self.used[fold, 0] - 1)
        needed = done & (np.arange(self.cols) < self.used[fold, 1])
        col = needed.nonzero()[1]
        self.products[fold[needed], element[needed], col] = self.psum[needed]
        self.missing -= int(needed.sum())
        self.psum_tag[done] = BUBBLE
        self.psum[done] = 0


def _folds(height: int, width: int, rows: int, cols: int) -> Iterator[tuple[slice, slice]]:
    """The parts of a height x width operand that fit a rows x cols array, strip by strip."""
    for left in range(0, width, cols):
        for top in range(0, height, rows):
            yield slice(top, min(top + rows, height)), slice(left, min(left + cols, width))


def _pad(block: Ints, height: int, width: int) -> Ints:
    """The block with zeros below and to the right."""
    return np.pad(block, ((0, height - block.shape[0]), (0, width - block.shape[1])))


def _shift_right(registers: Ints, entering: Ints) -> Ints:
    return np.concatenate([entering[:, None], registers[:, :-1]], axis=1)


def _shift_down(registers: npt.NDArray[T], entering: npt.NDArray[T]) -> npt.NDArray[T]:
    return np.concatenate([entering[None], registers[:-1]], axis=0)
