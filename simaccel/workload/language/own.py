"""Checks of a transformer with sizes of its own."""

from __future__ import annotations

from typing import Any, Final

from simaccel.errors import Fault, InputError
from simaccel.files.limits import MAX_OPERATORS
from simaccel.workload.language.experts import EXPECTED
from simaccel.workload.language.model import Transformer
from simaccel.workload.sizes import MAX_SIZE, size_faults

BIASED: Final = ("qkv", "o", "ff", "router", "logits")
"""Layers that can have a bias."""


def size_faults_of(model: Transformer) -> list[Fault]:
    """Return the faults of a transformer's sizes, each with its field."""
    names = ("hidden", "heads", "kv_heads", "head_size", "ff_size", "vocabulary")
    faults = size_faults(model.name, {name: getattr(model, name) for name in names})
    optional = {"decoder_layers": model.decoder_layers, "expert_count": model.experts}
    made = {"layers": model.layers, **{name: size for name, size in optional.items() if size}}
    faults += size_faults(model.name, made, MAX_OPERATORS)
    if faults:
        return faults
    if model.heads % model.kv_heads:
        allowed = f"a divisor of heads, {model.heads}"
        faults.append(Fault(model.name, "kv_heads", model.kv_heads, allowed))
    if model.turns and model.head_size % 2:
        allowed = "an even number, as Q and K are turned in pairs"
        faults.append(Fault(model.name, "head_size", model.head_size, allowed))
    if not 1 <= len(model.windows) <= model.layers:
        allowed = f"a list of 1 to {model.layers} windows, which layers repeat"
        faults.append(Fault(model.name, "windows", list(model.windows), allowed))
    widths = {
        f"windows[{at}]": window for at, window in enumerate(model.windows) if window is not None
    }
    faults += size_faults(model.name, widths)
    faults += [
        Fault(model.name, "biased", layer, f"some of {', '.join(BIASED)}")
        for layer in model.biased
        if layer not in BIASED
    ]
    if not 0 <= model.positions <= MAX_SIZE:
        faults.append(Fault(model.name, "positions", model.positions, f"0 to {MAX_SIZE}"))
    if model.shared_norm and model.post_norms:
        allowed = "false beside post_norms: what is shared stands before the sub-layers"
        faults.append(Fault(model.name, "shared_norm", value=True, allowed=allowed))
    if model.patches and model.positions <= model.patches[0]:
        allowed = f"more than the {model.patches[0]} patches, with the tokens before them"
        faults.append(Fault(model.name, "positions", model.positions, allowed))
    return [*faults, *_expert_faults(model), *_decoder_faults(model)]


def _expert_faults(model: Transformer) -> list[Fault]:
    if model.shared_ff and not model.experts:
        allowed = "0, but beside experts: the size of one that all tokens go to"
        return [Fault(model.name, "shared_ff", model.shared_ff, allowed)]
    if model.shared_gate and not model.shared_ff:
        allowed = "false without shared_ff"
        return [Fault(model.name, "shared_gate", value=True, allowed=allowed)]
    if not model.experts and not model.chosen:
        return []
    if model.experts < 1 or not 1 <= model.chosen <= model.experts:
        value = f"{model.chosen} of {model.experts}"
        allowed = "from 1 to the number of experts, both or neither given"
        return [Fault(model.name, "experts_per_token", value, allowed)]
    return []


def _decoder_faults(model: Transformer) -> list[Fault]:
    sizes = {"relative": model.relative}
    faults = size_faults(model.name, {name: size for name, size in sizes.items() if size})
    plain = model.is_encoder and not (model.is_vision or model.biased or model.positions)
    if model.decoder_layers and not (plain and model.windows == (None,) and not model.experts):
        allowed = "0, but beside an encoder (causal: false) without biases, positions and windows"
        faults.append(Fault(model.name, "decoder_layers", model.decoder_layers, allowed))
    return faults


def name_expert_count(document: dict[Any, Any], source: str) -> dict[Any, Any]:
    """Return a transformer's document with a numeric `experts` renamed to `expert_count`.

    Raises:
        InputError: `expert_count` has another value.

    """
    count = document.get("experts")
    if type(count) is not int or document.get("kind") != "transformer" or "model" in document:
        return document
    if document.get("expert_count", count) != count:
        allowed = f"the same as expert_count, {document['expert_count']}, or how tokens are spread"
        raise InputError([Fault(source, "experts", count, allowed)])
    return {**document, "experts": EXPECTED, "expert_count": count}
