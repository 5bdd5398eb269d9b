"""Known families of transformers: how each differs from Llama, and the defaults of its files.

The defaults are those of the library `transformers`. `ModelFamily` explains the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from simaccel.importers.hugging_face import additions as add
from simaccel.importers.hugging_face.configuration import ALL_BIASED, Configuration, ModelFamily

_FACTORS: Final = (
    *("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"),
    *("logit_scale", "scale_emb", "scale_depth", "dim_model_base"),
)
_ALIBI: Final = (
    *("apply_residual_connection_post_layernorm", "slow_but_exact", "seq_length"),
    *("masked_softmax_fusion", "bias_dropout_fusion", "skip_bias_add"),
)
_ROTARY: Final = (add.report_partial_rotary,)
_HEAD_NORMS: Final = {"head_norms": ("use_qk_norm", True)}
"""Norms of Q and K by head, whose gain all heads share."""
_LLAMA: Final = ModelFamily(additions=_ROTARY, without_effect=_FACTORS)
_GLM: Final = ModelFamily(attention=("qkv",), additions=_ROTARY)
_GEMMA: Final = ModelFamily(activation="gelu_pytorch_tanh", tied=True)
_OLDER: Final = ModelFamily(norm="layer_norm", gated=False, activation="gelu", biased=ALL_BIASED)
"""Families before Llama: layer norms, biases in all layers, no gated feed-forward layer."""
_GPT2: Final = replace(_OLDER, activation="gelu_new", tied=True)
_COHERE: Final = ModelFamily(
    norm="layer_norm",
    tied=True,
    sizes={"norm_bias": False, "shared_norm": True},
    additions=(add.report_head_norms,),
    without_effect=_FACTORS,
)
_FALCON: Final = ModelFamily(
    norm="layer_norm",
    gated=False,
    activation="gelu",
    tied=True,
    additions=(add.take_falcon,),
    without_effect=("apply_residual_connection_post_layernorm", "hidden_dropout"),
)
FAMILIES: Final[Mapping[str, ModelFamily]] = {
    **dict.fromkeys(
        (
            *("llama", "granite", "granitemoe", "exaone", "internlm2", "internlm3", "baichuan"),
            *("yi", "minicpm", "helium", "ernie4_5", "deepseek"),
        ),
        _LLAMA,
    ),
    **dict.fromkeys(
        ("mistral", "ministral", "mixtral", "phi3"), ModelFamily(windowed=True, additions=_ROTARY)
    ),
    "smollm3": ModelFamily(
        additions=(add.report_layers_without_rotary,), without_effect=("no_rope_layer_interval",)
    ),
    **dict.fromkeys(
        ("qwen2", "qwen2_moe"),
        ModelFamily(biased=("qkv",), fixed=True, additions=(add.take_qwen_windows,)),
    ),
    **dict.fromkeys(
        ("qwen3", "qwen3_moe"), ModelFamily(additions=(add.take_qwen_windows,), flags=_HEAD_NORMS)
    ),
    "hunyuan_v1_dense": ModelFamily(flags=_HEAD_NORMS),
    "dots1": ModelFamily(additions=(add.report_choice_biases,), flags=_HEAD_NORMS),
    "ernie4_5_moe": ModelFamily(additions=(add.report_choice_biases,)),
    "seed_oss": ModelFamily(attention=("qkv",), without_effect=("attention_out_bias",)),
    "gemma": replace(_GEMMA, sizes={"scaled_embedding": True}),
    "gemma2": replace(_GEMMA, additions=(add.take_gemma2,), every=2),
    "gemma3": replace(_GEMMA, additions=(add.take_gemma2,), flags=_HEAD_NORMS, every=6),
    "glm": _GLM,
    "glm4": replace(_GLM, sizes={"post_norms": True}),
    "glm4_moe": replace(_GLM, additions=(*_ROTARY, add.report_choice_biases), flags=_HEAD_NORMS),
    "chatglm": ModelFamily(
        additions=(add.take_chatglm,),
        without_effect=(
            *("post_layer_norm", "original_rope", "rope_ratio", "fp32_residual_connection"),
            *("apply_query_key_layer_scaling", *_ALIBI),
        ),
    ),
    **dict.fromkeys(
        ("olmo2", "olmo3"), ModelFamily(windowed=True, additions=(add.report_olmo_norms,))
    ),
    "olmoe": ModelFamily(additions=(add.report_olmo_norms,)),
    "gpt_oss": ModelFamily(
        biased=("ff", "router"),
        windowed=True,
        additions=(add.report_sinks,),
        without_effect=("swiglu_limit", "initial_context_length"),
    ),
    "phimoe": ModelFamily(norm="layer_norm", windowed=True),
    "cohere": _COHERE,
    "cohere2": replace(
        _COHERE,
        every=4,
        additions=(add.report_layers_without_rotary,),
        without_effect=(*_FACTORS, "rotary_pct"),
    ),
    "stablelm": ModelFamily(
        norm="layer_norm",
        flags={"shared_norm": ("use_parallel_residual", False)},
        additions=(*_ROTARY, add.report_head_norms),
    ),
    "starcoder2": replace(
        _OLDER,
        activation="gelu_pytorch_tanh",
        tied=True,
        windowed=True,
        without_effect=("norm_type", "mlp_type"),
    ),
    "nemotron": ModelFamily(norm="layer_norm", gated=False, activation="relu2", additions=_ROTARY),
    "arcee": ModelFamily(gated=False, activation="relu2"),
    "phi": replace(
        _OLDER,
        activation="gelu_new",
        sizes={"shared_norm": True},
        additions=(*_ROTARY, add.take_phi),
    ),
    "gpt_neox": replace(
        _OLDER, additions=_ROTARY, without_effect=("use_parallel_residual", "rotary_emb_base")
    ),
    **dict.fromkeys(
        ("gptj", "codegen"),
        replace(
            _OLDER,
            activation="gelu_new",
            biased=("ff", "logits"),
            sizes={"shared_norm": True},
            additions=_ROTARY,
            without_effect=("rotary",),
        ),
    ),
    "gpt_neo": replace(
        _GPT2,
        biased=("o", "ff"),
        positions="max_position_embeddings",
        additions=(add.take_gpt_neo,),
    ),
    "gpt2": replace(_GPT2, positions="n_positions"),
    "gpt_bigcode": replace(
        _GPT2,
        positions="n_positions",
        additions=(add.take_gpt_bigcode,),
        without_effect=("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"),
    ),
    "opt": replace(
        _OLDER,
        activation="relu",
        tied=True,
        additions=(add.take_opt,),
        without_effect=("layer_norm_elementwise_affine", "_remove_final_layer_norm", "prefix"),
    ),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), _FALCON),
    "bloom": replace(
        _OLDER,
        tied=True,
        sizes={"rotary": False},
        additions=(add.report_bloom_embedding,),
        without_effect=_ALIBI,
    ),
    "mpt": replace(
        _OLDER,
        tied=True,
        biased=(),
        sizes={"norm_bias": False, "rotary": False},
        additions=(add.take_mpt,),
        without_effect=(
            *("init_config", "learned_pos_emb", "norm_type", "verbose", "embedding_fraction"),
            *("max_seq_len", "init_device", "logit_scale"),
        ),
    ),
    **dict.fromkeys(
        ("bert", "roberta", "distilbert", "xlm-roberta", "camembert"),
        replace(_OLDER, tied=True, positions="max_position_embeddings", additions=(add.take_bert,)),
    ),
    **dict.fromkeys(
        ("t5", "mt5", "umt5"),
        ModelFamily(
            activation="relu",
            gated=False,
            tied=True,
            additions=(add.take_t5,),
            without_effect=("dense_act_fn", "is_gated_act", "relative_attention_max_distance"),
        ),
    ),
    **dict.fromkeys(("vit", "deit"), replace(_OLDER, patches=True, additions=(add.take_vit,))),
}
"""Families by the ``model_type`` of their files."""

_TEXT: Final[Mapping[str, int]] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
_QWEN: Final = {**_TEXT, "vocab_size": 151936, "intermediate_size": 22016}
_GEMMA2: Final[Mapping[str, object]] = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
}
DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "llama": {**_TEXT, "intermediate_size": 11008},
    "mistral": {**_TEXT, "num_key_value_heads": 8, "sliding_window": 4096},
    "mixtral": {**_TEXT, "num_key_value_heads": 8},
    "qwen2": {**_QWEN, "num_key_value_heads": 32},
    "qwen3": {**_QWEN, "num_key_value_heads": 32, "head_dim": 128},
    "gemma": {"num_key_value_heads": 16, "head_dim": 256},
    "gemma2": {**_GEMMA2, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": {**_GEMMA2, "vocab_size": 262208},
    "glm4_moe": {"first_k_dense_replace": 1},
    "ernie4_5_moe": {"moe_layer_start_index": 1},
}
"""Values of keys that a family's files may leave out, by family and key."""


def family_of_keys(config: Configuration) -> ModelFamily:
    """Return a family for a decoder of an unknown one, with norm and gate guessed from its keys.

    A feed-forward layer with SiLU is taken as gated, which holds for all known families.
    """
    keys = " ".join(config.given)
    older = "rms" not in keys and ("layer_norm" in keys or "layernorm" in keys)
    gated = config.text("hidden_act", "silu").startswith(("silu", "swi"))
    return ModelFamily(
        norm="layer_norm" if older else "rms_norm", gated=gated, windowed=True, additions=_ROTARY
    )
