import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.workload import ModelDimensions, Vector, attention, parse_workload

ODD = ModelDimensions(hidden=6, heads=2, head_size=5, ff_size=11, layers=3)
SIZES = st.integers(1, 10_000)


@given(*[SIZES] * 7)
def test_macs_of_a_block(b: int, n: int, hidden: int, h: int, d: int, ff: int, layers: int) -> None:
    sizes = ModelDimensions(hidden=hidden, heads=h, head_size=d, ff_size=ff, layers=layers)
    la = 2 * b * h * n * n * d
    block = b * n * (4 * hidden * h * d + 2 * hidden * ff) + la
    found = [
        attention(sizes, batch=b, seq_len=n, scope=scope).macs for scope in ("la", "block", "model")
    ]
    assert found == [la, block, layers * block]


def test_operators_are_in_the_order_of_the_paper() -> None:
    block = attention(ODD, batch=2, seq_len=7)
    names = [operator.name for operator in block.operators]
    assert names == ["Q", "K", "V", "L", "softmax", "A", "O", "FF1", "FF2"]
    la = attention(ODD, batch=2, seq_len=7, scope="la")
    assert [operator.name for operator in la.operators] == ["L", "softmax", "A"]


def test_shapes_of_a_block_whose_heads_do_not_divide_its_hidden_size() -> None:
    block = attention(ODD, batch=2, seq_len=7)
    assert dict(block.shapes) == {
        "X": (2, 7, 6),
        **dict.fromkeys(("Wq", "Wk", "Wv"), (6, 2, 5)),
        **dict.fromkeys(("Q", "K", "V", "Z"), (2, 2, 7, 5)),
        **dict.fromkeys(("S", "P"), (2, 2, 7, 7)),
        "Wo": (2, 5, 6),
        **dict.fromkeys(("Y", "U"), (2, 7, 6)),
        "W1": (6, 11),
        "F": (2, 7, 11),
        "W2": (11, 6),
    }


def test_kinds_of_tensors() -> None:
    block = attention(ODD, batch=2, seq_len=7)
    ends = {x.name: x.kind for x in block.tensors.values() if x.kind != "intermediate"}
    assert ends == {
        "X": "input",
        **dict.fromkeys(("Wq", "Wk", "Wv", "Wo", "W1", "W2"), "weight"),
        "U": "output",
    }
    la = attention(ODD, batch=2, seq_len=7, scope="la")
    assert {x.name: x.kind for x in la.tensors.values()} == {
        **dict.fromkeys(("Q", "K", "V"), "input"),
        **dict.fromkeys(("S", "P"), "intermediate"),
        "Z": "output",
    }


def test_softmax_scales_by_the_root_of_the_head_size() -> None:
    softmax = attention(ODD, batch=2, seq_len=7).operator("softmax")
    assert isinstance(softmax, Vector)
    assert (softmax.kind, softmax.axis, softmax.scale) == ("softmax", "c", 1 / math.sqrt(5))


def test_model_is_the_block_repeated() -> None:
    block, model = (attention(ODD, batch=2, seq_len=7, scope=scope) for scope in ("block", "model"))
    assert replace(block, repeat=3) == model


def test_element_sizes_can_differ() -> None:
    block = attention(ODD, batch=2, seq_len=7, bytes_per_element=1, bytes_by_tensor={"S": 4})
    assert block.tensor_bytes("S") == 4 * 2 * 2 * 7 * 7
    assert block.tensor_bytes("P") == 1 * 2 * 2 * 7 * 7


@pytest.mark.parametrize("scope", ["la", "block", "model"])
def test_attention_comes_back_from_its_parameters(scope: str) -> None:
    workload = attention(ODD, batch=2, seq_len=7, scope=scope, bytes_by_tensor={"S": 4})
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)


def test_attention_reports_all_faults() -> None:
    sizes = replace(ODD, heads=-1, ff_size=0)
    with pytest.raises(InputError) as caught:
        attention(sizes, batch=0, seq_len=7, scope="blok", bytes_by_tensor={"Wx": 2})
    assert str(caught.value).splitlines() == [
        "attention: batch: got 0; allowed: a whole number from 1 to 1099511627776",
        "attention: heads: got -1; allowed: a whole number from 1 to 1099511627776",
        "attention: ff_size: got 0; allowed: a whole number from 1 to 1099511627776",
        "attention: scope: got 'blok'; did you mean 'block'? (allowed: la, block, model)",
        (
            "attention: bytes_by_tensor.Wx: got 2; "
            "allowed: one of X, Wq, Wk, Wv, Wo, W1, W2, Q, K, V, S, P, Z, Y, F, U"
        ),
    ]
