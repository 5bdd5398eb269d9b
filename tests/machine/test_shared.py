"""The machine against the recurrence where engines share DRAM channels and the buffer's ports.

Not the cycles alone: each use of each channel begins when the recurrence says, of all engines.
"""

from collections import defaultdict
from random import Random

import pytest
from hypothesis import assume, given, settings

from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.arbiters import ServiceRequest
from simaccel.machine.channel import Channel
from simaccel.machine.machine import DeadlockError, Machine
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group
from simaccel.program.lowering import lower
from simaccel.program.program import Program, ProgramError
from simaccel.program.text import parse_program, program_text
from tests.drawn_trees import draw_case
from tests.draws import DRAWS, seeds
from tests.machine.accelerators import accelerator, accelerators
from tests.machine.max_plus import cycles_alone
from tests.machine.random_programs import programs
from tests.machine.shared import Shared, shared
from tests.machine.stepped import WRITE, Use
from tests.machine.trees import draw_accelerator, draw_tree
from tests.program.programs import (
    Case,
    attention_workload,
    case,
    fused_cases,
    gemm_cases,
    separate_cases,
    staged_cases,
)
from tests.program.tree import executed
from tests.trees import einsum, vector, workload

MOST_COMMANDS = 60
"""Of longer programs the recurrence takes long: it goes through a program again and again."""
Uses = dict[str, list[Use]]


def _watched(on: Accelerator, program: Program) -> tuple[int, Uses]:
    """Run a program; return its cycles, and who asked DRAM channels and ports for what, in order.

    Raises:
        ProgramError, DeadlockError: it can't be run.
    """
    asked: defaultdict[Channel, list[Use]] = defaultdict(list)
    request = Channel.request

    def noted(self: Channel, cycles: int, direction: int, owner: str) -> ServiceRequest:
        if cycles:
            asked[self].append(Use(self.clock.cycle, owner, cycles, direction))
        return request(self, cycles, direction, owner)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "request", noted)
        machine = Machine(on, program, fast_forward=False)
        cycles = machine.run().cycles
    pipes = {channel for name, channel in machine.channels().items() if name.startswith("noc_")}
    named = machine.channels().items()
    return cycles, {name: asked[one] for name, one in named if one in asked and one not in pipes}


def _require_equal(on: Accelerator, program: Program) -> Shared:
    cycles, uses = _watched(on, program)
    found = shared(on, program, {name: [use.engine for use in uses[name]] for name in uses})
    assert (cycles, uses) == (found.cycles, found.uses), program_text(program)
    return found


def _is_short(program: Program) -> bool:
    return sum(1 for _ in executed(program.body)) <= MOST_COMMANDS


@settings(max_examples=14 * DRAWS)
@given(gemm_cases() | separate_cases() | staged_cases() | fused_cases(online=False), accelerators())
def test_lowered_programs_ask_when_the_recurrence_says(drawn: Case, on: Accelerator) -> None:
    assume(_is_short(drawn.program))
    _require_equal(on, drawn.program)


@settings(max_examples=9 * DRAWS)
@given(programs(most=2), accelerators())
def test_random_programs_ask_when_the_recurrence_says(program: Program, on: Accelerator) -> None:
    assume(_is_short(program))
    _require_equal(on, program)


@pytest.mark.parametrize("block", range(2))
def test_random_trees_ask_when_the_recurrence_says(block: int) -> None:
    """Odd rates, one to three channels, tiles that are larger than a batch or a turn."""
    found = 0
    for seed in seeds(2 * 160, block, 2):
        random = Random(seed)  # noqa: S311 - reproducible, not secret
        program, on = draw_tree(random), draw_accelerator(random)
        try:
            if _is_short(program):
                _require_equal(on, program)
                found += 1
        except (ProgramError, DeadlockError):
            continue
    assert found > 2 * DRAWS


@pytest.mark.parametrize("spatial", [False, True])
def test_drawn_trees_ask_when_the_recurrence_says(*, spatial: bool) -> None:
    """Beside PEs with memories pipes and ports are unlimited, and DRAM is not."""
    found = waited = 0
    for seed in seeds(20):
        drawn = draw_case(seed, spatial=spatial)
        on, program = drawn.on, lower(drawn.of, drawn.mapping)
        if _is_short(program):
            on = _without_ports(on) if spatial else on
            waited += _require_equal(on, program).cycles > cycles_alone(on, program)
            found += 1
    assert found > 2 * DRAWS
    assert waited > found // 8


def _without_ports(on: Accelerator) -> Accelerator:
    raw = on.model_dump()
    rates = ("read_bytes_per_second", "write_bytes_per_second")
    raw["buffer"] |= dict.fromkeys(rates, "unlimited")
    for way in ("distribution", "collection"):
        raw["noc"][way]["topology"] = "unlimited"
    return Accelerator.model_validate(raw)


# X and Y are 12 B each; a softmax of 4 elements on a lane takes 12 cycles and reads 12 B
BY_HAND = """\
program by_hand
  operator op
    tile X 1x12 x1 of X[q=9,c=40] 1B
    tile Y 1x12 x1 of Y[q=9,c=40] 1B
    load X queue 0
    load Y queue 1
    sfu softmax whole X = X over q=1 c=4 axis c of softmax
    store X
"""


