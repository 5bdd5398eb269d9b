"""Vector operators behind an einsum, tile by tile: bytes by hand, values against numpy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.diagnosis.check import check
from simaccel.hardware import Accelerator
from simaccel.hardware.compiler import CompilerSpec
from simaccel.mapping.tree import Group, Mapping, ResidentScope
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.chains import longest_epilogues
from simaccel.search.effort import Objective
from simaccel.workload import Workload
from tests.agreement import assert_counts, dram_total
from tests.machine.accelerators import accelerator
from tests.trees import assert_computes, einsum, vector, workload


def _on(capacity: int, *, epilogues: bool = True, resident: bool = False) -> Accelerator:
    on = accelerator(
        array={"rows": 2, "cols": 2},
        buffer={"capacity_bytes": capacity},
        dram={
            "bandwidth_bytes_per_second": "2 GB/s",
            "latency_cycles": 3,
            "interleave_bytes": min(capacity, 64),
        },
    )
    compiler = CompilerSpec(epilogues=epilogues, resident=resident)
    return on.model_copy(update={"compiler": compiler})


def _sizes(m: int, k: int, n: int) -> dict[str, int]:
    return {"m": m, "k": k, "n": n}


def _hard_swish(m: int, k: int, n: int) -> Workload:
    """Y = T * clip(T), as models have it: T is read twice."""
    return workload(
        einsum("one", "T m n", "X m k", "A k n", **_sizes(m, k, n)),
        vector("clip", "scale", "C m n", "T m n", m=m, n=n),
        vector("times", "product", "P m n", "T m n", "C m n", m=m, n=n),
        vector("div", "scale", "Y m n", "P m n", m=m, n=n),
        bits=dict.fromkeys("TXACPY", 8),
    )


def _groups(mapping: Mapping) -> list[tuple[str, ...]]:
    found: list[Group] = []
    for one in mapping.body:
        found += one.groups if isinstance(one, ResidentScope) else [one]
    return [one.operators for one in found]


def test_what_follows_an_einsum_takes_no_way_through_dram() -> None:
    """Of 8x4x8 in a buffer of 64 B, T, C and P (64 B each) would go out and come in."""
    of = _hard_swish(8, 4, 8)
    fused = make_mapping(of, _on(64), "flex", Options(objective="dram-bytes"))
    apart = make_mapping(of, _on(64, epilogues=False), "flex", Options(objective="dram-bytes"))
    assert _groups(fused) == [("one", "clip", "times", "div")]
    assert _groups(apart) == [("one",), ("clip",), ("times",), ("div",)]
    moved = [dram_total(assert_counts(of, one, _on(64)).moved) for one in (fused, apart)]
    # T once out and twice in, C and P once out and once in
    assert moved[1] - moved[0] == (3 + 2 + 2) * 64


@pytest.mark.parametrize(
    ("capacity", "dataflow", "tensors"), [(512, "flex", 6), (512, "best", 4), (64, "best", None)]
)
def test_what_an_einsum_reads_is_added_to_its_output(
    capacity: int, dataflow: str, tensors: int | None
) -> None:
    """Y = X + X A, then Z = Y B: the sum reads other parts of X than the product.

    With room for whole rows, X, A, B and Z (64 B each) move once; if the second product is apart, Y
    goes out and comes in.
    """
    of = workload(
        einsum("one", "T m n", "X m k", "A k n", **_sizes(8, 8, 8)),
        vector("add", "residual", "Y m n", "X m n", "T m n", m=8, n=8),
        einsum("two", "Z m n", "Y m k", "B k n", **_sizes(8, 8, 8)),
        bits=dict.fromkeys("TXAYBZ", 8),
    )
    one = make_mapping(of, _on(capacity), dataflow, Options(objective="dram-bytes"))
    assert_computes(of, one)
    moved = dram_total(assert_counts(of, one, _on(capacity)).moved)
    assert moved == 64 * tensors if tensors else moved > 64 * 4


@pytest.mark.parametrize("capacity", [32, 128])
def test_what_is_read_in_other_pieces_than_made_is_not_cut_there(capacity: int) -> None:
    """T = X A, then T + T B, X + T transposed; or X and its transpose, which is another tile.

    Columns of T are reduced, or are rows of its reader.
    """
    first = einsum("one", "T m n", "X m k", "A k n", **_sizes(4, 4, 4))
    product = einsum("two", "U m n", "T m k", "B k n", **_sizes(4, 4, 4))
    add = vector("add", "residual", "Y m n", "T m n", "U m n", m=4, n=4)
    turned = vector("turned", "residual", "Y m n", "T n m", "X m n", m=4, n=4)
    both = vector("both", "residual", "Y m n", "X m n", "X n m", m=4, n=4)
    for of in (workload(first, product, add), workload(first, turned), workload(both)):
        for dataflow in ("flex", "best"):
            one = make_mapping(of, _on(capacity), dataflow, Options())
            assert_computes(of, one)
            moved = dram_total(assert_counts(of, one, _on(capacity)).moved)
            assert len(of.operators) > 1 or moved == 3 * 16 * 2


def test_operators_that_cannot_follow_stay_apart() -> None:
    """Nobody else may need what is between; an axis has to be whole; a pooling is no epilogue."""
    first = einsum("one", "T m n", "X m k", "A k n", **_sizes(4, 2, 6))
    relu = vector("relu", "relu", "R m n", "T m n", m=4, n=6)
    more = einsum("two", "Y m p", "T m n", "B n p", m=4, n=6, p=3)
    softmax = vector("softmax", "softmax", "R m n", "T m n", axis="n", m=4, n=6)
    assert longest_epilogues(workload(first, relu))["one"].group.operators == ("one", "relu")
    assert not longest_epilogues(workload(first, relu, more))
    assert not longest_epilogues(workload(first, softmax))


@settings(max_examples=8, deadline=None)
@given(
    st.tuples(*[st.integers(1, 4)] * 3),
    st.integers(24, 200),
    st.booleans(),
    st.sampled_from(["cycles", "energy", "dram-bytes", "footprint"]),
)
def test_values_and_counts(
    sizes: tuple[int, int, int],
    room: int,
    resident: bool,  # noqa: FBT001 - drawn
    objective: Objective,
) -> None:
    """Drawn sizes and buffers, with what is held around: values as in numpy, counts agree."""
    of, on = _hard_swish(*sizes), _on(room, resident=resident)
    mapping = make_mapping(of, on, "flex", Options(objective=objective, patience=2))
    check(of, mapping, lower(of, mapping))
    assert_counts(of, mapping, on)


@pytest.mark.parametrize("dataflow", ["flex", "best"])
def test_a_residual_is_added_to_what_is_there(dataflow: str) -> None:
    """Y = X A + S: X 8x4, A 4x8, S and Y 8x8 cross once, T never, in 56 B of buffer."""
    of = workload(
        einsum("one", "T m n", "X m k", "A k n", **_sizes(8, 4, 8)),
        vector("add", "residual", "Y m n", "T m n", "S m n", m=8, n=8),
        bits=dict.fromkeys("TXASY", 8),
    )
    on = _on(140)
    mapping = make_mapping(of, on, dataflow, Options(objective="dram-bytes"))
    assert _groups(mapping) == [("one", "add")]
    assert dram_total(assert_counts(of, mapping, on).moved) == 8 * 4 + 4 * 8 + 2 * 8 * 8
