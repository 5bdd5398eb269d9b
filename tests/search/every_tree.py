"""All trees of a small product, each run by itself."""

from collections.abc import Sequence
from itertools import permutations, product

from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Do, Group, Keep, Loop, Node
from simaccel.program.lowering import lower
from simaccel.program.program import DoesNotFitError
from simaccel.workload import Workload
from tests.program.programs import mapping_of


def every_tree(
    workload: Workload, held: Sequence[Stationarity] = STATIONARITIES
) -> list[tuple[Node, ...]]:
    """Write down all trees of a product: tiles, orders of loops that cut, slots, stationarities."""
    sizes = {rank: workload.operators[0].ranks[rank] for rank in "mkn"}
    trees: dict[tuple[Node, ...], None] = {}
    for tiles in product(*(range(1, size + 1) for size in sizes.values())):
        cut = [Loop(r, t) for r, t in zip(sizes, tiles, strict=True) if t < sizes[r]]
        for order, slots, way in product(permutations(cut), (1, 2, 3), held):
            keeps = (Keep(name, slots=slots) for name in "ABC")
            trees[(*order, *keeps, Do("gemm", "array", way))] = None
    return list(trees)


def run_every_tree(
    workload: Workload, on: Accelerator, held: Sequence[Stationarity] = STATIONARITIES
) -> list[int]:
    """Return the cycles of all trees that fit."""
    cycles = []
    for tree in every_tree(workload, held):
        try:
            mapping = mapping_of(workload, Group(operators=("gemm",), tree=tree))
            cycles.append(Machine(on, lower(workload, mapping)).run().cycles)
        except DoesNotFitError:
            continue
    return cycles
