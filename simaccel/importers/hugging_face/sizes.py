"""The sizes of a transformer, read from a configuration by its keys and its family's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simaccel.errors import ABSENT
from simaccel.files.limits import MAX_OPERATORS
from simaccel.importers.hugging_face.configuration import Configuration
from simaccel.importers.hugging_face.structures import WINDOWED_KINDS
from simaccel.workload.language.model import BIASED, NormKind, windows_of

Sizes = dict[str, Any]
"""Field of `Transformer` -> value."""
Addition = Callable[[Configuration, Sizes], None]
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
_DENSE: Final = (
    *("first_k_dense_replace", "mlp_only_layers", "decoder_sparse_step", "moe_layer_freq"),
    *("moe_layer_interval", "moe_layer_start_index", "moe_layer_end_index"),
)
"""Keys of dense layers among those with experts."""


@dataclass(frozen=True, kw_only=True)
class ModelFamily:
    """A family of transformers: its defaults, and what it adds to the sizes that all have.

    ``biased``: layers with a bias; ``attention``: those that ``attention_bias`` switches;
    ``fixed``: whether keys of a file don't change them. ``windowed``: whether a window holds in all
    layers if a file doesn't say in which. ``patches``: whether the input is patches of an image, so
    that there is no vocabulary. ``sizes``: fixed ones of every model of the family. ``additions``:
    functions that read its own keys. ``passed``: keys that change no figure.
    """

    norm: NormKind = "rms_norm"
    gated: bool = True
    activation: str = "silu"
    biased: tuple[str, ...] = ()
    attention: tuple[str, ...] = ("qkv", "o")
    fixed: bool = False
    tied: bool = False
    windowed: bool = False
    patches: bool = False
    sizes: Mapping[str, Any] = field(default_factory=dict)
    additions: tuple[Addition, ...] = ()
    passed: tuple[str, ...] = ()


def read_sizes(config: Configuration, family: ModelFamily) -> Sizes:
    """Return the sizes of a transformer from its configuration and its family's additions."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    layers = config.size("num_hidden_layers", most=MAX_OPERATORS)
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
        "windows": read_windows(config, layers, used=family.windowed),
        **family.sizes,
    }
    _read_experts(config, sizes)
    for add in family.additions:
        add(config, sizes)
    for key in family.passed:
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
    if kinds is not None and not (
        isinstance(kinds, list)
        and len(kinds) == layers
        and all(isinstance(kind, str) and kind in WINDOWED_KINDS for kind in kinds)
    ):
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


def repeated_run(windows: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Return the shortest run of which all windows are repetitions, the last perhaps in part.

    >>> repeated_run((8, None, 8, None, 8)), repeated_run((8, 8, None))
    ((8, None), (8, 8, None))
    """
    count = len(windows)
    period = next(n for n in range(1, count + 1) if windows == windows_of(windows[:n], count))
    return windows[:period]


def _read_experts(config: Configuration, sizes: Sizes) -> None:
    """Set the sizes of experts, and report dense layers among those with experts."""
    experts = config.size("num_experts", 0, least=0, most=MAX_OPERATORS)
    if experts <= 1:
        return
    sizes["experts"], sizes["chosen"] = experts, config.size("num_experts_per_tok")
    sizes["ff_size"] = config.size("moe_intermediate_size", sizes["ff_size"])
    for key in (key for key in _SHARED if config.given.get(key)):
        shared = config.size(key)  # an inner size, or a number of experts
        sizes["shared_ff"] = shared if "size" in key else shared * sizes["ff_size"]
        sizes["shared_gate"] = key == "shared_expert_intermediate_size"
    for key in _DENSE:
        if config.given.get(key) not in (None, 0, 1, [], -1):
            why = "layers without experts; here all have them"
            config.leave_work(key, why, kind="layer")
        config.taken.add(key)
