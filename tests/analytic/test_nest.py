"""The closed form of nests against their execution point by point, and against hand counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from simaccel.analytic.nest import Costs, NotNestableError, evaluate, fit_memories
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Hierarchy, Memory, Role, Spatial, Temporal
from simaccel.hardware.load import load_accelerator
from simaccel.hardware.quantity import Rate
from simaccel.mapping.choices import NestLevel, NestMapping
from simaccel.mapping.nest import Nests
from simaccel.workload import Affine, Conv, Einsum, Operand, Tensor, operand
from tests.analytic.nest_cases import Case, draw_case
from tests.analytic.nest_oracle import Counts, execute, expected_output

SEEDS = 750
MAPPINGS = 3
WIDTHS = (1, 2, 4)  # bytes per element of input, weight, output


def _tensors(einsum: Einsum, widths: tuple[int, int, int] = WIDTHS) -> dict[str, Tensor]:
    names = [given.tensor for given in einsum.inputs]
    found = {name: Tensor(name, width) for name, width in zip(names, widths, strict=False)}
    return found | {einsum.output.tensor: Tensor(einsum.output.tensor, widths[-1])}


def _costs(case: Case) -> Costs:
    nests = Nests.of(case.einsum, case.hierarchy, case.mappings)
    return evaluate(case.einsum, _tensors(case.einsum), case.hierarchy, nests)


def _expected_bytes(
    hierarchy: Hierarchy, counted: Mapping[tuple[str, Role], int]
) -> list[list[int]]:
    return [
        [
            counted.get((memory.name, role), 0) * width
            for role, width in zip(ROLES, WIDTHS, strict=True)
        ]
        for memory in hierarchy.memories
    ]


def _expected_valid(case: Case, run: Counts, mapping: NestMapping) -> bool:
    hierarchy, width = case.hierarchy, dict(zip(ROLES, WIDTHS, strict=True))
    kept = {given.level: given.keep for given in mapping.levels}
    for level in hierarchy.memories:
        for memory in level.memories:
            roles = [role for role in ROLES if role in memory.roles and role in kept[level.name]]
            held = sum(run.tiles[level.name, role] * width[role] for role in roles)
            if memory.capacity_bytes is not None and held > memory.capacity_bytes:
                return False
    return all(
        run.used[fan.name] <= fan.fanout
        and (fan.reduces or not run.adds_across.get(fan.name, False))
        for fan in hierarchy.fanouts
    )


def _expected_cycles(case: Case, run: Counts) -> int:
    cycles = [run.steps]
    for level in case.hierarchy.memories:
        read, write = run.first_reads[level.name], run.first_writes[level.name]
        for port, moved in ((level.read, read), (level.write, write), (level.both, read + write)):
            cycles.append(math.ceil(moved * port.n_cycles / port.n_bytes))
    return max(cycles)


@pytest.mark.parametrize("block", range(10))
def test_the_closed_form_equals_the_execution(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        case = draw_case(seed, MAPPINGS)
        costs = _costs(case)
        for i, mapping in enumerate(case.mappings):
            run = execute(case.einsum, case.hierarchy, mapping, WIDTHS)
            sizes = {r: mapping.padded.get(r, n) for r, n in case.einsum.ranks.items()}
            assert run.output == expected_output(case.einsum, sizes)
            assert costs.reads[i].tolist() == _expected_bytes(case.hierarchy, run.reads)
            assert costs.writes[i].tolist() == _expected_bytes(case.hierarchy, run.writes)
            assert costs.tile_bytes[i].tolist() == _expected_bytes(case.hierarchy, run.tiles)
            assert costs.macs[i] == run.macs == math.prod(sizes.values())
            assert costs.ineffectual[i] == run.macs - case.einsum.macs
            assert costs.steps[i] == run.steps
            assert costs.cycles[i] == _expected_cycles(case, run)
            assert costs.instances[i].tolist() == [
                run.used[fan.name] for fan in case.hierarchy.fanouts
            ]
            assert bool(costs.valid[i]) == _expected_valid(case, run, mapping)


def test_the_random_cases_have_what_can_go_wrong() -> None:
    """Remainders, bypass, fan-outs that add, padding, windows that slide and don't fit."""
    cases = [draw_case(seed, MAPPINGS) for seed in range(SEEDS)]
    mappings = [m for case in cases for m in case.mappings]
    costs = [_costs(case) for case in cases]
    assert sum(bool(m.padded) for m in mappings) > 20
    assert 0.1 < np.mean(np.concatenate([c.valid for c in costs])) < 0.9
    assert sum(bool((c.cycles > c.steps).any()) for c in costs) > 50
    assert sum(len(given.keep) in {1, 2} for m in mappings for given in m.levels[1:]) > 100


