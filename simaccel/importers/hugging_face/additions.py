"""Additions of families of transformers to the sizes that all of them have.

``take_...`` sets sizes of the model; ``report_...`` adds parts that simaccel's blocks lack to the
account of the file, with their parameters or MACs.
"""

from __future__ import annotations

from typing import Final

from simaccel.errors import suggest
from simaccel.importers.hugging_face.configuration import (
    ACTIVATIONS,
    ALL_BIASED,
    Configuration,
    Sizes,
    read_windows,
    repeated_run,
)
from simaccel.workload.language.model import values_of_layers

_OWN_GAINS: Final = "each head with gains of its own"


def report_partial_rotary(config: Configuration, _: Sizes) -> None:
    """Report rotary embeddings of a part of each head, which are modelled as of all of it."""
    key, part = config.find("partial_rotary_factor", 1)
    if part not in (None, 1, 1.0):
        config.leave(key, "a part of each head is turned; here all of it")


def report_layers_without_rotary(config: Configuration, sizes: Sizes) -> None:
    """Report layers without rotary embeddings, which are modelled with them."""
    flags = config.find("no_rope_layers", [])[1]
    if isinstance(flags, list) and 0 in flags:
        config.leave("no_rope_layers", f"{flags.count(0)} layers turn nothing; here all do")
    elif len(sizes["windows"]) > 1:
        config.leave("positions", "layers that see everything turn nothing; here all do")


def report_head_norms(config: Configuration, sizes: Sizes) -> None:
    """Report norms of Q and K whose gains differ from head to head."""
    for key in ("qk_layernorm", "use_qk_norm"):
        if config.flag(key, default=False):
            count = (sizes["heads"] + sizes["kv_heads"]) * sizes["head_size"]
            config.leave("norms of Q and K", _OWN_GAINS, sizes["layers"] * count)


def report_olmo_norms(config: Configuration, sizes: Sizes) -> None:
    """Report norms over all heads of Q and of K, and norms after the sub-layers (OLMo 2)."""
    count = (sizes["heads"] + sizes["kv_heads"]) * sizes["head_size"]
    config.leave("norms of Q and K", "over all heads", sizes["layers"] * count)
    config.pass_over("norms", "behind each sub-layer, not before it: the same work")


def report_bloom_embedding(config: Configuration, sizes: Sizes) -> None:
    """Report a norm after the embedding, and the biases of ALiBi (BLOOM)."""
    norm = "a norm behind the embedding"
    config.leave("word_embeddings_layernorm", norm, 2 * sizes["hidden"])
    config.leave("alibi", "a sum to the scores")


def report_choice_biases(config: Configuration, sizes: Sizes) -> None:
    """Report biases of experts that decide which of them a token goes to, and weigh nothing."""
    if "experts" in sizes:
        dense = sum(values_of_layers(sizes.get("dense", (False,)), sizes["layers"]))
        count = (sizes["layers"] - dense) * sizes["experts"]
        config.leave("e_score_correction_bias", "a sum to the scores of experts", count)


def take_qwen_windows(config: Configuration, sizes: Sizes) -> None:
    """Set windows, which the first ``max_window_layers`` layers lack."""
    used = config.flag("use_sliding_window", default=False)
    first = config.size("max_window_layers", 28, least=0)
    sizes["windows"] = read_windows(config, sizes["layers"], used=used, first=first)


def take_gemma2(config: Configuration, sizes: Sizes) -> None:
    """Set norms after sub-layers, the scale of scores, and soft caps of scores and logits."""
    scale = config.number("query_pre_attn_scalar", 256)
    sizes |= {
        "scaled_embedding": True,
        "post_norms": True,
        "score_scale": (scale or 256) ** -0.5,
        "attention_cap": config.number("attn_logit_softcapping", None),
        "logits_cap": config.number("final_logit_softcapping", None),
    }


def report_sinks(config: Configuration, sizes: Sizes) -> None:
    """Report attention sinks: a learned score of each head beside those of the keys."""
    sinks = sizes["layers"] * sizes["heads"]
    config.leave("sinks", "a score of each head beside those of keys", sinks)


def take_chatglm(config: Configuration, sizes: Sizes) -> None:
    """Set the norms and the K and V heads of ChatGLM, and report that half of each head turns."""
    if not config.flag("rmsnorm", default=True):
        sizes["norm"] = "layer_norm"
    if not config.flag("multi_query_attention", default=False):
        sizes["kv_heads"] = sizes["heads"]
    config.leave("rotary", "half of each head is turned; here all of it")


def take_phi(config: Configuration, sizes: Sizes) -> None:
    """Set a bias of the logits (Phi-1 and 2), and report norms of Q and K with own gains."""
    sizes["biased"] = (*sizes["biased"], "logits")
    if config.flag("qk_layernorm", default=False):
        config.leave("norms of Q and K", _OWN_GAINS, sizes["layers"] * 4 * sizes["head_size"])


def take_gpt_bigcode(config: Configuration, sizes: Sizes) -> None:
    """Set one K and V head for all heads (multi-query attention)."""
    if config.flag("multi_query", default=True):
        sizes["kv_heads"] = 1


def take_gpt_neo(config: Configuration, sizes: Sizes) -> None:
    """Set windows of the layers that are listed as local, and scores without a scale."""
    window = config.size("window_size", 256)
    config.keys_read |= {"attention_layers", "attention_types"}
    kinds = config.given.get("attention_layers") or _spread_kinds(config, sizes["layers"])
    if not isinstance(kinds, list) or len(kinds) != sizes["layers"]:
        allowed = f"a list of {sizes['layers']} kinds, global or local"
        config.refuse("attention_layers", kinds, allowed)
        return
    sizes["windows"] = repeated_run(tuple(window if kind == "local" else None for kind in kinds))
    sizes["score_scale"] = 1.0


