from typing import Any

import numpy as np
import pytest

from simaccel.errors import InputError
from simaccel.experiment.check import einsum_values
from simaccel.workload import Conv, Einsum, Layers, Product, layers_workload, parse_workload
from simaccel.workload.layers import distinct_names, one_layer, with_batch

LAYERS: Layers = {
    "last_by_name_first_in_order": Conv(m=2, c=3, p=4, q=4, r=3, s=3),
    "fc": Product(m=1, k=32, n=10),
    "b": Product(m=3, k=4, n=5, b=2, transposed=(True, False)),
}


def test_layers_keep_their_order_and_own_their_tensors() -> None:
    workload = layers_workload("net", LAYERS, bytes_by_tensor={"O": 4})
    assert [operator.name for operator in workload.operators] == list(LAYERS)
    assert len(workload.tensors) == 9
    assert workload.shapes["fc.I"] == (1, 1, 32)
    assert workload.shapes["b.I"] == (2, 4, 3)
    kinds = [(t.kind, t.bytes_per_element) for t in workload.tensors.values()][:3]
    assert kinds == [("input", 2), ("weight", 2), ("output", 4)]
    assert workload.macs == 2 * 3 * 16 * 9 + 320 + 120


def test_layers_come_back_from_their_parameters() -> None:
    workload = layers_workload("net", LAYERS, bytes_per_element=1)
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)
    assert again.fingerprint == workload.fingerprint


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_factors_may_be_stored_transposed(transposed: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 5))
    einsum = Product(m=3, k=4, n=5, b=2, transposed=transposed).einsum("x")
    tensors = {
        "I": first.transpose(0, 2, 1).copy() if transposed[0] else first,
        "W": second.transpose(0, 2, 1).copy() if transposed[1] else second,
    }
    assert isinstance(einsum, Einsum)
    assert np.allclose(einsum_values(einsum, tensors), first @ second)


def test_a_batch_multiplies_samples_and_leaves_weights() -> None:
    batched = with_batch(LAYERS, 3)
    assert [shape.weights for shape in batched.values()] == [54, 320, 40]
    one, three = layers_workload("net", LAYERS), layers_workload("net", batched)
    assert three.macs == 3 * one.macs
    assert three.tensor_bytes("fc.W") == one.tensor_bytes("fc.W")
    assert three.tensor_bytes("fc.I") == 3 * one.tensor_bytes("fc.I")


def test_all_faults_are_reported() -> None:
    wrong: Any = {"a": Conv(m=0, c=1, p=1, q=1, r=1, s=1), "b": Product(m=1, k=2.5, n=1)}  # type: ignore[arg-type]
    size = "a whole number from 1 to 1073741824"
    with pytest.raises(InputError) as caught:
        layers_workload("net", wrong, bytes_per_element=0)
    assert str(caught.value).splitlines() == [
        "net: bytes_per_element: got 0; allowed: a whole number from 1 to 16",
        f"net: layers.a.M: got 0; allowed: {size}",
        f"net: layers.b.K: got 2.5; allowed: {size}",
    ]
    with pytest.raises(InputError, match="net: layers: got 'no layers'; allowed: at least one"):
        layers_workload("net", {})


def test_one_layer_is_chosen() -> None:
    assert one_layer(LAYERS, None) == LAYERS
    assert list(one_layer(LAYERS, "fc")) == ["fc"]
    with pytest.raises(InputError, match="workload: layer: got 'fcc'; did you mean 'fc'"):
        one_layer(LAYERS, "fcc")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["a_2", "a", "a"], ["a_2", "a", "a_3"]),
    ],
)
def test_names_become_distinct(given: list[str], found: list[str]) -> None:
    assert distinct_names(given) == found
