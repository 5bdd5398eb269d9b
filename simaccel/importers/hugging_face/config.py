"""Import of a transformer from Hugging Face's `config.json`, with an account of every key.

Sizes are read by their keys (`configuration.OTHER_NAMES`), defaults and additions come from the
family (`families`); parts that aren't modelled are reported with their share of the parameters. An
unknown family is built as a decoder by its keys. Models of another structure are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest
from simaccel.files.accounting import AccountEntry, FileAccount, account_keys, split_names
from simaccel.files.documents import read_text
from simaccel.importers.hugging_face.configuration import (
    PART,
    WINDOWED_KINDS,
    Configuration,
    ModelFamily,
    read_sizes,
)
from simaccel.importers.hugging_face.families import DEFAULTS, FAMILIES, family_of_keys
from simaccel.workload.language.model import Transformer, size_faults_of
from simaccel.workload.names import clean_name

_NAMING: Final = "a name, or how the model is made and trained"
_POSITIONS: Final = "angles of rotary embeddings, which cost the same"
_NAMES: Final = split_names("""
architectures transformers_version task_specific_params auto_map pretraining_tp use_cache
output_past gradient_checkpointing id2label label2id problem_type is_encoder_decoder is_decoder
finetuning_task cache_implementation output_attentions n_ctx router_aux_loss_coef
output_router_logits return_dict router_jitter_noise input_jitter_noise moe_aux_loss_coef
encoder_stride reorder_and_upcast_attn norm_topk_prob
scale_attn_by_inverse_layer_idx num_labels output_hidden_states tie_weights_ sinusoidal_pos_embds
add_cross_attention n_positions
""")
_HARMLESS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_NAMES, _NAMING),
    **dict.fromkeys(("rope_theta", "rope_scaling", "rope_parameters"), _POSITIONS),
    **dict.fromkeys(("rope_local_base_freq", "rope_interleaved"), _POSITIONS),
    **dict.fromkeys(("torch_dtype", "dtype"), "--precision or the accelerator says it"),
    "max_position_embeddings": "a limit, where positions are not learned",
    "num_nextn_predict_layers": "layers that guess further tokens, no part of a run",
}
_PARTS: Final = ("_token_id", "drop", "_eps", "epsilon", "initializer", "summary_")
"""Parts of the names of keys that change no figure: token numbers, training, small constants."""


_DECODERS: Final = ("CausalLM", "LMHead", "ConditionalGeneration")
"""Parts of the names of decoders' classes."""
_OWN_PARTS = re.compile(
    "lora|ssm|conv|state|chunk|expert|moe|recur|compress|cross|index|shared|share_"
)
"""Parts of the names of keys that may describe a part of a model, and not only a size."""


@dataclass(frozen=True, kw_only=True)
class _OtherModel:
    """A structure that can't be built: its name, and what it needs.

    A file has it if it has one of ``keys`` (not null, 0 or false) or is of one of ``families``.
    """

    name: str
    needs: str
    keys: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