def test_energy_is_macs_and_bytes_at_their_prices() -> None:
    case = draw_case(11, MAPPINGS)
    costs = _costs(case)
    for i in range(MAPPINGS):
        expected = float(costs.macs[i]) * case.hierarchy.mac_pj
        for place, level in enumerate(case.hierarchy.memories):
            for r, role in enumerate(ROLES):
                memory = level.memory(role)
                if memory is not None:
                    expected += costs.reads[i, place, r] * memory.read_pj_per_byte
                    expected += costs.writes[i, place, r] * memory.write_pj_per_byte
        assert costs.energy_pj[i] == pytest.approx(expected)
        assert costs.edp[i] == pytest.approx(expected * costs.cycles[i])


# ---------------------------------------------------------------------- by hand


def _line(size: int) -> Einsum:
    """A tensor of one rank: each element times one weight."""
    return Einsum("line", {"d": size}, (operand("A d"), operand("B d")), operand("C d"))


def _toy(pes: int) -> Hierarchy:
    return levels(load_accelerator("toy_linear", [f"array.cols={pes}"]))


def _on_toy(across: int, within: int = 1, padded: int | None = None) -> NestMapping:
    return NestMapping(
        levels=(
            NestLevel(level="dram", keep=ROLES),
            NestLevel(level="rows"),
            NestLevel(level="cols", factors={"d": across}),
            NestLevel(level="pe", factors={"d": within}, keep=ROLES),
        ),
        padded={} if padded is None else {"d": padded},
    )


@pytest.mark.parametrize(
    ("size", "pes", "across", "cycles"),
    [
        (100, 6, 5, 20),  # Ruby, Fig. 4: the best perfect factorisation
        (100, 6, 6, 17),  # Fig. 5: 16 times 6 PEs and once 4
        (113, 16, 16, 8),  # the Timeloop reference, as all below
        (113, 16, 1, 113),
        (127, 16, 16, 8),
        (127, 16, 1, 127),
        (128, 16, 16, 8),
    ],
)
def test_remainders_across_the_toy_take_their_true_cycles(
    size: int, pes: int, across: int, cycles: int
) -> None:
    einsum, hierarchy = _line(size), _toy(pes)
    nests = Nests.of(einsum, hierarchy, [_on_toy(across), _on_toy(across, within=3)])
    costs = evaluate(einsum, _tensors(einsum, (2, 2, 2)), hierarchy, nests)
    assert costs.steps[0] == costs.cycles[0] == cycles
    assert costs.macs.tolist() == [size, size]
    assert costs.valid.all()
    dram = [[2 * size, 2 * size, 0], [0, 0, 2 * size]]
    assert [costs.reads[0, 0].tolist(), costs.writes[0, 0].tolist()] == dram
    assert costs.reads[0, 1].tolist() == costs.writes[0, 1].tolist() == [2 * size] * 3
    # DRAM moves 3 words an element; a PE writes and reads each word of A and B and of C twice
    assert costs.energy_pj[0] == pytest.approx(size * (3 * 200 + 6 * 1.03 + 1.0))


