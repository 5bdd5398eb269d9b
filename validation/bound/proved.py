"""No run is below its bound: random trees of all kinds, each on several random machines.

``python -m validation.bound.proved [--count N]`` draws trees that no scheduler makes (on systolic
and spatial arrays, fused, uneven, pipelined, ragged, with tensors held between groups), and
runs each on machines with other memories, banks, FIFOs, accumulators, ports, pipes and overlap of
groups. It fails where a run is shorter than its bound, or where MACs, bytes by tensor and level,
or the work of a unit are not those of the prediction. A run in its own size writes the figures of
``README.md``; one that is stopped goes on where it was, as long as the sources are the same.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Fork, Mapping, Part, ResidentScope, nodes
from simaccel.workload import Workload
from tests.drawn_machines import example_machine, machines
from tests.drawn_trees import draw_case, draw_held
from tests.program.tree_cases import CASES
from validation.bound.gaps import HEAD, Gap, figures, gap_of, markdown, measure_all
from validation.bound.readme import write_figures
from validation.bound.small_points import small_point
from validation.frozen.run import ROOT, fingerprint

README: Final = Path(__file__).with_name("README.md")
PART: Final = ROOT / "out" / "proved"
COUNT: Final = 20_000
EACH: Final = 8
"""Machines of each mapping: drawing one takes longer than running it."""
_AT_ONCE: Final = 25
"""Mappings that are measured together."""


@dataclass(frozen=True)
class Drawn:
    """One run: what is in it, and how far above its bound it is."""

    name: str
    kinds: tuple[str, ...]
    gap: Gap


def measure(numbers: range) -> list[Drawn]:
    """Run the mappings of some numbers, each on its machines."""
    return [drawn for number in numbers for drawn in _of_mapping(number)]


def _of_mapping(number: int) -> Iterator[Drawn]:
    for name, of, one, on in _mappings(number):
        for at, machine in enumerate(islice(machines(of, one, on, number), EACH)):
            gap = gap_of(of, machine, one)
            yield Drawn(f"{name}, machine {at}", tuple(_kinds(of, one, machine)), gap)


Case = tuple[str, Workload, Mapping, Accelerator]


def _mappings(number: int) -> Iterator[Case]:
    """Yield the mapping of a number, if there is one: trees by seed, small points, examples."""
    examples = list(CASES)
    if number < len(examples):
        of, mapping = CASES[examples[number]]
        yield examples[number], of, mapping, example_machine(mapping)
        return
    way, spatial = number % 5, bool(number // 5 % 2)
    if way == 0:
        point = small_point(number)
        yield f"small point {number}", point.workload, point.mapping, point.accelerator()
        return
    draw = draw_held if way == 1 else draw_case
    case = draw(number, spatial=spatial)
    if case is not None:
        yield f"{draw.__name__}({number}, {spatial=})", case.of, case.mapping, case.on


def _kinds(of: Workload, mapping: Mapping, on: Accelerator) -> Iterator[str]:
    """Yield what a run is counted with."""
    every = [node for group in mapping.groups for node in nodes(group.tree)]
    forks = [node for node in every if isinstance(node, Fork)]
    weight = on.memories.weight
    kinds = {
        f"{on.array.kind} array": True,
        "one operator": len(of.operators) == 1,
        "fused": bool(forks),
        "pipelined": any(fork.ahead for fork in forks),
        "uneven": any(isinstance(node, Part) for node in every),
        "held between groups": any(isinstance(node, ResidentScope) for node in mapping.body),
        "layers": of.repeat > 1,
        "banked DRAM": on.dram.model == "banked",
        "memory for weights": weight is not None,
        "FIFO": weight is not None and weight.fifo,
        "accumulator": getattr(on.array, "accumulator", None) is not None,
        "groups overlap": on.compiler.overlap and len(mapping.groups) > 1,
    }
    yield from (name for name, applies in kinds.items() if applies)


def summary(found: Sequence[Drawn]) -> str:
    """Return how many runs of each kind there are, none below its bound, and how far above."""
    names = dict.fromkeys(name for one in found for name in one.kinds)
    rows = [figures("all", [one.gap for one in found])]
    rows += [figures(name, [one.gap for one in found if name in one.kinds]) for name in names]
    wrong = sum(bool(one.gap.faults) for one in found)
    text = f"{len(found):,} runs, {wrong} below the bound or with other work or bytes."
    return f"{text}\n\n{markdown(['', 'runs', *HEAD[2:]], rows)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, run, judge; write the figures of a whole draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT, metavar="N", help="runs, about")
    parser.add_argument("--processes", type=int, metavar="N")
    parser.add_argument("--write", action="store_true", help="write a draw of another size, too")
    asked = parser.parse_args(arguments)
    many = -(-asked.count // EACH)
    ranges = [range(at, min(at + _AT_ONCE, many)) for at in range(0, many, _AT_ONCE)]
    kept = PART / f"{asked.count}-{fingerprint()}"
    each = measure_all(measure, ranges, "proved", asked.processes, kept)
    outcomes = [outcome for several in each for outcome in several]
    text = summary(outcomes)
    print(text)
    if asked.write or asked.count == COUNT:
        write_figures("proved", text, README)
    shutil.rmtree(kept)
    wrong = [outcome for outcome in outcomes if outcome.gap.faults]
    for outcome in wrong:
        sys.stderr.write(f"{outcome.name}: {outcome.gap.faults}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
