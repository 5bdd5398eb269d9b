"""A transformer's layers in plain numpy, token by token as the papers write them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.workload import Transformer, transformer

Array = npt.NDArray[np.float64]
Values = Mapping[str, Array]


def weights_read(model: Transformer, tokens: int) -> int:
    """Count the elements of all weights of a whole prefill, those of repeated layers often."""
    workload = transformer(model, scope="model", prompt=tokens, experts="uniform")
    times: dict[str, int] = {}
    for operator in workload.operators:
        times |= {read.tensor: workload.times(operator.name) for read in operator.inputs}
    return sum(
        times[name] * math.prod(workload.shapes[name])
        for name, tensor in workload.tensors.items()
        if tensor.kind == "weight"
    )


def weights_unread(model: Transformer, tokens: int) -> int:
    """Count those of the tables of words and positions but of so many; a tied one is read whole."""
    if model.is_vision:
        return 0
    read = tokens * (1 + bool(model.positions))
    unread = model.vocabulary + model.positions - read - model.vocabulary * model.tied
    return unread * model.hidden


def small(**changed: Any) -> Transformer:  # noqa: ANN401 - any field
    """Return a model of two small layers."""
    fields: dict[str, Any] = {
        "name": "small",
        "source": "made up",
        "hidden": 24,
        "layers": 2,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 4,
        "ff_size": 20,
        "vocabulary": 11,
    }
    return Transformer(**{**fields, **changed})


def norm(model: Transformer, given: Array, values: Values, name: str) -> Array:
    gain = values[f"{name}.gain"]
    if model.norm == "rms_norm":
        mean = (given * given).mean(axis=-1, keepdims=True)
        return np.asarray(given / np.sqrt(mean + 1e-5) * gain)
    mean = given.mean(axis=-1, keepdims=True)
    variance = ((given - mean) ** 2).mean(axis=-1, keepdims=True)
    return np.asarray((given - mean) / np.sqrt(variance + 1e-5) * gain + values[f"{name}.bias"])


def turned(given: Array, values: Values) -> Array:
    """Rotate pairs (i, i + half) of [n, heads, d] by the angles of the tables."""
    half = given.shape[-1] // 2
    made = np.empty_like(given)
    cosines, sines = values["cosines"][:, None], values["sines"][:, None]
    low, high = given[..., :half], given[..., half:]
    made[..., :half] = low * cosines[..., :half] - high * sines[..., :half]
    made[..., half:] = high * cosines[..., half:] + low * sines[..., half:]
    return made


def active(model: Transformer, given: Array) -> Array:
    if model.activation == "silu":
        return np.asarray(given / (1 + np.exp(-given)))
    erf = np.vectorize(math.erf)
    return np.asarray(given * 0.5 * (1 + erf(given / math.sqrt(2))))


def feed_forward(model: Transformer, given: Array, values: Values, name: str = "") -> Array:
    def linear(x: Array, which: str) -> Array:
        bias = values[f"{name}{which}.bias"] if "ff" in model.biased else 0.0
        return np.asarray(x @ values[f"{name}W{which}"] + bias)

    inner = active(model, linear(given, "gate" if model.gated else "up"))
    if model.gated:
        inner = inner * linear(given, "up")
    return linear(inner, "down")


def attention(model: Transformer, given: Array, values: Values, sample: int, past: int) -> Array:
    """Return Z of one sample: [n, heads * d]; ``past`` tokens are in the cache before."""
    window = model.windows[0]
    shared, n = model.heads // model.kv_heads, len(given)
    projected = {}
    for name in "QKV":
        weights = values[f"W{name.lower()}"].reshape(model.hidden, -1, model.head_size)
        made = np.einsum("ne,ehd->nhd", given, weights)
        if "qkv" in model.biased:
            made = made + values[f"{name}.bias"].reshape(-1, model.head_size)
        rotates = name != "V" and not model.positions
        projected[name] = turned(made, values) if rotates else made
    stored = {name: values[name][sample] for name in "KV"}
    old = len(stored["K"]) - n
    keys, cached = (np.concatenate([stored[one][:old], projected[one]]) for one in "KV")
    first = past - old
    out = np.zeros((n, model.heads, model.head_size))
    for row in range(n):
        for head in range(model.heads):
            scores = keys[:, head // shared] @ projected["Q"][row, head] * model.scale
            if model.attention_cap:
                scores = model.attention_cap * np.tanh(scores / model.attention_cap)
            for at in range(len(scores)):
                hidden = past + row - (first + at)
                if hidden < 0 or (window is not None and hidden >= window):
                    scores[at] = -np.inf
            weights = np.exp(scores - scores.max())
            out[row, head] = (weights / weights.sum()) @ cached[:, head // shared]
    return out.reshape(n, -1)


def layer(model: Transformer, given: Array, values: Values, past: int) -> Array:
    """Return what a layer makes of [b, n, e]."""
    made = []
    for sample, x in enumerate(given):
        z = attention(model, norm(model, x, values, "norm1"), values, sample, past)
        y = z @ values["Wo"].reshape(-1, model.hidden)
        y = y + values["O.bias"] if "o" in model.biased else y
        y = norm(model, y, values, "post1") if model.post_norms else y
        x1 = x + y
        normed = norm(model, x1, values, "norm2")
        f = experts(model, normed, values) if model.experts else feed_forward(model, normed, values)
        f = norm(model, f, values, "post2") if model.post_norms else f
        made.append(x1 + f)
    return np.array(made)


def experts(model: Transformer, given: Array, values: Values) -> Array:
    """Return what experts make where token t goes to experts t and t + 1, modulo their number.

    As many tokens as experts and two choices: each expert has two tokens, one after the other.
    """
    n = len(given)
    assert (n, model.chosen) == (model.experts, 2)
    scores = given @ values["Wrouter"]
    gates = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    gates = np.sort(gates, axis=-1)[:, ::-1]
    slots = np.zeros((2 * n, model.hidden))
    for expert in range(model.experts):
        tokens = [2 * expert % n, 2 * expert % n + 1]
        own = {f"W{name}": values[f"experts.W{name}"][expert] for name in ("gate", "up", "down")}
        made = feed_forward(model, given[tokens], own)
        slots[[2 * expert, 2 * expert + 1]] = made
    made = np.asarray(gates[:, :1] * slots[:n] + gates[:, 1:2] * slots[n:])
    if model.shared_ff:
        score = given @ values["shared.Wscore"]
        shared = feed_forward(model, given, values, "shared.")
        made = made + shared / (1 + np.exp(-score))[:, None]
    return made


def whole(model: Transformer, values: Values, past: int, rows: int) -> Array:
    """Return the logits of the last token: one layer, as all have the tensors of one."""
    given = values["embedding.rows"] * (model.hidden**0.5 if model.scaled_embedding else 1.0)
    if model.positions:
        given = given + values["positions"][past : past + rows]
    last = norm(model, layer(model, given, values, past)[:, -1:], values, "norm")
    logits = last @ (values["embedding"].T if model.tied else values["Wlogits"])
    cap = model.logits_cap
    return np.asarray(cap * np.tanh(logits / cap) if cap else logits)
