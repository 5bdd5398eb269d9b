"""A sampled check: damage is found where all or the damaged part is executed, and cost is small."""

import re
from collections.abc import Callable
from functools import cache
from random import Random

import numpy as np
import pytest

from simaccel.diagnosis.check import CheckFailedError, TooLargeToCheckError, check
from simaccel.diagnosis.layout import Layout
from simaccel.diagnosis.sampled_check import check_sample
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program, program_text
from simaccel.schedulers import Options, make_mapping
from simaccel.workload import ModelDimensions, Workload, attention, conv2d, gemm
from simaccel.workload.attention import Scope
from tests.drawn_trees import draw_case, draw_held, over_cores
from tests.draws import seeds

SMALL = ModelDimensions(hidden=6, heads=2, head_size=3, ff_size=5)
LARGE = ModelDimensions(hidden=768, heads=12, head_size=64, ff_size=3072)


@pytest.mark.parametrize("dataflow", ["naive", "flash"])
def test_all_sampled_compares_what_the_whole_check_compares(dataflow: str) -> None:
    of = attention(SMALL, batch=2, seq_len=5, scope="block")
    chosen = make_mapping(of, load_accelerator("toy"), dataflow)
    program = lower(of, chosen)
    whole = check(of, chosen, program)
    sampled = check_sample(of, chosen, program, None)
    assert [one.compared for one in sampled] == [one.compared for one in whole]
    assert all(one.executed == 1 for one in sampled)
    for seed in range(3):
        part = check_sample(of, chosen, program, seed)
        pairs = list(zip(part, whole, strict=True))
        assert all(one.compared <= all_of.compared for one, all_of in pairs)
        assert all(one.compared for one, all_of in pairs if all_of.compared)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("scale 0.57", "scale 0.67"), "(softmax|A) writes .* plain numpy has"),
        (("store Q\n", "reserve Q queue 2\n"), "Q leaves .* sampled elements of Q unwritten"),
        (("load X queue 0", "reserve X queue 0"), "tile X is read before it is written"),
    ],
)
def test_a_damaged_program_is_found(edit: tuple[str, str], message: str) -> None:
    of = attention(SMALL, batch=2, seq_len=5, scope="la" if "scale" in edit[0] else "block")
    chosen = make_mapping(of, load_accelerator("toy"), "naive-m")
    text = program_text(lower(of, chosen))
    assert edit[0] in text
    damaged = parse_program(text.replace(*edit))
    for seed in (None, 0, 1):
        with pytest.raises(CheckFailedError, match=message):
            check_sample(of, chosen, damaged, seed)


def test_a_large_block_is_sampled() -> None:
    """Of 512 tokens, batch 8: 32 G MACs, of which a row of tiles is executed."""
    of = attention(LARGE, batch=8, seq_len=512, scope="block")
    chosen = make_mapping(of, load_accelerator("edge"), "naive")
    found = {one.operator: one for one in check_sample(of, chosen, lower(of, chosen))}
    assert all(one.executed < 1 and 0 < one.compared < one.elements / 100 for one in found.values())
    assert found["FF1"].elements == 8 * 512 * 3072


@pytest.mark.parametrize(("hw", "dataflow"), [("edge", "naive"), ("eyeriss_like", "ruby-s")])
def test_of_a_convolution_some_rows_and_columns_are_executed(hw: str, dataflow: str) -> None:
    """Windows slide along a row of tiles, of which the sample has no more than what is before."""
    of = conv2d(m=64, c=4, p=112, q=112, r=3, s=3)
    chosen = make_mapping(of, load_accelerator(hw), dataflow, Options(patience=2))
    (found,) = check_sample(of, chosen, lower(of, chosen))
    assert 0 < found.executed < 0.4  # with all rows and columns 0.5 and 1
    assert found.compared == pytest.approx(found.executed * found.elements)


def test_a_sample_of_a_tile_that_is_too_large_is_refused() -> None:
    of = gemm(m=64, k=2**30, n=64)
    chosen = make_mapping(of, load_accelerator("edge"), "naive-m")
    with pytest.raises(TooLargeToCheckError, match=r"a sample has .* of gemm .*allowed"):
        check_sample(of, chosen, lower(of, chosen))


def test_random_trees_are_right_in_any_sample() -> None:
    """Of all iterations as many elements are compared as the whole check compares."""
    cases = parts = 0
    for seed in seeds(12):
        draw = draw_held if seed % 3 == 0 else draw_case
        case = draw(seed, spatial=seed % 2 == 0)
        if case is None:
            continue
        case = over_cores(seed, case)
        program = lower(case.of, case.mapping)
        whole = [one.compared for one in check(case.of, case.mapping, program)]
        everything = check_sample(case.of, case.mapping, program, None)
        assert [one.compared for one in everything] == whole
        part = check_sample(case.of, case.mapping, program, seed)
        cases += 1
        parts += sum(one.compared for one in part) < sum(whole)
    assert cases > 6
    assert parts > 1


@cache
def _program(scope: Scope, dataflow: str) -> tuple[Workload, Mapping, str]:
    of = attention(SMALL, batch=2, seq_len=5, scope=scope)
    chosen = make_mapping(of, load_accelerator("toy"), dataflow)
    return of, chosen, program_text(lower(of, chosen))


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
def test_damage_of_a_random_line_is_found(
    damage: Callable[[Random, list[str]], list[str]],
) -> None:
    """Of programs that the whole check finds wrong, a sample of all too, one of a part mostly."""
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
        with pytest.raises(CheckFailedError):
            check_sample(of, chosen, damaged, None)
        try:
            check_sample(of, chosen, damaged, seed)
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
