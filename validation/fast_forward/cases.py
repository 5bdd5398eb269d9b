"""Random programs on random accelerators, by seed: of commands, and of lowered mappings.

Half of the programs are trees of commands that no mapping makes. A quarter are small workloads with
random mappings, and a quarter mappings with more trips, on systolic and on spatial arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from simaccel.program.lowering import lower
from tests.drawn_trees import draw_case, over_cores
from tests.machine.trees import Case, draw_accelerator, draw_tree, run_of
from validation.bound.small_points import small_point

KINDS = ("commands", "small mapping", "commands", "mapping")
"""What is drawn, by the remainder of the seed."""


def cases(seeds: Iterator[int] | range, most_steps: int) -> Iterator[tuple[str, Case]]:
    """Draw one case for each seed whose program is valid and short enough, with its kind."""
    for seed in seeds:
        kind = KINDS[seed % len(KINDS)]
        found = _case(kind, seed, most_steps)
        if found is not None:
            yield kind, found


def _case(kind: str, seed: int, most_steps: int) -> Case | None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    if kind == "commands":
        return run_of(seed, draw_accelerator(random), draw_tree(random), most_steps)
    if kind == "small mapping":
        drawn = draw_case(seed, spatial=random.random() < 0.5)
        if drawn is None:
            return None
        drawn = over_cores(seed, drawn)
        return run_of(seed, drawn.on, lower(drawn.of, drawn.mapping), most_steps)
    point = small_point(seed // len(KINDS))
    return run_of(seed, point.accelerator(), lower(point.workload, point.mapping), most_steps)
