"""Random programs on random accelerators, by seed, for the tests of fast-forward.

Half of the programs are random trees (`trees`). One seed in four gives a nest on a spatial array.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random

from simaccel.mapping.choices import (
    ORDERS,
    FusedGroup,
    FusedMapping,
    GemmGroup,
    GemmMapping,
    SoftmaxGroup,
    SoftmaxMapping,
    StagedGroup,
)
from simaccel.program.lower import lower

from simaccel.experiment.recording import accelerator_document
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.program.program import (
    Program,
)
from simaccel.workload import gemm
from tests.nests import draw_accelerator as draw_spatial
from tests.nests import draw_long_nest, draw_sums, runs
from tests.machine.trees import MOST_STEPS, Case, draw_accelerator, draw_tree, run_of
from tests.program.programs import LA, attention_workload, case


def cases(seeds: Iterator[int] | range, most_steps: int = MOST_STEPS) -> Iterator[Case]:
    """Draw one case for each seed whose program is valid and short enough."""
    for seed in seeds:
        random = Random(seed)  # noqa: S311 - reproducible, not secret
        on, program = draw_nest(random) if seed % 4 == 3 else _draw(random)
        case = run_of(seed, on, program, most_steps)
        if case is not None:
            yield case


def _draw(random: Random) -> tuple[Accelerator, Program]:
    program = draw_tree(random) if random.random() < 0.6 else draw_mapping(random)
    return draw_accelerator(random), program


def draw_nest(random: Random) -> tuple[Accelerator, Program]:
    """Draw a nest that fits a spatial array, with the odd ratios of the others around it."""
    while True:
        around, spatial = (
            accelerator_document(one) for one in (draw_accelerator(random), draw_spatial(random))
        )
        parts = {name: around[name] for name in ("dram", "buffer", "noc", "dma")}
        on = Accelerator.model_validate(spatial | parts)
        drawn = random.choice([draw_long_nest, draw_sums])(random, on)
        if runs(drawn):
            return on, lower(drawn.workload, drawn.mapping)


def draw_mapping(random: Random) -> Program:
    """Draw a real operator or group with any mapping."""

    def gemm_mapping(m: int, k: int, n: int) -> GemmMapping:
        return GemmMapping(
            m=random.randint(1, m),
            k=random.randint(1, k),
            n=random.randint(1, n),
            order=random.choice(ORDERS),
            stationarity=random.choice(STATIONARITIES),
            a_slots=random.choice([1, 2, 3, 16]),
            b_slots=random.randint(1, 3),
            out_slots=random.randint(1, 3),
        )

    kind = random.choice(["gemm", "separate", "staged", "fused", "flash"])
    if kind == "gemm":
        m, k, n = (random.choice([1, 5, 8, 13, 20, 31]) for _ in range(3))
        workload = gemm(m=m, k=k, n=n, batch=random.choice([1, 1, 3, 9]))
        return case(workload, GemmGroup(operator="gemm", mapping=gemm_mapping(m, k, n))).program
    batch, heads = random.randint(1, 3), random.randint(1, 4)
    rows, depth = random.choice([3, 9, 16, 25]), random.randint(1, 5)
    workload = attention_workload(batch, heads, rows, depth)
    if kind in ("fused", "flash"):
        fused = _fused_mapping(random, batch * heads, rows, online=kind == "flash")
        return case(workload, FusedGroup(operators=LA, mapping=fused)).program
    logit, attend = gemm_mapping(rows, depth, rows), gemm_mapping(rows, rows, depth)
    softmax = SoftmaxMapping(rows=random.randint(1, rows), cols=random.randint(1, rows))
    if kind == "staged":
        resident = random.randint(0, batch * heads * rows)
        group = StagedGroup(
            operators=LA, logit=logit, softmax=softmax, attend=attend, resident_rows=resident
        )
        return case(workload, group).program
    groups = (
        GemmGroup(operator="L", mapping=logit),
        SoftmaxGroup(operator="softmax", mapping=softmax),
        GemmGroup(operator="A", mapping=attend),
    )
    return case(workload, *groups).program


def _fused_mapping(random: Random, heads: int, rows: int, *, online: bool) -> FusedMapping:
    pipelined = random.random() < 0.5
    least = 2 if pipelined else 1
    return FusedMapping(
        heads=random.randint(1, heads),
        rows=random.randint(1, rows),
        keys=random.randint(1, rows),
        online=online,
        pipelined=pipelined,
        logit_stationarity=random.choice(STATIONARITIES),
        attend_stationarity=random.choice(STATIONARITIES),
        in_slots=random.randint(least, 3),
        out_slots=random.randint(least, 3),
        tile_slots=random.randint(least, 3),
    )


def test_cases_come_in_all_kinds() -> None:
    found = list(islice(cases(range(400)), 100))
    assert len(found) == 100
    assert len({case.program.name for case in found}) == 4
    assert any(case.on.dram.channels == 3 for case in found)
    assert len({case.run.cycles for case in found}) > 90
