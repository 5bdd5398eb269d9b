"""Hugging Face's `config.json` of a transformer: its sizes, and what became of every key.

Families: Llama, Mistral, Qwen, Gemma, Mixtral, GPT-2, BERT, T5 and ViT. Where a key is missing,
the default counts that the library `transformers` has for it. What the model of a family has and
simaccel's blocks don't (norms of Q and K, relative positions, a decoder beside an encoder) is
accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from simaccel.errors import ABSENT, Fault, InputError, suggest
from simaccel.files.accounting import AccountEntry, FileAccount, account_keys
from simaccel.files.documents import read_text
from simaccel.workload.language.model import Activation, Transformer
from simaccel.workload.names import clean_name

_ACTIVATIONS: Final[Mapping[str, Activation]] = {
    **dict.fromkeys(("silu", "swish"), "silu"),
    **dict.fromkeys(("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu"), "gelu"),
    "relu": "relu",
}
_NAMING: Final = "a name, or how the model is made and trained"
_POSITIONS: Final = "angles of rotary embeddings, which cost the same"
_NAMES: Final = """
architectures transformers_version task_specific_params auto_map pretraining_tp use_cache
output_past gradient_checkpointing id2label label2id problem_type is_encoder_decoder is_decoder
finetuning_task cache_implementation output_attentions n_ctx router_aux_loss_coef
output_router_logits return_dict encoder_stride reorder_and_upcast_attn norm_topk_prob
scale_attn_by_inverse_layer_idx num_labels output_hidden_states
"""
_HARMLESS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_NAMES.split(), _NAMING),
    **dict.fromkeys(("rope_theta", "rope_scaling", "rope_parameters"), _POSITIONS),
    **dict.fromkeys(("rope_local_base_freq", "rope_interleaved"), _POSITIONS),
    **dict.fromkeys(("torch_dtype", "dtype"), "--precision or the accelerator says it"),
    "max_position_embeddings": "a limit, where positions are not learned",
}
_PARTS: Final = ("_token_id", "drop", "_eps", "epsilon", "initializer", "summary_")
"""What keys have in their names that cost nothing: identities, training, small numbers."""
PART: Final = "part"
DECODER: Final = "num_decoder_layers"
"""The entry of a decoder beside the encoder; its elements are the layers."""
"""The kind of entries for parts of a model that its blocks are not."""


@dataclass
class Configuration:
    """A configuration while it is read: what was taken of it, and what it lacks.

    ``left``: what its family has and is not taken.
    """

    file: str
    given: Mapping[str, Any]
    taken: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    left: list[AccountEntry] = field(default_factory=list)

    def get(self, *names: str, default: object = ABSENT) -> Any:  # noqa: ANN401 - plain data
        """Return the value of the first name that there is; a fault where nothing says it."""
        self.taken.update(names)
        for name in names:
            if self.given.get(name) is not None:
                return self.given[name]
        if default is ABSENT:
            self.faults.append(Fault(self.file, names[0], ABSENT, "a whole number from 1"))
            return 1
        return default

    def size(self, *names: str, default: object = ABSENT) -> int:
        """Return a whole number."""
        found = self.get(*names, default=default)
        if type(found) is int:
            return found
        self.faults.append(Fault(self.file, names[0], found, "a whole number"))
        return 1

    def activation(self, *names: str, default: str) -> Activation:
        """Return what acts between the layers of a feed-forward network."""
        found = str(self.get(*names, default=default))
        if found in _ACTIVATIONS:
            return _ACTIVATIONS[found]
        self.faults.append(Fault(self.file, names[0], found, suggest(found, _ACTIVATIONS)))
        return "gelu"

    def leave(self, name: str, why: str, kind: str = "key") -> None:
        """Note what the model has and is not taken; of a part the work can't be counted."""
        self.taken.add(name)
        macs = 0 if kind == "key" else None
        self.left.append(AccountEntry(name, "not taken", why, kind, macs))


