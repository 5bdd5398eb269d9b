from collections import Counter
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.mapping.choices import (
    FusedGroup,
    FusedMapping,
    GemmGroup,
    GemmMapping,
    SoftmaxGroup,
    SoftmaxMapping,
    StagedGroup,
)
from simaccel.program.interpreter import Array, interpret
from simaccel.program.lower import NotThisWorkloadError, attention_views, lower_group
from simaccel.program.program import Compute, Loop, Operator, Sfu, reserved_bytes, size
from simaccel.workload import Dimensions, attention
from tests.program.programs import (
    LA,
    Case,
    attention_workload,
    case,
    fused_cases,
    separate_cases,
    staged_cases,
)
from tests.program.tree import dram_bytes, executed

WHOLE = GemmMapping(m=99, k=99, n=99, order="mnk", stationarity="ws")


def attention_tensors(one: Case) -> tuple[dict[str, Array], Array]:
    """Random operands by view name, outputs full of NaN, and the attention they must give."""
    views = attention_views(one.workload, LA)
    groups, rows, keys, depth, width = views.shape
    numbers = np.random.default_rng(rows * 100 + depth)
    q = numbers.normal(size=(groups, rows, depth))
    k = numbers.normal(size=(groups, depth, keys))
    v = numbers.normal(size=(groups, keys, width))
    logits = q @ k / np.sqrt(depth)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    expected = powers / powers.sum(axis=-1, keepdims=True) @ v
    tensors = {views.q.name: q, views.k.name: k, views.v.name: v}
    tensors |= {
        view.name: np.full(view.shape, np.nan)
        for view in (views.rows.logits, views.rows.weights, views.z)
    }
    return tensors, expected


def _assert_attention(one: Case) -> None:
    tensors, expected = attention_tensors(one)
    result = interpret(one.program, tensors)
    np.testing.assert_allclose(result["Z"], expected, rtol=1e-9, atol=1e-12)


@given(separate_cases())
def test_three_operators_compute_attention(one: Case) -> None:
    _assert_attention(one)


@given(staged_cases())
def test_staged_computes_attention_with_any_rows_resident(one: Case) -> None:
    _assert_attention(one)


@given(fused_cases(online=False, pipelined=False))
def test_fused_computes_attention(one: Case) -> None:
    _assert_attention(one)


@given(fused_cases(online=True, pipelined=False))
def test_online_computes_attention(one: Case) -> None:
    _assert_attention(one)


@given(fused_cases(pipelined=True))
def test_pipelined_computes_attention(one: Case) -> None:
    _assert_attention(one)


@pytest.mark.parametrize("resident", range(2 * 5 + 1))
def test_every_number_of_resident_rows_computes_attention(resident: int) -> None:
    tile = GemmMapping(m=2, k=3, n=2, order="kmn", stationarity="os")
    group = StagedGroup(
        operators=LA,
        logit=tile,
        softmax=SoftmaxMapping(rows=2, cols=3),
        attend=tile,
        resident_rows=resident,
    )
    _assert_attention(case(attention_workload(1, 2, 5, 4), group))


@given(st.one_of(separate_cases(), staged_cases(), fused_cases()))
def test_every_multiplication_is_done_once(one: Case) -> None:
    macs = sum(c.macs for c in executed(one.program.body) if isinstance(c, Compute))
    assert macs == one.workload.macs


@given(staged_cases() | separate_cases())
def test_every_logit_goes_through_one_softmax(one: Case) -> None:
    done: Counter[str] = Counter()
    for command in executed(one.program.body):
        if isinstance(command, Sfu):
            done[command.step] += command.elements
    logits = one.workload.tensor_bytes("S") // 2
    assert done["whole"] + done["normalise"] == logits
    assert done["statistics"] == done["normalise"]


def _fused(one_heads: int, **choices: object) -> FusedGroup:
    fields: dict[str, object] = {
        "heads": one_heads,
        "logit_stationarity": "ws",
        "attend_stationarity": "ws",
    }
    return FusedGroup(operators=LA, mapping=FusedMapping.model_validate(fields | choices))


@pytest.mark.parametrize(
    ("granularity", "heads", "rows"), [("M", 6, 7), ("B", 3, 7), ("H", 1, 7), ("R", 1, 2)]
)
def test_buffer_is_what_flat_needs_at_each_granularity(
    granularity: str, heads: int, rows: int
) -> None:
    """FLAT, Table 1, in elements: two slots for Q, K, V and the output, one for the logits."""
    b, h, n, dk = 2, 3, 7, 5
    d = h * dk
    table_1 = {
        "M": 8 * b * d * n + b * h * n * n,
        "B": 8 * d * n + h * n * n,
        "H": 8 * n * dk + n * n,
        "R": 4 * rows * dk + 4 * n * dk + rows * n,
    }
    one = case(attention_workload(b, h, n, dk), _fused(heads, rows=rows, keys=n))
    assert reserved_bytes(one.program) == 2 * table_1[granularity]


