"""Programs as text, for a reviewer to read; SIMACCEL_UPDATE_GOLDEN=1 writes them anew."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simaccel.mapping.choices import (
    FusedGroup,
    FusedMapping,
    GemmMapping,
    SoftmaxMapping,
    StagedGroup,
)
from simaccel.program.program import Program
from simaccel.program.text import parse_program, program_text
from simaccel.workload import Dimensions, attention, gemm
from tests.program.programs import LA, attention_workload, case, gemm_case

HERE = Path(__file__).parent


def gemm_partial_sums() -> Program:
    """9 x 7 x 5 in 4 x 3 x 2 tiles with the reduction outside: sums go to DRAM and back."""
    return gemm_case(gemm(m=9, k=7, n=5), m=4, k=3, n=2, order="kmn").program


def flat_rows() -> Program:
    """Build the example of the design: BERT, 500 tokens, rows in blocks of 64."""
    bert = Dimensions(hidden=768, heads=12, head_size=64, ff_size=3072)
    mapping = FusedMapping(
        rows=64, keys=500, logit_stationarity="ws", attend_stationarity="ws", out_slots=2
    )
    workload = attention(bert, batch=64, seq_len=500, scope="la")
    return case(workload, FusedGroup(operators=LA, mapping=mapping)).program


def flash_pipelined() -> Program:
    """Key tiles with online softmax, the next key tile's logits ahead."""
    mapping = FusedMapping(
        rows=4,
        keys=3,
        online=True,
        pipelined=True,
        logit_stationarity="os",
        attend_stationarity="is",
        tile_slots=2,
    )
    return case(attention_workload(1, 2, 10, 4), FusedGroup(operators=LA, mapping=mapping)).program


def staged_resident() -> Program:
    """One head and three rows of the next one kept from L to A, the rest spilled."""
    group = StagedGroup(
        operators=LA,
        logit=GemmMapping(m=4, k=4, n=5, order="mnk", stationarity="ws"),
        softmax=SoftmaxMapping(rows=2, cols=3),
        attend=GemmMapping(m=4, k=5, n=4, order="mnk", stationarity="os"),
        resident_rows=8,
    )
    return case(attention_workload(1, 3, 5, 4), group).program


PROGRAMS = (gemm_partial_sums, flat_rows, flash_pipelined, staged_resident)


@pytest.mark.parametrize("make", PROGRAMS)
def test_program_is_the_golden_one(make: Callable[[], Program]) -> None:
    path = HERE / f"{make.__name__}.txt"
    program = make()
    text = program_text(program)
    if os.environ.get("SIMACCEL_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()
    assert parse_program(path.read_text()) == program
