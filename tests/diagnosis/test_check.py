"""Checks, whole and sampled, find programs that compute something else than their workload."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import cast

import numpy as np
import pytest

from simaccel.diagnosis.check import CheckFailedError, TooLargeToCheckError, check
from simaccel.diagnosis.check_chips import check_chips
from simaccel.diagnosis.layout import Layout
from simaccel.diagnosis.plain_values import einsum_values, vector_values
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.cores import core_spreads
from simaccel.mapping.space import holding_tensor
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.program.program import Compute, Node, Program
from simaccel.program.text import parse_program, program_text
from simaccel.schedulers import NothingFitsError, Options, make_mapping
from simaccel.study.experiment import simulate
from simaccel.workload import (
    AffineDimension,
    Einsum,
    ModelDimensions,
    Operand,
    Tensor,
    Vector,
    Workload,
    attention,
    build,
    conv2d,
    gemm,
    operand,
)
from simaccel.workload.attention import Scope
from simaccel.workload.vectors import VECTORS
from simaccel.workload.vectors.kind import VectorStep
from tests.drawn_trees import draw_case, draw_held, over_cores
from tests.draws import DRAWS, seeds
from tests.program.changed import changed, unstored
from tests.trees import mapping, vector, workload
from validation.searches import QUICK

SMALL = ModelDimensions(hidden=4, heads=2, head_size=3, ff_size=5, layers=2)
UNEVEN = ModelDimensions(hidden=6, heads=2, head_size=3, ff_size=5)
LARGE = ModelDimensions(hidden=768, heads=12, head_size=64, ff_size=3072)
TINY = ModelDimensions(hidden=3, heads=2, head_size=2, ff_size=5)


def _lowered(
    of: Workload, dataflow: str = "naive-m", hw: str = "toy"
) -> tuple[Workload, Mapping, Program]:
    """Return what `check` takes: a workload, a mapping of a dataflow, and its program."""
    chosen = make_mapping(of, load_accelerator(hw), dataflow)
    return of, chosen, lower(of, chosen)


@pytest.mark.parametrize(
    ("dataflow", "capacity", "scope"),
    [
        *((name, "1 KiB", "model") for name in ("naive", "flex", "flat", "flash")),
        ("best", "1 KiB", "la"),
        *[("flex", "unlimited", "model"), ("best", "1 KiB", "block")] * (DRAWS > 1),
    ],
)
def test_every_dataflow_computes_the_model(dataflow: str, capacity: str, scope: Scope) -> None:
    """Each granularity of flex and flat computes attention in tests/schedulers/test_dataflows."""
    rows, sizes = (5, SMALL) if scope == "model" else (3, TINY)
    workload = attention(sizes, batch=2, seq_len=rows, scope=scope)
    accelerator = load_accelerator("toy", [f"buffer.capacity_bytes={capacity}"])
    try:
        mapping = make_mapping(workload, accelerator, dataflow, QUICK)
    except NothingFitsError:
        assert capacity != "unlimited"
        return
    found = check(workload, mapping, lower(workload, mapping))
    assert [one.operator for one in found] == [one.name for one in workload.operators]
    groups = [group for group, _ in mapping.groups_with_keeps()]
    inside = {name for group in groups for name in group.operators[:-1]} | {"L", "softmax"}
    keeps = [keep for _, around in mapping.groups_with_keeps() for keep in around]
    inside |= {
        one.name
        for one in workload.operators
        if holding_tensor(workload, one.output.tensor, keeps) in {keep.tensor for keep in keeps}
    }
    for one in found:
        if one.operator not in inside:  # what they make may stay on chip
            assert one.compared == one.elements
        assert one.deviation < 1e-12


def _unadded(node: Node) -> Node | None:
    """Leave out what adds to sums."""
    return None if isinstance(node, Compute) and node.accumulate else node


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_unadded, "check failed: gemm writes"),
        (unstored, "leaves 45 of 45 elements of C unwritten"),
    ],
)
def test_a_step_that_is_missing_is_found(change: Callable[[Node], Node | None], said: str) -> None:
    of, chosen, program = _lowered(gemm(m=9, k=7, n=5))
    with pytest.raises(CheckFailedError, match=said):
        check(of, chosen, changed(program, change))


def test_a_missing_operator_is_found() -> None:
    of, chosen, program = _lowered(attention(SMALL, batch=1, seq_len=5, scope="la"), "strips")
    with pytest.raises(CheckFailedError, match="the program lacks operator A"):
        check(of, chosen, replace(program, body=program.body[:-1]))


@pytest.mark.parametrize(
    ("of", "seed", "said"),
    [
        (gemm(m=1000, k=1000, n=1000), None, r"1,000,000,000 MACs.*at most 100,000,000"),
        (gemm(m=64, k=2**30, n=64), 0, r"a sample has .* of gemm .*allowed"),
    ],
)
def test_a_large_workload_or_tile_is_refused(of: Workload, seed: int | None, said: str) -> None:
    with pytest.raises(TooLargeToCheckError, match=said):
        check(*_lowered(of, hw="edge"), seed)


def test_vector_operators_are_computed_on_whole_tensors() -> None:
    numbers = np.random.default_rng(1)
    x, gain = numbers.normal(size=(2, 3, 4)), numbers.normal(size=4)
    given = (operand("X b q c"), operand("G c"))
    norm = Vector("n", "layer_norm", {"b": 2, "q": 3, "c": 4}, given, operand("Y c b q"), "c")
    apart = x - x.mean(axis=2, keepdims=True)
    expected = apart / np.sqrt((apart**2).mean(axis=2, keepdims=True) + 1e-5) * gain
    found = vector_values(norm, {"X": x, "G": gain})
    np.testing.assert_allclose(found, expected.transpose(2, 0, 1))
    windows = Operand(
        "I", (AffineDimension((("p", 2), ("r", 1))), AffineDimension((("q", 1), ("s", 1))))
    )
    ranks = {"p": 3, "q": 4, "r": 2, "s": 3}
    pool = Vector("p", "average_pooling", ranks, (windows,), operand("O q p"))
    image = numbers.normal(size=(6, 6))
    means = [[image[2 * p : 2 * p + 2, q : q + 3].mean() for p in range(3)] for q in range(4)]
    np.testing.assert_allclose(vector_values(pool, {"I": image}), means)


def test_tensors_without_dimensions_are_compared() -> None:
    """As of a mean over everything: x' = max(x, 0), then x' + y."""
    of = workload(vector("one", "relu", "T", "x"), vector("two", "residual", "O", "T", "y"))
    one = mapping(
        of,
        """
        group one+two
          keep x buffer, T buffer, y buffer
          fork
            | do one sfu
            | keep O buffer
              do two sfu
        """,
    )
    found = check(of, one, lower(of, one))
    assert [(done.compared, done.elements) for done in found] == [(0, 1), (1, 1)]


def test_an_output_repeats_what_it_has_a_rank_for_that_no_input_has() -> None:
    repeat = Einsum("repeat", {"m": 2, "n": 3}, (operand("A m"),), operand("B m n"))
    of = Workload("w", (repeat,), {"A": Tensor("A"), "B": Tensor("B", kind="output")})
    values = einsum_values(repeat, {"A": np.array([5.0, 7.0])})
    np.testing.assert_array_equal(values, [[5, 5, 5], [7, 7, 7]])
    result = simulate(of, load_accelerator("eyeriss_like"), "ruby")
    assert check(of, result.mapping, result.program)


def test_values_that_are_no_numbers_are_not_called_unwritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of an operator that is added with a root of negative values."""
    of = workload(Vector("root", "relu", {"m": 4}, (operand("x m"),), operand("O m")))
    steps = VECTORS["relu"].steps
    roots = replace(steps["whole"], meaning=lambda x, *_: (np.sqrt(x[0]), ()))
    monkeypatch.setitem(cast("dict[str, VectorStep]", steps), "whole", roots)
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(CheckFailedError, match="root makes values that are no numbers in plain"),
    ):
        check(*_lowered(of))


