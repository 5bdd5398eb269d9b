"""The tokens of a phase of a transformer, the keys that each sees, and those of a workload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from simaccel.workload.einsum import VisibleSpan
from simaccel.workload.workload import Workload

PhaseName = Literal["prefill", "decode"]
PHASES: tuple[PhaseName, ...] = ("prefill", "decode")
_LEAST_ROWS = 64
"""The least rows of a block under a causal mask; smaller blocks would not fill an array."""
CAUSAL_BLOCKS = 8
"""Default number of blocks of rows under a causal mask."""


@dataclass(frozen=True, kw_only=True)
class PhaseTokens:
    """The tokens of a phase: ``rows`` new and ``past`` cached ones in each of ``batch`` sequences.

    ``blocks``: the most blocks of rows of an attention, each with the keys that it sees.
    ``encoded``: tokens of the encoder's output that a decoder sees.
    """

    batch: int
    rows: int
    past: int = 0
    blocks: int = CAUSAL_BLOCKS
    encoded: int = 0

    @property
    def routed(self) -> tuple[str, int]:
        """The rank of the tokens that are routed to experts, and their number.

        ``n``, the new tokens of a sequence, if there are several: all sequences are routed alike.
        Else ``b``, the sequences.
        """
        return ("n", self.rows) if self.rows > 1 else ("b", self.batch)

    def first_key(self, window: int | None) -> int:
        """Return the position of the first key that the first new token sees."""
        return 0 if window is None else max(0, self.past + 1 - window)

    def keys(self, window: int | None) -> int:
        """Return the number of keys that the new tokens see together, their own included."""
        return self.past + self.rows - self.first_key(window)

    def row_blocks(self, window: int | None, *, causal: bool = True) -> Iterator[RowBlock]:
        """Yield blocks of rows with the keys that they see."""
        if not causal:
            yield RowBlock(first=0, rows=self.rows, first_key=0, keys=self.rows)
            return
        before = self.past - self.first_key(window)
        count = max(1, min(self.blocks, self.rows // _LEAST_ROWS))
        most = -(-self.rows // count)
        for first in range(0, self.rows, most):
            rows = min(most, self.rows - first)
            low = 0 if window is None else max(0, before + first + 1 - window)
            keys = before + first + rows - low
            cut = window is not None and keys > window
            visible = VisibleSpan("n", before + first - low, window if cut else None)
            yield RowBlock(
                first=first,
                rows=rows,
                first_key=low,
                keys=keys,
                visible=visible if rows > 1 or cut else None,
            )


@dataclass(frozen=True, kw_only=True)
class RowBlock:
    """A block of rows of new tokens, and the keys that they see, from the first key in use on."""

    first: int
    rows: int
    first_key: int
    keys: int
    visible: VisibleSpan | None = None


def tokens_of(workload: Workload) -> int | None:
    """Return the tokens that a run makes or takes in: of a decode step one a sequence.

    Of a network without tokens the images of its batch; None where neither is known, and of a part
    of a model.
    """
    parameters = workload.parameters
    batch = parameters.get("batch")
    whole = parameters.get("scope", "model") in {"model", "layers"} and "layer" not in parameters
    if batch is None or not whole:
        return None
    if parameters.get("kind") == "transformer":
        each = 1 if parameters.get("phase") == "decode" else parameters.get("prompt")
    else:
        each = parameters.get("seq_len", 1)
    return None if each is None else int(batch) * int(each)


def phase_of(workload: Workload) -> str | None:
    """Return the phase of a whole transformer, ``prefill`` or ``decode``; None of all else."""
    parameters = workload.parameters
    if (parameters.get("kind"), parameters.get("scope")) != ("transformer", "model"):
        return None
    return str(parameters["phase"])
