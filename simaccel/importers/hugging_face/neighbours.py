"""Families beside the best known: decoders with a norm less, biases elsewhere, or other positions.

What their blocks have that simaccel's haven't, or the reverse (a norm for both sub-layers, a part
of each head that is turned, a bias of the logits), is accounted for; none of it multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.hugging_face.configuration import PART, Configuration

_ALL: Final = ("qkv", "o", "ff")
_FACTORS: Final = (
    *("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"),
)


def _decoder(config: Configuration, **names: str) -> dict[str, Any]:
    """Return the sizes of a decoder whose feed-forward network is four times as wide, or says it.

    ``names``: of its layers, heads, hidden size, and of the feed-forward network's.
    """
    hidden = config.size(names.get("hidden", "hidden_size"), "hidden_size", "n_embed")
    heads = config.size(names.get("heads", "num_attention_heads"), "num_attention_heads")
    wide = config.size(names.get("ff", "intermediate_size"), default=4 * hidden)
    return {
        "hidden": hidden,
        "layers": config.size(names.get("layers", "num_hidden_layers"), "num_hidden_layers"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": hidden // max(1, heads),
        "ff_size": wide,
        "vocabulary": config.size("vocab_size"),
        "norm": "layer_norm",
        "gated": False,
        "biased": _ALL,
    }


def _leave(config: Configuration, name: str, why: str) -> None:
    config.left.append(AccountEntry(name, "not taken", why))


def _share_norm(config: Configuration) -> None:
    _leave(config, "norm", "one for attention and feed-forward network in each layer; here two")


def _turn_part(config: Configuration, *names: str) -> None:
    """Note that a part of each head is turned, if one of the names says so."""
    part = config.get(*names, default=None)
    if part not in (None, 1, 1.0):
        _leave(config, names[0], "a part of each head is turned; here all of it")
        config.taken.update(names)


def _granite(config: Configuration, sizes: dict[str, Any]) -> dict[str, Any]:
    config.taken.update(_FACTORS)
    _turn_part(config, "partial_rotary_factor")
    return sizes


def _stablelm(config: Configuration, sizes: dict[str, Any]) -> dict[str, Any]:
    _turn_part(config, "partial_rotary_factor", "rope_pct")
    if config.flag("use_parallel_residual", default=False):
        _share_norm(config)
    if config.flag("qk_layernorm", default=False):
        _leave(config, "norms of Q and K", "each head's own")
    biased = ("qkv",) if config.flag("use_qkv_bias", default=False) else ()
    return {**sizes, "norm": "layer_norm", "biased": biased}


def _starcoder2(config: Configuration, sizes: dict[str, Any]) -> dict[str, Any]:
    for name in ("norm_type", "mlp_type"):
        config.taken.add(name)
    act = config.activation("hidden_act", default="gelu_pytorch_tanh")
    biased = _ALL if config.flag("use_bias", default=True) else ()
    tied = config.flag("tie_word_embeddings", default=True)
    own = {"norm": "layer_norm", "gated": False, "activation": act, "biased": biased}
    return {**sizes, **own, "tied": tied}


def read_phi(config: Configuration, _family: str) -> dict[str, Any]:
    """Return the sizes of Phi-1 and 2."""
    sizes = _decoder(config)
    sizes["kv_heads"] = config.size("num_key_value_heads", default=sizes["heads"])
    sizes["activation"] = config.activation("hidden_act", default="gelu_new")
    sizes["tied"] = config.flag("tie_word_embeddings", default=False)
    _turn_part(config, "partial_rotary_factor")
    _share_norm(config)
    _leave(config, "lm_head.bias", "a sum to the logits")
    if config.flag("qk_layernorm", default=False):
        _leave(config, "norms of Q and K", "each head's own")
    return sizes


def read_gpt_neox(config: Configuration, _family: str) -> dict[str, Any]:
    """Return the sizes of GPT-NeoX and Pythia, whose two norms are side by side."""
    sizes = _decoder(config)
    config.taken.add("use_parallel_residual")
    sizes["activation"] = config.activation("hidden_act", default="gelu")
    sizes["tied"] = config.flag("tie_word_embeddings", default=False)
    if not config.flag("attention_bias", default=True):
        sizes["biased"] = ("ff",)
    _turn_part(config, "rotary_pct", "partial_rotary_factor")
    config.taken.add("rotary_emb_base")
    return sizes


def read_gptj(config: Configuration, _family: str) -> dict[str, Any]:
    """Return the sizes of GPT-J."""
    sizes = _decoder(config, hidden="n_embd", heads="n_head", layers="n_layer", ff="n_inner")
    sizes["activation"] = config.activation("activation_function", default="gelu_new")
    sizes["tied"] = config.flag("tie_word_embeddings", default=False)
    sizes["biased"] = ("ff",)
    _turn_part(config, "rotary_dim")
    _share_norm(config)
    _leave(config, "lm_head.bias", "a sum to the logits")
    config.taken.add("rotary")
    return sizes


def read_opt(config: Configuration, _family: str) -> dict[str, Any]:
    """Return the sizes of OPT, whose table of positions has two more than it says."""
    sizes = _decoder(config, ff="ffn_dim")
    sizes["positions"] = config.size("max_position_embeddings") + 2
    sizes["activation"] = config.activation("activation_function", default="relu")
    sizes["tied"] = config.flag("tie_word_embeddings", default=True)
    if config.get("word_embed_proj_dim", default=sizes["hidden"]) != sizes["hidden"]:
        config.leave(
            "word_embed_proj_dim", "a product after the embedding, and one before the logits", PART
        )
    if not config.flag("do_layer_norm_before", default=True):
        why = "false: norms after the sub-layers, the same work without the last norm"
        config.left.append(AccountEntry("do_layer_norm_before", "harmless", why))
    if not config.flag("enable_bias", default=True):
        sizes["biased"] = ()
    config.taken |= {"layer_norm_elementwise_affine", "_remove_final_layer_norm", "prefix"}
    return sizes


def read_falcon(config: Configuration, _family: str) -> dict[str, Any]:
    """Return the sizes of Falcon: heads that share one key and value, or groups that do."""
    sizes = _decoder(config, heads="n_head", layers="n_layer", ff="ffn_hidden_size")
    groups = config.flag("new_decoder_architecture", default=False)
    single = config.flag("multi_query", default=True)
    shared = config.size("num_kv_heads", "n_head_kv", default=sizes["heads"])
    sizes["kv_heads"] = shared if groups else (1 if single else sizes["heads"])
    sizes["biased"] = _ALL if config.flag("bias", default=False) else ()
    sizes["activation"] = config.activation("activation", default="gelu")
    sizes["tied"] = config.flag("tie_word_embeddings", default=True)
    sizes["rotary"] = not config.flag("alibi", default=False)
    norms = config.get("num_ln_in_parallel_attn", default=2 if groups else 1)
    if config.flag("parallel_attn", default=True) and norms == 1:
        _share_norm(config)
    config.taken |= {"apply_residual_connection_post_layernorm", "hidden_dropout"}
    return sizes


def read_bloom(config: Configuration, _family: str) -> dict[str, Any]:
    """Return the sizes of BLOOM, whose scores have a sum for the distance (ALiBi)."""
    sizes = _decoder(config, heads="n_head", layers="n_layer", ff="n_inner")
    sizes["activation"] = "gelu"
    sizes["tied"] = config.flag("tie_word_embeddings", default=True)
    sizes["rotary"] = False
    _leave(config, "word_embeddings_layernorm", "a norm after the embedding")
    _leave(config, "alibi", "a sum to the scores")
    config.taken |= {"apply_residual_connection_post_layernorm", "slow_but_exact", "seq_length"}
    config.taken |= {
        "masked_softmax_fusion",
        "bias_dropout_fusion",
        "skip_bias_add",
        "unk_token_id",
    }
    return sizes


ALIKE: Final[Mapping[str, Callable[[Configuration, dict[str, Any]], dict[str, Any]]]] = {
    **dict.fromkeys(("granite", "phi3", "ministral"), _granite),
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}
"""Families that call their sizes as Llama does, by what differs."""
NEIGHBOURS: Final[Mapping[str, Callable[[Configuration, str], dict[str, Any]]]] = {
    "phi": read_phi,
    "gpt_neox": read_gpt_neox,
    "gptj": read_gptj,
    "opt": read_opt,
    "falcon": read_falcon,
    "bloom": read_bloom,
}
"""Readers of families with names of their own."""
