"""Spreads over cores that can't be, each refused with its place."""

import pytest

from simaccel.mapping.checks import faults
from simaccel.mapping.cores import CoreCut, core_spreads, shares
from simaccel.mapping.space import space_of
from simaccel.workload import Workload
from tests.data_files import data_beside
from tests.machine.accelerators import accelerator
from tests.trees import einsum, mapping, vector, workload

DATA = data_beside(__file__)

ATTENTION = workload(
    einsum("L", "S q c", "Q q d", "K c d", q=6, c=5, d=3),
    vector("softmax", "softmax", "P q c", "S q c", axis="c", q=6, c=5),
    einsum("A", "Z q e", "P q c", "V c e", q=6, c=5, e=4),
)
INNER = """
          keep Q buffer, K buffer, V buffer, S buffer, Z buffer
          fork
            | do L array os
            | do softmax sfu
            | do A array os
"""


def _faults(of: Workload, text: str) -> list[str]:
    on = accelerator(cores={"count": 4})
    return [str(fault) for fault in faults(of, mapping(of, text), on)]


def _attention(*spreads: str) -> list[str]:
    lines = "".join(f"\n          {one}" for one in spreads)
    return _faults(ATTENTION, f"\n        group L+softmax+A{lines}{INNER}")


def test_rows_of_attention_may_be_spread() -> None:
    assert _attention("spread q 2 cores") == []


@pytest.mark.parametrize(("spread", "node", "allowed"), DATA["refused"])
def test_what_cores_cant_do_is_refused(spread: str, node: str, allowed: str) -> None:
    message = f"mapping: groups[0].tree{node}; allowed: {allowed}"
    assert message in _attention(*spread.split("; "))


def test_what_stays_in_the_buffer_of_one_core_is_not_read_by_others() -> None:
    text = """
        around
          keep S buffer
          group L
            spread q 3 cores
            keep Q buffer, K buffer
            do L array os
          group softmax+A
            keep V buffer, Z buffer
            fork
              | do softmax sfu
              | do A array os
    """
    (message,) = _faults(ATTENTION, text)
    assert message.startswith("mapping: groups[0].groups[0].tree[0]: got 'spread q 3 cores'")
    assert message.endswith("no spread over cores where S stays in the buffer of one core")


def test_digits_of_a_core_and_what_is_left() -> None:
    """10 rows in 4s and 5 columns in 3s: six cores, of which four have another piece each."""
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=10, k=2, n=5))
    group = mapping(
        of,
        """
        group G
          spread m 4 cores
          spread n 3 cores
          keep A buffer, B buffer, C buffer
          do G array ws
        """,
    ).groups[0]
    cut = CoreCut(core_spreads(group), space_of(of, group).sizes)
    found = [(one.cores, {rank: one.sizes[rank] for rank in "mn"}) for one in shares(cut)]
    assert found == [
        ((0, 2), {"m": 4, "n": 3}),
        ((1, 3), {"m": 4, "n": 2}),
        ((4,), {"m": 2, "n": 3}),
        ((5,), {"m": 2, "n": 2}),
    ]
