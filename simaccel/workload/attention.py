"""The attention block of FLAT (Kao et al., ASPLOS 2023), section 2.1 and figure 1.

    Q[b,h,n,d] = X[b,n,e] Wq[e,h,d]          K and V likewise
    S[b,h,q,c] = Q[b,h,q,d] K[b,h,c,d]       operator L, the logits
    P[b,h,q,c] = softmax over c of S / sqrt(d)
    Z[b,h,q,d] = P[b,h,q,c] V[b,h,c,d]       operator A, attend
    Y[b,n,e]   = Z[b,h,n,d] Wo[h,d,e]        operator O
    F[b,n,f]   = Y[b,n,e] W1[e,f]            operator FF1
    U[b,n,e]   = F[b,n,f] W2[f,e]            operator FF2

Ranks: b sequences of the batch, n tokens (q as queries, c as keys), e hidden size,
h heads, d head size, f feed-forward size. Left out, as they are neither GEMMs nor
reductions over tokens: residual additions, layer norm, activation functions, biases.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from simaccel.errors import Fault, InputError, require_none, suggest
from simaccel.files.catalogue import Catalogue
from simaccel.workload.einsum import Einsum, Kind, Operator, operand, softmax
from simaccel.workload.names import size_faults
from simaccel.workload.tensors import bytes_document, make_tensors
from simaccel.workload.workload import Workload

Scope = Literal["la", "block", "model"]
SCOPES: tuple[Scope, ...] = ("la", "block", "model")

# operator: output, inputs
_OPERATORS = {
    "Q": ("Q b h n d", "X b n e", "Wq e h d"),
    "K": ("K b h n d", "X b n e", "Wk e h d"),
    "V": ("V b h n d", "X b n e", "Wv e h d"),
    "L": ("S b h q c", "Q b h q d", "K b h c d"),
    "softmax": ("P b h q c", "S b h q c"),
    "A": ("Z b h q d", "P b h q c", "V b h c d"),
    "O": ("Y b n e", "Z b h n d", "Wo h d e"),
    "FF1": ("F b n f", "Y b n e", "W1 e f"),
    "FF2": ("U b n e", "F b n f", "W2 f e"),
}
_NAME: Final = "attention"
"""The name of a workload whose file has none."""
_LA_OPERATORS = ("L", "softmax", "A")
_LA_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("Q", "K", "V"), "input"),
    **dict.fromkeys(("S", "P"), "intermediate"),
    "Z": "output",
}
_BLOCK_KINDS: dict[str, Kind] = {
    "X": "input",
    **dict.fromkeys(("Wq", "Wk", "Wv", "Wo", "W1", "W2"), "weight"),
    **dict.fromkeys(("Q", "K", "V", "S", "P", "Z", "Y", "F"), "intermediate"),
    "U": "output",
}


@dataclass(frozen=True, kw_only=True)
class ModelDimensions:
    """The sizes of a model's attention blocks; `head_size` need not be `hidden` / `heads`."""

    hidden: int
    heads: int
    head_size: int
    ff_size: int
    layers: int = 1


@dataclass(frozen=True)
class Model:
    """A published model whose attention blocks are run: its names, sizes and their source."""

    name: str
    aliases: tuple[str, ...]
    dimensions: ModelDimensions
    source: str


def parse_model(document: Mapping[str, Any]) -> Model:
    """Return the model of a catalogue file: the document of an attention block with a source."""
    sizes = {size.name: document[size.name] for size in fields(ModelDimensions)}
    aliases = tuple(document.get("aliases", ()))
    return Model(document["name"], aliases, ModelDimensions(**sizes), document["source"])


MODELS: Final = Catalogue("attention", parse_model)
"""The models that FLAT evaluates (section 7.1)."""
find_model = MODELS.find


def attention_model(
    name: str,
    *,
    batch: int,
    seq_len: int,
    scope: str = "block",
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return a model of the catalogue as a workload, of the scope `la`, `block` or `model`.

    Raises:
        InputError: no such model or scope, or a size is out of range.
    """
    try:
        model = find_model(name)
    except InputError as error:
        others = size_faults("workload", {"batch": batch, "seq_len": seq_len})
        others += scope_faults("workload", scope)
        raise InputError([*error.faults, *others]) from None
    workload = attention(
        model.dimensions,
        batch=batch,
        seq_len=seq_len,
        scope=scope,
        bytes_per_element=bytes_per_element,
        bytes_by_tensor=bytes_by_tensor,
        name=model.name,
    )
    left_out = {"name", *vars(model.dimensions)}
    run = {key: value for key, value in workload.parameters.items() if key not in left_out}
    return replace(workload, parameters={"model": model.name, **run})


def attention(
    dimensions: ModelDimensions,
    *,
    batch: int,
    seq_len: int,
    scope: str = "block",
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
    name: str = _NAME,
) -> Workload:
    """Return L, softmax and A ('la'), a whole block ('block'), or all layers ('model').

    The scope 'model' is the block with `repeat` = layers. Element sizes are in bytes, with
    `bytes_by_tensor` for those that differ.

    Raises:
        InputError: all faults of scope, sizes and element sizes.
    """
    own_sizes: dict[str, int] = {"batch": batch, "seq_len": seq_len, **vars(dimensions)}
    kinds = _LA_KINDS if scope == "la" else _BLOCK_KINDS
    tensors, byte_faults = make_tensors(name, kinds, bytes_per_element, bytes_by_tensor)
    require_none(size_faults(name, own_sizes) + scope_faults(name, scope) + byte_faults)
    sizes = {"b": batch, **dict.fromkeys("nqc", seq_len)}
    sizes |= {"e": dimensions.hidden, "h": dimensions.heads}
    sizes |= {"d": dimensions.head_size, "f": dimensions.ff_size}
    parameters = {
        "kind": "attention",
        **({} if name == _NAME else {"name": name}),
        **own_sizes,
        "scope": scope,
        **bytes_document(bytes_per_element, bytes_by_tensor),
    }
    names = _LA_OPERATORS if scope == "la" else tuple(_OPERATORS)
    operators = tuple(_operator(operator, sizes) for operator in names)
    repeat = dimensions.layers if scope == "model" else 1
    return Workload(name, operators, tensors, repeat, parameters)


def scope_faults(file: str, scope: str) -> list[Fault]:
    """Return a fault if the scope is unknown."""
    if scope in SCOPES:
        return []
    return [Fault(file, "scope", scope, suggest(str(scope), SCOPES))]


def _operator(name: str, sizes: Mapping[str, int]) -> Operator:
    output, *inputs = map(operand, _OPERATORS[name])
    used = dict.fromkeys(rank for given in (output, *inputs) for rank in given.ranks)
    ranks = {rank: sizes[rank] for rank in used}
    if name == "softmax":
        scale = 1 / math.sqrt(sizes["d"])
        return softmax(name, ranks, inputs[0], output, "c", scale)
    return Einsum(name, ranks, tuple(inputs), output)