def test_operators_in_the_wrong_order_are_found() -> None:
    of, chosen, program = _lowered(attention(SMALL, batch=1, seq_len=5, scope="la"), "strips")
    for seed in (None, 0):
        with pytest.raises(CheckFailedError, match=r"reads .* before .* writes it"):
            check(of, chosen, replace(program, body=program.body[::-1]), seed)


def test_two_chips_of_two_cores_make_what_numpy_makes() -> None:
    fields = {
        "chips": "2",
        "links.bytes_per_second": "70 GB/s",
        "links.pj_per_bit": "1",
        "cores.count": "2",
    }
    on = load_accelerator("mxu_128", [f"{name}={value}" for name, value in fields.items()])
    whole = build("bert", seq_len=4)
    result = simulate(whole, on, "naive-m")
    assert all(core_spreads(group) for group in result.mapping.groups if group.name != "softmax")
    assert {one.tensor for one in result.pod.exchanges} == {"Y", "U"}
    assert result.run.cycles >= result.prediction.bound_cycles
    assert all(check.deviation < 1e-12 for check in check_chips(whole, result.pod))


@pytest.mark.parametrize("dataflow", ["naive", "flash"])
def test_a_sample_compares_a_part_of_each_output(dataflow: str) -> None:
    lowered = _lowered(attention(UNEVEN, batch=2, seq_len=5, scope="block"), dataflow)
    whole = check(*lowered)
    assert all(one.executed == 1 for one in whole)
    for seed in range(3):
        part = check(*lowered, seed)
        pairs = list(zip(part, whole, strict=True))
        assert all(one.compared <= all_of.compared for one, all_of in pairs)
        assert all(one.compared for one, all_of in pairs if all_of.compared)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("scale 0.57", "scale 0.67"), "(softmax|A) writes .* plain numpy has"),
        (("store Q\n", "reserve Q queue 2\n"), "Q leaves .* elements of Q unwritten"),
        (("load X queue 0", "reserve X queue 0"), "tile X is read before it is written"),
    ],
)
def test_a_damaged_program_is_found(edit: tuple[str, str], message: str) -> None:
    scope: Scope = "la" if "scale" in edit[0] else "block"
    of, chosen, program = _lowered(attention(UNEVEN, batch=2, seq_len=5, scope=scope))
    text = program_text(program)
    assert edit[0] in text
    damaged = parse_program(text.replace(*edit))
    for seed in (None, 0, 1):
        with pytest.raises(CheckFailedError, match=message):
            check(of, chosen, damaged, seed)


