"""Effort of a search, objectives, and mapspaces by name; this loads nothing else."""

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


Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Runs tasks, perhaps in parallel; gives the outcomes in the order of the tasks."""
Watch = Callable[[float, str], None]
"""Told the part that is done, from 0 to 1, and how it stands."""