_STRUCTURES: Final = (
    _OtherModel(
        name="multi-head latent attention (MLA)",
        needs="a cache of one compressed vector a token, and products that make K and V of it",
        keys=("kv_lora_rank",),
        families=("deepseek_v2", "deepseek_v3", "minicpm3"),
    ),
    _OtherModel(
        name="Llama 4's attention by turns in chunks and without positions",
        needs="layers of two kinds of attention, and experts in some of them alone",
        keys=("attention_chunk_size", "interleave_moe_layer_step"),
        families=("llama4",),
    ),
    _OtherModel(
        name="layers with a state instead of a cache (Mamba, RWKV, linear attention)",
        needs="a scan over tokens, for which there is no operator",
        keys=(
            *("state_size", "ssm_state_size", "ssm_cfg", "d_state", "time_step_rank", "lru_width"),
            *("mamba_d_state", "mamba_d_ssm", "conv_L_cache", "linear_num_key_heads"),
        ),
        families=(
            *("mamba", "mamba2", "falcon_mamba", "jamba", "bamba", "zamba", "zamba2", "rwkv"),
            *("nemotron_h", "granitemoehybrid", "falcon_h1", "recurrent_gemma", "lfm2", "xlstm"),
            *("qwen3_next", "minimax", "rwkv5", "rwkv6", "rwkv7", "retnet", "kimi_linear"),
        ),
    ),
    _OtherModel(
        name="encoder beside a decoder with sizes of its own",
        needs="cross-attention beside learned positions and biases (T5's alone is built)",
        keys=("encoder_layers", "decoder_ffn_dim"),
        families=(
            *("whisper", "bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "led"),
            *("encoder-decoder", "speech_to_text", "longt5", "prophetnet", "fsmt", "plbart"),
        ),
    ),
    _OtherModel(
        name="layers that share their weights",
        needs="weights of one layer that all layers read",
        keys=("num_hidden_groups",),
        families=("albert",),
    ),
    _OtherModel(
        name="image or text model of other blocks",
        needs="its blocks (windows of an image, two towers, attention to positions)",
        families=(
            *("clip", "siglip", "swin", "swinv2", "dinov2", "beit", "convnext", "resnet", "detr"),
            *("modernbert", "deberta", "deberta-v2", "longformer", "big_bird", "electra", "xlnet"),
            *("reformer", "wav2vec2", "hubert", "segformer", "mobilevit", "sam", "funnel"),
        ),
    ),
    _OtherModel(
        name="Gemma 3n's layers",
        needs="several streams a token and an embedding in each layer",
        keys=("altup_num_inputs", "laurel_rank"),
        families=("gemma3n",),
    ),
)


def load_config(path: str | Path) -> tuple[Transformer, FileAccount]:
    """Return the transformer of a `config.json`, and the account of its keys.

    Raises:
        InputError: the file is no JSON, isn't of a transformer that can be built, or lacks sizes.
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
    name = config.find("model_type", document.get("model_type", ""))[1]
    name = name.removesuffix("_text") if isinstance(name, str) else ""
    config.defaults, config.inside = DEFAULTS.get(name, {}), bool(outer)
    require_none(_structure_faults(file, config.given, name))
    family = FAMILIES.get(name)
    sizes = read_sizes(config, family or _unknown_family(config, name))
    if family is None:
        for key, value in config.given.items():
            unread = key not in config.keys_read and not _harmless(key)
            if unread and value not in (None, 0, False) and _OWN_PARTS.search(key):
                config.leave_work(key, "perhaps a part of its own", kind="layer")
    if config.given.get("is_encoder_decoder") is True and "decoder_layers" not in sizes:
        needs = "an encoder alone, a decoder alone, or T5: cross-attention of others isn't built"
        config.refuse("is_encoder_decoder", value=True, allowed=needs)
    if config.given.get("add_cross_attention"):
        config.leave_work("add_cross_attention", "cross-attention to the output of an encoder")
    require_none(config.faults)
    said = str(config.given.get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
    place = Path(file).resolve()
    called = place.stem if place.stem != "config" else place.parent.name
    title = clean_name(said) or clean_name(called) or name
    model = Transformer(name=title, source=f"Hugging Face configuration {file}", **sizes)
    require_none(config.name_key(fault) for fault in size_faults_of(model))
    return model, FileAccount(file, tuple(_entries(config, outer, model.parameters)))


def _unknown_family(config: Configuration, name: str) -> ModelFamily:
    """Return the family of a decoder of an unknown name, as its keys say, and report it.

    Raises:
        InputError: its classes are no decoders, or it names neither classes nor a family.
    """
    classes = config.architectures()
    is_decoder = any(word in classes for word in _DECODERS) or (name and not classes)
    if not is_decoder:
        key = "architectures" if classes else "model_type"
        allowed = f"a decoder (...ForCausalLM), or a known family: {', '.join(FAMILIES)}"
        raise InputError([Fault(config.file, key, classes or name or ABSENT, allowed)])
    family = family_of_keys(config)
    near = suggest(name, FAMILIES).partition(" (")[0]
    near = f"; {near}" if near.startswith("did") else ""
    gate = "a gate" if family.gated else "no gate"
    config.leave(
        "model_type",
        f"{name or classes} isn't known{near}: built by its sizes alone, with {gate}, "
        f"{family.norm.replace('_', ' ')}s before sub-layers and no biases but those of its keys",
    )
    return family


def _entries(
    config: Configuration, outer: Mapping[str, Any], parameters: int
) -> Iterator[AccountEntry]:
    """Yield the account entry of each key; ``parameters``: of the model as it is built."""
    for name, value in outer.items():
        if name == "text_config":
            yield AccountEntry(name, "taken", "the transformer of the text")
        elif isinstance(value, Mapping) and name.endswith("_config"):
            yield AccountEntry(
                name, "not taken", "of several models that of the text is", PART, None
            )
        else:
            yield from account_keys([name], ("model_type",), _harmless(name), macs=0)
    yield from config.entries(parameters)
    left, rest = {entry.name for entry, _ in config.unmodelled}, list[str]()
    others = {name: value for name, value in config.given.items() if name not in left}
    for name, value in others.items():
        if name == "quantization_config" or (name not in config.keys_read and "quant" in name):
            yield AccountEntry(name, "not taken", "--precision says how large elements are")
        elif value is None:
            yield AccountEntry(name, "harmless", "null")
        else:
            rest.append(name)
    harmless = {name: reason for key in rest for name, reason in _harmless(key).items()}
    yield from account_keys(rest, config.keys_read, harmless, macs=0)


def _harmless(name: str) -> dict[str, str]:
    if name in _HARMLESS:
        return {name: _HARMLESS[name]}
    known = name.startswith("_") or any(part in name for part in _PARTS)
    return {name: _NAMING} if known else {}


def _structure_faults(file: str, config: Mapping[str, Any], family: str) -> Iterator[Fault]:
    """Yield a fault for each structure of a configuration that can't be built."""
    for structure in _STRUCTURES:
        keys = [key for key in structure.keys if config.get(key)]
        if family in structure.families:
            keys.insert(0, "model_type")
        if keys:
            key = keys[0]
            value = family if key == "model_type" else config[key]
            yield Fault(file, key, value, _allowed_text(structure.name, structure.needs))
    kinds = config.get("layer_types")
    for kind in sorted({str(kind) for kind in kinds}) if isinstance(kinds, list) else ():
        if kind not in WINDOWED_KINDS:
            needs = "operators of its own"
            yield Fault(file, "layer_types", kind, _allowed_text(f"layers of {kind}", needs))


def _allowed_text(name: str, needs: str) -> str:
    return (
        f"no {name}: that would need {needs}; what can be said is a file of `kind: transformer`, "
        "or of its operators (`kind: einsums`)"
    )