def test_samples_alone_are_refused_by_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of everything is limited before, by the MACs of the workload."""
    lowered = _lowered(attention(UNEVEN, batch=2, seq_len=5, scope="la"))
    monkeypatch.setattr("simaccel.diagnosis.check.MOST_SAMPLED", 1)
    assert any(one.compared for one in check(*lowered))
    with pytest.raises(TooLargeToCheckError, match="a sample has"):
        check(*lowered, 0)


def test_a_large_block_is_sampled() -> None:
    """Of 512 tokens, batch 8: 32 G MACs, of which a row of tiles is executed."""
    of = attention(LARGE, batch=8, seq_len=512, scope="block")
    found = {one.operator: one for one in check(*_lowered(of, "naive", "edge"), 0)}
    assert all(one.executed < 1 and 0 < one.compared < one.elements / 100 for one in found.values())
    assert found["FF1"].elements == 8 * 512 * 3072


@pytest.mark.parametrize(("hw", "dataflow"), [("edge", "naive"), ("eyeriss_like", "ruby-s")])
def test_of_a_convolution_some_rows_and_columns_are_executed(hw: str, dataflow: str) -> None:
    """Windows slide along a row of tiles, of which the sample has no more than what is before."""
    of = conv2d(m=64, c=4, p=112, q=112, r=3, s=3)
    chosen = make_mapping(of, load_accelerator(hw), dataflow, Options(patience=2))
    (found,) = check(of, chosen, lower(of, chosen), 0)
    assert 0 < found.executed < 0.4  # with all rows and columns 0.5 and 1
    assert found.compared == pytest.approx(found.executed * found.elements)


def test_random_trees_are_right_in_any_sample() -> None:
    parts = 0
    for seed in seeds(12):
        draw = draw_held if seed % 3 == 0 else draw_case
        case = over_cores(seed, draw(seed, spatial=seed % 2 == 0))
        program = lower(case.of, case.mapping)
        whole = sum(one.compared for one in check(case.of, case.mapping, program))
        part = sum(one.compared for one in check(case.of, case.mapping, program, seed))
        assert 0 < part <= whole
        parts += part < whole
    assert parts > 1


@cache
def _program(scope: Scope, dataflow: str) -> tuple[Workload, Mapping, str]:
    of, chosen, program = _lowered(attention(UNEVEN, batch=2, seq_len=5, scope=scope), dataflow)
    return of, chosen, program_text(program)


def _without_line(draw: Random, lines: list[str]) -> list[str]:
    """Leave a transfer or a computation out."""
    at = draw.choice([n for n, line in enumerate(lines) if re.match(r" +(load|store|comp)", line)])
    return lines[:at] + lines[at + 1 :]


def _shifted(draw: Random, lines: list[str]) -> list[str]:
    """Let a loop begin one position later than it does."""
    at = draw.choice([n for n, line in enumerate(lines) if re.search(r"loop \w+ \d+ from", line)])
    later = re.sub(r"from (\d+)", lambda found: f"from {int(found[1]) + 1}", lines[at])
    return [*lines[:at], later, *lines[at + 1 :]]


@pytest.mark.parametrize("damage", [_without_line, _shifted])
def test_damage_of_a_random_line_is_found(damage: Callable[[Random, list[str]], list[str]]) -> None:
    """Most of the programs that are wrong in the whole are so in any sample."""
    cases = [_program("block", "naive"), _program("la", "flash")]
    wrong = noticed = 0
    for seed in seeds(12):
        of, chosen, text = cases[seed % len(cases)]
        lines = damage(Random(seed), text.splitlines(keepends=True))  # noqa: S311 - to repeat
        damaged = parse_program("".join(lines))
        try:
            check(of, chosen, damaged)
        except CheckFailedError:
            wrong += 1
        else:
            continue
        try:
            check(of, chosen, damaged, seed)
        except CheckFailedError:
            noticed += 1
    assert wrong > 6
    assert noticed > wrong / 2


def test_positions_of_a_large_box() -> None:
    """Of more elements than numpy's buffers have: 64 rows of 256, in dimensions of their own."""
    whole = (slice(0, 64), slice(0, 256), slice(0, 1))
    layout = Layout(whole, (64, 256, 1), (0, 1, 2), (64, 256, 1), (64, 256, 1))
    (rows, columns, _), inside = layout.places(whole)
    assert inside.all()
    assert np.array_equal(rows[..., 0], np.repeat(np.arange(64), 256).reshape(64, 256))
    assert np.array_equal(columns[..., 0], np.tile(np.arange(256), 64).reshape(64, 256))
