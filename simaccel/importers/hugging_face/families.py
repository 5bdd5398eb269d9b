"""Known families of transformers: the defaults of their configurations, and their additions.

The defaults are those of the library `transformers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from simaccel.importers.hugging_face import additions as own
from simaccel.importers.hugging_face.configuration import ALL_BIASED, Configuration, ModelFamily

_FACTORS: Final = (
    *("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"),
    *("logit_scale", "scale_emb", "scale_depth", "dim_model_base"),
)
_ALIBI: Final = (
    *("apply_residual_connection_post_layernorm", "slow_but_exact", "seq_length"),
    *("masked_softmax_fusion", "bias_dropout_fusion", "skip_bias_add"),
)
_LLAMA: Final = ModelFamily(additions=(own.name_partial_turn,), passed=_FACTORS)
_GLM: Final = ModelFamily(attention=("qkv",), additions=(own.name_partial_turn,))
_GEMMA: Final = ModelFamily(activation="gelu_pytorch_tanh", tied=True)
_OLDER: Final = ModelFamily(norm="layer_norm", gated=False, activation="gelu", biased=ALL_BIASED)
"""Of families before Llama: norms with biases, biases everywhere, no gate."""
_GPT2: Final = replace(_OLDER, activation="gelu_new", tied=True)
_COHERE: Final = ModelFamily(
    norm="layer_norm",
    tied=True,
    sizes={"norm_bias": False, "shared_norm": True},
    additions=(own.name_norms_of_heads,),
    passed=_FACTORS,
)
_FALCON: Final = ModelFamily(
    norm="layer_norm",
    gated=False,
    activation="gelu",
    tied=True,
    additions=(own.take_falcon,),
    passed=("apply_residual_connection_post_layernorm", "hidden_dropout"),
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
        ("mistral", "ministral", "mixtral", "phi3"),
        ModelFamily(windowed=True, additions=(own.name_partial_turn,)),
    ),
    "smollm3": ModelFamily(additions=(own.name_unturned_layers,)),
    **dict.fromkeys(
        ("qwen2", "qwen2_moe"),
        ModelFamily(biased=("qkv",), fixed=True, additions=(own.take_qwen_windows,)),
    ),
    **dict.fromkeys(
        ("qwen3", "qwen3_moe"),
        ModelFamily(additions=(own.take_qwen_windows, own.take_norms_of_heads)),
    ),
    "hunyuan_v1_dense": ModelFamily(additions=(own.take_norms_of_heads,)),
    "seed_oss": ModelFamily(attention=("qkv",), passed=("attention_out_bias",)),
    "gemma": replace(_GEMMA, sizes={"scaled_embedding": True}),
    "gemma2": replace(_GEMMA, additions=(own.take_gemma2, own.take_windows(2))),
    "gemma3": replace(
        _GEMMA, additions=(own.take_gemma2, own.take_norms_of_heads, own.take_windows(6))
    ),
    "glm": _GLM,
    "glm4": replace(_GLM, sizes={"post_norms": True}),
    "glm4_moe": replace(_GLM, additions=(own.name_partial_turn, own.take_norms_of_heads)),
    "chatglm": ModelFamily(additions=(own.take_chatglm,)),
    **dict.fromkeys(
        ("olmo2", "olmo3"), ModelFamily(windowed=True, additions=(own.name_norms_of_queries,))
    ),
    "olmoe": ModelFamily(additions=(own.name_norms_of_queries,)),
    "gpt_oss": ModelFamily(biased=("ff", "router"), windowed=True, additions=(own.take_gpt_oss,)),
    "phimoe": ModelFamily(norm="layer_norm", windowed=True),
    "cohere": _COHERE,
    "cohere2": replace(
        _COHERE,
        additions=(own.take_windows(4), own.name_unturned_layers),
        passed=(*_FACTORS, "rotary_pct"),
    ),
    "stablelm": ModelFamily(
        norm="layer_norm",
        additions=(own.name_partial_turn, own.take_side_by_side, own.name_norms_of_heads),
    ),
    "starcoder2": replace(
        _OLDER,
        activation="gelu_pytorch_tanh",
        tied=True,
        windowed=True,
        passed=("norm_type", "mlp_type"),
    ),
    "nemotron": ModelFamily(
        norm="layer_norm", gated=False, activation="relu2", additions=(own.name_partial_turn,)
    ),
    "arcee": ModelFamily(gated=False, activation="relu2"),
    "phi": replace(
        _OLDER,
        activation="gelu_new",
        sizes={"shared_norm": True},
        additions=(own.name_partial_turn, own.take_phi),
    ),
    "gpt_neox": replace(
        _OLDER,
        additions=(own.name_partial_turn,),
        passed=("use_parallel_residual", "rotary_emb_base"),
    ),
    **dict.fromkeys(
        ("gptj", "codegen"),
        replace(
            _OLDER,
            activation="gelu_new",
            biased=("ff", "logits"),
            sizes={"shared_norm": True},
            additions=(own.name_partial_turn,),
            passed=("rotary",),
        ),
    ),
    "gpt_neo": replace(
        _GPT2,
        biased=("o", "ff"),
        additions=(own.take_positions("max_position_embeddings"), own.take_gpt_neo),
    ),
    "gpt2": replace(_GPT2, additions=(own.take_positions("n_positions"),)),
    "gpt_bigcode": replace(
        _GPT2,
        additions=(own.take_positions("n_positions"), own.take_gpt_bigcode),
        passed=("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"),
    ),
    "opt": replace(
        _OLDER,
        activation="relu",
        tied=True,
        additions=(own.take_opt,),
        passed=("layer_norm_elementwise_affine", "_remove_final_layer_norm", "prefix"),
    ),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), _FALCON),
    "bloom": replace(
        _OLDER,
        tied=True,
        sizes={"rotary": False},
        additions=(own.name_embedding_norm,),
        passed=_ALIBI,
    ),
    "mpt": replace(
        _OLDER,
        tied=True,
        biased=(),
        sizes={"norm_bias": False, "rotary": False},
        additions=(own.take_mpt,),
    ),
    **dict.fromkeys(
        ("bert", "roberta", "distilbert", "xlm-roberta", "camembert"),
        replace(_OLDER, tied=True, additions=(own.take_bert,)),
    ),
    **dict.fromkeys(
        ("t5", "mt5", "umt5"),
        ModelFamily(activation="relu", gated=False, tied=True, additions=(own.take_t5,)),
    ),
    **dict.fromkeys(("vit", "deit"), replace(_OLDER, patches=True, additions=(own.take_vit,))),
}
"""What is known of families, by the ``model_type`` of their files."""

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
}
"""What the library `transformers` has where a file of a family says nothing."""


def family_of_keys(config: Configuration) -> ModelFamily:
    """Return the norms and the gate of a decoder of an unknown family, by its keys.

    A feed-forward layer with SiLU has a gate, as in all families that are known.
    """
    keys = " ".join(config.given)
    older = "rms" not in keys and ("layer_norm" in keys or "layernorm" in keys)
    gated = config.text("hidden_act", "silu").startswith(("silu", "swi"))
    return ModelFamily(
        norm="layer_norm" if older else "rms_norm",
        gated=gated,
        windowed=True,
        additions=(own.name_partial_turn,),
    )
