"""The sizes of a transformer in a Hugging Face configuration, and an account of its keys.

Families call the same size by different keys: `OTHER_NAMES` lists them. What a file leaves out are
its family's defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from simaccel.errors import ABSENT, Fault, suggest
from simaccel.files.accounting import AccountEntry
from simaccel.files.limits import MAX_OPERATORS
from simaccel.workload.language.model import BIASED, Activation, NormKind
from simaccel.workload.names import MAX_SIZE

_KEYS_OF: Final = {
    "kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "positions": "max_position_embeddings",
    "experts_per_token": "num_experts_per_tok",
}
"""Keys by the sizes of a transformer that may not go with its others."""
OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden_size": ("n_embd", "n_embed", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num"),
    "head_dim": ("d_kv", "kv_channels"),
    "intermediate_size": ("n_inner", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size"),
    "vocab_size": ("padded_vocab_size",),
    "hidden_act": ("hidden_activation", "activation_function", "activation"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        *("num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k"),
    ),
    "partial_rotary_factor": ("rotary_pct", "rope_pct", "rotary_dim"),
    "final_logit_softcapping": ("logits_soft_cap",),
    "sliding_window_pattern": ("_sliding_window_pattern",),
}
"""Other names of a key, in the order in which they are looked for."""
ACTIVATIONS: Final[Mapping[str, Activation]] = {
    **dict.fromkeys(("silu", "swish"), "silu"),
    **dict.fromkeys(("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu"), "gelu"),
    **dict.fromkeys(("relu", "relu2"), "relu"),
}
"""Activations of feed-forward networks by their names in files."""
PART: Final = "part"
"""The kind of account entries for parts of a model outside of its blocks."""
WINDOWED_KINDS: Final[Mapping[str, bool]] = {"full_attention": False, "sliding_attention": True}
"""Kinds of layers that are built: whether they have a window."""
Sizes = dict[str, Any]
"""Field of `Transformer` -> value."""
Addition = Callable[["Configuration", Sizes], None]
"""A function that adds to the sizes what a family has, or reports what isn't modelled."""
ALL_BIASED: Final = ("qkv", "o", "ff")
_BIASES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("use_qkv_bias", "qkv_bias", "add_qkv_bias"), ("qkv",)),
    **dict.fromkeys(("use_bias", "bias", "enable_bias"), ALL_BIASED),
    "mlp_bias": ("ff",),
    "add_bias_linear": ("o", "ff"),
    "lm_head_bias": ("logits",),
}
"""Key -> the layers that have a bias if it is true, and none if it is false."""
_SHARED: Final = (
    *("shared_expert_intermediate_size", "n_shared_experts", "num_shared_experts"),
    *("moe_num_shared_experts", "shared_intermediate_size", "num_shared_expert"),
)
"""Keys of shared experts, which all tokens use."""
_FIRST_WITH_EXPERTS: Final = ("first_k_dense_replace", "moe_layer_start_index")
"""Keys of the first layer with experts."""
_Value = TypeVar("_Value")


