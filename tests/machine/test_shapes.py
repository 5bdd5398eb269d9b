"""A thousand PEs in any shape: a GEMM takes what fill and folds take, and no more."""

import pytest

from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.machine.machine import Machine
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator

SYSTOLIC = {"topology": "systolic", "link_bytes_per_cycle": 4, "hop_cycles": 1}
SHAPES = [
    (32, 32),
    (16, 64),
    (64, 16),
    (8, 128),
    (128, 8),
    (4, 256),
    (256, 4),
    (1, 1024),
    (1024, 1),
]
GEMM = """\
program gemm
  operator gemm
    tile A 1x1024x1024 x1 of A[g=1,m=1024,k=1024] 2B
    tile B 1x1024x1024 x1 of B[g=1,k=1024,n=1024] 2B
    tile C 1x1024x1024 x1 of C[g=1,m=1024,n=1024] 2B
    load A queue 0
    load B queue 1
    compute C = A B over g=1 m=1024 k=1024 n=1024 folds {kind}
    store C
"""


@pytest.mark.parametrize("kind", STATIONARITIES)
@pytest.mark.parametrize(("rows", "cols"), SHAPES)
def test_the_noc_never_limits_a_gemm_whatever_the_shape(
    rows: int, cols: int, kind: Stationarity
) -> None:
    """Two bytes for each row and each column, and a cycle for the first and the last word."""
    on = accelerator(
        array={"rows": rows, "cols": cols, "overlap": "stream"},
        noc={"distribution": SYSTOLIC, "collection": SYSTOLIC},
    )
    run = Machine(on, parse_program(GEMM.format(kind=kind))).run()
    alone = on.systolic.gemm_cycles(m=1024, k=1024, n=1024, stationarity=kind)
    assert run.cycles == alone + 2
    assert run.macs == 1024**3


@pytest.mark.parametrize(("link", "limited"), [(4, False), (3, True)])
def test_narrower_links_do_limit_it(link: int, *, limited: bool) -> None:
    """Output-stationary folds take two operands a cycle at each edge: 4 bytes are just enough."""
    narrow = SYSTOLIC | {"link_bytes_per_cycle": link}
    on = accelerator(
        array={"rows": 8, "cols": 128, "overlap": "stream"},
        noc={"distribution": narrow, "collection": SYSTOLIC},
    )
    run = Machine(on, parse_program(GEMM.format(kind="os"))).run()
    alone = on.systolic.gemm_cycles(m=1024, k=1024, n=1024, stationarity="os")
    assert (run.cycles > alone + 2) == limited
