"""A transformer's run as a workload: embedding, layers, logits; prefill or decode.

The operators of a step, in order::

    X = embedding rows (+ learned positions)                     once
    each layer: norm1, Q, K, V (bias, rotary), cache, L, softmax, A, O, add1,
                norm2, gate, up, activation, product, down (or experts), add2
    norm and logits of the last token                            once

In the scope `model` one set of layers is repeated on the same tensors, as a layer's output has the
size of the next one's input. If windows differ, or some layers have no experts, a run of layers is
repeated, and the layers before and after it run once. The scope `block` is one repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simaccel.errors import Fault, InputError, require_none, suggest
from simaccel.workload.attention import scope_faults
from simaccel.workload.language.attention import (
    Attention,
    add_attention_alone,
    add_bias,
    add_cross,
    add_encoded,
)
from simaccel.workload.language.experts import (
    EXPECTED,
    ExpertLoad,
    add_experts,
    spread_faults,
)
from simaccel.workload.language.feed_forward import add_feed_forward
from simaccel.workload.language.graph import Graph, part
from simaccel.workload.language.model import (
    LayerKind,
    Transformer,
    find_transformer,
    is_published,
    size_faults_of,
)
from simaccel.workload.language.phase import CAUSAL_BLOCKS, PHASES, PhaseTokens
from simaccel.workload.names import MAX_BYTES_PER_ELEMENT, size_faults
from simaccel.workload.tensors import CLASSES, bytes_document, class_of, said_bytes
from simaccel.workload.workload import Workload

MAX_BLOCKS = 64
"""The most blocks of rows under a causal mask; each is three operators."""
_TABLE = "embedding"
"""The table of words; a tensor where the logits are products with it."""


def transformer(  # noqa: PLR0913 - one argument a field of the document
    name: str | Transformer,
    *,
    phase: str = "prefill",
    prompt: int = 512,
    kv_len: int | None = None,
    batch: int = 1,
    scope: str = "block",
    causal_blocks: int | None = None,
    experts: ExpertLoad = EXPECTED,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return a run of a transformer, of the catalogue by name, or with sizes of its own.

    A prefill takes ``prompt`` new tokens behind ``kv_len`` (default 0) cached ones; a decode step
    takes one token behind ``kv_len`` (default ``prompt``) cached ones. Of an encoder with a decoder
    a prefill encodes the prompt, and a decode step also sees the encoded prompt. An image has no
    phase. ``bytes_by_tensor``: by class (weights, activations, cache) or by tensor.

    Raises:
        InputError: every fault.
    """
    model, faults = (name, []) if isinstance(name, Transformer) else _find_transformer_of(name)
    past = kv_len if kv_len is not None else (prompt if phase == "decode" else 0)
    rows = 1 if phase == "decode" else prompt
    steps = model is not None and bool(model.decoder_layers) and phase == "decode"
    if model is not None and model.is_encoder and not steps:
        faults += _encoder_faults(model, phase, kv_len)
        rows, past = model.positions if model.is_vision else prompt, 0
    encoded = prompt if steps else 0
    blocks, said = CAUSAL_BLOCKS if causal_blocks is None else causal_blocks, bytes_by_tensor or {}
    tokens = PhaseTokens(batch=batch, rows=rows, past=past, blocks=blocks, encoded=encoded)
    widths = {**dict.fromkeys(CLASSES, said_bytes(bytes_per_element)), **said}
    assumed = {name for name in CLASSES if bytes_per_element is None and name not in said}
    faults += _faults(tokens, phase, prompt, scope, widths)
    if model is not None:
        faults += size_faults_of(model)
    if model is not None and not faults:
        faults += _model_faults(model, tokens, experts)
    if faults or model is None:
        raise InputError(faults)
    decoder = replace(model, causal=True, layers=model.decoder_layers) if steps else model
    graph = Graph(_layers_of_run(decoder, tokens, scope), tokens, widths)
    _add_run(graph, scope, experts)
    graph.tensors = {
        tensor.name: replace(tensor, assumed=class_of(tensor.kind) in assumed)
        for tensor in graph.tensors.values()
    }
    _set_widths(graph, model, widths)
    parameters: dict[str, Any] = {
        "kind": "transformer",
        **({"model": model.name} if is_published(model) else model.document()),
        "phase": phase,
        "prompt": prompt,
        **({} if kv_len is None else {"kv_len": kv_len}),
        "batch": batch,
        "scope": scope,
        **({} if causal_blocks is None else {"causal_blocks": causal_blocks}),
        "experts": experts if isinstance(experts, str) else list(experts),
        **bytes_document(bytes_per_element, bytes_by_tensor),
    }
    repeat = graph.model.layer_run.times if scope == "model" else 1
    operators, once = tuple(graph.operators), frozenset(graph.once)
    return Workload(model.name, operators, graph.tensors, repeat, parameters, once)


