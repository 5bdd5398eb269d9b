"""Effort of searches, objectives, and mapspaces by name; this loads nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Objective = Literal["cycles", "energy", "edp", "dram-bytes", "footprint"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("cycles", "energy", "edp", "dram-bytes", "footprint")
Strategy = Literal["pfm", "ruby", "ruby-s", "ruby-t", "padded"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("pfm", "ruby", "ruby-s", "ruby-t", "padded")
"""Mapspaces, and `padded`: the better of `pfm` and all ways of padding."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Time of a search, and its objective; smaller mapspaces inside get the same once more each.

    ``patience``: valid tilings without an improvement after which a random search ends, each with
    all its orders (without ``refine``: with one of them);
    ``exhaustive``: mapspaces of at most that many mappings are searched completely; ``most``:
    mappings to evaluate at most. With ``budget_seconds``, which is for all together, the result
    depends on the machine's speed; otherwise it follows from the seed. ``refine``: also look near
    the best so far, and first in the smaller mapspaces.
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
        """The figure that is made small: edp where nothing is asked for."""
        return self.objective or "edp"


@dataclass(frozen=True, kw_only=True)
class SearchEffort:
    """Constants of the searches of dataflows: all that decides what runs, and when it is enough.

    Shares are of the best objective. `validation/search/effort.csv` has what half and twice of each
    does to cycles and runs.
    """

    # -- when a walk through candidates ends
    gap: float = 0.001
    """The optimality gap: the most by which the best run may exceed the least bound left."""
    gain: float = 0.0005
    """The least improvement that counts."""
    patience: int = 24
    """Runs without a gain after which a walk ends, unless all sizes are few."""
    full_patience_gain: float = 0.02
    """What a walk may gain, by its lowest bound left, with which it has all its patience."""
    least_patience: float = 0.25
    """The least part of its patience that a walk has."""
    exact: int = 512
    """Spaces of so many candidates that fit, with all sizes, are searched without a gap."""
    # -- which candidates run first
    by_bound: int = 8
    """Candidates strictly in the order of their bounds, before other orders are mixed in."""
    likely: int = 6
    """Candidates after those; then the first of each way to hold operands in the array."""
    holdings: int = 12
    """Ways to hold operands of which the first runs, at most: some have much tighter bounds."""
    of_each: int = 3
    """Candidates of each family that run first if operators are cut over cores; and of about
    equally likely ones before less likely ones."""
    at_once: int = 4
    """Candidates of one batch after the first few, for any number of processes."""
    # -- what is near the best
    near: float = 1.01
    """A run is given up when it is so many times as long as the best; below, it may be a start."""
    near_in_less: float = 1.1
    """The same in a smaller room than the best's: to tell what is good there."""
    starts: int = 3
    """Candidates whose neighbours are looked at."""
    loose: float = 0.02
    """Bounds are loose where they leave a larger gain than that, relative to the whole workload:
    then each way to hold operands is searched on its own, from more candidates, with all patience.
    """
    near_patience: int = 48
    """Runs of neighbours without a gain after which a round ends."""
    most_near: int = 256
    """Runs of neighbours of all families and rooms, about."""
    rounds: int = 6
    """Rounds at most; each begins with the best of the one before."""
    less_near: int = 4
    """By what both are divided where more than the gap is given up anyway."""
    smaller_rooms: int = 3
    """Rooms, each half of the one before, that are searched, too.

    A mapping that fits half of a buffer fits the whole one: so a larger buffer is never worse,
    where the smaller one is a power of two (and nothing is held between groups).
    """
    # -- what is fused and held
    fused_gain: float = 0.002
    """What operators with shared rows have to promise, by their bound, to be searched."""
    longest: int = 5
    """Operators with shared rows, at most."""
    einsums: int = 3
    """Einsums among them, at most."""
    held: int = 6
    """Tensors that may be held at once; of more, those that live longest are left out."""
    held_rounds: int = 4
    """Rounds of finding the cheapest tensors to hold, and searching beside them."""
    labels: int = 8
    """Labels of a state of held tensors that are kept, about; they lie evenly."""
    rooms: int = 6
    """Trees of a fused group that are tried beside held tensors, from the best to the smallest."""
    idle_rows: int = 4
    """Numbers of resident rows without a gain after which no more are tried, if not all are."""
    # -- near-ties
    cheaper: int = 16
    """Runs of a large space in which less cost is looked for."""
    cheaper_rounds: int = 2
    """Times that what is near the least costly one is looked at."""
    about: float = 0.002
    """What costs by no more than this part more is about as good."""
    fewer_bytes: int = 6
    """Steps that are searched because they promise fewer bytes, at most."""
    kinds: int = 12
    """Kinds of groups that are searched for what costs less: those that may save most."""
    least_saving: float = 0.001
    """Of the cost of a workload: what a group has to be able to save for that."""
    states: int = 64
    """Combinations of groups that are weighed at once, at most."""
    tries: int = 3
    """Combinations that run: together groups may take longer than one by one."""


EFFORT: Final = SearchEffort()


Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Runs tasks, perhaps in parallel; gives the outcomes in the order of the tasks."""
Watch = Callable[[float, str], None]
"""Told the part that is done, from 0 to 1, and how it stands."""
