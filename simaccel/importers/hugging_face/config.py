"""Hugging Face's `config.json` of a transformer: its sizes, and what became of every key.

Families: Llama, Mistral, Qwen, Gemma, Mixtral, GPT-2, BERT, T5 and ViT, and neighbours of these.
What the model of a family has and simaccel's blocks don't (norms of Q and K, relative positions)
is accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from simaccel.errors import ABSENT, Fault, InputError, suggest
from simaccel.files.accounting import AccountEntry, FileAccount, account_keys
from simaccel.files.documents import read_text
from simaccel.importers.hugging_face.configuration import PART, Configuration
from simaccel.importers.hugging_face.families import DEFAULTS, FAMILIES
from simaccel.workload.language.model import Transformer
from simaccel.workload.names import clean_name

_NAMING: Final = "a name, or how the model is made and trained"
_POSITIONS: Final = "angles of rotary embeddings, which cost the same"
_NAMES: Final = """
architectures transformers_version task_specific_params auto_map pretraining_tp use_cache
output_past gradient_checkpointing id2label label2id problem_type is_encoder_decoder is_decoder
finetuning_task cache_implementation output_attentions n_ctx router_aux_loss_coef
output_router_logits return_dict encoder_stride reorder_and_upcast_attn norm_topk_prob
scale_attn_by_inverse_layer_idx num_labels output_hidden_states tie_weights_ sinusoidal_pos_embds
add_cross_attention n_positions
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
    read = FAMILIES.get(family.removesuffix("_text"))
    config.usual, config.inside = DEFAULTS.get(family.removesuffix("_text"), {}), bool(outer)
    if read is None:
        near = suggest(family, FAMILIES).partition(" (")[0]
        near = f"; {near}" if near.startswith("did") else ""
        allowed = f"a family of transformers: {', '.join(FAMILIES)}{near}"
        raise InputError([Fault(file, "model_type", family or ABSENT, allowed)])
    named = str(config.given.get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
    parts = read(config, family)
    if config.given.get("add_cross_attention"):
        config.leave("add_cross_attention", "cross-attention to the output of an encoder", PART)
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
