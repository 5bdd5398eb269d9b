"""Searches over cores: groups that are spread, or run at once, and are never slower for it."""

import random
from dataclasses import replace

import pytest

from simaccel.diagnosis.check import check
from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.mapping.cores import core_spreads
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group, Mapping, Spread
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, choice, make_mapping
from simaccel.schedulers.concurrent_groups import divide
from simaccel.search.core_cuts import cuts_of
from simaccel.search.goal import Goal
from simaccel.search.judge import Body
from simaccel.study.experiment import simulate
from simaccel.workload import Workload
from simaccel.workload.language.build import transformer
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator
from tests.mapping.test_cores import ATTENTION
from tests.refusals import refusal_of
from tests.small_pods import SMALL
from tests.trees import einsum, vector, workload


def _quick(count: int) -> Accelerator:
    """Return cores whose arrays wait for nothing: 16 MACs a cycle each."""
    return accelerator(
        array={"overlap": "stream", "edge_folds": "used"},
        dram={"bandwidth_bytes_per_second": "unlimited", "latency_cycles": 0},
        cores={"count": count},
    )


@pytest.mark.parametrize("dataflow", ["naive", "flex"])
def test_a_product_of_four_pieces_takes_a_quarter_of_the_time(dataflow: str) -> None:
    """32 x 32 x 32 on 4 x 4 PEs that never wait: a core's quarter is 8 x 32 x 32 / 16 steps.

    Beyond, the one time that the array fills and drains, on any number of cores.
    """
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=32, k=32, n=32), weights=["B"])
    cycles = {}
    for count in (1, 4):
        mapping = make_mapping(of, _quick(count), dataflow, Options())
        assert len(core_spreads(mapping.groups[0])) == (count > 1)
        cycles[count] = simulate(of, _quick(count), mapping).run.cycles
    ideal = 32**3 // 16
    assert ideal // 4 <= cycles[4]
    assert cycles[4] - ideal // 4 <= cycles[1] - ideal + 16


def test_an_attention_beside_kept_tensors_is_not_left_out() -> None:
    """Two query heads on one K/V head: V is kept around V and the attention behind it.

    V may run beside K, but what shares its tensor has to stay.
    """
    model = replace(SMALL, heads=2, kv_heads=1)
    layer = transformer(model, phase="decode", prompt=8, batch=1, scope="block")
    found = make_mapping(layer, load_accelerator("edge", ["cores.count=2"]), "flat")
    assert [name for group in found.groups for name in group.operators] == [*layer.by_name]


@pytest.mark.parametrize("dataflow", ["naive-m", "flash", *["naive", "flex"] * (DRAWS > 1)])
def test_more_cores_are_never_slower(dataflow: str) -> None:
    runs = []
    for count in (1, 3):
        on = load_accelerator("toy", [f"cores.count={count}", "buffer.capacity_bytes=2 KiB"])
        result = simulate(ATTENTION, on, dataflow)
        assert result.run.cycles >= result.prediction.bound_cycles
        runs.append(result.run.cycles)
    assert max(runs) == runs[0]


@pytest.mark.parametrize("seed", [3, 9, 23, *[0, 1] * (DRAWS > 1)])
def test_more_cores_are_never_slower_than_fewer(seed: int) -> None:
    """What fewer cores do is in the space of more; also where all wait for one DRAM."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    m, k, n = (rng.randint(1, 6) for _ in range(3))
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=m, k=k, n=n), weights=["B"])
    sections = [
        f"buffer.capacity_bytes={rng.choice(('256 B', '1 KiB'))}",
        f"dram.bandwidth_bytes_per_second={rng.choice((1, 4, 8))} GB/s",
        f"cores.noc.multicast={rng.choice(('true', 'false'))}",
    ]
    cycles, dataflow = [], rng.choice(("naive", "flex"))
    for count in (1, 2, 3, 4)[: 3 if DRAWS == 1 else 4]:
        on = load_accelerator("toy", [f"cores.count={count}", *sections])
        mapping = make_mapping(of, on, dataflow, Options(tolerance=0))
        cycles.append(simulate(of, on, mapping).run.cycles)
    assert cycles == sorted(cycles, reverse=True)


@pytest.mark.parametrize("dataflow", ["flat", "naive"])
def test_a_piece_may_have_the_batch_alone(dataflow: str) -> None:
    """Three cores with a column each of three batched 1 x 1 x 3 products: each has 1 x 1 x 1."""
    of = workload(einsum("G", "C g n", "A g", "B g n", g=3, n=3), weights=["B"])
    on = load_accelerator("toy", ["cores.count=3", "cores.noc.multicast=true"])
    mapping = make_mapping(of, on, dataflow)
    assert simulate(of, on, mapping).run.macs == 9


def test_floors_of_cuts_are_those_of_a_piece_or_of_all_bytes() -> None:
    """8 x 6 x 4 on 4 x 4 PEs, two bytes an element, one byte a cycle.

    192 MACs on 16 PEs take 12 cycles, 96 + 48 + 64 bytes at 1 byte a cycle 208. In halves of m each
    core reads B, in halves of n each reads A.
    """
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=8, k=6, n=4), weights=["B"])
    group = Group(operators=("G",), tree=())
    space = space_of(of, group)
    for rate, floors in ((1, {"": 208, "m": 256, "n": 304}), (1000, {"": 12, "m": 6, "n": 6})):
        on = accelerator(
            array={"rows": 4, "cols": 4},
            dram={"bandwidth_bytes_per_second": rate * 10**9},
            cores={"count": 2},
        )
        cuts = cuts_of(group, space, Goal.from_options(on, Options(), of))
        found = {one.cut.spreads[0].rank if one.cut else "": one.floor for one in cuts}
        assert found == floors
        for one in cuts:
            if one.cut is not None:
                option = f"{one.cut.spreads[0].rank}=cores:2"
                ran = make_mapping(of, on, "flex", Options(spread=(option,), patience=1))
                assert simulate(of, on, ran).run.cycles >= one.floor


def test_rows_of_fused_attention_are_spread() -> None:
    """Q's rows are the only rank that no operator of it sums over, or needs whole."""
    of, on = ATTENTION, _quick(3)
    mapping = make_mapping(of, on, "flat", Options())
    ranks = {spread.rank for group in mapping.groups for spread in core_spreads(group)}
    assert "q" in ranks


