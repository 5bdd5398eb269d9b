"""Families beside the best known: parameters as published, less what an account names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simaccel.errors import InputError
from simaccel.importers.hugging_face.config import load_config


def _sizes(hidden: int, layers: int, heads: int, vocabulary: int, **more: object) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": vocabulary,
        **more,
    }


CASES: dict[str, tuple[str, dict[str, Any], int, list[str]]] = {
    "Phi-3-mini": (
        "phi3",
        _sizes(3072, 32, 32, 32064, num_key_value_heads=32, intermediate_size=8192),
        3_821_079_552,
        [],
    ),
    "granite-3.0-2b": (
        "granite",
        _sizes(
            *(2048, 40, 32, 49155),
            intermediate_size=8192,
            num_key_value_heads=8,
            tie_word_embeddings=True,
            embedding_multiplier=12.0,
            logits_scaling=8.0,
        ),
        2_533_531_648,
        [],
    ),
    "starcoder2-3b": (
        "starcoder2",
        _sizes(3072, 30, 24, 49152, num_key_value_heads=2, intermediate_size=12288),
        3_030_371_328,
        [],
    ),
    "stablelm-3b-4e1t": (
        "stablelm",
        _sizes(2560, 32, 32, 50304, intermediate_size=6912, partial_rotary_factor=0.25),
        2_795_443_200,
        ["partial_rotary_factor"],
    ),
    "pythia-70m": (
        "gpt_neox",
        _sizes(512, 6, 8, 50304, intermediate_size=2048, rotary_pct=0.25),
        70_426_624,
        ["rotary_pct"],
    ),
    "opt-125m": (
        "opt",
        _sizes(768, 12, 12, 50272, ffn_dim=3072, max_position_embeddings=2048),
        125_239_296,
        [],
    ),
    # a second norm of gain and bias in each layer more than published; no bias of the logits
    "phi-2": (
        "phi",
        _sizes(2560, 32, 32, 51200, intermediate_size=10240, partial_rotary_factor=0.4),
        2_779_683_840 + 32 * 2 * 2560 - 51200,
        ["lm_head.bias", "norm", "partial_rotary_factor"],
    ),
    "falcon-7b": (
        "falcon",
        _sizes(4544, 32, 71, 65024, multi_query=True, parallel_attn=True, bias=False),
        6_921_720_704 + 32 * 2 * 4544,
        ["norm"],
    ),
    "gpt-j-6b": (
        "gptj",
        {"n_embd": 4096, "n_layer": 28, "n_head": 16, "vocab_size": 50400, "rotary_dim": 64},
        6_050_882_784 + 28 * 2 * 4096 - 50400,
        ["lm_head.bias", "norm", "rotary_dim"],
    ),
    "bloom-560m": (
        "bloom",
        {"hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880},
        559_214_592 - 2 * 1024,
        ["alibi", "word_embeddings_layernorm"],
    ),
    "starcoderbase-1b": (
        "gpt_bigcode",
        {
            "n_embd": 2048,
            "n_layer": 24,
            "n_head": 16,
            "n_inner": 8192,
            "n_positions": 8192,
            "vocab_size": 49152,
            "multi_query": True,
        },
        1_137_207_296,
        [],
    ),
}


def _write(folder: Path, family: str, sizes: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": family, **sizes}))
    return path


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_the_published_ones(tmp_path: Path, name: str) -> None:
    family, sizes, parameters, left = CASES[name]
    model, account = load_config(_write(tmp_path, family, sizes))
    assert model.parameters == parameters
    assert sorted(one.name for one in account.entries_of("not taken")) == left


def test_a_product_behind_the_embedding_is_named(tmp_path: Path) -> None:
    sizes = _sizes(1024, 24, 16, 50272, ffn_dim=4096, max_position_embeddings=2048)
    _, account = load_config(_write(tmp_path, "opt", {**sizes, "word_embed_proj_dim": 512}))
    assert [(one.name, one.macs) for one in account.entries_of("not taken")] == [
        ("word_embed_proj_dim", None)
    ]


def test_what_is_true_or_false_is_no_text(tmp_path: Path) -> None:
    sizes = _sizes(64, 2, 2, 100, intermediate_size=128, tie_word_embeddings="false")
    path = _write(tmp_path, "llama", sizes)
    with pytest.raises(InputError) as caught:
        load_config(path)
    said = "tie_word_embeddings: got 'false'; allowed: true or false"
    assert str(caught.value) == f"{path}: {said}"