@given(
    heads=st.integers(1, 6),
    rows=st.integers(1, 9),
    keys=st.integers(1, 9),
    pipelined=st.booleans(),
)
def test_fused_reads_each_tensor_once_or_keys_once_for_each_row_block(
    heads: int, rows: int, keys: int, *, pipelined: bool
) -> None:
    """K and V that don't fit are streamed again for each row block; logits never leave."""
    slots = {"tile_slots": 2} if pipelined else {}
    group = _fused(heads, rows=rows, keys=keys, pipelined=pipelined, **slots)
    one = case(attention_workload(2, 3, 9, 4), group)
    tensor = 2 * 3 * 9 * 4 * 2
    again = ceil(9 / rows) if keys < 9 else 1
    assert dram_bytes(one.program) == {
        ("dram_read", "Q"): tensor,
        ("dram_read", "K"): tensor * again,
        ("dram_read", "V"): tensor * again,
        ("dram_write", "Z"): tensor,
    }


@given(rows=st.integers(1, 9), keys=st.integers(1, 9))
def test_online_needs_no_buffer_for_whole_rows_of_logits(rows: int, keys: int) -> None:
    one = case(attention_workload(1, 2, 9, 4), _fused(1, rows=rows, keys=keys, online=True))
    elements = 4 * rows * 4 + 4 * keys * 4 + rows * keys
    assert reserved_bytes(one.program) == 2 * elements


@given(resident=st.integers(0, 2 * 3 * 5), rows=st.integers(1, 5))
def test_resident_rows_of_the_intermediate_never_leave(resident: int, rows: int) -> None:
    group = StagedGroup(
        operators=LA,
        logit=WHOLE,
        softmax=SoftmaxMapping(rows=rows, cols=5),
        attend=WHOLE,
        resident_rows=resident,
    )
    moved = dram_bytes(case(attention_workload(2, 3, 5, 4), group).program)
    spilled = 2 * (2 * 3 * 5 - resident) * 5
    for key in (("dram_write", "S"), ("dram_read", "S"), ("dram_write", "P"), ("dram_read", "P")):
        assert moved[key] == spilled


@pytest.mark.parametrize(("cols", "reads"), [(5, 1), (9, 1), (4, 2), (1, 2)])
def test_rows_longer_than_a_tile_are_read_twice(cols: int, reads: int) -> None:
    one = case(
        attention_workload(1, 2, 5, 4),
        GemmGroup(operator="L", mapping=WHOLE),
        SoftmaxGroup(operator="softmax", mapping=SoftmaxMapping(rows=2, cols=cols)),
        GemmGroup(operator="A", mapping=WHOLE),
    )
    whole = one.workload.tensor_bytes("S")
    moved = dram_bytes(one.program)
    assert moved[("dram_read", "S")] == reads * whole
    assert moved[("dram_write", "P")] == whole


def test_software_pipelining_puts_the_logits_of_the_next_block_ahead() -> None:
    one = case(
        attention_workload(1, 1, 6, 4), _fused(1, rows=2, keys=6, pipelined=True, tile_slots=2)
    )
    (operator,) = one.program.body
    assert isinstance(operator, Operator)
    (heads,) = operator.body
    assert isinstance(heads, Loop)
    (_, _, rows) = heads.body
    assert isinstance(rows, Loop)
    assert (rows.trips, rows.ahead) == (3, 2)
    assert [type(node).__name__ for node in rows.body] == [
        "Load",
        "Compute",
        "Sfu",
        "Compute",
        "Store",
    ]


@pytest.mark.parametrize("online", [False, True])
def test_program_size_does_not_follow_the_trip_counts(*, online: bool) -> None:
    group = _fused(1, rows=4, keys=4, online=online)
    small = case(attention_workload(1, 3, 11, 4), group)
    large = case(attention_workload(512, 1024, 400_003, 4), group)
    assert size(large.program) == size(small.program) < 60


def test_element_sizes_of_logits_and_weights_may_differ() -> None:
    """An in-place tile is as wide as the wider of the two; each transfer has its own width."""
    sizes = Dimensions(hidden=4, heads=1, head_size=4, ff_size=4)
    workload = attention(sizes, batch=1, seq_len=5, scope="la", bytes_by_tensor={"S": 4, "P": 1})
    one = case(
        workload,
        GemmGroup(operator="L", mapping=WHOLE),
        SoftmaxGroup(operator="softmax", mapping=SoftmaxMapping(rows=2, cols=5)),
        GemmGroup(operator="A", mapping=WHOLE),
    )
    moved = dram_bytes(one.program)
    assert moved[("dram_write", "S")] == moved[("dram_read", "S")] == 4 * 25
    assert moved[("dram_write", "P")] == moved[("dram_read", "P")] == 25
    _assert_attention(one)


def test_operators_that_are_no_attention_are_refused() -> None:
    workload = attention_workload(1, 1, 4, 4)
    with pytest.raises(NotThisWorkloadError, match="operator softmax is not an einsum"):
        lower_group(workload, GemmGroup(operator="softmax", mapping=WHOLE))
    softmax = SoftmaxMapping(rows=1, cols=1)
    with pytest.raises(NotThisWorkloadError, match="operator L is not a softmax"):
        lower_group(workload, SoftmaxGroup(operator="L", mapping=softmax))
    swapped = _fused(1, rows=1, keys=1).model_copy(update={"operators": ("A", "softmax", "L")})
    with pytest.raises(NotThisWorkloadError, match="A, softmax and L are no attention"):
        lower_group(workload, swapped)
