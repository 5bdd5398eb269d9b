"""Links between memories and cores: time lines by hand for a bus of 2 cores and a mesh of 4.

Each core has a block of 10 rows: B (32 B) and A (80 B) come in one queue, a product of 20 cycles
(see ``test_cores``) follows, and C (80 B) is stored. DRAM: 8 B/cycle, latency 10, so B takes 4
cycles, A and C take 10. A load is done when DRAM and all links on its way have served it. Who waits
for a link together has turns of 4 cycles.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from simaccel.analytic.prediction import predict
from simaccel.hardware import Accelerator
from simaccel.hardware.core_noc import CoreNocSpec
from simaccel.machine.machine import Machine, Run
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program
from tests.agreement import run_exactly
from tests.machine.accelerators import accelerator
from tests.trees import einsum, mapping, workload


def _cores(count: int, **noc: object) -> Accelerator:
    return accelerator(
        dram={
            "bandwidth_bytes_per_second": "8 GB/s",
            "latency_cycles": 10,
            "batch_bytes": 2**20,
        },
        dma={"in_queues": "single"},
        cores={"count": count, "noc": noc},
    )


def _run(on: Accelerator) -> Run:
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
    run = _run(_cores(2, topology="bus", link_bytes_per_cycle=2, hop_cycles=3))
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
    run = _run(_cores(4, **MESH))
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
    run = _run(_cores(4, multicast=True, **MESH))
    assert run.cycles == 150
    assert run.moved["hops_read", "B"] == 32 * 7
    assert run.served_cycles["core_noc_0_1"] == 11 + 2 * 27


@pytest.mark.parametrize("noc", [MESH, {**MESH, "multicast": True}, {**MESH, "topology": "ring"}])
def test_counts_are_those_of_the_machine_and_the_bound_holds(noc: dict[str, object]) -> None:
    """Seven rows of ten: core 3 has one row less, which it reads for itself."""
    on = _cores(4, **noc)
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=7, k=4, n=4))
    tree = mapping(
        of,
        """
        group G
          spread m 2 cores
          keep B buffer, A buffer, C buffer
          do G array ws
    """,
    )
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
    on = _cores(2, topology="bus", link_bytes_per_cycle=1, hop_cycles=2)
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=8, k=4, n=4))
    tree = mapping(
        of,
        """
        group G
          spread m 4 cores
          keep B buffer, A buffer, C buffer
          do G array ws
    """,
    )
    assert predict(of, tree, on).bound_terms == {"core_noc_bus": 64 + 64 + 2 * 32}


def test_energy_of_a_bit_a_hop() -> None:
    on = _cores(2, topology="crossbar", link_bytes_per_cycle=2, pj_per_bit_hop=0.5)
    assert on.energy_by_level(0, 0, {("hops_read", "A"): 10, ("hops_write", "C"): 6})["hops"] == 64
    unknown = _cores(2, topology="crossbar", link_bytes_per_cycle=2)
    assert "cores.noc.pj_per_bit_hop" in unknown.unknown_energies


@pytest.mark.parametrize(
    ("core", "routers"),
    [(1, "01"), (2, "012"), (3, "043"), (4, "04")],
)
def test_routes_of_a_ring_go_the_shorter_way_round(core: int, routers: str) -> None:
    """Of 5 routers, 3 and 4 are nearer downwards; back the same way."""
    ring = CoreNocSpec(topology="ring", link_bytes_per_cycle=8)
    out = [f"core_noc_{start}_{end}" for start, end in pairwise(routers)]
    back = [f"core_noc_{start}_{end}" for start, end in pairwise(routers[::-1])]
    assert ring.links(core, 5, write=False) == (*out, f"core_noc_to{core}")
    assert ring.links(core, 5, write=True) == (f"core_noc_from{core}", *back)


def test_of_two_ways_round_that_are_equally_long_a_ring_takes_that_upwards() -> None:
    ring = CoreNocSpec(topology="ring", link_bytes_per_cycle=8)
    assert ring.links(2, 4, write=False) == ("core_noc_0_1", "core_noc_1_2", "core_noc_to2")