def test_the_toy_costs_what_timeloop_measured_but_for_sums_read_on_their_way_out() -> None:
    """Timeloop, D = 100 on 6 PEs: 404.1 pJ each (two tensors), 17 and 20 cycles."""
    einsum, hierarchy = Einsum("copy", {"d": 100}, (operand("A d"),), operand("Z d")), _toy(6)
    nests = Nests.of(einsum, hierarchy, [_on_toy(5), _on_toy(6)])
    tensors = {name: Tensor(name, 2) for name in "AZ"}
    costs = evaluate(einsum, tensors, hierarchy, nests)
    assert costs.cycles.tolist() == [20, 17]
    assert costs.energy_pj / 100 - 1.03 == pytest.approx([404.1, 404.1], abs=0.05)


def test_padding_computes_what_is_not_there() -> None:
    einsum, hierarchy = _line(113), _toy(16)
    nests = Nests.of(einsum, hierarchy, [_on_toy(16), _on_toy(16, padded=128)])
    costs = evaluate(einsum, _tensors(einsum, (2, 2, 2)), hierarchy, nests)
    assert costs.macs.tolist() == [113, 128]
    assert costs.ineffectual.tolist() == [0, 15]
    assert costs.steps.tolist() == [8, 8]
    assert costs.edp[1] / costs.edp[0] == pytest.approx(128 / 113)  # 13% more


def _alexnet_layer_2(cols: dict[str, int], rows: dict[str, int]) -> NestMapping:
    return NestMapping(
        levels=(
            NestLevel(level="dram", keep=ROLES),
            NestLevel(level="buffer", keep=("input", "output")),
            NestLevel(level="rows", factors=rows),
            NestLevel(level="cols", factors=cols),
            NestLevel(level="pe", keep=ROLES),
        )
    )


@pytest.mark.parametrize(
    ("cols", "rows", "cycles"),
    [
        ({"m": 4, "q": 3}, {"m": 2, "s": 5}, 699_840),  # Timeloop's perfect factorisation
        ({"m": 2, "q": 7}, {"c": 2, "s": 5}, 622_080),  # Ruby-S: q in groups of 7, the last of 6
        ({"q": 14}, {"m": 2, "s": 5}, 622_080),  # and of 14, the last of 13
        ({"m": 12}, {"c": 12}, 583_200),  # 12 x 12 PEs
    ],
)
def test_alexnet_layer_2_takes_the_cycles_of_the_reference(
    cols: dict[str, int], rows: dict[str, int], cycles: int
) -> None:
    einsum = Conv(c=48, m=96, p=27, q=27, r=5, s=5).einsum("conv2")
    hierarchy = levels(load_accelerator("eyeriss_like"))
    nests = Nests.of(einsum, hierarchy, [_alexnet_layer_2(cols, rows)])
    costs = evaluate(einsum, _tensors(einsum, (2, 2, 2)), hierarchy, nests)
    assert costs.steps.tolist() == [cycles]
    assert costs.macs.tolist() == [83_980_800]


@pytest.mark.parametrize(
    ("outside", "cols", "within", "timeloop_uj"),
    [
        (({"c": 4, "q": 9, "p": 27}, ("c", "q", "p")), {"m": 4, "q": 3}, 12, 493.0),
        (({"m": 2, "q": 4, "p": 27}, ("m", "q", "p")), {"m": 2, "q": 7}, 8, 511.0),
    ],
)
def test_alexnet_layer_2_takes_about_the_energy_of_the_reference(
    outside: tuple[dict[str, int], tuple[str, ...]],
    cols: dict[str, int],
    within: int,
    timeloop_uj: float,
) -> None:
    """Two mappings that Timeloop found; 0007-nests.md says where its counting differs."""
    einsum = Conv(c=48, m=96, p=27, q=27, r=5, s=5).einsum("conv2")
    hierarchy = levels(load_accelerator("eyeriss_like"))
    factors, order = outside
    pe = {"r": 5, "c": 2, "m": within}
    mapping = NestMapping(
        levels=(
            NestLevel(level="dram", order=("m", "c"), keep=ROLES),
            NestLevel(level="buffer", factors=factors, order=order, keep=("input", "output")),
            NestLevel(level="rows", factors={"c": 2, "s": 5}),
            NestLevel(level="cols", factors=cols),
            NestLevel(level="pe", factors=pe, order=("r", "c", "m"), keep=ROLES),
        )
    )
    nests = Nests.of(einsum, hierarchy, [mapping])
    costs = evaluate(einsum, _tensors(einsum, (2, 2, 2)), hierarchy, nests)
    assert costs.valid.all()
    assert costs.energy_pj[0] / 1e6 == pytest.approx(timeloop_uj, rel=0.02)


