"""Operands as they are printed are read back as they were; what a chip holds twice is said."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simaccel import build, simulate
from simaccel.errors import InputError
from simaccel.workload import parse_workload
from simaccel.workload.einsum import AffineDimension, Operand
from simaccel.workload.forms import OperandForm

_TERMS = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), min_size=1, max_size=3)


@st.composite
def _operands(draw: st.DrawFn) -> Operand:
    dims = draw(st.lists(_TERMS, min_size=1, max_size=4))
    start = draw(st.none() | st.just(len(dims)))
    starts = [draw(st.integers(0, 99)) for _ in range(start or 0)]
    projection = tuple(AffineDimension(tuple(dim.items())) for dim in dims)
    return Operand("T_0", projection, tuple(starts))


@given(_operands())
def test_what_is_printed_is_read_back(one: Operand) -> None:
    read = OperandForm.model_validate(str(one))
    assert [dict(dim.terms) for dim in one.projection] == read.projection
    assert (read.tensor, tuple(read.start)) == (one.tensor, one.start)


_DOCUMENT = """
kind: einsums
name: slices
tensors: {Q: {kind: input}, K: {kind: input}, S: {kind: output}}
operators:
  low:
    ranks: {m: 8, n: 4, k: 16}
    inputs: ["Q[m+8,k+0]", {tensor: K, projection: [k, n]}]
    output: {tensor: S, projection: [m+8, n+0]}
"""


def test_a_file_may_have_slices_as_they_are_printed() -> None:
    plain = yaml.safe_load(_DOCUMENT)
    workload = parse_workload(plain, "slices.yaml")
    (low,) = workload.operators
    assert [str(one) for one in (*low.inputs, low.output)] == ["Q[m+8,k+0]", "K[k,n]", "S[m+8,n+0]"]
    assert low.output.start == (8, 0)
    plain["operators"]["low"]["inputs"][0] = "Q[m+8+1,k]"
    with pytest.raises(
        InputError, match=r"operators.low.inputs.0.projection: got .m.8.1.; allowed: one of m, n, k"
    ):
        parse_workload(plain, "slices.yaml")


def test_a_run_says_which_caches_are_held_twice() -> None:
    """Eight key-value heads on 16 chips that share a layer: each is on two of them."""
    workload = build("llama3-8b", batch=1, phase="decode", kv_len=64)
    said = simulate(workload, "tpu_v5e_4x4", "naive").summary()
    assert "caches K, V: 8 pieces on 16 chips, so that 2 chips hold each" in said
