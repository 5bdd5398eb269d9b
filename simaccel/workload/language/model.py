"""Transformers as data: sizes and structure, parameter counts, repeated layers, size checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeVar

from simaccel.errors import Fault
from simaccel.files.catalogue import Catalogue
from simaccel.files.limits import MAX_OPERATORS
from simaccel.workload.names import MAX_SIZE, size_faults

_NAMES_IN_FILES = {"experts": "expert_count", "chosen": "experts_per_token"}
"""Names in files of fields that differ: there `experts` is the spread of tokens."""
Activation = Literal["silu", "gelu", "relu"]
NormKind = Literal["rms_norm", "layer_norm"]
BIASED: Final = ("qkv", "o", "ff", "router", "logits")
"""Layers that can have a bias."""
LayerKind = tuple[int | None, bool]
"""Window of a layer (tokens; None: unlimited), and whether it is a layer without experts in a model
with experts.
"""
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A transformer: its names, its structure and its source.

    Attention: query heads share the ``kv_heads`` heads of K and V in groups. ``windows``: per layer
    the most keys that a token sees (None: all before it); a shorter list repeats over the layers.
    ``positions`` > 0: length of a learned table of positions, else Q and K are rotated; ``rotary``
    overrides this. ``relative``: buckets of a table of relative position biases, which count as
    parameters only, one for all layers or (``relative_each``) one per layer. ``score_scale``:
    factor of the scores (None: 1/sqrt(``head_size``)). ``attention_cap`` and ``logits_cap``: soft
    caps. ``head_norms``: a norm of each head of Q and K, one gain for all queries, one for keys.

    Layers: ``ff_size``: inner size of the feed-forward layer, or of each expert; ``gated``: it has
    two projections up, one of them activated (SwiGLU). ``biased``: layers with a bias
    (``norm_bias``: layer norms). ``post_norms``: norms also after attention and feed-forward layer.
    ``shared_norm``: one norm for both, which run in parallel. ``tied``: the logits use the
    embedding's weights. ``scaled_embedding``: the embedding is multiplied by sqrt(``hidden``).

    Experts: with ``experts`` > 0 each token goes to ``chosen`` of them. ``shared_ff`` > 0: inner
    size of an expert for all tokens, with ``shared_gate`` weighted by a gate per token. ``dense``:
    per layer whether it has a feed-forward layer of inner size ``dense_ff`` instead of experts; a
    shorter list repeats over the layers.

    Vision: ``patches`` is the number of patches and of values in each, instead of a vocabulary; the
    other ``positions`` are tokens before the patches (class, distillation).

    Encoders: without ``causal`` every token sees all, there is no cache, and the scope `model` ends
    with the last norm. ``decoder_layers`` > 0: a decoder reads the encoder's output; a prefill is
    the encoder with the keys and values for the decoder, a decode step is one of the decoder.
    """

    name: str
    aliases: tuple[str, ...] = ()
    source: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    ff_size: int
    vocabulary: int
    norm: NormKind = "rms_norm"
    norm_bias: bool = True
    post_norms: bool = False
    shared_norm: bool = False
    head_norms: bool = False
    positions: int = 0
    activation: Activation = "silu"
    gated: bool = True
    biased: tuple[str, ...] = ()
    windows: tuple[int | None, ...] = (None,)
    tied: bool = False
    scaled_embedding: bool = False
    attention_cap: float | None = None
    logits_cap: float | None = None
    score_scale: float | None = None
    experts: int = 0
    chosen: int = 0
    shared_ff: int = 0
    shared_gate: bool = False
    dense: tuple[bool, ...] = (False,)
    dense_ff: int = 0
    patches: tuple[int, int] | None = None
    causal: bool = True
    rotary: bool | None = None
    decoder_layers: int = 0
    relative: int = 0
    relative_each: bool = False

    @property
    def is_vision(self) -> bool:
        """Whether its input is an image: patches, no mask, no cache."""
        return self.patches is not None

    @property
    def is_encoder(self) -> bool:
        """Whether every token sees all others: no mask, no cache, no steps."""
        return self.is_vision or not self.causal

    @property
    def layer_run(self) -> LayerRun:
        """The run of layers that repeats; one repetition is built for all."""
        return layer_run(self.layer_kinds, self.layers)

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """The kind of each layer until ``windows`` and ``dense`` repeat together."""
        length = min(self.layers, math.lcm(len(self.windows), len(self.dense)))
        windows = values_of_layers(self.windows, length)
        return tuple(zip(windows, values_of_layers(self.dense, length), strict=True))

    @property
    def dense_layers(self) -> int:
        """Number of layers without experts in a model with experts."""
        return sum(values_of_layers(self.dense, self.layers))

    @property
    def is_rotary(self) -> bool:
        """Whether Q and K are rotated by their positions (rotary embedding)."""
        return not self.positions if self.rotary is None else self.rotary

    def document(self) -> dict[str, Any]:
        """Return the fields in the form of a workload file, without those of default value."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("aliases", "source") or value == field.default:
                continue
            key = _NAMES_IN_FILES.get(field.name, field.name)
            found[key] = list(value) if isinstance(value, tuple) else value
        return found

    @property
    def scale(self) -> float:
        """The factor of attention scores."""
        return self.score_scale or self.head_size**-0.5

    @property
    def cache_elements(self) -> int:
        """Elements of K and V that a token adds to the caches of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size

    @property
    def norm_size(self) -> int:
        """Elements of a norm's gain and bias."""
        return self.hidden * (2 if self.norm == "layer_norm" and self.norm_bias else 1)

    @property
    def decoder_parameters(self) -> int:
        """Parameters of a decoder: layers with a second attention and norm, and the last norm."""
        if not self.decoder_layers:
            return 0
        cross = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads) + self.norm_size
        return self.decoder_layers * (self.layer_parameters + cross) + self.norm_size

    @property
    def feed_forward_parameters(self) -> int:
        """Parameters of a feed-forward layer, or of one expert."""
        return self._feed_forward_parameters(self.ff_size)

    def _feed_forward_parameters(self, inner: int) -> int:
        biases = (inner * (1 + self.gated) + self.hidden) * ("ff" in self.biased)
        return (2 + self.gated) * self.hidden * inner + biases

    @property
    def shared_parameters(self) -> int:
        """Parameters of a layer's shared expert and its gate."""
        if not self.shared_ff:
            return 0
        return self._feed_forward_parameters(self.shared_ff) + self.hidden * self.shared_gate

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer, with its experts if the model has any."""
        e, queries = self.hidden, self.heads * self.head_size
        keys = self.kv_heads * self.head_size
        attention = 2 * e * queries + 2 * e * keys
        attention += (queries + 2 * keys) * ("qkv" in self.biased) + e * ("o" in self.biased)
        norms = (2 - self.shared_norm) * (1 + self.post_norms) * self.norm_size
        norms += 2 * self.head_size * self.head_norms
        return attention + norms + (self._expert_parameters or self.feed_forward_parameters)

    @property
    def _expert_parameters(self) -> int:
        router = self.experts * (self.hidden + ("router" in self.biased))
        return self.experts * self.feed_forward_parameters + router + self.shared_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embeddings of tokens (or patches) and positions."""
        e = self.hidden
        if self.patches:
            count, values = self.patches
            return values * e + e + (self.positions - count) * e + self.positions * e
        return (self.vocabulary + self.positions) * e

    @property
    def parameters(self) -> int:
        """All parameters; tied ones count once."""
        head = 0 if self.tied else self.hidden * self.vocabulary
        head += self.vocabulary * (self.is_vision or "logits" in self.biased)
        tables = 1 + bool(self.decoder_layers)
        tables = self.layers + self.decoder_layers if self.relative_each else tables
        head += self.relative * self.heads * tables
        layers = self.layers * self.layer_parameters + self.decoder_parameters
        if self.dense_layers:
            less = self._expert_parameters - self._feed_forward_parameters(self.dense_ff)
            layers -= self.dense_layers * less
        return layers + self.embedding_parameters + self.norm_size + head

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: of the experts only the chosen ones."""
        if not self.experts:
            return self.parameters
        idle = (self.experts - self.chosen) * self.feed_forward_parameters
        return self.parameters - (self.layers - self.dense_layers) * idle


@dataclass(frozen=True)
class LayerRun:
    """A repeated run of layers: its first layer, its length, and the number of repetitions.

    Layers before the first and after the last repetition run once.
    """

    first: int
    length: int
    times: int

    def layers_to_build(self, layers: int) -> tuple[list[int], list[int], list[int]]:
        """Return the layers to build: those before, those of one repetition, and those after.

        >>> LayerRun(1, 2, 3).layers_to_build(8)
        ([0], [1, 2], [7])
        """
        end = self.first + self.length
        behind = self.first + self.length * self.times
        return list(range(self.first)), list(range(self.first, end)), list(range(behind, layers))


_MOST_SEARCHED = 128
"""The longest run that is searched; a longer one is the whole list of kinds."""


def layer_run(kinds: Sequence[object], layers: int) -> LayerRun:
    """Return the run of layers with which the fewest are built, as it is built once for all times.

    ``kinds``: kinds of the first layers, which repeat; ``layers``: their number. Examples: Gemma 3
    1B, every sixth of whose 26 layers has no window; its last 13 layers.

    >>> layer_run((512, 512, 512, 512, 512, None), 26)
    LayerRun(first=0, length=6, times=4)
    >>> layer_run((512, 512, 512, 512, None, 512), 13)
    LayerRun(first=0, length=6, times=2)
    >>> layer_run((True, *[False] * 999), 1000)
    LayerRun(first=1, length=1, times=999)
    """
    each, longest = values_of_layers(kinds, layers), len(kinds)
    runs = [(layers - longest * (layers // longest - 1), 0, longest, layers // longest)]
    for length in range(1, min(layers, _MOST_SEARCHED) + 1):
        first = 0
        for at in range(length, layers + 1):
            if at == layers or each[at] != each[at - length]:
                times = (at - first) // length
                runs.append((layers - length * (times - 1), first, length, times))
                first = at - length + 1
    _, first, length, times = min(runs)
    return LayerRun(first, length, times)


def values_of_layers(values: Sequence[_Value], layers: int) -> tuple[_Value, ...]:
    """Return the value of each layer, from a list that repeats."""
    return (tuple(values) * -(-layers // len(values)))[:layers]


def parse_transformer(document: Mapping[str, Any]) -> Transformer:
    """Return the transformer of a catalogue file."""
    fields_of = {name: field for field, name in _NAMES_IN_FILES.items()}
    sizes: dict[str, Any] = {
        fields_of.get(name, name): tuple(value) if isinstance(value, list) else value
        for name, value in document.items()
        if name != "kind"
    }
    return Transformer(**sizes)


TRANSFORMERS: Final = Catalogue("transformers", parse_transformer)
"""The published transformers."""
find_transformer = TRANSFORMERS.find


def is_published(model: Transformer) -> bool:
    """Return whether a transformer equals the catalogue's entry of its name."""
    return model.name in TRANSFORMERS and find_transformer(model.name) == model


