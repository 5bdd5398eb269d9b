"""Cores that share the DRAM, and their links: time lines by hand.

The array is 4 x 4 without overlap of folds: a weight-stationary product of 10 x 4 x 4 is one fold
of 4 (preload) + 10 (stream) + 6 (skew) = 20 cycles. Ports and NoC are unlimited.
"""

from itertools import pairwise

import pytest

from simaccel.analytic.prediction import predict
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import CoreNocSpec
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.checks import faults
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program, program_text
from simaccel.workload import Workload
from tests.agreement import assert_counts, run_exactly
from tests.machine.accelerators import accelerator
from tests.trees import assert_computes, einsum, mapping, workload


def _cores(count: int, bytes_per_second: str, latency_cycles: int, **noc: object) -> Accelerator:
    return accelerator(
        dram={
            "bandwidth_bytes_per_second": bytes_per_second,
            "latency_cycles": latency_cycles,
            "batch_bytes": 2**20,
        },
        dma={"in_queues": "single"},
        cores={"count": count, "noc": noc},
    )


def _run(on: Accelerator, text: str) -> Run:
    program = parse_program(text)
    assert program_text(program) == text
    return run_exactly(on, program)


# A is 80 B (20 cycles at 4 B/cycle), B is 32 B (8 cycles); each core has two blocks of rows
TWO_CORES = """\
program two
  operator gemm
    loop m 2 from 0 step 20 on core 0 step 1
      tile B 4x4 x1 of B[k=4,n=4] 2B
      load B queue 1
      loop m 2 from 0 step 10
        tile A 10x4 x2 of A[m=40,k=4] 2B
        tile C 10x4 x1 of C[m=40,n=4] 2B
        load A queue 0
        compute C = A B over m=10 k=4 n=4 folds ws
"""


def test_two_cores_take_turns_at_the_dram() -> None:
    """DRAM 4 B/cycle, latency 10, first come, first served.

    dram       B 0-8  B' 8-16  A0 16-36  A2' 36-56  A1 56-76  A3' 76-96
    array      gemm0 46-66 (A0 is there at 46)   gemm1 86-106
    core1      gemm2 66-86 (A2 at 66)            gemm3 106-126

    Core 0's array waits for A0: its transfer until 36, its latency until 46; for A1 66-76 and
    76-86; from 106 on for the other core. Core 1's waits for A2 until 56 and 66, for A3 86-96 and
    96-106.
    """
    run = _run(_cores(2, "4 GB/s", 10), TWO_CORES)
    assert run.cycles == 126
    assert (run.engines["array"].busy, run.engines["core1.array"].busy) == (40, 40)
    stalls = {"dram_bandwidth": 36 + 10, "dram_latency": 20, "drain": 20}
    assert run.engines["array"].stalls == stalls
    assert run.engines["core1.array"].stalls == {"dram_bandwidth": 56 + 10, "dram_latency": 20}
    assert run.served_cycles["dram0"] == 2 * (8 + 20 + 20)
    assert run.moved["dram_read", "B"] == 2 * 32
    assert run.peak_buffer_bytes == 32 + 2 * 80 + 80
    run = _run(_cores(3, "4 GB/s", 10), TWO_CORES)  # more cores than pieces
    assert (run.cycles, run.engines["core2.array"].idle) == (126, 126)


def test_what_cores_load_alike_is_read_once() -> None:
    """B is; then core 1 goes on first, as it was the last to come.

    dram       B 0-8   A2' 8-28   A0 28-48   A3' 48-68   A1 68-88
    array      gemm0 58-78 (A0 is there at 58)   gemm1 98-118
    core1      gemm2 38-58 (A2 at 38)            gemm3 78-98
    """
    run = _run(_cores(2, "4 GB/s", 10, multicast=True), TWO_CORES)
    assert run.cycles == 118
    assert run.moved["dram_read", "B"] == 32
    assert run.moved["buffer_write", "B"] == 2 * 32
    assert run.served_cycles["dram0"] == 8 + 4 * 20