def test_the_recurrence_by_hand() -> None:
    """DRAM 1 B/cycle, the write port 2 in turns of 3: xxx yyy xxx yyy, DRAM 12 x and then 12 y.

    X is there at 12. The SFU works for 12 cycles and writes 8 B in 4. Y comes until 24, when the
    store asks: a turnaround of 5 and 12 cycles.
    """
    on = accelerator(
        buffer={"write_bytes_per_second": "2 GB/s", "turn_cycles": 3},
        dram={"bandwidth_bytes_per_second": "1 GB/s", "turnaround_cycles": 5},
    )
    found = _require_equal(on, parse_program(BY_HAND))
    assert found.cycles == 24 + 5 + 12
    assert found.uses["buffer_write"] == [
        Use(0, "dma_in0", 6, WRITE),
        Use(0, "dma_in1", 6, WRITE),
        Use(12, "sfu", 4, WRITE),
    ]
    assert found.uses["dram0"][-1] == Use(24, "dma_out", 12, WRITE)


# -- pipelined attention beside the ports of the buffer -------------------------------------------


def _pipelined(heads: int, rows: int, length: int, tiles: tuple[int, int, int]) -> Program:
    """Return heads of attention on tiles of some rows, softmax beside both products."""
    keys, segment, values = tiles
    cut = f"loop c {segment}\n    " if segment < length else ""
    tree = parse_tree(
        f"loop h 1\nloop q {rows}\nkeep Q buffer, Z buffer, S buffer x2\nfork ahead 1\n"
        f"  | loop c {keys}\n    keep K buffer x2\n    do L array is\n"
        f"  | {cut}do softmax sfu\n"
        f"  | loop c {values}\n    keep V buffer x3\n    do A array is\n"
    )
    workload = attention_workload(1, heads, length, 64)
    return case(workload, Group(operators=("L", "softmax", "A"), tree=tree)).program


@pytest.mark.parametrize(
    ("heads", "rows", "length", "tiles"),
    [
        (1, 64, 512, (512, 512, 64)),
        (3, 64, 256, (256, 256, 64)),
        (2, 64, 256, (128, 256, 64)),
        (1, 55, 600, (451, 300, 64)),
    ],
)
def test_a_pipelined_softmax_beside_the_array(
    heads: int, rows: int, length: int, tiles: tuple[int, int, int]
) -> None:
    """The SFU reads and writes while the array does, whose folds take turns with it at the ports.

    The last has remainders everywhere: array, SFU and DMA write at once.
    """
    _require_equal(load_accelerator("edge_tpu"), _pipelined(heads, rows, length, tiles))


def test_a_pipelined_softmax_waits_for_the_sfu() -> None:
    """GELU of the rows before stands between two softmaxes, though A comes before it."""
    made = workload(
        einsum("L", "S q c", "Q q d", "K c d", q=256, c=512, d=64),
        vector("softmax", "softmax", "P q c", "S q c", axis="c", q=256, c=512),
        einsum("A", "Z q d", "P q c", "V c d", q=256, c=512, d=64),
        vector("act", "gelu", "Y q d", "Z q d", q=256, d=64),
    )
    tree = parse_tree(
        "loop q 64\nkeep Q buffer, Z buffer, S buffer x2\nfork ahead 1\n"
        "  | keep K buffer\n    do L array is\n  | do softmax sfu\n"
        "  | loop c 64\n    keep V buffer x3\n    do A array is\n  | do act sfu\n"
    )
    group = Group(operators=("L", "softmax", "A", "act"), tree=tree)
    _require_equal(load_accelerator("edge_tpu"), case(made, group).program)


TWO_PRODUCTS = """\
program two_products
  operator op
    tile K 1x4x4 x1 of K[g=1,d=4,f=4] 1B
    tile V 1x4x4 x1 of V[g=1,f=4,e=4] 1B
    load K queue 1
    load V queue 2
    loop q 4 from 0 step 4 ahead 2
      tile Q 1x4x4 x2 of Q[g=1,q=16,d=4] 1B
      tile H 1x4x4 x2 of H[g=1,q=16,f=4] 1B
      tile Z 1x4x4 x2 of Z[g=1,q=16,e=4] 1B
      load Q queue 0
      compute H = Q K over g=1 q=4 d=4 f=4 folds {first}
      compute Z = H V over g=1 q=4 f=4 e=4 folds {second}
      store Z
"""


@pytest.mark.parametrize("first", STATIONARITIES)
@pytest.mark.parametrize("second", STATIONARITIES)
@pytest.mark.parametrize("overlap", ["none", "preload", "stream"])
def test_pipelined_products_with_nothing_between_them(
    first: str, second: str, overlap: str
) -> None:
    """The second takes what the first made an iteration before; folds, loads and stores meet."""
    on = accelerator(
        array={"overlap": overlap},
        buffer={"read_bytes_per_second": "4 GB/s", "write_bytes_per_second": "3 GB/s"},
        dram={"bandwidth_bytes_per_second": "2 GB/s", "latency_cycles": 7, "turnaround_cycles": 2},
    )
    _require_equal(on, parse_program(TWO_PRODUCTS.format(first=first, second=second)))
