"""Random programs on random accelerators, by seed: of commands, and of lowered mappings.

A third of the programs are trees of commands that no mapping makes. As many as of each other kind
are small workloads with random mappings over cores, mappings with more trips, on systolic and on
spatial arrays, groups in places on some of the cores (a third of them hand on tiles of windows),
and layers cut over chips (a third of them have groups on some of the chips).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from simaccel.analytic.prediction import Prediction, predict
from simaccel.diagnosis.check import check
from simaccel.diagnosis.check_chips import check_chips
from simaccel.machine.machine import Run
from simaccel.program.exchanges import lower_pod
from simaccel.program.lowering import lower
from tests.drawn_chips import draw_pod, draw_pod_of_places
from tests.drawn_places import draw_placed, draw_windows
from tests.drawn_trees import Drawn, draw_case, over_cores
from tests.machine.trees import Case, draw_accelerator, draw_tree, run_of
from validation.bound.small_points import small_point

KINDS = ("commands", "small mapping", "places", "commands", "mapping", "chips")
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
        return None if drawn is None else _mapped(seed, over_cores(seed, drawn), most_steps)
    if kind == "places":
        placed = draw_windows(seed) if seed // len(KINDS) % 3 == 0 else draw_placed(seed)
        return None if placed is None else _mapped(seed, placed, most_steps)
    if kind == "chips":
        return _on_chips(seed, most_steps)
    point = small_point(seed // len(KINDS))
    return _mapped(seed, Drawn(point.workload, point.accelerator(), point.mapping), most_steps)


def _mapped(seed: int, drawn: Drawn, most_steps: int) -> Case | None:
    program = lower(drawn.of, drawn.mapping)
    case = run_of(seed, drawn.on, program, most_steps)
    if case is None:
        return None

    def verify() -> str:
        check(drawn.of, drawn.mapping, program)
        return _fault(predict(drawn.of, drawn.mapping, case.on), case.run)

    return replace(case, verify=verify)


def _on_chips(seed: int, most_steps: int) -> Case | None:
    drawn = draw_pod_of_places(seed) if seed // len(KINDS) % 3 == 0 else draw_pod(seed)
    if drawn is None:
        return None
    pod = drawn.pod
    case = run_of(seed, drawn.on, lower_pod(pod, drawn.on), most_steps)
    if case is None:
        return None

    def verify() -> str:
        check_chips(drawn.of, pod)
        one_chip = pod.workload, pod.mapping, case.on, pod.exchanges, pod.parts
        return _fault(predict(*one_chip), case.run)

    return replace(case, verify=verify)


def _fault(predicted: Prediction, run: Run) -> str:
    """Return how a run is below its bound, or moves other bytes than are counted."""
    faults = []
    if predicted.bound_cycles > run.cycles:
        faults.append(f"bound: {predicted.bound_cycles} above {run.cycles} cycles")
    moved = {level: n for level, n in run.moved.items() if n}
    differ = {key for key in moved | predicted.moved if moved.get(key) != predicted.moved.get(key)}
    if differ:
        faults.append(f"bytes: other than are counted of {sorted(differ)}")
    return "\n".join(faults)