def test_a_rank_that_is_asked_for_is_spread() -> None:
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=64, k=64, n=64), weights=["B"])
    for rank, tile in (("m", 32), ("n", 32)):
        options = Options(spread=(f"{rank}=cores:2",))
        (group,) = make_mapping(of, _quick(4), "naive", options).groups
        assert core_spreads(group) == (Spread(rank, tile, "cores"),)


@pytest.mark.parametrize(
    ("count", "spread", "allowed"),
    [
        (4, "m=cores:5", "1 to 4 cores"),
        (4, "m=chips:2", "RANK=cores:N, such as n=cores:2"),
        (4, "k=cores:2", "a rank that an operator has, does not sum over and does not need whole"),
        (1, "m=cores:1", "nothing on one core; --set cores.count=N for more"),
    ],
)
def test_spreads_that_cant_be_are_refused(count: int, spread: str, allowed: str) -> None:
    of = workload(einsum("G", "C m n", "A m k", "B k n", m=8, k=8, n=8))
    said = refusal_of(make_mapping, of, _quick(count), "naive", Options(spread=(spread,)))
    assert said.endswith(f"allowed: {allowed}")


QUICK = Options(patience=2)
EDGE = load_accelerator("edge", ["cores.count=2", "dram.bandwidth_bytes_per_second=200 GB/s"])


def branches(k: int) -> Workload:
    """Return two products of 4 rows and 4 columns, and their sum."""
    return workload(
        einsum("left", "L m n", "X m k", "V k n", m=4, k=k, n=4),
        einsum("right", "R m n", "Y m k", "W k n", m=4, k=k, n=4),
        vector("sum", "residual", "Z m n", "L m n", "R m n", m=4, n=4),
        bits=dict.fromkeys("XYVWLRZ", 16),
        weights=["V", "W"],
    )


def _apart(_workload: Workload, bodies: list[Body], _search: object) -> Body:
    return bodies[0]


def _cycles(of: Workload, mapping: Mapping) -> int:
    program = lower(of, mapping)
    check(of, mapping, program)
    return Machine(EDGE, program).run().cycles


def test_small_products_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 columns are one strip of the array, so that a piece of the rows takes as many folds."""
    of = branches(k=64)
    together = [make_mapping(of, EDGE, dataflow, QUICK) for dataflow in ("flex", "best")]
    for mapping in together:
        places = {group.name: group.place for group in mapping.groups}
        assert places == {"left": range(1), "right": range(1, 2), "sum": None}
    monkeypatch.setattr(choice, "parallelise_groups", _apart)
    apart = _cycles(of, make_mapping(of, EDGE, "flex", QUICK))
    assert all(_cycles(of, mapping) < 0.8 * apart for mapping in together)


def test_what_is_fused_is_no_slower_than_what_runs_at_once() -> None:
    """Three products and their sum, which fused were slower than apart and at once."""
    of = workload(
        *(
            einsum(f"product{i}", f"S{i} m n", f"X{i} m k", f"W{i} k n", m=20, k=129, n=24)
            for i in range(3)
        ),
        vector("first", "residual", "T m n", "S0 m n", "S1 m n", m=20, n=24),
        vector("second", "residual", "Z m n", "T m n", "S2 m n", m=20, n=24),
    )
    apart, fused = (
        _cycles(of, make_mapping(of, EDGE, dataflow, QUICK)) for dataflow in ("flex", "best")
    )
    assert fused <= apart


def test_what_is_not_faster_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little to do for each core all waits for the DRAM."""
    of, slow = branches(k=32), with_values(EDGE, {"dram.bandwidth_bytes_per_second": 10**9}, "test")
    found = make_mapping(of, slow, "flex", QUICK)
    assert not faults(of, found, slow)
    monkeypatch.setattr(choice, "parallelise_groups", _apart)
    apart = make_mapping(of, slow, "flex", QUICK)
    cycles = [Machine(slow, lower(of, one)).run().cycles for one in (found, apart)]
    assert cycles[0] <= cycles[1]


def test_cores_by_hand() -> None:
    """Each strand has one; more go where cores have most to do. Too many strands share cores."""
    assert divide([900, 200, 100], 5) == [range(3), range(3, 4), range(4, 5)]
    assert divide([7, 5, 4], 2) == [range(1), range(1, 2), range(1, 2)]