def _two_memories(*fans: Spatial) -> Hierarchy:
    return Hierarchy(
        levels=(
            Temporal(name="far", memories=(Memory(),)),
            *fans,
            Temporal(name="near", memories=(Memory(),)),
        )
    )


def test_a_window_that_slides_moves_its_new_elements_only() -> None:
    """Ten outputs of a filter of three: 3 inputs, then one more each time; 12 in all."""
    line = Affine((("p", 1), ("r", 1)))
    einsum = Einsum(
        "conv", {"p": 10, "r": 3}, (Operand("I", (line,)), operand("W r")), operand("O p")
    )
    hierarchy = _two_memories()
    far = NestLevel(level="far", order=("p",), keep=ROLES)
    near = NestLevel(level="near", factors={"r": 3}, keep=ROLES)
    nests = Nests.of(einsum, hierarchy, [NestMapping(levels=(far, near))])
    costs = evaluate(einsum, _tensors(einsum, (1, 1, 1)), hierarchy, nests)
    assert costs.reads[0].tolist() == [[12, 3, 0], [30, 30, 30 - 10 + 10]]
    assert costs.writes[0].tolist() == [[0, 0, 10], [12, 3, 30]]


@pytest.mark.parametrize(
    ("order", "far_output_reads", "far_output_writes"),
    [(("m", "k"), 0, 6), (("k", "m"), 6, 12)],
)
def test_sums_that_leave_before_they_are_done_come_back(
    order: tuple[str, ...], far_output_reads: int, far_output_writes: int
) -> None:
    """Six sums over two: finished one after the other, or all halves first."""
    einsum = Einsum("mv", {"m": 6, "k": 2}, (operand("A m k"), operand("x k")), operand("y m"))
    hierarchy = _two_memories()
    levels_ = (NestLevel(level="far", order=order, keep=ROLES), NestLevel(level="near", keep=ROLES))
    nests = Nests.of(einsum, hierarchy, [NestMapping(levels=levels_)])
    costs = evaluate(einsum, _tensors(einsum, (1, 1, 1)), hierarchy, nests)
    output = ROLES.index("output")
    assert costs.reads[0, 0, output] == far_output_reads
    assert costs.writes[0, 0, output] == far_output_writes


def test_what_all_instances_need_is_read_once_and_sums_come_up_once() -> None:
    einsum = Einsum("mv", {"m": 6, "k": 4}, (operand("A m k"), operand("x k")), operand("y m"))
    fans = (Spatial(name="by_m", fanout=6), Spatial(name="by_k", fanout=2))
    hierarchy = _two_memories(*fans)
    mapping = NestMapping(
        levels=(
            NestLevel(level="far", keep=ROLES),
            NestLevel(level="by_m", factors={"m": 6}),
            NestLevel(level="by_k", factors={"k": 2}),
            NestLevel(level="near", factors={"k": 2}, keep=ROLES),
        )
    )
    costs = evaluate(
        einsum, _tensors(einsum, (1, 1, 1)), hierarchy, Nests.of(einsum, hierarchy, [mapping])
    )
    assert costs.steps.tolist() == [2]
    assert costs.reads[0, 0].tolist() == [24, 4, 0]
    assert costs.writes[0].tolist() == [[0, 0, 6], [24, 24, 24]]
    assert costs.reads[0, 1].tolist() == [24, 24, 12 + 12]  # each of 12 PEs adds once, then gives