def _layers_of_run(model: Transformer, tokens: PhaseTokens, scope: str) -> Transformer:
    """Return a model without windows that are longer than the tokens, so that layers are equal.

    With the scope `block` it keeps a layer of each kind.
    """
    if scope != "model":
        return model
    seen = tokens.past + tokens.rows
    windows = tuple(window if (window or seen) < seen else None for window in model.windows)
    return replace(model, windows=windows if any(windows) else (None,))


def _set_widths(graph: Graph, model: Transformer, widths: Mapping[str, int]) -> None:
    named = {name: width for name, width in widths.items() if name not in CLASSES}
    faults = []
    for name, width in named.items():
        if name in graph.tensors:
            old = graph.tensors[name]
            graph.tensors[name] = replace(old, bytes_per_element=width, assumed=False)
            continue
        allowed = suggest(name, [*CLASSES, *graph.tensors])
        if not allowed.startswith("did"):
            allowed = f"{', '.join(CLASSES)}, or a tensor (simaccel workload show {model.name})"
        faults.append(Fault(model.name, f"bytes_by_tensor.{name}", width, allowed))
    require_none(faults)


def _find_transformer_of(name: str) -> tuple[Transformer | None, list[Fault]]:
    try:
        return find_transformer(name), []
    except InputError as error:
        return None, list(error.faults)


def _encoder_faults(model: Transformer, phase: str, kv_len: int | None) -> list[Fault]:
    found, what = [], "an image" if model.is_vision else "an encoder's input"
    if phase == "decode":
        found.append(Fault(model.name, "phase", phase, f"prefill: {what} comes at once"))
    if kv_len is not None:
        found.append(Fault(model.name, "kv_len", kv_len, f"nothing: {what} has no cache"))
    return found


def _faults(
    tokens: PhaseTokens, phase: str, prompt: int, scope: str, widths: Mapping[str, int]
) -> list[Fault]:
    file = "workload"
    faults = size_faults(file, {"batch": tokens.batch, "prompt": prompt})
    if type(tokens.past) is not int or tokens.past < 0:
        faults.append(Fault(file, "kv_len", tokens.past, "a whole number from 0"))
    elif tokens.past:
        faults += size_faults(file, {"kv_len": tokens.past})
    if phase not in PHASES:
        faults.append(Fault(file, "phase", phase, suggest(str(phase), PHASES)))
    faults += scope_faults(file, scope)
    faults += size_faults(file, {"causal_blocks": tokens.blocks}, MAX_BLOCKS)
    sizes = {f"bytes_by_tensor.{name}": size for name, size in widths.items()}
    return faults + size_faults(file, sizes, MAX_BYTES_PER_ELEMENT)


def _model_faults(model: Transformer, tokens: PhaseTokens, experts: ExpertLoad) -> list[Fault]:
    faults = spread_faults(model, experts, tokens.routed[1])
    most, need = model.positions, tokens.past + tokens.rows
    if most and need > most:
        field, got, beside = "kv_len", tokens.past, tokens.rows
        if tokens.rows > most or not tokens.past:
            field, got, beside = "prompt", tokens.rows, 0
        allowed = f"at most {most - beside}, with {most} positions in all"
        faults.append(Fault(model.name, field, got, allowed))
    return faults


def _add_run(graph: Graph, scope: str, experts: ExpertLoad) -> None:
    """Add the operators of a run; ``experts``: the spread of tokens over them."""
    if scope == "la":
        add_attention_alone(graph)
        return
    if scope == "model":
        _embed(graph)
        graph.once.update(operator.name for operator in graph.operators)
    else:
        graph.tensor("X", "input")
    source = _layers(graph, scope, experts)
    graph.prefix = ""
    if scope == "model":
        known = len(graph.operators)
        _head(graph, source)
        graph.once.update(operator.name for operator in graph.operators[known:])


def _layers(graph: Graph, scope: str, experts: ExpertLoad) -> str:
    """Add the layers of one repetition, and those before and after it; return the last output."""
    model, kinds = graph.model, graph.model.layer_kinds
    before, repeated, behind = model.layer_run.layers_to_build(model.layers)
    built = [*before, *repeated, *behind] if scope == "model" else repeated
    source = "X"
    for number in built:
        graph.prefix = f"layer{number}." if len(built) > 1 else ""
        last = number == built[-1]
        made = "Xout" if last else f"X{number + 1}"
        graph.tensor(made, "output" if last and scope == "block" else "intermediate")
        known = len(graph.operators)
        _layer(graph, kinds[number % len(kinds)], experts, source, made)
        if number not in repeated:
            graph.once.update(operator.name for operator in graph.operators[known:])
        source = made
    return source


