"""Trees on systolic arrays against SCALE-Sim's closed form; a thousand PEs in any shape."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program
from simaccel.schedulers import Options, make_mapping
from simaccel.search.effort import Effort
from simaccel.workload import gemm
from tests.data_files import data_beside
from tests.machine.accelerators import accelerator
from tests.trees import mapping

DATA = data_beside(__file__)

FREE = [
    "array.overlap=none",
    "buffer.capacity_bytes=unlimited",
    "buffer.read_bytes_per_second=unlimited",
    "buffer.write_bytes_per_second=unlimited",
    "noc.distribution.topology=unlimited",
    "noc.collection.topology=unlimited",
    "dram.bandwidth_bytes_per_second=unlimited",
    "dram.latency_cycles=0",
    "dram.turnaround_cycles=0",
]
SIZES = st.integers(1, 40)
WHOLE = """
group gemm
  keep A buffer, B buffer, C buffer
  do gemm array {kind}
"""
BY_HAND = """
group gemm
  keep A buffer, B buffer, C buffer
  loop {across} {cols}
  loop {down} {rows}
  spread {down} 1 rows
  spread {across} 1 cols
  do gemm array {kind}
"""
TILES = """
group gemm
  loop {across} {cols}
  loop {down} {rows}
  keep A buffer, B buffer, C buffer
  do gemm array {kind}
"""


@given(SIZES, SIZES, SIZES, st.sampled_from(STATIONARITIES), st.sampled_from([BY_HAND, TILES]))
def test_without_limits_folds_take_what_scale_sim_says(
    m: int, k: int, n: int, stationarity: Stationarity, tree: str
) -> None:
    """Section III of SCALE-Sim: all sides are charged, also of folds that don't fill the array.

    The tree has a command for each fold, from the whole operands or from tiles of their own.
    """
    on = load_accelerator("toy", FREE)
    rows, cols = on.array.rows, on.array.cols
    folds = {
        "ws": ("k", "n", m + 2 * rows + cols - 2),
        "os": ("m", "n", k + rows + cols - 2),
        "is": ("k", "m", n + 2 * rows + cols - 2),
    }
    down, across, cycles = folds[stationarity]
    sizes = {"m": m, "k": k, "n": n}
    sides = {"rows": min(rows, sizes[down]), "cols": min(cols, sizes[across])}
    workload = gemm(m=m, k=k, n=n)
    one = mapping(workload, tree.format(down=down, across=across, kind=stationarity, **sides))
    assert faults(workload, one, on) == []
    run = Machine(on, lower(workload, one)).run()
    assert run.cycles == math.ceil(sizes[down] / rows) * math.ceil(sizes[across] / cols) * cycles
    assert run.macs == m * k * n


@given(SIZES, SIZES, SIZES, st.sampled_from(STATIONARITIES))
def test_one_command_takes_what_its_folds_take(
    m: int, k: int, n: int, stationarity: Stationarity
) -> None:
    workload, on = gemm(m=m, k=k, n=n), load_accelerator("toy", FREE)
    run = Machine(on, lower(workload, mapping(workload, WHOLE.format(kind=stationarity)))).run()
    alone = on.systolic.gemm_cycles(m=m, k=k, n=n, stationarity=stationarity)
    assert (run.cycles, run.macs) == (alone, m * k * n)


@pytest.mark.parametrize(
    ("nodes", "at", "got", "allowed"),
    DATA["refused"],
    ids=["no memory in PEs", "nothing passes the buffer by", "ws has k in rows", "and n in cols"],
)
def test_what_a_systolic_array_cannot_do_is_refused(
    nodes: str, at: int, got: str, allowed: str
) -> None:
    workload = gemm(m=4, k=4, n=4)
    wrong = mapping(workload, f"group gemm\n  {nodes}\n  do gemm array ws")
    (fault,) = faults(workload, wrong, load_accelerator("toy"), "m.yaml")
    assert f"m.yaml: groups[0].tree[{at}]: got '{got}'; allowed: {allowed}" in str(fault)


def test_a_search_is_about_as_good_as_the_scheduler_of_gemms() -> None:
    """Two ways to map the same GEMM; what they find may differ by what they count."""
    workload, on = gemm(m=9, k=7, n=6), load_accelerator("toy")
    options = Options(effort=Effort(objective="cycles", patience=200, exhaustive=10_000))
    cycles = {
        name: Machine(on, lower(workload, make_mapping(workload, on, name, options))).run().cycles
        for name in ("flex", "ruby")
    }
    assert cycles["ruby"] < 1.3 * cycles["flex"]


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
