"""What no estimate is below: no run is below it either, and small cases by hand."""

from textwrap import dedent

import pytest
from hypothesis import given

from simaccel.analytic.estimate import Totals, evaluate
from simaccel.analytic.family import family_of
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group, Mapping
from simaccel.program.lowering import lower
from simaccel.workload import Workload
from tests.drawn_trees import draw_case
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator, accelerators, gigabytes
from tests.program.programs import Case, attention_workload, case, fused_cases, gemm_cases


def totals(of: Workload, one: Mapping, on: Accelerator) -> Totals:
    """Count a mapping of one group."""
    ((group, around),) = one.placed()
    return evaluate(family_of(space_of(of, group), group, around), on)


@given(gemm_cases() | fused_cases(), accelerators())
def test_no_run_is_below(of: Case, on: Accelerator) -> None:
    if of.workload.repeat == 1:
        least = int(totals(of.workload, of.mapping, on).least())
        assert least <= Machine(on, of.program).run().cycles


@pytest.mark.parametrize("spatial", [False, True])
def test_no_run_of_a_drawn_tree_is_below(*, spatial: bool) -> None:
    compared = 0
    for seed in range(16 * DRAWS):
        drawn = draw_case(seed, spatial=spatial)
        if drawn is None or drawn.of.repeat > 1 or len(list(drawn.mapping.placed())) > 1:
            continue
        least = int(totals(drawn.of, drawn.mapping, drawn.on).least())
        assert least <= Machine(drawn.on, lower(drawn.of, drawn.mapping)).run().cycles
        compared += 1
    assert compared > 4


ON = accelerator(
    sfu={"lanes": 1, "passes": 3, "latency_cycles": 0},
    dram={"bandwidth_bytes_per_second": gigabytes(1), "latency_cycles": 7},
)
"""4 x 4 PEs without overlap: an output-stationary fold takes K + 4 + 4 - 2 cycles.

DRAM has 1 byte per cycle and 7 cycles of latency, softmax takes 3 cycles an element.
"""


def fused(text: str, rows: int, depth: int, batch: int = 1) -> tuple[int, int]:
    """Return what the closed form says of an attention, and the machine; elements have 2 B."""
    workload = attention_workload(batch, 1, rows, depth)
    operators = ("L", "softmax", "A")
    merged = mergeable(workload, operators)
    tree = parse_tree(dedent(text))
    of = case(workload, Group(operators=operators, tree=tree, merged=merged))
    least = int(totals(of.workload, of.mapping, ON).least())
    return least, Machine(ON, of.program).run().cycles


def test_phases_follow_one_another() -> None:
    text = """
    loop bh 1
    keep Q buffer x3, K buffer x3, V buffer x3, Z buffer x3, S buffer
    fork
      | do L array os
      | do softmax sfu
      | do A array os
    """
    logit, softmax, attend = 4 * (4 + 4 + 4 - 2), 64 * 3, 2 * (8 + 4 + 4 - 2)
    tensor = 8 * 4 * 2
    least, cycles = fused(text, 8, 4, batch=3)
    assert least == 7 + 2 * tensor + 3 * (logit + softmax + attend) + tensor
    assert least == cycles


def test_tiles_of_one_slot_are_waited_for() -> None:
    text = """
    keep Q buffer, Z buffer, S buffer
    fork
      | loop c 4
        keep K buffer
        do L array os
      | do softmax sfu
      | loop c 4
        keep V buffer
        do A array os
    """
    fold, softmax, tile = 4 + 4 + 4 - 2, 64 * 3, 4 * 4 * 2
    least, cycles = fused(text, 8, 4)
    first, wait = 7 + 2 * tile + tile, 7 + tile
    assert least == first + 2 * (4 * fold + wait) + softmax + 2 * tile
    assert least <= cycles


def test_only_as_many_tiles_as_have_slots_come_before_a_phase() -> None:
    text = """
    keep V buffer
    loop q 4
    keep Q buffer x2, Z buffer x2, S buffer
    fork
      | loop c 2
        keep K buffer x2
        do L array os
      | do softmax sfu
      | do A array os
    """
    blocks, keys, rows = 8, 2 * 16 * 2, 4 * 16 * 2
    softmax, attend = 4 * 32 * 3, 4 * (32 + 4 + 4 - 2)
    least, cycles = fused(text, 32, 16)
    moved = (16 - 2) * keys
    assert moved > 16 * (16 + 4 + 4 - 2), "the transfers take longer than the folds"
    assert least == 7 + rows + keys + (blocks * moved - 1) + blocks * (softmax + attend) + rows
    assert least <= cycles