# as before, but B comes with each block of rows, into one slot
TURNS = """\
program turns
  operator gemm
    loop m 2 from 0 step 20 on core 0 step 1
      loop m 2 from 0 step 10
        tile B 4x4 x1 of B[k=4,n=4] 2B
        tile A 10x4 x2 of A[m=40,k=4] 2B
        tile C 10x4 x1 of C[m=40,n=4] 2B
        load B queue 1
        load A queue 0
        compute C = A B over m=10 k=4 n=4 folds ws
"""


def test_a_load_of_all_waits_for_a_slot_of_each_core() -> None:
    """The second B waits for core 0's product, and so does core 1, whose slot has been free.

    dram       B 0-8   A2' 8-28   A0 28-48   B 78-86   A1 86-106   A3' 106-126
    array      gemm0 58-78       gemm1 116-136
    core1      gemm2 38-58       gemm3 136-156

    Core 1's queue waits 28-38 for A2 to arrive, 38-58 for its own array, 58-78 for that of core 0.
    """
    run = _run(_cores(2, "4 GB/s", 10, multicast=True), TURNS)
    assert run.cycles == 156
    first, second = run.engines["dma_in"], run.engines["core1.dma_in"]
    assert (first.busy, second.busy) == (76, 76)
    assert first.stalls == {"dram_latency": 10, "array": 20, "drain": 50}
    assert second.stalls == {"dram_latency": 10, "array": 20 + 20, "drain": 30}


# the first operator: one block of rows on core 0, two on core 1; the second one reads all of C
BEHIND = """\
program behind
  operator one
    loop m 1 from 0 step 10 on core 0 step 1
      tile A 10x4 x1 of A[m=30,k=4] 2B
      tile B 4x4 x1 of B[k=4,n=4] 2B
      tile C 10x4 x1 of C[m=30,n=4] 2B
      load A queue 0
      load B queue 1
      compute C = A B over m=10 k=4 n=4 folds ws
      store C
    loop m 1 from 10 step 20 on core 1 step 1
      tile B 4x4 x1 of B[k=4,n=4] 2B
      load B queue 1
      loop m 2 from 0 step 10
        tile A 10x4 x2 of A[m=30,k=4] 2B
        tile C 10x4 x2 of C[m=30,n=4] 2B
        load A queue 0
        compute C = A B over m=10 k=4 n=4 folds ws
        store C
  operator two
    tile C 10x4 x1 of C[m=30,n=4] 2B
    tile D 4x4 x1 of D[n=4,o=4] 2B
    tile E 10x4 x1 of E[m=30,o=4] 2B
    load C queue 0
    load D queue 1
    compute E = C D over m=10 n=4 o=4 folds ws
"""


def test_a_load_waits_for_the_stores_of_every_core() -> None:
    """Transfers take no time, latency 10: core 0 is done at 30, core 1 at 10 + 20 + 20 = 50.

    Then C is loaded until 60, and multiplied until 80. What core 1 loads, it loads at once.
    """
    run = _run(_cores(2, "unlimited", 10), BEHIND)
    assert run.cycles == 80
    assert [one.cycles for one in run.operators] == [50, 30]
    assert run.engines["core1.array"].busy == 40
    assert run.engines["array"].busy == 40


@pytest.mark.parametrize(("count", "tile", "cycles"), [(1, 80, 160), (2, 40, 80), (3, 30, 60)])
def test_arrays_that_wait_for_nothing_share_their_work(count: int, tile: int, cycles: int) -> None:
    """8 blocks of 20 cycles, as many as there are on the core that has most of them."""
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=80, k=4, n=4))
    tree = f"""
        group G
          spread m {tile} cores
          keep B buffer
          loop m 10
          keep A buffer x2, C buffer x2
          do G array ws
    """
    program = lower(of, mapping(of, tree))
    assert Machine(_cores(count, "unlimited", 0), program).run().cycles == cycles


