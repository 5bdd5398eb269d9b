"""Links on the machine: time lines by hand, and chips of which one stands for all."""

from simaccel.diagnosis.check_chips import check_chips
from simaccel.diagnosis.limits import rows_of
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import REMOTE
from simaccel.machine.machine import Machine
from simaccel.program.program import Program
from simaccel.program.text import parse_program, program_text
from simaccel.study.experiment import simulate
from tests.agreement import run_exactly
from tests.machine.accelerators import accelerator
from tests.mapping.chips.feed_forward import feed_forward, spread

EXCHANGE = """program one
  operator T.reduce_scatter
    loop chunk {trips} from 0 step 1
      tile T 1x16 x4 of T[chunk={trips},x=16] 1B
      tile Y 1x4 x4 of Y[chunk={trips},x=4] 1B
      load T queue 3
      link reduce_scatter Y = T over 4 of 16B
      store Y
"""


def _program(trips: int) -> Program:
    program = parse_program(EXCHANGE.format(trips=trips))
    assert parse_program(program_text(program)) == program
    return program


def _pod(**dram: object) -> Accelerator:
    """Return four chips in a ring of 2 bytes a cycle and 5 cycles of latency."""
    found = accelerator(dram=dram)
    links = {"bytes_per_second": "2 GB/s", "hop_cycles": 5}
    return Accelerator.model_validate(found.model_dump() | {"chips": 4, "links": links})


def test_one_chunk_by_hand() -> None:
    # of four pieces of 4 bytes three leave, half of them each way: 3 cycles, and two hops
    assert Machine(_pod(), _program(1)).run().cycles == 3 + 2 * 5
    # 16 bytes at one a cycle, 3 of latency, the links, 4 bytes back
    slow = _pod(bandwidth_bytes_per_second="1 GB/s", latency_cycles=3)
    assert Machine(slow, _program(1)).run().cycles == 16 + 3 + 13 + 4


def test_chunks_follow_one_another_on_the_links_by_hand() -> None:
    # each leaves as it is there, while those before it are on their way
    slow = _pod(bandwidth_bytes_per_second="2 GB/s", latency_cycles=3)
    run = Machine(slow, _program(3)).run()
    assert run.cycles == 3 * 8 + 3 + 13 + 2
    link = run.engines["link"]
    assert (link.busy, link.stalls, link.idle) == (
        3 * 3,
        {"dram_bandwidth": 8 + 2 + 2, "dram_latency": 3 * 3, "drain": 10 + 2},
        0,
    )
    assert run.moved["link_write", "T"] == 3 * 12
    assert run.moved["link_read", "Y"] == 3 * 12


def test_four_chips_make_what_one_makes() -> None:
    ff, pod = feed_forward(), _pod()
    columns = {"FF1": "f 32", "act": "f 32", "FF2": "f 32"}
    for norm in ("", "m 16"):
        result = simulate(ff, pod, spread(ff, **columns, norm=norm))
        assert result.run.moved == result.prediction.moved
        checked = check_chips(ff, result.pod)
        assert [one.compared for one in checked[:2]] == [64 * 32, 64 * 32]


def test_work_of_four_chips_is_that_of_one() -> None:
    ff, pod = feed_forward(), _pod()
    columns = {"FF1": "f 32", "act": "f 32", "FF2": "f 32"}
    alone = simulate(ff, accelerator(), spread(ff))
    four = simulate(ff, pod, spread(ff, **columns))
    assert 4 * four.run.macs == alone.run.macs
    assert four.run.operators[3].name == "Y.all_reduce"
    # 64 x 32 sums of 2 bytes in pieces of 1,024 bytes, of which three leave twice, half each way
    assert four.run.engines["link"].busy == 2 * 3 * 1024 // 2 // 2
    assert rows_of(four)[3].limit.name == "link"


MESSAGES = """program two
  operator S.send on cores {core}-{core}
    loop chunk 2 from 0 step 1
      tile S 1x40 x2 of S[chunk=2,x=40] 1B
      load S queue 3
      link send S = S over 1 of 40B
  operator T.all_gather on cores 0-0
    loop chunk 1 from 0 step 1
      tile T 1x100 x2 of T[chunk=1,x=100] 1B
      tile Y 1x400 x2 of Y[chunk=1,x=400] 1B
      load T queue 3
      link all_gather Y = T over 4 of 400B
      store Y
"""


def test_a_message_and_a_collective_share_links_by_hand() -> None:
    """75 cycles of a collective, 40 of two messages, in turns as long as there are both."""
    program = parse_program(MESSAGES.format(core=REMOTE))
    run = run_exactly(_pod(), program)
    assert run.served_cycles["links0"] == 300 // 2 // 2 + 80 // 2
    assert {one.name: one.cycles for one in run.operators} == {
        "S.send": 2 * 40,
        "T.all_gather": 75 + 40 + 2 * 5,
    }
    assert run.engines["link"].busy == 75 + 40


def test_a_wait_for_what_is_on_its_way_is_booked_to_the_links() -> None:
    run = Machine(_pod(), _program(1)).run()
    assert run.engines["link"].busy == 3
    assert run.engines["dma_out"].stalls == {"link": 3 + 2 * 5}
