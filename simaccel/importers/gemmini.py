"""Mapping strings of Gemmini (DOSA, CoSA, Timeloop's short form) as mapping trees.

    L3[WIO] P2 C3 K12 - L2[WI] N1 K16X - L1[O] K4 C64 P8 C16X - L0[W] P8

Four levels, from the outside in, with what each keeps: DRAM (weights, inputs, outputs), scratchpad
(weights, inputs), accumulator (outputs), registers of the PEs (weights). After each stand its
loops, the innermost at the right: a rank and how many pieces it is cut into; with ``X`` the pieces
are on the columns (output channels, at L2) or rows (input channels, at L1) of the array at once.
Ranks are Timeloop's: N samples, K and C channels, P and R along the width of output and filter, Q
and S along the height. The loops at L1 and L0 are no more than the size of a tile here: a systolic
array takes it whole and has an order of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from itertools import chain
from typing import Final

from simaccel.errors import Fault, InputError, require_none, suggest
from simaccel.files.accounting import AccountEntry, FileAccount, How
from simaccel.hardware.spatial import Fan
from simaccel.mapping import tree
from simaccel.units import ARRAY
from simaccel.workload import Einsum, Workload

LEVELS: Final = ("L3[WIO]", "L2[WI]", "L1[O]", "L0[W]")
"""DRAM, scratchpad, accumulator and registers, with the tensors that each keeps."""
RANKS: Final = {"N": "n", "K": "m", "C": "c", "Q": "p", "P": "q", "S": "r", "R": "s"}
"""The ranks of a convolution (`simaccel.workload.conv`) by Timeloop's names."""
SPATIAL: Final[Map[str, tuple[str, Fan]]] = {"L2[WI]": ("K", "cols"), "L1[O]": ("C", "rows")}
"""What may be spread at a level, and over what."""
_REDUCED: Final = ("C", "S", "R")
_FACTOR: Final = re.compile(r"([A-Za-z]+)([0-9]{1,12})(X?)")


@dataclass(frozen=True)
class MappingFactor:
    """A loop of a mapping string: a rank (Timeloop's name), cut into ``pieces``; or ``spatial``."""

    rank: str
    pieces: int
    spatial: bool = False

    def __str__(self) -> str:
        return f"{self.rank}{self.pieces}{'X' * self.spatial}"


@dataclass(frozen=True)
class GemminiNest:
    """The factors of a mapping string by level, in its order."""

    source: str
    levels: Map[str, tuple[MappingFactor, ...]]

    def pieces(self, rank: str) -> int:
        """Return the product of all factors of a rank."""
        every = chain(*self.levels.values())
        return math.prod(factor.pieces for factor in every if factor.rank == rank)

    def account(self) -> FileAccount:
        """Return the account of the factors."""
        entries = (
            AccountEntry(f"{level}.{factor}", *_fate(level, factor), kind="factor")
            for level, factors in self.levels.items()
            for factor in factors
        )
        return FileAccount(self.source, tuple(entries))


def parse_gemmini(text: str, source: str = "mapping") -> GemminiNest:
    """Return the factors of a mapping string.

    Raises:
        InputError: all words that can't be read, by level.
    """
    blocks = [block.split() for block in text.split(" - ")]
    names = [block[0] if block else "" for block in blocks]
    if tuple(names) != LEVELS:
        allowed = " - ".join(f"{name} FACTORS" for name in LEVELS)
        require_none([Fault(source, "levels", text, allowed)])
    faults: list[Fault] = []
    levels: dict[str, tuple[MappingFactor, ...]] = {}
    for name, *words in blocks:
        before: dict[tuple[str, bool], MappingFactor] = {}
        for word in words:
            match = _FACTOR.fullmatch(word)
            factor = MappingFactor(match[1], int(match[2]), bool(match[3])) if match else None
            faults += [
                Fault(source, name, word, allowed) for allowed in _wrong(name, factor, before)
            ]
            if factor is not None:
                before.setdefault((factor.rank, factor.spatial), factor)
        levels[name] = tuple(before.values())
    require_none(faults)
    return GemminiNest(source, levels)