def _spread_kinds(config: Configuration, layers: int) -> list[object]:
    """Return the kind of each layer from runs of kinds with their numbers of repetitions."""
    try:
        runs = config.given.get("attention_types") or [[["global", "local"], 1]]
        kinds = [kind for names, count in runs for _ in range(min(count, 999)) for kind in names]
    except (TypeError, ValueError):
        return []
    return (kinds * layers)[:layers]


def take_opt(config: Configuration, sizes: Sizes) -> None:
    """Set learned positions, two more than the key says; report projections of the embedding."""
    sizes["positions"] = config.size("max_position_embeddings") + 2
    if config.size("word_embed_proj_dim", sizes["hidden"]) != sizes["hidden"]:
        why = "a product after the embedding, and one before the logits"
        config.leave_work("word_embed_proj_dim", why)
    if not config.flag("do_layer_norm_before", default=True):
        why = "false: norms after the sub-layers, the same work without the last norm"
        config.pass_over("do_layer_norm_before", why)


def take_falcon(config: Configuration, sizes: Sizes) -> None:
    """Set the K and V heads, rotary embeddings and norms of Falcon's two architectures."""
    older = config.given.get("model_type") == "RefinedWeb"
    groups = config.flag("new_decoder_architecture", default=older)
    single = config.flag("multi_query", default=True)
    if not groups:
        sizes["kv_heads"] = 1 if single else sizes["heads"]
    sizes["rotary"] = not config.flag("alibi", default=False)
    norms = config.size("num_ln_in_parallel_attn", 2 if groups else 1)
    sizes["shared_norm"] = config.flag("parallel_attn", default=True) and norms == 1


def take_mpt(config: Configuration, sizes: Sizes) -> None:
    """Set the feed-forward size and biases of MPT; refuse other attention, report ALiBi."""
    sizes["ff_size"] = sizes["hidden"] * config.size("expansion_ratio", 4)
    if not config.flag("no_bias", default=True):
        sizes |= {"biased": ALL_BIASED, "norm_bias": True}
    own = config.find("attn_config", {})[1]
    own = own if isinstance(own, dict) else {"attn_config": own}
    plain = {"attn_type": "multihead_attention", "qk_ln": False, "clip_qkv": None, "alibi": True}
    for key, usual in plain.items():
        if own.get(key, usual) not in (usual, None):
            config.refuse(f"attn_config.{key}", own[key], repr(usual))
    config.leave("alibi", "a sum to the scores")


def take_bert(config: Configuration, sizes: Sizes) -> None:
    """Set an encoder's learned positions; report token types, pooler and head."""
    hidden, family = sizes["hidden"], config.given.get("model_type")
    kind = config.text("position_embedding_type", "absolute")
    if kind != "absolute":
        config.leave_work("position_embedding_type", f"{kind}: positions are a table here")
    if family != "distilbert":
        types = config.size("type_vocab_size", 2, least=0)
        config.leave("type_vocab_size", "another sum in the embedding", types * hidden)
    head = "a product of each token before the logits"
    if "ForMaskedLM" in config.architectures():
        config.leave_work("head", head, macs=hidden * hidden)
    elif family != "distilbert":
        size = hidden * hidden
        why = "a product of the first token behind all"
        config.leave_work("pooler", why, macs=size, parameters=size + hidden)
    config.pass_over("norms", "norms before each sub-layer, not after it: the same work")
    sizes["causal"] = config.flag("is_decoder", default=False)


def take_t5(config: Configuration, sizes: Sizes) -> None:
    """Set T5's encoder and decoder, or encoder alone, and its table of relative positions."""
    how = config.text("feed_forward_proj", "relu")
    activation = how.rpartition("-")[2]
    if activation not in ACTIVATIONS:
        config.refuse("feed_forward_proj", how, suggest(how, ["relu", "gated-gelu", "gated-silu"]))
    config.leave("relative positions", "a sum to the scores, of which the table alone is taken")
    decoder = config.size("num_decoder_layers", sizes["layers"])
    sizes |= {
        "activation": ACTIVATIONS.get(activation, "relu"),
        "gated": how.startswith("gated"),
        "score_scale": 1.0,
        "causal": False,
        "rotary": False,
        "decoder_layers": 0 if "EncoderModel" in config.architectures() else decoder,
        "relative": config.size("relative_attention_num_buckets", 32),
        "relative_each": config.given.get("model_type") == "umt5",
    }


def take_vit(config: Configuration, sizes: Sizes) -> None:
    """Set an image's patches, and classes in place of a vocabulary."""
    image, patch = config.size("image_size"), config.size("patch_size")
    channels = config.size("num_channels", 3)
    if image % patch:
        config.refuse("image_size", image, f"a multiple of patch_size, {patch}")
    patches = max(1, (image // patch) ** 2)
    labels = config.find("id2label", {})[1]
    if not isinstance(labels, dict):
        config.refuse("id2label", labels, "a mapping from numbers to names of classes")
        labels = {}
    classes = len(labels) or config.size("num_labels", 2)
    deit = config.given.get("model_type") == "deit"
    if deit and "WithTeacher" in config.architectures():
        why = "classes of the token of distillation"
        macs = sizes["hidden"] * classes
        config.leave_work("distillation_classifier", why, macs=macs, parameters=macs + classes)
    sizes |= {
        "vocabulary": classes,
        "positions": patches + 1 + deit,  # with the token of distillation
        "patches": (patches, channels * patch * patch),
    }
