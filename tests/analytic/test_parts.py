"""Parts of a rank inside of loops: what a part moves comes anew with each iteration."""

import pytest

from simaccel.analytic.prediction import predict
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Do, Group, Keep, Loop, Mapping, Part, WorkloadReference
from simaccel.program.lowering import lower
from tests.machine.accelerators import accelerator
from tests.trees import einsum, workload


@pytest.mark.parametrize("sizes", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("rows", [2, 3, 6])
def test_weights_of_parts_come_again_with_each_block_of_rows(
    sizes: tuple[int, ...], rows: int
) -> None:
    """W has 4 x 4 elements of a byte; each block of rows needs all of its parts again."""
    of = workload(einsum("o", "T m n", "X m k", "W k n", m=6, k=4, n=4), bits={"W": 8})
    inside = (Keep("W"), Keep("X"), Keep("T"), Do("o", "array", "ws"))
    tree = (Loop("m", rows), Part("n", sizes, (inside,) * (len(sizes) + 1)))
    mapping = Mapping(
        workload=WorkloadReference(of.name, of.fingerprint),
        dataflow="hand",
        body=(Group(operators=("o",), tree=tree),),
    )
    on = accelerator(buffer={"capacity_bytes": 4096})
    expected = 16 * -(-6 // rows)
    assert predict(of, mapping, on).moved["dram_read", "W"] == expected
    assert Machine(on, lower(of, mapping)).run().moved["dram_read", "W"] == expected
