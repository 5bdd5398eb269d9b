"""Families of transformers: what they call their sizes, and have that blocks here don't.

Where a key is missing, the default counts that the library `transformers` has for the family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simaccel.errors import Fault
from simaccel.files.accounting import AccountEntry
from simaccel.importers.hugging_face.configuration import ACTIVATIONS, PART, Configuration
from simaccel.importers.hugging_face.neighbours import ALIKE, NEIGHBOURS


def _usual(config: Configuration) -> dict[str, Any]:
    """Return the sizes that most families call alike."""
    heads = config.size("num_attention_heads")
    hidden = config.size("hidden_size")
    return {
        "hidden": hidden,
        "layers": config.size("num_hidden_layers"),
        "heads": heads,
        "kv_heads": config.size("num_key_value_heads", default=heads),
        "head_size": config.size("head_dim", default=hidden // max(1, heads)),
        "ff_size": config.size("intermediate_size"),
        "vocabulary": config.size("vocab_size"),
        "activation": config.activation("hidden_act", default="silu"),
        "tied": config.flag("tie_word_embeddings", default=False),
    }


def _llama(config: Configuration, family: str) -> dict[str, Any]:
    found = _usual(config)
    attention = config.flag("attention_bias", default=False)
    feed = config.flag("mlp_bias", default=False)
    found["biased"] = (*(("qkv", "o") if attention else ()), *(("ff",) if feed else ()))
    found["windows"] = _windows(config, found["layers"], used=family != "llama")
    return found


def _qwen(config: Configuration, family: str) -> dict[str, Any]:
    sizes = _usual(config)
    used = config.flag("use_sliding_window", default=False)
    first = config.size("max_window_layers", default=28)
    sizes["windows"] = _windows(config, sizes["layers"], used=used, first=first)
    config.taken.add("attention_bias")
    if family.startswith("qwen2"):
        sizes["biased"] = ("qkv",)
    else:
        bias = config.flag("attention_bias", default=False)
        sizes["biased"] = ("qkv", "o") if bias else ()
        config.left.append(
            AccountEntry("norms of Q and K", "not taken", "each head's own, in Qwen 3")
        )
    if family.endswith("_moe"):
        sizes |= _experts(config, "num_experts")
        sizes["ff_size"] = config.size("moe_intermediate_size")
        if config.given.get("shared_expert_intermediate_size"):
            config.leave("shared_expert_intermediate_size", "an expert of all tokens", "layer")
        for name in ("decoder_sparse_step", "mlp_only_layers"):
            if config.given.get(name) not in (None, 1, []):
                config.leave(name, "all layers have experts here", "layer")
            config.taken.add(name)
    return sizes


def _mixtral(config: Configuration, family: str) -> dict[str, Any]:
    return {**_llama(config, family), **_experts(config, "num_local_experts")}


def _experts(config: Configuration, name: str) -> dict[str, int]:
    return {"experts": config.size(name), "chosen": config.size("num_experts_per_tok")}


def _gemma(config: Configuration, family: str) -> dict[str, Any]:
    act = config.activation("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    sizes = {**_usual(config), "activation": act, "scaled_embedding": True}
    sizes["tied"] = config.flag("tie_word_embeddings", default=True)
    if config.flag("attention_bias", default=False):
        sizes["biased"] = ("qkv", "o")
    if family == "gemma":
        return sizes
    sizes["post_norms"] = True
    scale = config.get("query_pre_attn_scalar", default=256)
    sizes["score_scale"] = float(scale) ** -0.5
    sizes["attention_cap"] = config.get("attn_logit_softcapping", default=None)
    sizes["logits_cap"] = config.get("final_logit_softcapping", default=None)
    if family.startswith("gemma3"):
        config.left.append(
            AccountEntry("norms of Q and K", "not taken", "each head's own, in Gemma 3")
        )
    every = config.size("sliding_window_pattern", default=6 if "gemma3" in family else 2)
    sizes["windows"] = _windows(config, sizes["layers"], used=True, every=every)
    return sizes


def _windows(
    config: Configuration,
    layers: int,
    *,
    used: bool,
    every: int = 0,
    first: int = 0,
) -> tuple[int | None, ...]:
    """Return the windows of a run of layers that repeats: all layers, or all but each last.

    Before the ``first`` layer none has a window.
    """
    window = config.get("sliding_window", default=None)
    kinds = config.get("layer_types", default=None)
    if not window or (not used and not kinds):
        return (None,)
    if isinstance(kinds, list) and len(kinds) == layers:
        windows = tuple(window if kind == "sliding_attention" else None for kind in kinds)
    elif every:
        windows = tuple(None if (at + 1) % every == 0 else window for at in range(layers))
    else:
        windows = tuple(None if at < first else window for at in range(layers))
    period = next(
        n
        for n in range(1, layers + 1)
        if layers % n == 0 and windows == windows[:n] * (layers // n)
    )
    return windows[:period]


def _read_alike(config: Configuration, family: str) -> dict[str, Any]:
    return ALIKE[family](config, _llama(config, family))


def _gpt2(config: Configuration, family: str) -> dict[str, Any]:
    hidden, heads = config.size("n_embd", "hidden_size"), config.size("n_head")
    shares = family == "gpt_bigcode" and config.flag("multi_query", default=True)
    config.taken |= {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"}
    return {
        "hidden": hidden,
        "layers": config.size("n_layer"),
        "heads": heads,
        "kv_heads": 1 if shares else heads,
        "head_size": hidden // max(1, heads),
        "ff_size": config.size("n_inner", default=4 * hidden),
        "vocabulary": config.size("vocab_size"),
        "positions": config.size("n_positions"),
        "activation": config.activation("activation_function", default="gelu_new"),
        "tied": config.flag("tie_word_embeddings", default=True),
        **_OLDER,
    }


_OLDER: Final[Mapping[str, Any]] = {
    "norm": "layer_norm",
    "gated": False,
    "biased": ("qkv", "o", "ff"),
}
"""Of families before Llama: norms with biases, biases everywhere, no gate."""


def _bert(config: Configuration, family: str) -> dict[str, Any]:
    distilled = family == "distilbert"
    heads = config.size("n_heads" if distilled else "num_attention_heads")
    hidden = config.size("dim" if distilled else "hidden_size")
    kind = str(config.get("position_embedding_type", default="absolute"))
    if kind != "absolute":
        config.leave("position_embedding_type", f"{kind}: positions are a table here", PART)
    if not distilled:
        config.leave("type_vocab_size", "another sum in the embedding")
    if "ForMaskedLM" in str(config.given.get("architectures")):
        why = "a product of each token before the logits"
        config.left.append(AccountEntry("head", "not taken", why, PART, hidden * hidden))
    elif not distilled:
        why = "a product of the first token after the last layer"
        config.left.append(AccountEntry("pooler", "not taken", why, PART, hidden * hidden))
    config.left.append(
        AccountEntry(
            "norms", "harmless", "norms before each sub-layer, not after it: the same work"
        )
    )
    return {
        "hidden": hidden,
        "layers": config.size("n_layers" if distilled else "num_hidden_layers"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": hidden // max(1, heads),
        "ff_size": config.size("hidden_dim" if distilled else "intermediate_size"),
        "vocabulary": config.size("vocab_size"),
        "positions": config.size("max_position_embeddings"),
        "activation": config.activation("hidden_act", "activation", default="gelu"),
        "causal": config.flag("is_decoder", default=False),
        "tied": config.flag("tie_word_embeddings", default=True),
        **_OLDER,
    }


def _t5(config: Configuration, family: str) -> dict[str, Any]:
    how = str(config.get("feed_forward_proj", default="relu"))
    act = how.rpartition("-")[2]
    if act not in ACTIVATIONS:
        config.faults.append(Fault(config.file, "feed_forward_proj", how, "relu or gated-gelu"))
    layers = config.size("num_layers")
    config.taken |= {"dense_act_fn", "is_gated_act", "relative_attention_max_distance"}
    why = "relative positions: a sum to the scores, of which the table alone is taken"
    config.left.append(AccountEntry("relative positions", "not taken", why))
    alone = "EncoderModel" in str(config.given.get("architectures"))
    decoder = config.size("num_decoder_layers", default=layers)
    heads = config.size("num_heads")
    return {
        "hidden": config.size("d_model"),
        "layers": layers,
        "heads": heads,
        "kv_heads": heads,
        "head_size": config.size("d_kv"),
        "ff_size": config.size("d_ff"),
        "vocabulary": config.size("vocab_size"),
        "activation": ACTIVATIONS.get(act, "relu"),
        "gated": how.startswith("gated"),
        "score_scale": 1.0,
        "causal": False,
        "rotary": False,
        "decoder_layers": 0 if alone else decoder,
        "relative": config.size("relative_attention_num_buckets", default=32),
        "relative_each": family == "umt5",
        "tied": config.flag("tie_word_embeddings", default=True),
    }


def _vit(config: Configuration, family: str) -> dict[str, Any]:
    heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
    image, patch = config.size("image_size"), config.size("patch_size")
    channels = config.size("num_channels", default=3)
    if patch < 1 or image % patch:
        allowed = f"a multiple of patch_size, {patch}"
        config.faults.append(Fault(config.file, "image_size", image, allowed))
    patches = (image // max(1, patch)) ** 2
    labels = config.get("id2label", default={})
    config.taken.add("num_labels")
    bias = config.flag("qkv_bias", default=True)
    classes = len(labels) or config.size("num_labels", default=2)
    deit = family == "deit"
    if deit and "WithTeacher" in str(config.given.get("architectures")):
        why, head = "classes of the token of distillation", hidden * classes
        config.left.append(AccountEntry("distillation_classifier", "not taken", why, PART, head))
    return {
        "hidden": hidden,
        "layers": config.size("num_hidden_layers"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": hidden // max(1, heads),
        "ff_size": config.size("intermediate_size"),
        "vocabulary": classes,
        "positions": patches + 1 + deit,  # with the token of distillation
        "patches": (patches, channels * patch * patch),
        "activation": config.activation("hidden_act", default="gelu"),
        **_OLDER,
        "biased": ("qkv", "o", "ff") if bias else ("o", "ff"),
    }


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
FAMILIES: Final[Mapping[str, Callable[[Configuration, str], dict[str, Any]]]] = {
    **dict.fromkeys(("llama", "mistral"), _llama),
    "mixtral": _mixtral,
    **dict.fromkeys(("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"), _qwen),
    **dict.fromkeys(("gemma", "gemma2", "gemma3"), _gemma),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _gpt2),
    **dict.fromkeys(("bert", "roberta", "distilbert", "xlm-roberta", "camembert"), _bert),
    **dict.fromkeys(("t5", "mt5", "umt5"), _t5),
    **dict.fromkeys(("vit", "deit"), _vit),
    **dict.fromkeys(ALIKE, _read_alike),
    **NEIGHBOURS,
}
"""The reader of each family's sizes."""