def gemmini_mapping(
    workload: Workload, nest: GemminiNest, *, commands: bool = False
) -> tree.Mapping:
    """Return the mapping of a workload of one convolution over `RANKS`.

    As it is written: loops at L3 in their order around tiles of inputs and weights, those at L2
    around the tile of outputs, which stays while they move nothing of it. As Gemmini's library runs
    it (``commands``): each iteration at L3 is one instruction (LOOP_WS or LOOP_CONV_WS) that loads
    its inputs and weights anew; sums stay in the accumulator over all loops that add to them.

    Raises:
        InputError: the workload is no such convolution, or has other sizes.
    """
    operator = _convolution(workload, nest)
    tensors = [operand.tensor for operand in (*operator.inputs, operator.output)]
    group = tree.Group(
        operators=(operator.name,), tree=_tree(operator, nest, tensors, commands=commands)
    )
    reference = tree.WorkloadReference(workload.name, workload.fingerprint)
    return tree.Mapping(workload=reference, dataflow="gemmini", body=(group,))


def _tree(
    operator: Einsum, nest: GemminiNest, tensors: Sequence[str], *, commands: bool
) -> tree.Tree:
    left = dict(operator.ranks)

    def cut(mapping_factor: MappingFactor) -> tuple[str, int]:
        rank = RANKS[mapping_factor.rank]
        left[rank] //= mapping_factor.pieces
        return rank, left[rank]

    dram, scratchpad, accumulator, _ = (nest.levels[name] for name in LEVELS)
    outside = _loops(dram)
    inner = [] if commands else _loops(scratchpad)
    if commands:
        outside = sorted(outside, key=lambda factor: factor.rank in _REDUCED)
    nodes: list[tree.Node] = [tree.Loop(*cut(factor)) for factor in outside]
    nodes += [tree.Keep(name, tree.BUFFER, 2, anew=commands) for name in tensors[:2]]
    nodes += [tree.Loop(*cut(factor)) for factor in inner]
    nodes.append(tree.Keep(tensors[2], tree.BUFFER, 2))
    spread = {factor.rank: factor for factor in (*scratchpad, *accumulator) if factor.spatial}
    for rank, fan in reversed(list(SPATIAL.values())):
        nodes.append(tree.Spread(*cut(spread.get(rank, MappingFactor(rank, 1, spatial=True))), fan))
    return (*nodes, tree.Do(operator.name, ARRAY, "ws"))


def _loops(factors: Sequence[MappingFactor]) -> list[MappingFactor]:
    return [factor for factor in factors if factor.pieces > 1 and not factor.spatial]


def _wrong(
    level: str, factor: MappingFactor | None, before: Map[tuple[str, bool], MappingFactor]
) -> Iterator[str]:
    """Yield the allowed forms of a word; ``before``: the factors before it at the level."""
    if factor is None:
        yield "a rank and its pieces, such as K16, with X after them on PEs"
    elif factor.rank not in RANKS:
        yield f"a rank; {suggest(factor.rank, RANKS)}"
    elif factor.pieces < 1:
        yield "1 piece or more"
    elif factor.spatial and factor.rank != SPATIAL.get(level, ("", ""))[0]:
        yield "X after K at L2[WI] and after C at L1[O]"
    elif also := before.get((factor.rank, factor.spatial)):
        yield f"each rank once at a level, beside one with X; also {also}"


def _fate(level: str, one: MappingFactor) -> tuple[How, str]:
    """Return (what became of a factor, why)."""
    if one.pieces == 1:
        return "harmless", "one piece"
    if one.spatial:
        return "taken", f"spread over {SPATIAL[level][1]}"
    if level in LEVELS[:2]:
        return "taken", f"loop over {RANKS[one.rank]}"
    return "taken", "size of a tile, which the array goes through in an order of its own"


def _convolution(workload: Workload, nest: GemminiNest) -> Einsum:
    operators = workload.operators
    operator = operators[0]
    sizes = operator.ranks if isinstance(operator, Einsum) else {}
    if (
        len(operators) != 1
        or not isinstance(operator, Einsum)
        or set(sizes) - {"g"} != set(RANKS.values())
    ):
        allowed = f"one convolution over {', '.join(RANKS.values())}"
        raise InputError([Fault(nest.source, "workload", workload.name, allowed)])
    require_none(
        Fault(
            nest.source,
            f"{name} ({rank})",
            nest.pieces(name),
            f"factors that make {sizes[rank]}, the layer's size",
        )
        for name, rank in RANKS.items()
        if nest.pieces(name) != sizes[rank]
    )
    return operator
