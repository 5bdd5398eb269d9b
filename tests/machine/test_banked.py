"""DRAM with rows, banks and refresh in the machine: timelines by hand, blame, what if, exactness.

HBM2 has a clock of 1 ns, so at 1 GHz its clocks are cycles. The array is 4 x 4 without overlap.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from simaccel.analytic.prediction import predict
from simaccel.diagnosis.what_if import what_if
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program
from simaccel.schedulers import make_mapping
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator

BANKED = {"model": "banked", "part": "HBM2", "latency_cycles": 10}


def _accelerator(**dram: Any) -> Accelerator:  # noqa: ANN401 - any field
    return accelerator(dram=BANKED | dram, dma={"in_queues": "single"})


def _run(text: str, **dram: Any) -> Run:  # noqa: ANN401
    return Machine(_accelerator(**dram), parse_program(text)).run()


# Eight folds of 4 (preload) + 16 (stream) + 6 (skew) cycles = 208. B is 32 x 4 x 2 B = 256 B in one
# row; A is 16 rows of 64 B whose pitch is that of its tensor.
GEMM = """\
program gemm
  operator gemm
    tile B 1x32x4 x1 of B[g=1,k=32768,n=4] 2B
    load B queue 1
    tile A 1x16x32 x1 of A[g=1,m=16,k={k}] 2B
    tile C 1x16x4 x1 of C[g=1,m=16,n=4] 2B
    load A queue 0
    compute C = A B over g=1 m=16 k=32 n=4 folds ws
"""


def test_a_bank_conflict() -> None:
    """Rows 64 KiB apart are in one bank: 16 row cycles of 48; refresh makes 3607 of 3900 usable.

    dma_in  B 0-33   A 33-864
    ready   B 43     A 874
    array            gemm 874-1082

    B: 4 bursts are 8 cycles, but in four bank groups: 4 activates of 30 / 4, 30; with refresh 33.
    A: 16 x 48 = 768, with refresh 831.
    """
    run = _run(GEMM.format(k=32768))
    assert run.cycles == 33 + 831 + 10 + 208
    assert run.engines["dma_in"].busy == 33 + 831
    assert run.engines["array"].stalls == {"dram_banks": 864, "dram_latency": 10}


def test_the_same_tile_in_a_row_of_its_own() -> None:
    """A is whole: 1 KiB in a row is 16 bursts, 32 cycles; 4 activates, 30; with refresh 35.

    dma_in  B 0-33   A 33-68
    array            gemm 78-286
    """
    run = _run(GEMM.format(k=32))
    assert run.cycles == 33 + 35 + 10 + 208
    # B is held up by its activates, A by the data bus
    assert run.engines["array"].stalls == {
        "dram_banks": 33,
        "dram_bandwidth": 35,
        "dram_latency": 10,
    }


def test_refresh() -> None:
    """A 64 KiB tile is 1024 bursts, 2048 cycles of the bus: it pays for 2048 / 3607 refreshes.

    dma_in  X 0-2215   (2048 x 3900 / 3607 = 2214.4)
    sfu                from 2225 on: 32768 elements in 3 passes, one a cycle
    """
    text = """\
program stream
  operator op
    tile X 1x32768 x1 of X[g=1,e=32768] 2B
    load X queue 0
    sfu softmax whole X = X over g=1 e=32768 axis e of softmax
"""
    run = _run(text)
    assert run.engines["dma_in"].busy == 2215
    assert run.cycles == 2215 + 10 + 3 * 32768


def test_an_interface_that_is_slower_than_the_part_decides() -> None:
    """16 B a cycle: A of 1 KiB takes 64 cycles and not 35."""
    run = _run(GEMM.format(k=32), bandwidth_bytes_per_second="16 GB/s")
    assert run.engines["dma_in"].busy == 33 + 64


def test_requests_in_flight_are_a_limit_of_their_own() -> None:
    """40 B in each 10 cycles: 1 KiB takes 256 cycles, and nobody blames banks."""
    run = _run(GEMM.format(k=32), in_flight_bytes=40)
    assert run.engines["dma_in"].busy == 64 + 256
    assert run.engines["array"].stalls == {"dram_queue": 320, "dram_latency": 10}


def test_what_if_frees_the_banks() -> None:
    """A bandwidth of 64 B a cycle is left: B 4 cycles, A 16."""
    on = _accelerator(bandwidth_bytes_per_second="64 GB/s")
    program = parse_program(GEMM.format(k=32768))
    found = {one.resources: one.cycles for one in what_if(on, program).freed}
    assert found["dram_banks",] == 4 + 16 + 10 + 208
    assert found["dram_bandwidth",] == 10 + 208
    channel = accelerator()
    assert ("dram_banks",) not in {f.resources for f in what_if(channel, program).freed}


@pytest.mark.parametrize(("m", "k", "n"), [(512, 512, 512), (384, 64, 4096), (77, 129, 1000)])
def test_banks_take_time(m: int, k: int, n: int) -> None:
    """Half of the second one's time is bank conflicts: columns of a matrix with rows of 8 KiB.

    Its channel is busy all the time: the work is counted, not the turns between loads and stores.
    """
    on = load_accelerator("edge_banked")
    workload = gemm(m=m, k=k, n=n)
    mapping = make_mapping(workload, on, "naive")
    run = Machine(on, lower(workload, mapping)).run()
    assert predict(workload, mapping, on).bound_cycles <= run.cycles
    without = load_accelerator("edge_banked", ["dram.model=channel"])
    assert Machine(without, lower(workload, mapping)).run().cycles < run.cycles


@pytest.mark.parametrize(
    "better",
    [
        "dram.in_flight_bytes=64 KiB",
        "dram.turnaround_cycles=5",
        "dram.batch_bytes=8 KiB",
        "dram.bandwidth_bytes_per_second=unlimited",
        "dram.channels=8",
        "sfu.lanes=2048",
        "buffer.read_bytes_per_second=unlimited",
        "dram.latency_cycles=36",
    ],
)
def test_better_hardware_does_not_slow_a_program(better: str) -> None:
    """By more than 0.1%: half of the time is bank conflicts, loads and stores share the DRAM."""
    on = load_accelerator("edge_banked")
    workload = gemm(m=384, k=64, n=1024)
    program = lower(workload, make_mapping(workload, on, "naive"))
    now = Machine(load_accelerator("edge_banked", [better]), program).run().cycles
    assert now <= 1.001 * Machine(on, program).run().cycles


def _faults(**dram: Any) -> list[str]:  # noqa: ANN401
    with pytest.raises(ValidationError) as caught:
        accelerator(dram=dram)
    return [".".join(map(str, one["loc"])) for one in caught.value.errors()]


def test_fields_that_do_not_go_together_are_named() -> None:
    assert _faults(model="banked") == ["dram.part"]
    assert _faults(model="banked", part="DDR9") == ["dram.part"]
    assert _faults(model="banked", part="HBM2", map="mopxor") == ["dram.map"]
    assert _faults(model="pages") == ["dram.model"]