def _layer(
    graph: Graph, layer_kind: LayerKind, experts: ExpertLoad, source: str, made: str
) -> None:
    model, prefix = graph.model, graph.prefix
    window, dense = layer_kind
    normed = _norm(graph, "norm1", source)
    attended = Attention(graph, window).add(normed)
    if model.post_norms:
        attended = _norm(graph, "post1", attended)
    inner = prefix + "X1"
    _add(graph, "add1", source, attended, inner)
    if graph.tokens.encoded:
        seen = add_cross(graph, _norm(graph, "cross.norm", inner))
        inner, before = prefix + "X2", inner
        _add(graph, "cross.add", before, seen, inner)
    normed = normed if model.shared_norm else _norm(graph, "norm2", inner)
    out = prefix + "F"
    if model.experts and not dense:
        add_experts(graph, experts, normed, out)
    else:
        sizes = {"f": model.dense_ff} if dense else None
        add_feed_forward(graph, part(normed, "bne"), part(out, "bne"), sizes)
    if model.post_norms:
        out = _norm(graph, "post2", out)
    _add(graph, "add2", inner, out, made)


def _norm(graph: Graph, name: str, given: str, rows: int | None = None) -> str:
    """Add a norm over e with its gain (and bias); with ``rows`` only of the last of these rows."""
    model = graph.model
    start = None if rows is None else {"n": rows}
    inputs = [part(given, "bne", start), part(graph.weight(f"{name}.gain"), "e")]
    if model.norm == "layer_norm" and model.norm_bias:
        inputs.append(part(graph.weight(f"{name}.bias"), "e"))
    target = part(f"{graph.prefix}{name}.out", "bne")
    sizes = None if rows is None else {"n": 1}
    return graph.vector(name, model.norm, inputs, target, axis="e", sizes=sizes)


def _add(graph: Graph, name: str, one: str, other: str, made: str) -> None:
    graph.vector(name, "residual", (part(one, "bne"), part(other, "bne")), part(made, "bne"))


def _embed(graph: Graph) -> None:
    """Add the embedding of tokens, or of patches and the extra tokens before them."""
    model, tokens = graph.model, graph.tokens
    if model.patches:
        _embed_patches(graph, *model.patches)
        return
    rows = part(graph.table("embedding.rows", model.vocabulary, _TABLE), "bne")
    if not model.positions:
        scale = model.hidden**0.5 if model.scaled_embedding else 1.0
        graph.vector("embed", "scale", (rows,), part("X", "bne"), scale=scale)
        return
    whole = tokens.rows == model.positions
    places = graph.table("positions", model.positions)
    table = part(places, "ne", None if whole else {"n": tokens.past})
    graph.vector("embed", "residual", (rows, table), part("X", "bne"))


def _embed_patches(graph: Graph, patches: int, values: int) -> None:
    tokens = graph.model.positions - patches
    sizes = {"p": patches, "i": values, "z": tokens}
    image = part(graph.tensor("image", "input"), "bpi")
    weights = part(graph.weight("Wpatch"), "ie")
    graph.einsum("patch", (image, weights), part("patches", "bpe"), sizes)
    bias = part(graph.weight("patch.bias"), "e")
    target = part("T", "bpe", {"p": tokens})
    graph.vector("patch.bias", "residual", (part("patches", "bpe"), bias), target, sizes=sizes)
    token = part(graph.weight("class"), "bze")
    graph.vector("class", "scale", (token,), part("T", "bze", {}), sizes=sizes)
    positions = part(graph.weight("positions"), "ne")
    graph.vector("embed", "residual", (part("T", "bne"), positions), part("X", "bne"))


def _head(graph: Graph, source: str) -> None:
    """Add the last norm and the logits of the last token (of an image: the class token).

    An encoder of tokens has the norm of all tokens, and its decoder's keys and values of them.
    """
    model, tokens = graph.model, graph.tokens
    if model.is_encoder and not model.is_vision:
        graph.tensor("norm.out", "intermediate" if model.decoder_layers else "output")
        encoded = _norm(graph, "norm", source)
        if model.decoder_layers:
            add_encoded(graph, encoded)
        return
    row = 0 if model.is_vision else tokens.rows - 1
    normed = _norm(graph, "norm", source, row if tokens.rows > 1 else None)
    sizes = {"n": 1}
    ranks = "ve" if model.tied else "ev"
    weights = part(graph.weight(_TABLE if model.tied else "Wlogits"), ranks)
    steps = ["logits", *(["bias"] if model.is_vision or "logits" in model.biased else [])]
    steps += ["cap"] if model.logits_cap else []
    names = [f"logits{at}" for at in range(len(steps) - 1)]
    names.append(graph.tensor("logits", "output"))
    graph.einsum("logits", (part(normed, "bne"), weights), part(names[0], "bnv"), sizes)
    for step, raw, made in zip(steps[1:], names[:-1], names[1:], strict=True):
        out = part(made, "bnv")
        if step == "bias":
            add_bias(graph, "logits", raw, out, ("v",), sizes)
        else:
            cap = model.logits_cap or 1
            graph.vector("cap", "soft_cap", (part(raw, "bnv"),), out, scale=cap, sizes=sizes)
