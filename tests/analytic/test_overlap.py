"""Bounds of groups that overlap on cores, by hand: equal to the last cycle, not only below a run.

A product of h x 4 x 4 is one fold of the 4 x 4 array: 4 (preload) + h (stream) + 6 (skew) cycles.
Memory, ports and NoC are unlimited.
"""

import pytest

from simaccel.analytic.prediction import predict
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.workload import Einsum
from tests.machine.accelerators import accelerator
from tests.trees import einsum, mapping, workload


def _product(name: str, rows: int) -> Einsum:
    return einsum(name, f"C{name} m n", f"A{name} m k", f"B{name} k n", m=rows, k=4, n=4)


def _group(name: str, place: str, cut: str = "") -> str:
    keeps = ", ".join(f"{tensor}{name} buffer" for tensor in "ABC")
    return f"""
    group {name}{place}
      {cut or "loop k 4"}
      keep {keeps}
      do {name} array ws
    """


@pytest.mark.parametrize(
    ("shared", "rows", "cut"),
    [
        (" on cores 0-1", 10, "spread m 5 cores"),
        (" on cores 0-2", 15, "spread m 5 cores"),
        ("", 15, "spread m 5 cores"),
    ],
)
def test_a_core_waits_at_the_end_of_a_group_that_it_shares(
    shared: str, rows: int, cut: str
) -> None:
    """Core 1 is busy with ``one`` until 90, and with its 5 rows of ``two`` until 105.

    Core 0 does its own rows of ``two`` (0-15) and ``three`` (15-45); ``four`` (40 cycles) begins
    when ``two`` has ended everywhere: 105-145. The bound knows that ``two`` does not end before
    ``one`` does: 90 + 40. Without overlap ``three`` waits as well: 105 + 30 + 40, at least 90 + 70.
    """
    of = workload(*map(_product, ("one", "two", "three", "four"), (80, rows, 20, 30)))
    text = _group("one", " on core 1") + _group("two", shared, cut)
    one = mapping(of, text + _group("three", " on core 0") + _group("four", " on core 0"))
    for overlap, bound, cycles in ((True, 130, 145), (False, 160, 175)):
        on = accelerator(cores={"count": 3}, compiler={"overlap": overlap})
        assert predict(of, one, on).bound_cycles == bound
        assert Machine(on, lower(of, one)).run().cycles == cycles
