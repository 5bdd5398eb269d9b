"""Programs as text, for a reviewer to read; SIMACCEL_UPDATE_GOLDEN=1 writes them anew."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.chips.sharding import shard
from simaccel.program.exchanges import lower_pod
from simaccel.program.lowering import lower
from simaccel.program.program import Program
from simaccel.program.text import parse_program, program_text
from simaccel.workload import ModelDimensions, attention, gemm
from tests.mapping.chips.feed_forward import feed_forward, spread
from tests.program.programs import (
    FlatTiles,
    GemmTiles,
    Rows,
    attention_workload,
    case,
    flat_group,
    gemm_case,
    staged_groups,
)
from tests.trees import einsum, mapping, vector, workload

HERE = Path(__file__).parent


def gemm_partial_sums() -> Program:
    """9 x 7 x 5 in 4 x 3 x 2 tiles with the reduction outside: sums go to DRAM and back."""
    return gemm_case(gemm(m=9, k=7, n=5), m=4, k=3, n=2, order="kmn").program


def flat_rows() -> Program:
    """Build the example of the design: BERT, 500 tokens, rows in blocks of 64."""
    bert = ModelDimensions(hidden=768, heads=12, head_size=64, ff_size=3072)
    of = attention(bert, batch=64, seq_len=500, scope="la")
    return case(of, flat_group(of, FlatTiles(rows=64, keys=500))).program


def flash_pipelined() -> Program:
    """Key tiles with online softmax, the next key tile's logits ahead."""
    tiles = FlatTiles(
        rows=4,
        keys=3,
        online=True,
        pipelined=True,
        logit_stationarity="os",
        attend_stationarity="is",
        tile_slots=2,
    )
    of = attention_workload(1, 2, 10, 4)
    return case(of, flat_group(of, tiles)).program


def staged_resident() -> Program:
    """One head and three rows of the next one kept from L to A, the rest spilled."""
    of = attention_workload(1, 3, 5, 4)
    groups = staged_groups(
        of,
        logit=GemmTiles(m=4, k=4, n=5),
        softmax=Rows(rows=2, cols=3),
        attend=GemmTiles(m=4, k=5, n=4, stationarity="os"),
        resident_rows=8,
    )
    return case(of, *groups).program


def ffn_fused() -> Program:
    """The rows of H never leave: FF1, GELU and FF2 share rows and pieces of the inner rank."""
    of = workload(
        einsum("FF1", "H r f", "X r e", "W1 e f", r=7, e=4, f=10),
        vector("gelu", "gelu", "G r f", "H r f", r=7, f=10),
        einsum("FF2", "Y r e", "G r f", "W2 f e", r=7, e=4, f=10),
    )
    body = """
    group FF1+gelu+FF2
      loop r 3
      keep X buffer x2, Y buffer x2
      loop f 4
      keep W1 buffer x2, W2 buffer x2, H buffer
      fork
        | do FF1 array ws
        | do gelu sfu
        | do FF2 array ws
    """
    return lower(of, mapping(of, body))


def spatial_convolution() -> Program:
    """A convolution on 3 x 3 PEs: rows of the filter and columns of outputs, windows that slide."""
    of = workload(
        einsum("conv", "O m p q", "I c p+r q+s", "W m c r s", m=4, c=3, p=4, q=5, r=3, s=3)
    )
    body = """
    group conv
      loop m 2
      loop p 2
      keep I buffer x2, O buffer x2
      loop c 2
      spread s 1 rows
      spread q 2 cols
      keep W pe x2, I pe, O pe
      loop r 1
      loop c 1
      do conv mac
    """
    return lower(of, mapping(of, body))


def chips_torus() -> Program:
    """Four chips of a torus: H from rows to columns by all-to-all, sums of Y by reduce-scatter."""
    of = feed_forward(m=8, e=4, f=8)
    cut = spread(of, FF1="m 2", act="f 2", FF2="f 2", norm="m 2")
    links = ("topology=torus", "dimensions=2", "bytes_per_second=1 GB/s", "chunk_bytes=24")
    on = load_accelerator("toy", ["chips=2x2", *(f"links.{one}" for one in links)])
    pod, _ = shard(of, cut, on.pod)
    assert pod is not None
    return lower_pod(pod, on)


PROGRAMS = (
    *(gemm_partial_sums, flat_rows, flash_pipelined, staged_resident, ffn_fused),
    *(spatial_convolution, chips_torus),
)


@pytest.mark.parametrize("make", PROGRAMS)
def test_program_is_the_golden_one(make: Callable[[], Program]) -> None:
    path = HERE / f"{make.__name__}.txt"
    program = make()
    text = program_text(program)
    if os.environ.get("SIMACCEL_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()
    assert parse_program(path.read_text()) == program