def load_config(path: str | Path) -> tuple[Transformer, FileAccount]:
    """Return the transformer of a `config.json`, and what became of its keys.

    Raises:
        InputError: it is no JSON, of no family that is known, or lacks a size.

    """
    file = str(path)
    try:
        document = json.loads(read_text(Path(path), "JSON", "utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError([Fault(file, "file", reason, "JSON")]) from None
    if not isinstance(document, dict):
        raise InputError([Fault(file, "document", type(document).__name__, "a mapping")])
    inner = document.get("text_config")
    outer = document if isinstance(inner, dict) else {}
    config = Configuration(file, inner if isinstance(inner, dict) else document)
    family = str(config.get("model_type", default=document.get("model_type", "")))
    read = _FAMILIES.get(family.removesuffix("_text"))
    if read is None:
        allowed = f"a family of transformers that is known; {suggest(family, _FAMILIES)}"
        raise InputError([Fault(file, "model_type", family or ABSENT, allowed)])
    named = str(config.given.get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
    parts = read(config, family)
    if config.faults:
        raise InputError(config.faults)
    name = clean_name(named) or clean_name(Path(file).resolve().parent.name) or family
    model = Transformer(name=name, source=f"Hugging Face configuration {file}", **parts)
    return model, FileAccount(file, tuple(_entries(config, outer)))


def _entries(config: Configuration, outer: Mapping[str, Any]) -> Iterator[AccountEntry]:
    """Yield what became of each key."""
    for name, value in outer.items():
        if name == "text_config":
            yield AccountEntry(name, "taken", "the transformer of the text")
        elif isinstance(value, Mapping) and name.endswith("_config"):
            yield AccountEntry(
                name, "not taken", "of several models that of the text is", PART, None
            )
        else:
            yield from account_keys([name], ("model_type",), _harmless(name), macs=0)
    yield from config.left
    left = {entry.name for entry in config.left}
    for name, value in config.given.items():
        if name in left:
            continue
        if name == "quantization_config" or (name not in config.taken and "quant" in name):
            yield AccountEntry(name, "not taken", "--precision says how large elements are")
        elif value is None:
            yield AccountEntry(name, "harmless", "null")
        else:
            yield from account_keys([name], config.taken, _harmless(name), macs=0)


def _harmless(name: str) -> dict[str, str]:
    if name in _HARMLESS:
        return {name: _HARMLESS[name]}
    known = name.startswith("_") or any(part in name for part in _PARTS)
    return {name: _NAMING} if known else {}


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
        "tied": bool(config.get("tie_word_embeddings", default=False)),
    }


def _llama(config: Configuration, family: str) -> dict[str, Any]:
    found = _usual(config)
    attention = bool(config.get("attention_bias", default=False))
    feed = bool(config.get("mlp_bias", default=False))
    found["biased"] = (*(("qkv", "o") if attention else ()), *(("ff",) if feed else ()))
    found["windows"] = _windows(config, found["layers"], used=family != "llama")
    return found


def _qwen(config: Configuration, family: str) -> dict[str, Any]:
    sizes = _usual(config)
    used = bool(config.get("use_sliding_window", default=False))
    sizes["windows"] = _windows(config, sizes["layers"], used=used)
    config.taken |= {"max_window_layers", "attention_bias"}
    if used and "layer_types" not in config.given:
        config.leave("max_window_layers", "all layers have the window here")
    if family.startswith("qwen2"):
        sizes["biased"] = ("qkv",)
    else:
        bias = bool(config.get("attention_bias", default=False))
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
    sizes["tied"] = bool(config.get("tie_word_embeddings", default=True))
    if config.get("attention_bias", default=False):
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
) -> tuple[int | None, ...]:
    """Return the windows of a run of layers that repeats: all layers, or all but each last."""
    window = config.get("sliding_window", default=None)
    kinds = config.get("layer_types", default=None)
    if not window or (not used and not kinds):
        return (None,)
    if isinstance(kinds, list) and len(kinds) == layers:
        windows = tuple(window if kind == "sliding_attention" else None for kind in kinds)
    elif every:
        windows = tuple(None if (at + 1) % every == 0 else window for at in range(layers))
    else:
        return (window,)
    period = next(
        n
        for n in range(1, layers + 1)
        if layers % n == 0 and windows == windows[:n] * (layers // n)
    )
    return windows[:period]


def _gpt2(config: Configuration, _family: str) -> dict[str, Any]:
    hidden, heads = config.size("n_embd", "hidden_size"), config.size("n_head")
    return {
        "hidden": hidden,
        "layers": config.size("n_layer"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": hidden // max(1, heads),
        "ff_size": config.size("n_inner", default=4 * hidden),
        "vocabulary": config.size("vocab_size"),
        "positions": config.size("n_positions"),
        "activation": config.activation("activation_function", default="gelu_new"),
        "tied": bool(config.get("tie_word_embeddings", default=True)),
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
        config.leave("position_embedding_type", f"{kind}: positions are a table here")
    if not distilled:
        config.leave("type_vocab_size", "a sum more in the embedding")
    config.left.append(
        AccountEntry("norms", "harmless", "before a sub-layer, not behind: as much work")
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
        "causal": False,
        **_OLDER,
    }


def _t5(config: Configuration, _family: str) -> dict[str, Any]:
    how = str(config.get("feed_forward_proj", default="relu"))
    act = how.rpartition("-")[2]
    if act not in _ACTIVATIONS:
        config.faults.append(Fault(config.file, "feed_forward_proj", how, "relu or gated-gelu"))
    layers = config.size("num_layers")
    for name in ("relative_attention_num_buckets", "relative_attention_max_distance"):
        config.leave(name, "relative positions: a sum to the scores")
    config.taken |= {"dense_act_fn", "is_gated_act"}
    decoder = config.size("num_decoder_layers", default=layers)
    why = f"{decoder} layers: a run is of the encoder"
    config.left.append(AccountEntry(DECODER, "not taken", why, PART, None, decoder))
    heads = config.size("num_heads")
    return {
        "hidden": config.size("d_model"),
        "layers": layers,
        "heads": heads,
        "kv_heads": heads,
        "head_size": config.size("d_kv"),
        "ff_size": config.size("d_ff"),
        "vocabulary": config.size("vocab_size"),
        "activation": _ACTIVATIONS.get(act, "relu"),
        "gated": how.startswith("gated"),
        "score_scale": 1.0,
        "causal": False,
        "rotary": False,
        "tied": bool(config.get("tie_word_embeddings", default=True)),
    }


def _vit(config: Configuration, _family: str) -> dict[str, Any]:
    heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
    image, patch = config.size("image_size"), config.size("patch_size")
    channels = config.size("num_channels", default=3)
    if patch < 1 or image % patch:
        allowed = f"a multiple of patch_size, {patch}"
        config.faults.append(Fault(config.file, "image_size", image, allowed))
    patches = (image // max(1, patch)) ** 2
    labels = config.get("id2label", default={})
    config.taken.add("num_labels")
    bias = bool(config.get("qkv_bias", default=True))
    return {
        "hidden": hidden,
        "layers": config.size("num_hidden_layers"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": hidden // max(1, heads),
        "ff_size": config.size("intermediate_size"),
        "vocabulary": len(labels) or config.size("num_labels", default=2),
        "positions": patches + 1,
        "patches": (patches, channels * patch * patch),
        "activation": config.activation("hidden_act", default="gelu"),
        **_OLDER,
        "biased": ("qkv", "o", "ff") if bias else ("o", "ff"),
    }


_FAMILIES: Final[Mapping[str, Callable[[Configuration, str], dict[str, Any]]]] = {
    **dict.fromkeys(("llama", "mistral"), _llama),
    "mixtral": _mixtral,
    **dict.fromkeys(("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"), _qwen),
    **dict.fromkeys(("gemma", "gemma2", "gemma3"), _gemma),
    "gpt2": _gpt2,
    **dict.fromkeys(("bert", "roberta", "distilbert", "xlm-roberta"), _bert),
    **dict.fromkeys(("t5", "mt5", "umt5"), _t5),
    **dict.fromkeys(("vit", "deit"), _vit),
}
