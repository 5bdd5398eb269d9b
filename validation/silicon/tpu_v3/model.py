"""The measured operators of a TPU v3 core: default runs on ``hwconfigs/tpu_v3``, bf16.

Calibrated: ``compiler.program_start_cycles`` on the GEMM of 512, ``sfu.lanes`` on the softmax of
2,048 x 2,048, ``sfu.operations`` of a layer norm on that of 2,048 x 768; none on any other row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from simaccel.workload import Conv, Workload, build, gemm, layers_workload
from simaccel.workload.files import parse_workload
from simaccel.workload.language.model import Transformer
from validation.silicon.booked import START, book, remembered
from validation.silicon.networks import linked_resnet
from validation.silicon.runs import attention_workload, loaded, run, vector_workload

Sizes = tuple[int, ...]

_BERT: Final = {
    "bert_base": (768, 12, 3072),
    "bert_large": (1024, 16, 4096),
    "bert_xlarge": (2048, 32, 8192),
}
"""Width, heads, hidden width of the feed-forward; a block of 512 tokens."""
_TOKENS: Final = 512
_RESNETS: Final = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def predict(rows: Sequence[Mapping[str, str]]) -> list[int]:
    """Return the cycles of rows by their ``workload``.

    Raises:
        ValueError: one that the model doesn't know.
    """
    return [_cycles(row["workload"]) for row in rows]


@remembered
def _cycles(name: str) -> int:
    on = loaded("tpu_v3")
    book(START, on.compiler.program_start_cycles)
    return on.compiler.program_start_cycles + run(workload_of(name), on)


def workload_of(name: str) -> Workload:
    """Return what a row of the table is.

    Raises:
        ValueError: none of them.
    """
    kind, _, text = name.partition("_")
    if name in _BERT:
        return _block(name, *_BERT[name])
    if name in _RESNETS:
        return parse_workload(linked_resnet(int(name[6:])))
    count, maker = _KINDS.get(kind, (0, None))
    sizes = tuple(int(size) for size in text.split("x") if size.isascii() and size.isdigit())
    if maker is None or len(sizes) != text.count("x") + 1 or count not in (None, len(sizes)):
        allowed = ", ".join((*(kind + _SIZES[n] for kind, (n, _) in _KINDS.items()), *_WHOLE))
        raise ValueError(f"workload: got {name!r}; allowed: {allowed}")
    if not all(sizes[: count if count != _CONV_SIZES else -1]):
        raise ValueError(f"workload: got {name!r}; allowed: sizes from 1")
    return maker(sizes)


def _conv(sizes: Sizes) -> Workload:
    """Return a convolution: batch, height, width, channels, filters, kernel, stride, padding."""
    batch, height, width, channels, filters, kernel, stride, padding = sizes
    p, q = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
    if min(p, q) < 1:
        raise ValueError(f"a kernel of {kernel} on {height} x {width}, padded by {padding}")
    step = stride, stride
    conv = Conv(n=batch, m=filters, c=channels, p=p, q=q, r=kernel, s=kernel, stride=step)
    return layers_workload("conv", {"conv": conv})


def _block(name: str, width: int, heads: int, hidden: int) -> Workload:
    """Return an encoder's block (Devlin et al., arXiv:1810.04805)."""
    bert = Transformer(
        name=name,
        source="Devlin et al., arXiv:1810.04805",
        hidden=width,
        layers=1,
        heads=heads,
        kv_heads=heads,
        head_size=width // heads,
        ff_size=hidden,
        vocabulary=30522,
        norm="layer_norm",
        positions=_TOKENS,
        activation="gelu",
        gated=False,
        causal=False,
    )
    return build(bert, phase="prefill", prompt=_TOKENS, scope="block")


_CONV_SIZES: Final = 8
_SIZES: Final = {3: "_AxBxC", None: "_AxB...", _CONV_SIZES: "_NxHxWxCxMxKxSxP"}
_WHOLE: Final = (*_RESNETS, *_BERT)
_KINDS: Final[Mapping[str, tuple[int | None, Callable[[Sizes], Workload]]]] = {
    "gemm": (3, lambda sizes: gemm(*sizes)),
    "conv": (_CONV_SIZES, _conv),
    "layernorm": (None, lambda sizes: vector_workload("layer_norm", sizes)),
    "softmax": (None, lambda sizes: vector_workload("softmax", sizes)),
    "attention": (3, lambda sizes: attention_workload(*sizes)),
}
"""How many sizes an operator has, any number if it is None, and what says its workload."""
