"""Sums of products over named dimensions: Einsum, and products whose batches are repeated."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.importers.onnx_files.builder import NodeInput, WorkloadBuilder
from simaccel.importers.onnx_files.views import SlotView, sizes_of

_ONE = "_"
"""The letter of a dimension of one element that is put before all others."""
Lettered = tuple[NodeInput, str]
"""A tensor, and a letter for each of its dimensions."""


def add_contraction(
    builder: WorkloadBuilder, name: str, operands: Sequence[Lettered], output: str
) -> SlotView:
    """Add a sum of products of tensors, whose dimensions have letters, as an einsum.

    A dimension of size 1 is that of others of its letter, repeated. A letter that has several spans
    in what is stored is several ranks.
    """
    if not output:  # what is made has a rank
        ((source, shape), letters), *others = operands
        made = add_contraction(
            builder, name, [((source, (1, *shape)), _ONE + letters), *others], _ONE
        )
        return SlotView(made.root, (), made.dims[0])
    whole = whole_sizes(operands)
    parts = _parts(builder, operands, whole)
    if not any(parts[letter] for letter in output):
        parts[output[0]] = [1]
    ranks = {
        letter: [letter if len(sizes) == 1 else f"{letter}{at}" for at in range(len(sizes))]
        for letter, sizes in parts.items()
    }
    sizes = {r: n for letter in parts for r, n in zip(ranks[letter], parts[letter], strict=True)}
    uses = []
    for number, ((source, shape), letters) in enumerate(operands):
        dims = [
            ranks[letter] if size == whole[letter] else []
            for letter, size in zip(letters, shape, strict=True)
        ]
        label = f"{name}.{'IWCDEFGH'[min(number, 7)]}"
        elsewhere = {*"".join(text for at, (_, text) in enumerate(operands) if at != number)}
        own = [rank for letter in {*letters} - elsewhere for rank in ranks[letter]]
        uses.append(builder.factor(label, source, dims, sizes, builder.kind_of(source), own))
    dims = [ranks[letter] for letter in output]
    used = {rank for use in uses for terms, _ in use.slots.values() for rank, _ in terms}
    kept = {rank: size for rank, size in sizes.items() if rank in used.union(*dims)}
    return builder.make(name, dims, kept, uses)


def whole_sizes(operands: Sequence[Lettered]) -> dict[str, int]:
    """Return the size of each letter: the largest of its dimensions."""
    found: dict[str, int] = {}
    for (_, shape), letters in operands:
        for letter, size in zip(letters, shape, strict=True):
            found[letter] = max(found.get(letter, 1), size)
    return found


def name_unequal(operands: Sequence[Lettered], summed: str = "") -> str:
    """Return which sizes of a letter differ though neither is repeated; empty if none do.

    ``summed``: a letter whose dimensions are not repeated, whatever their sizes.
    """
    whole = whole_sizes(operands)
    for (_, shape), letters in operands:
        for letter, size in zip(letters, shape, strict=True):
            repeated = size == 1 and letter != summed
            if size != whole[letter] and not repeated:
                return f"sizes {size} and {whole[letter]} in one dimension"
    return ""


def _parts(
    builder: WorkloadBuilder, operands: Sequence[Lettered], whole: dict[str, int]
) -> dict[str, list[int]]:
    """Return the sizes of the ranks of each letter: several where a tensor is stored so."""
    ranks = {letter: [size] if size > 1 else [] for letter, size in whole.items()}
    for (source, shape), letters in operands:
        view = builder.view(source)
        if view is None or view.shape != shape or view.fixed:
            continue
        for letter, dim in zip(letters, view.dims, strict=True):
            if len(dim) > 1 and len(ranks[letter]) == 1:
                ranks[letter] = sizes_of(dim)
    return ranks
