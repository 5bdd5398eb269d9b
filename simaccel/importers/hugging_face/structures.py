"""Structures of models that can't be built, by name, with what each would need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from simaccel.errors import Fault


@dataclass(frozen=True, kw_only=True)
class OtherModel:
    """A structure that can't be built: its name, and what it needs.

    A file has it if it has one of ``keys`` (not null, 0 or false) or is of one of ``families``.
    """

    name: str
    needs: str
    keys: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


_STRUCTURES: Final = (
    OtherModel(
        name="multi-head latent attention (MLA)",
        needs="a cache of one compressed vector a token, and products that make K and V of it",
        keys=("kv_lora_rank",),
        families=("deepseek_v2", "deepseek_v3", "minicpm3"),
    ),
    OtherModel(
        name="Llama 4's attention by turns in chunks and without positions",
        needs="layers of two kinds of attention, and experts in some of them alone",
        keys=("attention_chunk_size", "interleave_moe_layer_step"),
        families=("llama4",),
    ),
    OtherModel(
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
    OtherModel(
        name="an encoder and a decoder with sizes of its own",
        needs="cross-attention beside learned positions and biases (T5's alone is built)",
        keys=("encoder_layers", "decoder_ffn_dim"),
        families=(
            *("whisper", "bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "led"),
            *("encoder-decoder", "speech_to_text", "longt5", "prophetnet", "fsmt", "plbart"),
        ),
    ),
    OtherModel(
        name="layers that share their weights",
        needs="weights of one layer that all layers read",
        keys=("num_hidden_groups",),
        families=("albert",),
    ),
    OtherModel(
        name="an image or a text model of other blocks",
        needs="its blocks (windows of an image, two towers, attention to positions)",
        families=(
            *("clip", "siglip", "swin", "swinv2", "dinov2", "beit", "convnext", "resnet", "detr"),
            *("modernbert", "deberta", "deberta-v2", "longformer", "big_bird", "electra", "xlnet"),
            *("reformer", "wav2vec2", "hubert", "segformer", "mobilevit", "sam", "funnel"),
        ),
    ),
    OtherModel(
        name="Gemma 3n's layers",
        needs="several streams a token and an embedding in each layer",
        keys=("altup_num_inputs", "laurel_rank"),
        families=("gemma3n",),
    ),
)


def structure_faults(file: str, config: Mapping[str, Any], family: str) -> Iterator[Fault]:
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


WINDOWED_KINDS: Final[Mapping[str, bool]] = {"full_attention": False, "sliding_attention": True}
"""Kinds of layers that are built: whether they have a window."""


def _allowed_text(name: str, needs: str) -> str:
    return (
        f"no {name}: that would need {needs}; what can be said is a file of `kind: transformer`, "
        "or of its operators (`kind: einsums`)"
    )
