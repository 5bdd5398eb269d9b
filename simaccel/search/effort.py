"""The effort of searches, their objectives, the names of mapspaces; it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from simaccel.errors import Fault, InputError

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator

Objective = Literal["cycles", "energy", "edp", "dram-bytes", "footprint"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("cycles", "energy", "edp", "dram-bytes", "footprint")


def has_near_ties(objective: Objective, tolerance: float) -> bool:
    """Return whether near-ties are considered at all."""
    return tolerance > 0 and objective != "edp"


_NEEDING: Final = ("energy", "edp", "power")


def require_energies(accelerator: Accelerator, objective: str) -> None:
    """Refuse an objective that needs unknown energies.

    Raises:
        InputError: the message names them, and the objectives that don't need them.
    """
    unknown = accelerator.unknown_energies
    if objective in _NEEDING and unknown:
        allowed = (
            f"cycles, dram-bytes or footprint, as {accelerator.name} gives no energies: "
            f"{', '.join(unknown)} are unknown (a file has a section energy; also --set "
            "energy.node=45nm and --set energy.dram_pj_per_byte=NUMBER)"
        )
        raise InputError([Fault("--objective", "objective", objective, allowed)])


Strategy = Literal["pfm", "ruby", "ruby-s", "ruby-t", "padded"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("pfm", "ruby", "ruby-s", "ruby-t", "padded")
"""Mapspaces, and `padded`: the better of `pfm` and all ways of padding."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The effort of the search of a mapspace, and its objective.

    Each smaller mapspace inside is searched with the same effort again. ``patience``: valid tilings
    without an improvement after which a random search ends, each tried in all its orders (without
    ``refine``: in one). ``exhaustive``: mapspaces of at most this size are searched completely.
    ``most``: most mappings that are evaluated. ``budget_seconds`` holds for everything together,
    and makes the result depend on the machine's speed; otherwise it follows from the seed.
    ``refine``: also search near the best so far, and the smaller mapspaces first.
    """

    objective: Objective | None = None
    patience: int = 25_000
    exhaustive: int = 1_000_000
    most: int | None = None
    budget_seconds: float | None = None
    seed: int = 0
    refine: bool = True

    @property
    def aim(self) -> Objective:
        """The objective; EDP unless the user names one."""
        return self.objective or "edp"


@dataclass(frozen=True, kw_only=True)
class SearchEffort:
    """Constants of the searches of dataflows, which decide what runs and when a search ends.

    Shares are relative to the best objective. `validation/search/effort.csv` shows the effect of
    half and of twice each constant on cycles and runs, but of proofs, which its cases have none of.
    """

    # -- what the candidates are
    every_size: int = 16
    """Ranks of up to this many positions have all tile sizes."""
    even_pieces: int = 8
    """Most even pieces that a rank is cut into; more differ little from sizes of whole array sides.
    """
    slots: int = 4
    """Most tensors whose slots vary together near the best: a slot less of one frees room for
    another.
    """
    every_core: int = 8
    """Up to this many cores any number of them is tried; of more all, a half, a quarter and so on.
    """
    front: int = 2048
    """Most mappings of some operators that a front keeps; of more, evenly spaced ones."""
    # -- when a walk through candidates ends
    gap: float = 0.001
    """The optimality gap: the best run may exceed the least remaining bound by this share."""
    part_gap: float = 0.3
    """The share of an average part's gap that any part of a workload may leave, in cycles. All of
    it runs half as many candidates of language models, but BERT's block on `tpu_v5e` then moves
    5.9% more bytes. With half of it BERT's of 8 x 2,048 tokens on `cloud` moves 446 MiB instead of
    302 at 0.9% fewer cycles.
    """
    gain: float = 0.0005
    """The smallest improvement that counts."""
    patience: int = 24
    """Runs without a gain after which a search ends, unless all sizes are few."""
    full_patience_gain: float = 0.02
    """The possible gain, by the lowest remaining bound, that is worth the full patience."""
    least_patience: float = 0.25
    """The smallest share of its patience that a search has."""
    exact: int = 512
    """Complete spaces of up to this many fitting candidates are searched without a gap."""
    # -- the proof of an optimum
    tilings: int = 300_000
    """Most tilings that folds and first loads may leave of all tile sizes of an einsum, for each
    operand that is held. On `edge` bounds of 134,000 took 1.2 CPU seconds, of 1.1 million 41. A
    3 x 3 convolution of 256 channels on `cloud` leaves 273,177 at most, in 1.3 CPU seconds.
    """
    proof_shares: tuple[float, ...] = (0.5, 0.75, 1.0)
    """Shares of the way from the least cycles of any mapping to the best known, up to which bounds
    are searched one after the other: what is found at one ends the search there. A 3 x 3
    convolution of 64 channels on `edge` then has 60,000 bounds to compute instead of 128,000.
    """
    proof: int = 600
    """Runs without a gain after which a proof ends and the gap remains, of 5 to 14 ms each. A GEMM
    of 512 x 512 x 512 on `edge` runs 155 in all, one of 2,048 x 2,048 x 2,048 on `cloud` 441.
    """
    # -- which candidates run first
    by_bound: int = 8
    """Candidates that run strictly in the order of their bounds, before other orders are mixed in.
    """
    likely: int = 6
    """Candidates that run after those, before the first of each combination of stationarities."""
    holdings: int = 12
    """Most combinations of stationarities of which the first candidate runs; some have much tighter
    bounds.
    """
    of_each: int = 3
    """Candidates of each family that run first if operators are cut over cores; also how many of
    about equally likely ones run before less likely ones.
    """
    many: int = 4096
    """Candidates of a family; of more, those far from good are left out."""
    far: float = 2.0
    """Of many candidates those whose bound is over this many times that of a smaller one, which
    holds the same operands, are left out until nothing better is left: 70% of those of ResNet-50 on
    `edge`, 99% of AlexNet on `cloud`.
    """
    at_once: int = 4
    """Candidates of a batch after the first few; they have one limit."""
    # -- what is near the best
    near: float = 1.01
    """A run is aborted when it takes this many times as long as the best; a shorter one may be a
    start for neighbours.
    """
    near_in_less: float = 1.1
    """The same in a smaller room than the best's, where candidates are compared with each other;
    and how far above its limit a search begins whose bounds leave much to gain. On `toy` neighbours
    lead from 423 to 403, 399, 393 and 389 cycles, and to nothing if only those below 394 count.
    """
    overlap: float = 1.05
    """How many times as long as together groups take one by one, from which on other trees of each
    are tried in the whole. Blocks of BERT of 512 tokens have 1.0001 on `edge` to 1.045 on `cloud`;
    two products on `mxu_128` that have 1.064 gain 7%. So whole mappings that take up to so many
    times as long as the fastest may still be faster by other trees.
    """
    starts: int = 3
    """Candidates from which the search of neighbours starts."""
    loose: float = 0.02
    """Bounds of an operator are loose where they leave a larger gain, relative to the workload:
    then each way to hold its operands is searched alone, from more candidates, with all patience.
    Where the least work of the grid leaves no more, and its bounds not even the gap, neighbours are
    not searched.
    """
    loose_starts: int = 5
    """Candidates from which a round of such a search goes on: the two best that ran, then those of
    the lowest bounds.
    """
    near_patience: int = 48
    """Runs of neighbours without a gain after which a round ends."""
    most_near: int = 256
    """Most runs of neighbours of all families and rooms, about."""
    rounds: int = 6
    """Most rounds of neighbours; each begins with the best of the round before."""
    less_near: int = 4
    """Divisor of both if the tolerance of near-ties exceeds the gap anyway."""
    smaller_rooms: int = 3
    """Rooms, each half of the one before, that are searched, too. A mapping that fits half of a
    buffer fits all of it: so a larger buffer is never worse, if the smaller one is a power of two
    and nothing is held between groups.
    """
    # -- what is fused and held
    fused_gain: float = 0.002
    """The gain, by its bound, from which a fusion of operators with shared rows is searched."""
    longest: int = 5
    """Most operators that are fused by shared rows."""
    einsums: int = 3
    """Most einsums among them."""
    held: int = 6
    """Most tensors that may be held at once; of more, those with the longest lives are left out."""
    held_gain: float = 0.005
    """The gain by held tensors, by bounds, from which nothing is searched without them first. Runs
    of five networks with held tensors exceeded their bounds by 0.1 to 2%; twice the gain would
    search MobileNetV2 and ResNet-50 on `edge` without them first (0.9 and 0.6%).
    """
    held_rounds: int = 4
    """Rounds of choosing the tensors to hold and searching the groups beside them."""
    labels: int = 8
    """About how many labels of a state of held tensors are kept, evenly spaced."""
    rooms: int = 6
    """Trees of a fused group that are tried beside held tensors, from the best to the smallest."""
    idle_rows: int = 4
    """Numbers of resident rows without a gain after which the search of rows ends."""
    # -- near-ties
    cheaper: int = 16
    """Runs of a large space that search for less cost."""
    cheaper_rounds: int = 2
    """Rounds of neighbours of the least costly candidate."""
    about: float = 0.002
    """Costs that differ by no more than this share count as equal."""
    fewer_bytes: int = 6
    """Most steps that are searched because they may move fewer bytes."""
    kinds: int = 12
    """Most kinds of groups that are searched for less cost: those that may save most."""
    least_saving: float = 0.001
    """Share of the workload's cost that such a group has to be able to save."""
    states: int = 64
    """Most combinations of groups that are kept at once."""
    tries: int = 3
    """Most combinations that run: groups may take longer together than one by one."""


EFFORT: Final = SearchEffort()


Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Runs tasks, perhaps in parallel; yields the results in the order of the tasks."""
Watch = Callable[[float, str], None]
"""Called with the completed part, from 0 to 1, and a text on the progress."""