@dataclass
class Configuration:
    """A configuration that is being read: its keys and values, and an account of them.

    ``given``: keys and values of the file. ``defaults``: values of its family for keys that a file
    may lack; for all keys if the configuration is ``inside`` another one, as files leave them out
    there. ``keys_read``: keys that were used. ``unmodelled``: account entries of parts that aren't
    modelled, each with its number of parameters.
    """

    file: str
    given: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    inside: bool = False
    keys_read: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    unmodelled: list[tuple[AccountEntry, int]] = field(default_factory=list)

    def find(self, name: str, default: object = ABSENT) -> tuple[str, Any]:
        """Return (key, value) of the first of a key's names that the file has.

        If it has none: the family's value, or the default.
        """
        names = (name, *OTHER_NAMES.get(name, ()))
        for key in names:
            if (value := self.given.get(key)) is not None:
                self.keys_read.add(key)
                for other in sorted(set(names) & self.given.keys() - self.keys_read):
                    if self.given[other] in (value, None):
                        self.keys_read.add(other)
                    else:
                        self.leave(other, f"another value than {key}, which is read")
                return key, value
        self.keys_read.update(names)
        is_null = any(key in self.given for key in names)
        if name in self.defaults and not is_null and (self.inside or default is not ABSENT):
            return name, self.defaults[name]
        return name, default

    def name_key(self, fault: Fault) -> Fault:
        """Return a fault of a transformer's size with the file and its key."""
        key = _KEYS_OF.get(fault.field)
        field = fault.field if key is None else self.find(key)[0]
        return replace(fault, file=self.file, field=field)

    def size(
        self, name: str, default: object = ABSENT, least: int = 1, most: int = MAX_SIZE
    ) -> int:
        """Return an integer from ``least`` to ``most``; another value is a fault."""
        key, found = self.find(name, default)
        if type(found) is int and least <= found <= most:
            return found
        self.refuse(key, found, f"a whole number from {least} to {most}")
        return max(1, least)

    def number(self, name: str, default: float | None) -> float | None:
        """Return a number above 0, or None; another value is a fault."""
        key, found = self.find(name, default)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if found is None or (is_number and 0 < found <= MAX_SIZE and math.isfinite(found)):
            return None if found is None else float(found)
        self.refuse(key, found, f"a number above 0, up to {MAX_SIZE}")
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean; another value is a fault."""
        key, found = self.find(name, default)
        if type(found) is bool:
            return found
        self.refuse(key, found, "true or false")
        return default

    def text(self, name: str, default: str) -> str:
        """Return a string; another value is a fault."""
        key, found = self.find(name, default)
        if isinstance(found, str):
            return found
        self.refuse(key, found, "text")
        return default

    def activation(self, default: str) -> Activation:
        """Return the activation of the feed-forward network; an unknown one is a fault."""
        name = self.text("hidden_act", default)
        if name == "relu2":
            self.leave("the square behind relu", "a product of each element with itself")
        if name in ACTIVATIONS:
            return ACTIVATIONS[name]
        self.refuse(self.find("hidden_act")[0], name, suggest(name, ACTIVATIONS))
        return "gelu"

    def architectures(self) -> str:
        """Return the names of the classes in the library `transformers`, joined by spaces."""
        _, found = self.find("architectures", [])
        if isinstance(found, list) and all(isinstance(name, str) for name in found):
            return " ".join(found)
        self.refuse("architectures", found, "a list of names")
        return ""

    def refuse(self, key: str, value: object, allowed: str) -> None:
        """Add a fault: a key's value that isn't allowed."""
        self.faults.append(Fault(self.file, key, value, allowed))

    def leave(self, name: str, why: str, parameters: int = 0) -> None:
        """Report a part that isn't modelled and has no MACs, with its number of parameters."""
        self.keys_read.add(name)
        self.unmodelled.append((AccountEntry(name, "not taken", why), parameters))

    def leave_work(
        self, name: str, why: str, *, kind: str = PART, macs: int | None = None, parameters: int = 0
    ) -> None:
        """Report a part that isn't modelled and has MACs; ``macs`` None: an unknown number."""
        self.keys_read.add(name)
        self.unmodelled.append((AccountEntry(name, "not taken", why, kind, macs), parameters))

    def pass_over(self, name: str, why: str) -> None:
        """Report a key or part that changes no figure."""
        self.keys_read.add(name)
        self.unmodelled.append((AccountEntry(name, "harmless", why), 0))

    def entries(self, parameters: int) -> Iterator[AccountEntry]:
        """Yield the entries of parts that aren't modelled, with their shares of all parameters.

        ``parameters``: those of the model as it is built.
        """
        whole = parameters + sum(count for _, count in self.unmodelled)
        for entry, count in self.unmodelled:
            share = f": {count:,} parameters, {count / whole:.2g} of all" if count else ""
            yield replace(entry, why=entry.why + share)


@dataclass(frozen=True, kw_only=True)
class ModelFamily:
    """A family of transformers: its defaults, and how its models differ from those of others.

    ``biased``: layers with a bias; ``attention``: the layers whose bias the key ``attention_bias``
    sets; ``fixed``: whether ``biased`` holds whatever a file says. ``gated``: whether the
    feed-forward layer has a gate. ``tied``: whether embedding and logits share weights.
    ``windowed``: whether all layers have a sliding window if a file doesn't say which, or
    (``every``) all but every n-th. ``patches``: whether the input is patches of an image, without a
    vocabulary. ``sizes``: fields of `Transformer` that all its models share; ``flags``: fields that
    a key sets, with its default. ``positions``: key of the number of learned positions.
    ``additions``: functions that read keys of this family only. ``without_effect``: keys that
    change no figure.
    """

    norm: NormKind = "rms_norm"
    gated: bool = True
    activation: str = "silu"
    biased: tuple[str, ...] = ()
    attention: tuple[str, ...] = ("qkv", "o")
    fixed: bool = False
    tied: bool = False
    windowed: bool = False
    every: int = 0
    patches: bool = False
    sizes: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    positions: str = ""
    additions: tuple[Addition, ...] = ()
    without_effect: tuple[str, ...] = ()


