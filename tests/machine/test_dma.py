"""DMA engines and the SFU on the machine: transfers, latency, ports, queues and passes."""

from typing import Any

import pytest

from simaccel.machine.machine import Machine, Run
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator, gigabytes

# X is 80 B; softmax of 40 elements on 4 lanes is 30 cycles
ONE = """\
program one
  operator op
    tile X 1x40 x1 of X[q=9,c=40] 2B
    load X queue 0
    sfu softmax whole X = X over q=1 c=40 axis c of softmax
    store X
"""
TWO_QUEUES = """\
program two
  operator op
    tile X 1x40 x1 of X[q=9,c=40] 2B
    tile Y 1x40 x1 of Y[q=9,c=40] 2B
    load X queue 0
    load Y queue 1
"""


def _run(
    text: str, bytes_per_cycle: int = 8, *, single: bool = False, **sections: dict[str, Any]
) -> Run:
    dram = {"bandwidth_bytes_per_second": gigabytes(bytes_per_cycle)}
    on = accelerator(
        dram=dram | sections.get("dram", {}),
        buffer=sections.get("buffer", {}),
        sfu={"lanes": 4},
        dma={"in_queues": "single" if single else "per_tensor"},
    )
    return Machine(on, parse_program(text)).run()


def test_a_tile_is_loaded_used_and_stored() -> None:
    """80 B at 8 B/cycle: 10 cycles each way; where turning costs, the channel turns once."""
    run = _run(ONE)
    assert run.cycles == 10 + 30 + 10
    assert run.engines["dma_in0"].busy == 10
    assert run.engines["dma_out"].busy == 10
    assert _run(ONE, dram={"turnaround_cycles": 6}).cycles == 10 + 30 + 6 + 10


def test_read_latency_delays_the_tile_and_not_the_engine() -> None:
    """A write is posted: its latency is nobody's concern."""
    run = _run(ONE, dram={"latency_cycles": 7})
    assert run.cycles == 10 + 7 + 30 + 10
    assert run.engines["dma_in0"].busy == 10
    assert run.engines["sfu"].stalls["dram_latency"] == 7
    assert run.engines["sfu"].stalls["dram_bandwidth"] == 10


def test_latency_is_pipelined() -> None:
    """With slots for all, loads follow one another without waiting for the data."""
    loads = """\
program loads
  operator op
    loop q 3 from 0 step 1
      tile X 1x40 x3 of X[q=9,c=40] 2B
      load X queue 0
      sfu softmax statistics X = X over q=1 c=40 axis c of softmax
"""
    # arrivals at 10, 20, 30 + 100; a pass of 10 cycles each
    run = _run(loads, dram={"latency_cycles": 100})
    assert run.cycles == 30 + 100 + 10
    assert run.engines["dma_in0"].busy == 30


def test_the_buffer_port_may_be_slower_than_the_dram() -> None:
    """80 B into the buffer at 2 B/cycle: 40 cycles; out of it at 4 B/cycle: 20.

    Softmax takes 30 cycles, but reads 240 B in 60 and writes 160 B in 80. The store waits for
    what the load and the SFU wait for: 0-10 DRAM, 10-40 port, 40-70 SFU, 70-120 port; then it
    moves its bytes 120-130 and waits for its own port 130-140.
    """
    ports = {"write_bytes_per_second": "2 GB/s", "read_bytes_per_second": "4 GB/s"}
    run = _run(ONE, buffer=ports)
    assert run.cycles == 40 + 80 + 20
    dma_in, dma_out = run.engines["dma_in0"], run.engines["dma_out"]
    assert (dma_in.busy, dma_in.stalls["buffer_port"]) == (10, 30)
    assert dma_out.busy == 10
    assert dma_out.stalls == {"dram_bandwidth": 10, "buffer_port": 30 + 50 + 10, "sfu": 30}


def test_of_two_loads_the_older_is_served_first() -> None:
    """X is asked for before Y in the same cycle: it ends at 10 and Y at 20, as in one queue."""
    both = _run(TWO_QUEUES)
    assert both.cycles == 20
    assert both.engines["dma_in0"].busy == 10
    assert both.engines["dma_in1"].busy == 20
    single = _run(TWO_QUEUES, single=True)
    assert single.cycles == 20
    assert single.engines["dma_in"].busy == 20


def test_what_waits_for_requests_in_flight_says_so() -> None:
    """20 B in each latency of 5 cycles are 4 B/cycle: 80 B take 20 cycles instead of 10."""
    run = _run(ONE, dram={"in_flight_bytes": 20, "latency_cycles": 5})
    assert run.cycles == 20 + 5 + 30 + 10
    assert run.engines["sfu"].stalls == {"dram_queue": 20, "dram_latency": 5, "drain": 10}
    enough = _run(ONE, dram={"in_flight_bytes": 40, "latency_cycles": 5})
    assert enough.engines["sfu"].stalls == {"dram_bandwidth": 10, "dram_latency": 5, "drain": 10}


