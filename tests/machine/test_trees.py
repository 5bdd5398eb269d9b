"""Random trees take the cycles of the recurrence, which knows slots and nothing of the machine."""

from math import prod
from random import Random

import pytest

from simaccel.machine.machine import DeadlockError, Machine
from simaccel.program.program import ProgramError
from simaccel.program.text import parse_program
from tests.draws import seeds
from tests.machine.accelerators import accelerator, alone
from tests.machine.max_plus import cycles_alone
from tests.machine.trees import cases, draw_accelerator, draw_tree

MOST_STEPS = 3_000


@pytest.mark.parametrize("block", range(3))
def test_random_trees_take_the_cycles_of_the_recurrence(block: int) -> None:
    found = 0
    for seed in seeds(3 * 40, block, 3):
        random = Random(seed)  # noqa: S311 - reproducible, not secret
        program, on = draw_tree(random), alone(draw_accelerator(random))
        try:
            machine = Machine(on, program)
            steps = sum(prod(around) for e in machine.engines for around in e.plan.around)
            if steps > MOST_STEPS:
                continue
            cycles = machine.run().cycles
        except (ProgramError, DeadlockError):
            continue
        assert cycles == cycles_alone(on, program), f"seed {seed}"
        found += 1
    assert found > 6


# A is 16 B (a fold of 4 + 4 + 6 = 14 cycles), K and S as much; the SFU takes 16 x 3 cycles
TWO_USES = """\
program two_uses
  operator op
    tile K 1x4x4 x1 of K[g=1,d=4,c=4] 1B
    load K queue 1
    loop q 3 from 0 step 4
      tile Q 1x4x4 x1 of Q[g=1,q=12,d=4] 1B
      tile S 1x4x4 x1 of S[g=1,q=12,c=4] 1B
      load Q queue 0
      compute S = Q K over g=1 q=4 d=4 c=4 folds ws
      sfu softmax whole S = S over g=1 q=4 c=4 axis c of softmax
"""


def test_a_slot_is_free_after_its_last_use() -> None:
    """DRAM 1 B/cycle, latency 20: K and Q0 are there at 52. Q is dead after L, though S goes on.

    array  L0 52-66             L1 114-128              L2 176-190
    sfu             S0 66-114               S1 128-176              S2 190-238
    dma             Q1 66-82 there at 102   Q2 128-144 there at 164
    """
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s", "latency_cycles": 20})
    assert Machine(on, parse_program(TWO_USES)).run().cycles == 238


def test_a_slot_is_held_while_a_later_use_is_to_come() -> None:
    """The same where Q is used again after softmax: then Q1 is loaded only when that has ended."""
    again = TWO_USES + "      compute S += Q K over g=1 q=4 d=4 c=4 folds ws\n"
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s", "latency_cycles": 20})
    iteration = 14 + 48 + 14
    cycles = 52 + iteration + 2 * (16 + 20 + iteration)
    assert Machine(on, parse_program(again)).run().cycles == cycles


# a block of 4 x 4 x 4 on 4 x 4 PEs: 4 cycles to shift in, 4 of stream, 6 until its last sum is out
TWO_PRODUCTS = """\
program two_products
  operator op
    tile K 1x4x4 x1 of K[g=1,d=4,f=4] 1B
    tile V 1x4x4 x1 of V[g=1,f=4,e=4] 1B
    load K queue 1
    load V queue 2
    loop q 3 from 0 step 4 ahead 2
      tile Q 1x4x4 x2 of Q[g=1,q=12,d=4] 1B
      tile H 1x4x4 x2 of H[g=1,q=12,f=4] 1B
      tile Z 1x4x4 x1 of Z[g=1,q=12,e=4] 1B
      load Q queue 0
      compute H = Q K over g=1 q=4 d=4 f=4 folds ws
      compute Z = H V over g=1 q=4 f=4 e=4 folds ws
"""


def test_a_pipelined_product_needs_the_tile_of_its_own_iteration() -> None:
    """Nothing waits for memory or NoC. H1 is on its way out when Z0 takes H0, which is there.

    H0 4-8, out at 14    H1 8-12, out at 18     Z0 14-18
                         H2 18-22, out at 28    Z1 22-26
                                                Z2 28-32, out at 38
    """
    on = alone(accelerator(array={"overlap": "stream"}, dram={"latency_cycles": 0}))
    assert Machine(on, parse_program(TWO_PRODUCTS)).run().cycles == 38


def test_cases_come_in_all_kinds() -> None:
    found = list(cases(range(150)))
    assert len(found) > 30
    assert any(case.on.dram.channels == 3 for case in found)
    assert len({case.run.cycles for case in found}) > 25
