"""Links on the machine: time lines by hand, and chips of which one stands for all."""

from simaccel.experiment.check_chips import check_chips
from simaccel.experiment.limits import rows_of
from simaccel.experiment.run import simulate
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.program.program import Program
from simaccel.program.text import parse_program, program_text
from tests.machine.accelerators import accelerator
from tests.mapping.chips.feed_forward import feed_forward, spread

EXCHANGE = """program one
  operator T.reduce_scatter
    loop chunk {trips} from 0 step 1
      tile T 1x16 x2 of T[chunk={trips},x=16] 1B
      tile Y 1x4 x2 of Y[chunk={trips},x=4] 1B
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
    raw = found.model_dump() | {
        "links": {"bytes_per_second": "2 GB/s", "hop_cycles": 5, "algorithm": "ring"},
        "chips": 4,
    }
    return Accelerator.model_validate(raw)


def test_one_chunk_by_hand() -> None:
    # three messages of 4 bytes: 3 x (2 + 5)
    assert Machine(_pod(), _program(1)).run().cycles == 21
    # 16 bytes at one a cycle, 3 of latency, the links, 4 bytes back
    slow = _pod(bandwidth_bytes_per_second="1 GB/s", latency_cycles=3)
    assert Machine(slow, _program(1)).run().cycles == 16 + 3 + 21 + 4


def test_chunks_follow_one_another_on_the_links_by_hand() -> None:
    # loads of 8 cycles come faster than the links take them
    slow = _pod(bandwidth_bytes_per_second="2 GB/s", latency_cycles=3)
    run = Machine(slow, _program(3)).run()
    assert run.cycles == 8 + 3 + 3 * 21 + 2
    link = run.engines["link"]
    assert (link.busy, link.stalls, link.idle) == (
        63,
        {"dram_bandwidth": 8, "dram_latency": 3, "drain": 2},
        0,
    )
    assert run.moved["link_write", "T"] == 3 * 12
    assert run.moved["link_read", "Y"] == 3 * 12


def test_waiting_for_a_link_is_a_cause() -> None:
    run = Machine(_pod(), _program(1)).run()
    assert run.engines["dma_out"].stalls == {"link": 21}


def test_four_chips_make_what_one_makes() -> None:
    ff, pod = feed_forward(), _pod()
    columns = {"FF1": "f 32", "act": "f 32", "FF2": "f 32"}
    for norm in ("", "m 16"):
        result = simulate(ff, pod, spread(ff, **columns, norm=norm))
        assert result.run.moved == result.prediction.moved
        checked = check_chips(ff, result.pod)
        assert [one.compared for one in checked[:2]] == [64 * 128, 64 * 128]


def test_work_of_four_chips_is_that_of_one() -> None:
    ff, pod = feed_forward(), _pod()
    columns = {"FF1": "f 32", "act": "f 32", "FF2": "f 32"}
    alone = simulate(ff, accelerator(), spread(ff))
    four = simulate(ff, pod, spread(ff, **columns))
    assert 4 * four.run.macs == alone.run.macs
    assert four.run.operators[3].name == "Y.all_reduce"
    # 64 x 32 sums of 2 bytes in pieces of 1,024 bytes, six messages
    assert four.run.engines["link"].busy == 6 * (512 + 5)
    assert rows_of(four)[3].limit.name == "link"
