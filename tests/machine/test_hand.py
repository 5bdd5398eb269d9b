"""Small programs whose every cycle is worked out by hand.

The array is 4 x 4 without overlap of folds: a weight-stationary product of 10 x 4 x 4 is one fold
of 4 (preload) + 10 (stream) + 6 (skew) = 20 cycles. The SFU has 4 lanes and makes 3 passes: 40
elements are 30 cycles. Ports and NoC are unlimited, turns are long (first come, first served).
"""

from typing import Any

from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator, gigabytes


def _accelerator(bytes_per_cycle: int, **dram: Any) -> Accelerator:  # noqa: ANN401 - any field
    return accelerator(
        dram={
            "bandwidth_bytes_per_second": gigabytes(bytes_per_cycle),
            "batch_bytes": 2**20,
            **dram,
        },
        sfu={"lanes": 4},
        dma={"in_queues": "single"},
    )


def _run(on: Accelerator, text: str) -> Run:
    return Machine(on, parse_program(text)).run()


# A is 80 B (20 cycles at 4 B/cycle), B is 32 B (8 cycles)
LOADS = """\
program loads
  operator gemm
    tile B 1x4x4 x1 of B[g=1,k=4,n=4] 2B
    load B queue 1
    loop m 4 from 0 step 10
      tile A 1x10x4 x2 of A[g=1,m=40,k=4] 2B
      tile C 1x10x4 x1 of C[g=1,m=40,n=4] 2B
      load A queue 0
      compute C = A B over g=1 m=10 k=4 n=4 folds ws
"""


def test_double_buffered_loads() -> None:
    """DRAM 4 B/cycle, latency 10.

    dma_in  B 0-8  A0 8-28  A1 28-48       A2 58-78          A3 78-98
    ready   B 18   A0 38    A1 58          A2 88             A3 108
    array           gemm0 38-58  gemm1 58-78       gemm2 88-108  gemm3 108-128

    A2 waits for the slot of A0 (58), A3 for that of A1 (78). Of B and A0 the array gets A0 last: it
    waits 0-28 for transfers, 28-38 for A0's latency; 78-88 for A2's latency.
    """
    run = _run(_accelerator(4, latency_cycles=10), LOADS)
    assert run.cycles == 128
    assert run.engines["array"].busy == 4 * 20
    assert run.engines["array"].stalls == {"dram_bandwidth": 28, "dram_latency": 10 + 10}
    dma = run.engines["dma_in"]
    assert dma.busy == 8 + 4 * 20
    # 48-58 for a slot that the array holds; 98-128 nothing is left to load
    assert dma.stalls["array"] == 10
    assert dma.stalls.get("drain", 0) + dma.idle == 30
    assert run.served_cycles["dram0"] == 88


def test_one_slot_doesn_t_overlap() -> None:
    """The same with one slot: after B, each A takes 20 + 10 + 20 cycles, one after the other."""
    run = _run(_accelerator(4, latency_cycles=10), LOADS.replace("1x10x4 x2", "1x10x4 x1"))
    assert run.cycles == 8 + 4 * (20 + 10 + 20)
    # for A0, which comes after B, 0-28 and 28-38; for each later A its 20 and 10
    assert run.engines["array"].stalls == {
        "dram_bandwidth": 28 + 3 * 20,
        "dram_latency": 10 + 3 * 10,
    }


# C is 80 B (10 cycles at 8 B/cycle), A is 32 B (4 cycles)
SPILL = """\
program spill
  operator gemm
    tile A 1x4x4 x1 of A[g=1,m=4,k=4] 2B
    tile B 1x4x4 x1 of B[g=1,k=4,n=4] 0B
    load B queue 1
    load A queue 0
    loop k 1 from 0 step 4
      loop m 2 from 0 step 10
        tile C 1x10x4 x2 of C[g=1,m=20,n=4] 2B
        reserve C queue 2
        compute C = A B over g=1 m=10 k=4 n=4 folds ws
        store C
    loop k 1 from 4 step 4
      loop m 2 from 0 step 10
        tile C 1x10x4 x2 of C[g=1,m=20,n=4] 2B
        load C queue 2
        compute C += A B over g=1 m=10 k=4 n=4 folds ws
        store C
"""