def test_a_smaller_last_piece_has_the_loops_of_a_full_one() -> None:
    """Three rows over two cores, one row at a time: core 1's only row is a loop, too.

    H is made again for both parts of o, on either core. By o and row come 8 B of X, so 2 * 2 * 8
    on core 0 and 2 * 8 on core 1; by o 8 B of U on each. F is 16 MACs a row and G 4, for both
    parts of o.
    """
    of = workload(
        einsum("F", "H r f", "X r e", "W e f", r=3, e=4, f=4),
        einsum("G", "Y r o", "H r f", "U f o", r=3, f=4, o=2),
    )
    tree = """
        group F+G
          spread r 2 cores
          keep W buffer
          loop o 1
          keep U buffer
          loop r 1
          keep X buffer, H buffer, Y buffer
          fork
            | do F array ws
            | do G array ws
    """
    spread, on = mapping(of, tree), accelerator(cores={"count": 2})
    assert faults(of, spread, on) == []
    assert_computes(of, spread)
    run = assert_counts(of, spread, on)
    reads = {name: run.moved["dram_read", name] for name in "XWU"}
    assert reads == {"X": 3 * 2 * 8, "W": 2 * 32, "U": 2 * 2 * 8}
    assert run.moved["dram_write", "Y"] == 3 * 2 * 2
    assert run.macs == 3 * 2 * (16 + 4)


def _linked_cores(count: int, **noc: object) -> Accelerator:
    return _cores(count, "8 GB/s", 10, **noc)


def _run_linked(on: Accelerator) -> Run:
    rows = 10 * on.cores.count
    program = parse_program(f"""\
program blocks
  operator gemm
    loop m {on.cores.count} from 0 step 10 on core 0 step 1
      tile B 4x4 x1 of B[k=4,n=4] 2B
      tile A 10x4 x1 of A[m={rows},k=4] 2B
      tile C 10x4 x1 of C[m={rows},n=4] 2B
      load B queue 1
      load A queue 0
      compute C = A B over m=10 k=4 n=4 folds ws
      store C
""")
    return run_exactly(on, program)


def test_two_cores_take_turns_on_a_bus() -> None:
    """2 B/cycle, both ways: B takes 16 cycles, A and C take 40. A hop takes 3.

    bus     B B' 0-32 (of core 0 until 28)   A A' 28-112 (of core 0 until 108)   C C' 141-221
    array   product 121-141 (A is there at 108 + 10 + 3)   core 1 four cycles later
    end     221 + 3

    Core 0's array waits for the DRAM while it reads B (4) and A (10), for the bus until each has
    come (28 - 4, 108 - 38), and for the way from there (13).
    """
    run = _run_linked(_linked_cores(2, topology="bus", link_bytes_per_cycle=2, hop_cycles=3))
    assert run.cycles == 224
    assert run.engines["array"].stalls == {
        "dram_bandwidth": 4 + 10,
        "core_noc": 24 + 70,
        "dram_latency": 13,
        "drain": 224 - 141,
    }
    assert run.served_cycles["core_noc_bus"] == 2 * (16 + 40 + 40)
    crossed = {name: n for (way, name), n in run.moved.items() if way.startswith("hops")}
    assert crossed == {"A": 160, "B": 64, "C": 160}


MESH = {"topology": "mesh", "link_bytes_per_cycle": 3, "hop_cycles": 3}


def test_four_cores_on_a_mesh_share_links_of_their_rows() -> None:
    """2 x 2, 3 B/cycle: B takes 11 cycles, A and C take 27. Core 3's loads pass the link to 1.

    dram    B 0-16   A of core 0 16-26, of 2 26-36, of 1 36-46, of 3 46-56
    B       core 0 0-11   1 and 3 0-22 (of 1 until 19)   2 0-12 (the DRAM)
    A       core 0 11-38  1 and 3 19-76 (of 1 until 73)  2 12-39
    array   core 0 51-71 (38 + 10 + 3)   1 89-109 (73 + 10 + 6)  2 55-75 (39 + 10 + 6)
            3 95-115 (76 + 10 + 9)
    C       core 3 115-142, there at 142 + 9
    """
    run = _run_linked(_linked_cores(4, **MESH))
    assert run.cycles == 151
    assert run.served_cycles["core_noc_0_1"] == 2 * (11 + 27)
    assert run.served_cycles["core_noc_2_0"] == 2 * 27
    ends = {core: run.engines[f"core{core}.array" if core else "array"] for core in range(4)}
    assert [end.stalls["drain"] for end in ends.values()] == [151 - n for n in (71, 109, 75, 115)]
    links = 1 + 2 + 2 + 3
    crossed = {key: n for key, n in run.moved.items() if key[0].startswith("hops")}
    assert crossed == {
        ("hops_read", "A"): 80 * links,
        ("hops_read", "B"): 32 * links,
        ("hops_write", "C"): 80 * links,
    }


