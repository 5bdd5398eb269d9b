"""Values: programs of small transformers against a model in plain numpy."""

import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from simaccel import load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.diagnosis.plain_values import drawn_tensors, expected_values
from simaccel.workload import Transformer, Workload, transformer
from simaccel.workload.language import phase
from tests.draws import some
from tests.workload.language.reference import feed_forward, layer, small, whole
from validation.searches import QUICK

LLAMA = small()
GPT = small(
    norm="layer_norm",
    positions=200,
    activation="gelu",
    gated=False,
    biased=("qkv", "o", "ff"),
    kv_heads=6,
    tied=True,
)
GEMMA = small(post_norms=True, attention_cap=2.0, logits_cap=3.0, tied=True, scaled_embedding=True)
QWEN = small(biased=("qkv",), windows=(5,))
MIXTRAL = small(experts=6, chosen=2)
SHARED = small(experts=6, chosen=2, shared_ff=10, shared_gate=True)

CASES: list[tuple[Transformer, dict[str, Any]]] = [
    (LLAMA, {"phase": "prefill", "prompt": 7, "batch": 2}),
    (LLAMA, {"phase": "prefill", "prompt": 11, "causal_blocks": 2}),
    (LLAMA, {"phase": "prefill", "prompt": 13, "kv_len": 6}),
    (LLAMA, {"phase": "decode", "kv_len": 9, "batch": 3}),
    (LLAMA, {"phase": "decode", "kv_len": 0}),
    (GPT, {"phase": "prefill", "prompt": 8}),
    (GPT, {"phase": "decode", "kv_len": 31}),
    (GEMMA, {"phase": "prefill", "prompt": 9}),
    (GEMMA, {"phase": "decode", "kv_len": 9}),
    (QWEN, {"phase": "prefill", "prompt": 14}),
    (QWEN, {"phase": "prefill", "prompt": 3, "kv_len": 7}),
    (QWEN, {"phase": "decode", "kv_len": 17, "batch": 2}),
    (MIXTRAL, {"phase": "prefill", "prompt": 6, "experts": "uniform"}),
    (SHARED, {"phase": "prefill", "prompt": 6, "experts": "uniform"}),
]

BIASED: tuple[tuple[str, ...], ...] = ((), ("ff", "router"))
UNEVEN = [
    transformer(MIXTRAL, prompt=6, experts=[1, 0, 6, 1, 3, 1]),
    transformer(replace(MIXTRAL, biased=BIASED[1]), prompt=6, experts=[1, 0, 2, 2, 6, 1]),
    transformer(MIXTRAL, phase="decode", kv_len=3, batch=5, experts="drawn:3"),
]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase, "_LEAST_ROWS", 3)


def _name(case: object) -> str:
    return re.sub(r"\W+", "-", str(case)) if isinstance(case, dict) else ""


@pytest.mark.parametrize(("model", "asked"), CASES, ids=_name)
def test_operators_compute_what_the_model_is(model: Transformer, asked: dict[str, Any]) -> None:
    workload = transformer(model, scope="model", **asked)
    given = drawn_tensors(workload)
    made = expected_values(workload, given)
    past = asked.get("kv_len", 0)
    rows = asked.get("prompt", 1)
    one = layer(model, made["X"], given, past)
    np.testing.assert_allclose(made["Xout"], one, rtol=1e-9, atol=1e-9)
    expected = whole(model, given, past, rows)
    np.testing.assert_allclose(made["logits"], expected, rtol=1e-9, atol=1e-9)


def test_the_cache_keeps_what_was_there_and_gets_the_new_token() -> None:
    workload = transformer(LLAMA, phase="decode", kv_len=9)
    given = drawn_tensors(workload)
    made = expected_values(workload, given)
    assert made["K"].shape == (1, 10, 2, 4)
    assert (made["K"][:, :9] == given["K"][:, :9]).all()
    assert (made["K"][:, 9:] != given["K"][:, 9:]).all()
    new = np.einsum("bne,egd->bngd", made["norm1.out"], given["Wv"])
    np.testing.assert_allclose(made["V"][:, 9:], new)