def test_partial_sums_are_spilled_and_read_back() -> None:
    """DRAM 8 B/cycle, no latency.

    dma_in   A 0-4                            C0 34-44            C1 54-64
    array          gemm0 4-24   gemm1 24-44         gemm0 44-64         gemm1 64-84
    dma_out               C0 24-34                  C1 44-54      C0 64-74        C1 84-94

    A slot of C comes free when its store has ended; only then the next C is read.
    """
    run = _run(_accelerator(8), SPILL)
    assert run.cycles == 94
    assert run.engines["array"].stalls == {"dram_bandwidth": 4, "drain": 10}
    assert run.moved[("dram_write", "C")] == 4 * 80
    assert run.moved[("dram_read", "C")] == 2 * 80


def test_turnarounds_delay_the_spill() -> None:
    """The same with 3 cycles whenever the DRAM changes direction (marked |).

    dram     A 0-4  |C0 24-37  |C0' 37-50  |C1 50-63  |C1' 63-76  |C0' 76-89  C1' 96-106
    array    gemm0 4-24  gemm1 24-44  gemm0' 50-70  gemm1' 76-96

    C1 is asked for at 44 and waits for C0'; C0' is stored after C1' has been read; the last
    store follows a store.
    """
    run = _run(_accelerator(8, turnaround_cycles=3), SPILL)
    assert run.cycles == 106


# K, V are 32 B (4 cycles at 8 B/cycle), Q and O 80 B (10 cycles)
FLAT = """\
program flat
  operator L+softmax+A
    tile K 1x4x4 x1 of K[g=1,d=4,c=4] 2B
    tile V 1x4x4 x1 of V[g=1,c=4,e=4] 2B
    load K queue 1
    load V queue 2
    loop q 3 from 0 step 10
      tile Q 1x10x4 x2 of Q[g=1,q=30,d=4] 2B
      tile S 1x10x4 x1 of S[g=1,q=30,c=4] 2B
      tile O 1x10x4 x2 of O[g=1,q=30,e=4] 2B
      load Q queue 0
      compute S = Q K over g=1 q=10 d=4 c=4 folds ws
      sfu softmax whole S = S over g=1 q=10 c=4 axis c scale 0.5 of softmax
      compute O = S V over g=1 q=10 c=4 e=4 folds ws
      store O
"""


def test_row_blocks_of_flat_alternate_between_array_and_sfu() -> None:
    """K 0-4, V 4-8, Q0 8-18; then each of three row blocks L 20, softmax 30, A 20.

    array  L0 18-38           A0 68-88  L1 88-108            A1 138-158  ...  A2 208-228
    sfu             S0 38-68                      S1 108-138
    dma_out                             O0 88-98                              O2 228-238
    """
    run = _run(_accelerator(8), FLAT)
    assert run.cycles == 18 + 3 * 70 + 10
    assert run.engines["array"].busy == 6 * 20
    assert run.engines["array"].stalls == {"dram_bandwidth": 18, "sfu": 3 * 30, "drain": 10}
    assert run.engines["sfu"].busy == 3 * 30


def test_software_pipelining_fills_the_array_during_softmax() -> None:
    """L runs one row block ahead; three slots for Q, two for S.

    array  L0 18-38  L1 38-58       A0 68-88  L2 88-108  A1 108-128       A2 138-158
    sfu              S0 38-68       S1 68-98             S2 108-138
    dma_out                                   O0 88-98       O1 128-138        O2 158-168
    """
    ahead = FLAT.replace("step 10", "step 10 ahead 2").replace("Q 1x10x4 x2", "Q 1x10x4 x3")
    run = _run(_accelerator(8), ahead.replace("S 1x10x4 x1", "S 1x10x4 x2"))
    assert run.cycles == 168
    assert run.engines["array"].stalls == {"dram_bandwidth": 18, "sfu": 10 + 10, "drain": 10}


def test_operators_wait_for_one_another() -> None:
    """The second operator loads only after the first has stored its last tile: 238 + 238."""
    twice = "program twice\n  loop layer 2 from 0 step 1\n" + "".join(
        f"  {line}\n" for line in FLAT.splitlines()[1:]
    )
    run = _run(_accelerator(8), twice)
    assert run.cycles == 2 * 238
    assert [operator.cycles for operator in run.operators] == [2 * 238]