def test_what_is_read_once_crosses_each_link_once() -> None:
    """B crosses the seven links of all ways; then core 3 asks first, as it was the last to come.

    dram    B 0-4   A of core 3 11-21, of 0 21-31, of 1 31-41, of 2 41-51
    A       3 and 1 11-65 (of 3 until 62)   core 0 11-38   2 11-51 (the DRAM)
    array   core 3 81-101 (62 + 10 + 9)   1 81-101 (65 + 10 + 6)   2 67-87
    C       of 2 from 87, of 3 from 101: they share the link from 2 to 0 until 141, there at 150
    """
    run = _run_linked(_linked_cores(4, multicast=True, **MESH))
    assert run.cycles == 150
    assert run.moved["hops_read", "B"] == 32 * 7
    assert run.served_cycles["core_noc_0_1"] == 11 + 2 * 27


def _spread(m: int, piece: int) -> tuple[Workload, Mapping]:
    """Return a product of so many rows, pieces of them on each core."""
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=m, k=4, n=4))
    keeps = "  keep B buffer, A buffer, C buffer\n  do G array ws"
    return of, mapping(of, f"group G\n  spread m {piece} cores\n{keeps}")


@pytest.mark.parametrize("noc", [MESH, {**MESH, "multicast": True}, {**MESH, "topology": "ring"}])
def test_counts_are_those_of_the_machine_and_the_bound_holds(noc: dict[str, object]) -> None:
    """Seven rows of ten: core 3 has one row less, which it reads for itself."""
    on = _linked_cores(4, **noc)
    of, tree = _spread(7, 2)
    found, run = predict(of, tree, on), Machine(on, lower(of, tree)).run()
    levels = ("dram_read", "dram_write", "hops_read", "hops_write")
    counted = {key: n for key, n in found.moved.items() if key[0] in levels}
    assert counted == {key: n for key, n in run.moved.items() if key[0] in levels}
    assert found.bound_cycles <= run.cycles
    links = {name: n for name, n in found.resources.items() if name.startswith("core_noc")}
    assert links.keys() == {name for name in run.served_cycles if name.startswith("core_noc")}
    assert all(0 < n <= run.served_cycles[name] for name, n in links.items())


def test_a_slow_bus_is_the_bound() -> None:
    """8 rows of A (8 B each) and of C, and B for each of 2 cores, at a byte a cycle."""
    on = _linked_cores(2, topology="bus", link_bytes_per_cycle=1, hop_cycles=2)
    assert predict(*_spread(8, 4), on).bound_terms == {"core_noc_bus": 64 + 64 + 2 * 32}


def test_energy_of_a_bit_a_hop() -> None:
    on = _linked_cores(2, topology="crossbar", link_bytes_per_cycle=2, pj_per_bit_hop=0.5)
    assert on.energy_by_level(0, 0, {("hops_read", "A"): 10, ("hops_write", "C"): 6})["hops"] == 64
    unknown = _linked_cores(2, topology="crossbar", link_bytes_per_cycle=2)
    assert "cores.noc.pj_per_bit_hop" in unknown.unknown_energies


@pytest.mark.parametrize(("core", "routers"), [(1, "01"), (2, "012"), (3, "043"), (4, "04")])
def test_routes_of_a_ring_go_the_shorter_way_round(core: int, routers: str) -> None:
    """Of 5 routers, 3 and 4 are nearer downwards; back the same way."""
    ring = CoreNocSpec(topology="ring", link_bytes_per_cycle=8)
    out = [f"core_noc_{start}_{end}" for start, end in pairwise(routers)]
    back = [f"core_noc_{start}_{end}" for start, end in pairwise(routers[::-1])]
    assert ring.links(core, 5, write=False) == (*out, f"core_noc_to{core}")
    assert ring.links(core, 5, write=True) == (f"core_noc_from{core}", *back)
    # of two ways that are equally long that upwards
    assert ring.links(2, 4, write=False) == ("core_noc_0_1", "core_noc_1_2", "core_noc_to2")