def test_channels_share_a_transfer() -> None:
    """8 B/cycle over 2 channels, stripes of 32 B: 80 B are 32 + 16 and 32, at 4 B/cycle."""
    run = _run(ONE, dram={"channels": 2, "interleave_bytes": 32})
    assert run.served_cycles["dram0"] == 2 * 12
    assert run.served_cycles["dram1"] == 2 * 8
    assert run.cycles == 12 + 30 + 12


def test_a_reserved_slot_moves_nothing() -> None:
    text = ONE.replace("load X", "reserve X")
    run = _run(text, dram={"latency_cycles": 5})
    assert run.cycles == 30 + 10, "nothing is on its way, so that nobody waits for it"
    assert ("dram_read", "X") not in run.moved


def test_operators_wait_until_everything_is_stored() -> None:
    twice = ONE + "".join(
        f"{line}\n" for line in ONE.replace("operator op", "operator op2").splitlines()[1:]
    )
    run = _run(twice)
    assert run.cycles == 2 * 50
    assert [(o.name, o.cycles) for o in run.operators] == [("op", 50), ("op2", 50)]


PIECE = """\
program sfu
  operator sfu
    loop q {trips} from 0 step 1
      tile X 1x40 x1 of X[q=9,c=40] 2B
      sfu softmax {step} X = X over q=1 c=40 axis c of softmax
"""


def _run_vector(
    step: str = "whole",
    trips: int = 1,
    *,
    passes: int = 3,
    read: int | None = None,
    write: int | None = None,
) -> Run:
    """40 elements on 4 lanes, 5 cycles of latency: a pass is 10 cycles and 80 bytes."""
    on = accelerator(
        sfu={"lanes": 4, "passes": passes, "latency_cycles": 5},
        buffer={
            "read_bytes_per_second": gigabytes(read),
            "write_bytes_per_second": gigabytes(write),
        },
    )
    return Machine(on, parse_program(PIECE.format(step=step, trips=trips))).run()


@pytest.mark.parametrize(
    ("step", "passes", "cycles", "reads", "writes"),
    [
        ("whole", 3, 35, 3, 2),
        ("whole", 2, 25, 2, 1),
        ("statistics", 3, 15, 1, 0),
        ("normalise", 3, 15, 1, 1),
        ("online", 3, 25, 2, 1),
        ("rescale", 3, 15, 1, 1),
        ("divide", 3, 15, 1, 1),
    ],
)
def test_each_step_has_its_passes(
    step: str, passes: int, cycles: int, reads: int, writes: int
) -> None:
    run = _run_vector(step, passes=passes)
    assert run.cycles == cycles
    assert run.engines["sfu"].busy == cycles
    assert run.moved.get(("buffer_read", "X"), 0) == 80 * reads
    assert run.moved.get(("buffer_write", "X"), 0) == 80 * writes
    assert run.elements == 40 * (cycles - 5) // 10


def test_pieces_follow_one_another_and_ports_throttle() -> None:
    """Three passes read 240 B at 4 B/cycle: 60 cycles instead of 35; two write 160 B at 2: 80.

    As fast as the SFU a port is hidden: 240 B at 8 B/cycle are 30 cycles, at 7 35, at 6 40.
    """
    assert _run_vector(trips=9).cycles == 9 * 35
    assert _run_vector(write=2).cycles == _run_vector(read=4, write=2).cycles == 80
    assert [_run_vector(read=rate).cycles for rate in (8, 7, 6)] == [35, 35, 40]
    run = _run_vector(read=4)
    assert run.cycles == 60
    assert run.engines["sfu"].busy == 35
    assert run.engines["sfu"].stalls == {"buffer_port": 25}
    assert run.served_cycles["buffer_read"] == 60


NORM = """\
program norm
  operator norm
    tile X 4x8 x1 of X[q=4,c=8] 2B
    tile G 8 x1 of G[c=8] 4B
    tile Y 4x8 x1 of Y[q=4,c=8] 1B
    sfu layer_norm whole Y = X G over q=4 c=8 axis c of norm
"""


@pytest.mark.parametrize(("passes", "cycles", "reads"), [(3, 29, 3), (2, 21, 2)])
def test_each_input_and_the_output_have_blocks_of_their_own(
    passes: int, cycles: int, reads: int
) -> None:
    on = accelerator(sfu={"lanes": 4, "passes": passes, "latency_cycles": 5})
    run = Machine(on, parse_program(NORM)).run()
    assert (run.cycles, run.elements) == (cycles, 32 * passes)
    moved = {tensor: n for (level, tensor), n in run.moved.items() if level == "buffer_read"}
    assert moved == {"X": 64 * reads, "G": 32}
    assert run.moved["buffer_write", "Y"] == 32


def test_a_window_is_read_once_and_passed_over_at_each_position() -> None:
    text = """\
program pool
  operator pool
    tile I 9 x1 of I[2*p+r=9] 2B
    tile O 4 x1 of O[p=4] 2B
    sfu pooling whole O = I over p=4 r=3 of pool
"""
    run = Machine(accelerator(sfu={"lanes": 4}), parse_program(text)).run()
    assert (run.cycles, run.elements) == (3, 12)
    assert run.moved == {("buffer_read", "I"): 18, ("buffer_write", "O"): 8}
