"""A buffer that cores share between DRAM and their own: time lines, bytes and room by hand."""

import pytest

from simaccel.diagnosis.what_if import what_if
from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.program.text import parse_program, program_text
from simaccel.study.experiment import simulate
from simaccel.workload import Workload
from simaccel.workload.shared import in_shared_buffer, most_shared_bytes
from tests.data_files import data_beside
from tests.machine.accelerators import accelerator
from tests.trees import einsum, mapping, workload

DATA = data_beside(__file__)

FOLD = 20
"""4 of preload, 10 of stream, 6 of skew on 4 x 4."""


def _on(count: int = 1, **shared: object) -> Accelerator:
    sizes = {"capacity_bytes": 1000, "bandwidth_bytes_per_second": "8 GB/s", **shared}
    return accelerator(
        dram={"bandwidth_bytes_per_second": "4 GB/s", "batch_bytes": 2**20},
        dma={"in_queues": "single"},
        cores={"count": count, "shared_buffer": sizes},
    )


# each core: B is 32 B from DRAM (8 cycles), A 80 B from the shared buffer (10), C 80 B to it (10)
TWO_CORES = """\
program two
  operator gemm
    loop m 2 from 0 step 10 on core 0 step 1
      tile B 4x4 x1 of B[k=4,n=4] 2B
      tile A 10x4 x1 of A[m=20,k=4] 2B shared
      tile C 10x4 x1 of C[m=20,n=4] 2B shared
      load B queue 1
      load A queue 0
      compute C = A B over m=10 k=4 n=4 folds ws
      store C
"""


def test_cores_take_turns_at_the_shared_buffer() -> None:
    """One queue: B first. The DRAM serves core 0 before core 1, and so does the shared buffer.

    dram     B 0-8  B' 8-16
    shared   A 8-18 (there at 23)  A' 18-28 (there at 33)  C 43-53  C' 53-63
    array    23-43    core1 33-53
    """
    program = parse_program(TWO_CORES)
    assert program_text(program) == TWO_CORES
    run = Machine(_on(2, latency_cycles=5), program).run()
    assert run.cycles == 63
    assert run.served_cycles["shared0"] == 4 * 10
    assert run.served_cycles["dram0"] == 2 * 8
    assert run.moved["shared_read", "A"] == run.moved["shared_write", "C"] == 2 * 80
    assert ("dram_read", "A") not in run.moved
    freed = {one.resources: one.cycles for one in what_if(_on(2, latency_cycles=5), program).freed}
    assert freed["dram_bandwidth",] == 5 + FOLD  # all memories together


def _chain() -> Workload:
    """Return X = A B; Y = X C; Z = X Y: 40, 40 and 40 elements of two bytes in X, Y and Z."""
    return workload(
        einsum("one", "X m n", "A m k", "B k n", m=10, k=4, n=4),
        einsum("two", "Y m p", "X m n", "C n p", m=10, n=4, p=4),
        einsum("three", "Z n p", "X m n", "Y m p", m=10, n=4, p=4),
    )


def test_intermediates_lie_there_as_far_as_they_fit() -> None:
    """X is read twice and comes first: 80 B. Y needs as much at the same time."""
    of = _chain()
    names = [
        {name for name, tensor in in_shared_buffer(of, n).tensors.items() if tensor.shared}
        for n in (None, 79, 80, 159, 160)
    ]
    assert names == [set(), set(), {"X"}, {"X"}, {"X", "Y"}]
    both = in_shared_buffer(of, 160)
    assert both.fingerprint == of.fingerprint
    assert most_shared_bytes(both, [["one"], ["two"], ["three"]]) == 160
    assert in_shared_buffer(both, None) == of


def test_a_run_moves_what_lies_there_apart_from_the_dram() -> None:
    """DRAM: A, B, C in and Z out, B and C to both cores, as m is cut; the sum over m is on one.

    Shared: X written once and read twice, Y once each.
    """
    on = load_accelerator(
        "toy",
        [
            "cores.count=2",
            "cores.shared_buffer.capacity_bytes=1 KiB",
            "cores.shared_buffer.bandwidth_bytes_per_second=8 GB/s",
            "cores.shared_buffer.pj_per_byte=3",
        ],
    )
    found = simulate(_chain(), on, "naive")
    by_level = {"dram": 0, "shared": 0}
    for (level, _), n_bytes in found.run.moved.items():
        place = level.split("_")[0]
        if place in by_level:
            by_level[place] += n_bytes
    assert by_level["shared"] == 80 * 3 + 80 * 2
    assert by_level["dram"] == 80 + 2 * 32 + 2 * 32 + 32
    energy = on.energy_by_level(0, 0, found.run.moved)
    assert energy["shared"] == 3 * by_level["shared"]
    assert found.prediction.moved == {k: n for k, n in sorted(found.run.moved.items()) if n}
    assert area_of(on).by_part["shared"] == pytest.approx(8.87 * 1024)  # SRAM at 45 nm


def test_groups_in_an_order_that_needs_more_room_are_refused() -> None:
    """X dies with two, before V is made; where three stands first, all are there at once."""
    of = workload(
        einsum("one", "X m n", "A m k", "B k n", m=10, k=4, n=4),
        einsum("two", "Y m p", "X m n", "C n p", m=10, n=4, p=4),
        einsum("apart", "U m n", "D m k", "E k n", m=10, k=4, n=4),
        einsum("three", "V m n", "F m k", "G k n", m=10, k=4, n=4),
        einsum("four", "W m p", "V m n", "H n p", m=10, n=4, p=4),
    )
    shared = in_shared_buffer(of, 100)
    assert {name for name, tensor in shared.tensors.items() if tensor.shared} == {"X", "V"}
    trees = {
        name: f"""
        group {name}
          keep {inputs}
          do {name} array ws
        """
        for name, inputs in (
            ("one", "A buffer, B buffer, X buffer"),
            ("two", "X buffer, C buffer, Y buffer"),
            ("apart", "D buffer, E buffer, U buffer"),
            ("three", "F buffer, G buffer, V buffer"),
            ("four", "V buffer, H buffer, W buffer"),
        )
    }
    on = _on(capacity_bytes=100)

    def found(*order: str) -> list[str]:
        one = mapping(shared, "".join(trees[name] for name in order))
        return [str(fault) for fault in faults(shared, one, on)]

    assert found("one", "two", "apart", "three", "four") == []
    (fault,) = found("one", "three", "two", "apart", "four")
    assert fault == (
        "mapping: groups: got '160 B'; allowed: groups that have at most 100 B in "
        "cores.shared_buffer"
    )


@pytest.mark.parametrize(("values", "message"), DATA["refused"])
def test_impossible_buffers_are_refused_by_name(values: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_accelerator("toy", values)