def test_a_sum_cannot_be_split_where_the_hardware_does_not_add() -> None:
    einsum = Einsum("mv", {"m": 6, "k": 4}, (operand("A m k"), operand("x k")), operand("y m"))
    hierarchy = _two_memories(Spatial(name="fan", fanout=4, reduces=False))
    mappings = [
        NestMapping(
            levels=(
                NestLevel(level="far", keep=ROLES),
                NestLevel(level="fan", factors={rank: pieces}),
                NestLevel(level="near", keep=ROLES),
            )
        )
        for rank, pieces in (("k", 2), ("m", 4), ("m", 5))
    ]
    nests = Nests.of(einsum, hierarchy, mappings)
    costs = evaluate(einsum, _tensors(einsum), hierarchy, nests)
    assert costs.valid.tolist() == [False, True, False]


def test_cycles_are_those_of_the_slowest_port_of_one_instance() -> None:
    einsum = Einsum("mv", {"m": 6, "k": 4}, (operand("A m k"), operand("x k")), operand("y m"))
    fast = _two_memories(Spatial(name="fan", fanout=6))
    mapping = NestMapping(
        levels=(
            NestLevel(level="far", keep=ROLES),
            NestLevel(level="fan", factors={"m": 6}),
            NestLevel(level="near", factors={"k": 4}, keep=ROLES),
        )
    )
    far, fan, near = fast.levels
    assert isinstance(far, Temporal)
    assert isinstance(near, Temporal)
    slow_far = replace(fast, levels=(replace(far, both=Rate(1, 1)), fan, near))
    slow_near = replace(fast, levels=(far, fan, replace(near, read=Rate(1, 2))))
    found = []
    for hierarchy in (fast, slow_far, slow_near):
        nests = Nests.of(einsum, hierarchy, [mapping])
        found.append(evaluate(einsum, _tensors(einsum, (1, 1, 1)), hierarchy, nests).cycles[0])
    # DRAM: 24 + 4 down, 6 up. One of six PEs reads 4 + 4 operands, 3 sums and gives one: 12 bytes.
    assert found == [4, 34, 24]


# ---------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("einsum", "said"),
    [
        (
            Einsum("e", {"m": 2}, (operand("A m"),) * 3, operand("B m")),
            "3 inputs; allowed: 1 or 2",
        ),
        (
            Einsum("e", {"m": 2}, (operand("A m m"), operand("B m")), operand("C m")),
            "a rank twice in A[m,m]; allowed: once",
        ),
        (
            Einsum(
                "e",
                {"p": 2, "r": 2},
                (operand("A p"), operand("B r")),
                Operand("C", (Affine((("p", 1), ("r", 1))),)),
            ),
            "index of C[p+r]; allowed: single ranks",
        ),
        (
            Einsum("e", {"m": 2**26, "n": 2**26}, (operand("A m"), operand("B n")), operand("C m")),
            "e: 4503599627370496 MACs; allowed: at most 2^50",
        ),
    ],
)
def test_what_the_rules_do_not_cover_is_refused(einsum: Einsum, said: str) -> None:
    names = {given.tensor for given in (*einsum.inputs, einsum.output)}
    hierarchy = _two_memories()
    levels_ = (NestLevel(level="far", keep=ROLES), NestLevel(level="near"))
    nests = Nests.of(einsum, hierarchy, [NestMapping(levels=levels_)])
    with pytest.raises(NotNestableError) as caught:
        evaluate(einsum, {name: Tensor(name) for name in names}, hierarchy, nests)
    assert said in str(caught.value)


def test_what_fits_the_memories_is_known_before_the_rest() -> None:
    """As `Costs.valid` where no fan-out is in the way; also where pieces are more than tiles."""
    both: set[bool] = set()
    for seed in range(60):
        case = draw_case(seed, MAPPINGS)
        wide = [
            replace(level, fanout=2**40, reduces=True) if isinstance(level, Spatial) else level
            for level in case.hierarchy.levels
        ]
        hierarchy = replace(case.hierarchy, levels=tuple(wide))
        nests = Nests.of(case.einsum, hierarchy, case.mappings)
        tensors = _tensors(case.einsum)
        fits = fit_memories(case.einsum, tensors, hierarchy, nests)
        valid = evaluate(case.einsum, tensors, hierarchy, nests).valid
        assert fits.tolist() == valid.tolist()
        both |= set(fits.tolist())
    assert both == {True, False}