def read_sizes(config: Configuration, family: ModelFamily) -> Sizes:
    """Return the sizes of a transformer from its configuration and its family's additions."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    layers = config.size("num_hidden_layers", most=MAX_OPERATORS)
    every = config.size("sliding_window_pattern", family.every) if family.every else 0
    sizes: Sizes = {
        "hidden": hidden,
        "layers": layers,
        "heads": heads,
        "kv_heads": config.size("num_key_value_heads", heads),
        "head_size": config.size("head_dim", max(1, hidden // heads)),
        "ff_size": config.size("intermediate_size", ABSENT if family.gated else 4 * hidden),
        "vocabulary": 1 if family.patches else config.size("vocab_size"),
        "norm": family.norm,
        "gated": family.gated,
        "activation": config.activation(family.activation),
        "biased": _read_biased(config, family),
        "tied": config.flag("tie_word_embeddings", default=family.tied),
        "windows": read_windows(config, layers, used=family.windowed or every > 0, every=every),
        **({"positions": config.size(family.positions)} if family.positions else {}),
        **{name: config.flag(key, default=usual) for name, (key, usual) in family.flags.items()},
        **family.sizes,
    }
    _read_experts(config, sizes)
    for add in family.additions:
        add(config, sizes)
    for key in family.without_effect:
        if key in config.given:
            config.pass_over(key, "nothing of its work")
    return sizes


def _read_biased(config: Configuration, family: ModelFamily) -> tuple[str, ...]:
    biased = {*family.biased}
    for key, layers in {"attention_bias": family.attention, **_BIASES}.items():
        if config.given.get(key) is None:
            continue
        has_bias = config.flag(key, default=False)
        if not family.fixed:
            biased = biased | {*layers} if has_bias else biased - {*layers}
    return tuple(layer for layer in BIASED if layer in biased)


def read_windows(
    config: Configuration, layers: int, *, used: bool, every: int = 0, first: int = 0
) -> tuple[int | None, ...]:
    """Return the windows (tokens, or None) of the shortest run of layers that repeats.

    They are those of ``layer_types``, if the file has it; else, if windows are ``used``, all layers
    from ``first`` on have one, or all but every ``every``-th.
    """
    window = config.size("sliding_window", 0, least=0)
    kinds = config.find("layer_types", None)[1]
    if kinds is not None and not (isinstance(kinds, list) and len(kinds) == layers):
        allowed = f"a list of {layers} kinds, each one of {', '.join(WINDOWED_KINDS)}"
        config.refuse("layer_types", kinds, allowed)
        kinds = None
    if not window or (not used and not kinds):
        return (None,)
    if kinds:
        windows = tuple(window if WINDOWED_KINDS[kind] else None for kind in kinds)
    elif every:
        windows = tuple(None if (at + 1) % every == 0 else window for at in range(layers))
    else:
        windows = tuple(None if at < first else window for at in range(layers))
    return repeated_run(windows)


def repeated_run(values: tuple[_Value, ...]) -> tuple[_Value, ...]:
    """Return the shortest run of which all values are repetitions, the last perhaps in part.

    >>> repeated_run((8, None, 8, None, 8)), repeated_run((8, 8, None))
    ((8, None), (8, 8, None))
    """
    count = len(values)
    period = next(n for n in range(1, count + 1) if values[n:] == values[: count - n])
    return values[:period]


def _read_experts(config: Configuration, sizes: Sizes) -> None:
    """Set the sizes of experts, and the layers without experts."""
    experts = config.size("num_experts", 0, least=0, most=MAX_OPERATORS)
    if experts <= 1:
        return
    dense = _read_dense(config, sizes["layers"])
    if all(dense):
        return
    if any(dense):
        sizes["dense"], sizes["dense_ff"] = repeated_run(dense), sizes["ff_size"]
    sizes["experts"], sizes["chosen"] = experts, config.size("num_experts_per_tok")
    sizes["ff_size"] = config.size("moe_intermediate_size", sizes["ff_size"])
    for key in (key for key in _SHARED if config.given.get(key)):
        shared = config.size(key)  # an inner size, or a number of experts
        sizes["shared_ff"] = shared if "size" in key else shared * sizes["ff_size"]
        sizes["shared_gate"] = key == "shared_expert_intermediate_size"


def _read_dense(config: Configuration, layers: int) -> tuple[bool, ...]:
    """Return of each layer whether it has no experts, by the keys of several families."""
    first = max(config.size(key, 0, least=0) for key in _FIRST_WITH_EXPERTS)
    last = config.size("moe_layer_end_index", -1, least=-1)  # -1: the last layer
    steps = [config.size(key, 1) for key in ("decoder_sparse_step", "moe_layer_interval")]
    dense = config.find("mlp_only_layers", [])[1]
    if not isinstance(dense, list):
        config.refuse("mlp_only_layers", dense, "a list of numbers of layers")
        dense = []
    flags = config.find("moe_layer_freq", 1)[1]
    if not isinstance(flags, list):
        every = config.size("moe_layer_freq", 1)
        flags = [at % every == 0 for at in range(layers)]
    elif len(flags) != layers or any(flag not in (0, 1) for flag in flags):
        config.refuse("moe_layer_freq", flags, f"a number, or a list of {layers} of 0 and 1")
        flags = [True] * layers
    sparse = range(first, layers if last < 0 else last + 1)
    return tuple(
        not (flag and at in sparse and at not in dense and not any((at + 1) % n for n in steps))
        for at, flag in enumerate(flags)
    )