def size_faults_of(model: Transformer) -> list[Fault]:
    """Return the faults of a transformer's sizes, each with its field."""
    names = ("hidden", "heads", "kv_heads", "head_size", "ff_size", "vocabulary")
    faults = size_faults(model.name, {name: getattr(model, name) for name in names})
    optional = {"decoder_layers": model.decoder_layers, "expert_count": model.experts}
    counts = {"layers": model.layers, **{name: size for name, size in optional.items() if size}}
    faults += size_faults(model.name, counts, MAX_OPERATORS)
    if faults:
        return faults
    if model.heads % model.kv_heads:
        allowed = f"a divisor of heads, {model.heads}"
        faults.append(Fault(model.name, "kv_heads", model.kv_heads, allowed))
    if model.is_rotary and model.head_size % 2:
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
    return [*faults, *_expert_faults(model), *_dense_faults(model), *_decoder_faults(model)]


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


def _dense_faults(model: Transformer) -> list[Fault]:
    if not 1 <= len(model.dense) <= model.layers:
        allowed = f"a list of 1 to {model.layers} of true and false, which layers repeat"
        return [Fault(model.name, "dense", list(model.dense), allowed)]
    if any(model.dense):
        if model.experts:
            return size_faults(model.name, {"dense_ff": model.dense_ff})
        allowed = "false without experts in other layers"
        return [Fault(model.name, "dense", list(model.dense), allowed)]
    if model.dense_ff:
        allowed = "0 without layers that are dense"
        return [Fault(model.name, "dense_ff", model.dense_ff, allowed)]
    return []


def _decoder_faults(model: Transformer) -> list[Fault]:
    sizes = {"relative": model.relative}
    faults = size_faults(model.name, {name: size for name, size in sizes.items() if size})
    plain = model.is_encoder and not (model.is_vision or model.biased or model.positions)
    if model.decoder_layers and not (plain and model.windows == (None,) and not model.experts):
        allowed = "0, but beside an encoder (causal: false) without biases, positions and windows"
        faults.append(Fault(model.name, "decoder_layers", model.decoder_layers, allowed))
    return faults
