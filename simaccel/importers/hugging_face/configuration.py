"""Typed reading of a Hugging Face configuration, with an account of its keys.

Families call the same size by different keys: `OTHER_NAMES` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from simaccel.errors import ABSENT, Fault, suggest
from simaccel.files.accounting import AccountEntry
from simaccel.workload.language.model import Activation
from simaccel.workload.sizes import MAX_SIZE

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


@dataclass
class Configuration:
    """A configuration that is being read: keys with their values, and what became of them.

    ``given``: the file's keys. ``usual``: the defaults of its family, used for keys that need no
    value, and for all if the configuration is ``inside`` another one, whose files leave them out.
    ``taken``: keys that were read. ``left``: account entries of parts that aren't modelled, each
    with its number of parameters.
    """

    file: str
    given: Mapping[str, Any]
    usual: Mapping[str, Any] = field(default_factory=dict)
    inside: bool = False
    taken: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    left: list[tuple[AccountEntry, int]] = field(default_factory=list)

    def find(self, name: str, default: object = ABSENT) -> tuple[str, Any]:
        """Return (key, value) of the first of a key's names that the file has.

        If it has none: the family's value, or the default.
        """
        names = (name, *OTHER_NAMES.get(name, ()))
        self.taken.update(names)
        for key in names:
            if self.given.get(key) is not None:
                return key, self.given[key]
        is_null = any(key in self.given for key in names)
        if name in self.usual and not is_null and (self.inside or default is not ABSENT):
            return name, self.usual[name]
        return name, default

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
        self.taken.add(name)
        self.left.append((AccountEntry(name, "not taken", why), parameters))

    def leave_work(
        self,
        name: str,
        why: str,
        *,
        kind: str = PART,
        macs: int | None = None,
        parameters: int = 0,
    ) -> None:
        """Report a part that isn't modelled and has MACs; ``macs`` None: an unknown number."""
        self.taken.add(name)
        self.left.append((AccountEntry(name, "not taken", why, kind, macs), parameters))

    def pass_over(self, name: str, why: str) -> None:
        """Report a key or part that changes no figure."""
        self.taken.add(name)
        self.left.append((AccountEntry(name, "harmless", why), 0))

    def entries(self, parameters: int) -> Iterator[AccountEntry]:
        """Yield the entries of parts that aren't modelled, with their shares of all parameters.

        ``parameters``: those of the model as it is built.
        """
        whole = parameters + sum(count for _, count in self.left)
        for entry, count in self.left:
            share = f": {count:,} parameters, {count / whole:.2g} of all" if count else ""
            yield replace(entry, why=entry.why + share)