def test_layers_without_experts_compute_what_they_are() -> None:
    """The first of four layers is dense, of 12; those behind it are one, three times."""
    model = replace(SHARED, layers=4, dense=(True, False, False, False), dense_ff=12)
    workload = transformer(model, prompt=6, experts="uniform", scope="model")
    assert (workload.repeat, workload.times("layer0.down"), workload.times("layer1.O")) == (3, 1, 3)
    made = expected_values(workload, drawn_tensors(workload))
    plain = replace(model, experts=0, chosen=0)
    for number, built, given in ((0, plain, "X"), (1, SHARED, "X1")):
        prefix = f"layer{number}."
        own = {name.removeprefix(prefix): value for name, value in made.items()}
        found = made["X1" if number == 0 else "Xout"]
        np.testing.assert_allclose(found, layer(built, made[given], own, 0), rtol=1e-9, atol=1e-9)
    assert workload.shapes["layer0.Wgate"] == (24, 12)
    # a token: Q and O of 24 x 24, K and V of 24 x 8; router, two of 20, one of 10 and its gate
    experts = 24 * 6 + 2 * 3 * 24 * 20 + 3 * 24 * 10 + 24
    tokens = 6 * (4 * 24 * (2 * 24 + 2 * 8) + 3 * 24 * 12 + 3 * experts)
    pairs = 3 * 3 + 3 * 6  # two blocks of three rows
    assert workload.macs == tokens + 4 * 2 * 24 * pairs + 24 * 11
    _checked(workload, "naive-m", "edge")


def _checked(workload: Workload, dataflow: str, hw: str) -> None:
    accelerator = load_accelerator(hw, ["buffer.capacity_bytes=64 KiB"])
    result = simulate(workload, accelerator, dataflow, options=QUICK)
    found = check(workload, result.mapping, result.program)
    assert [one.operator for one in found] == [one.name for one in workload.operators]


@pytest.mark.parametrize(("model", "asked"), some(CASES), ids=_name)
def test_programs_compute_what_operators_say(model: Transformer, asked: dict[str, Any]) -> None:
    _checked(transformer(model, scope="model", **asked), "naive-m", "edge")


@pytest.mark.parametrize("workload", UNEVEN)
def test_experts_with_uneven_tokens(workload: Workload) -> None:
    """Each row of D goes through one expert's weights: those with the most tokens come first."""
    given = drawn_tensors(workload)
    made = expected_values(workload, given)
    counts = [
        op.ranks.get("t", 1)
        for op in workload.operators
        if op.name.endswith(".gate")
        for _ in range(op.ranks["x"])
    ]
    rows, first = made["D"].reshape(-1, MIXTRAL.hidden), 0
    for expert, count in enumerate(counts):
        own = {
            name.removeprefix("experts.").removesuffix(str(expert)): values
            if name.startswith("experts.down.bias")
            else values[expert]
            for name, values in given.items()
            if name.startswith("experts.") and (name[-1] == str(expert) or not name[-1].isdigit())
        }
        tokens = slice(first, first + count)
        out = feed_forward(replace(MIXTRAL, biased=BIASED[len(own) > 3]), rows[tokens], own)
        np.testing.assert_allclose(made["E"].reshape(rows.shape)[tokens], out)
        first += count
    assert first == len(rows)
    _checked(workload, "naive-m", "edge")


@pytest.mark.parametrize(
    ("dataflow", "workload"),
    some(
        product(
            ["flat-r", "flex-r", "flash"],
            [
                transformer(QWEN, prompt=7, scope="la"),
                transformer(LLAMA, prompt=8, causal_blocks=1),
            ],
        ),
        3,
    ),
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_dataflow_keeps_the_mask(dataflow: str, workload: Workload) -> None:
    _checked(workload, dataflow, "edge")


def test_a_spatial_array_computes_it_too() -> None:
    _checked(transformer(LLAMA, prompt=5), "ruby-s", "eyeriss_like")
