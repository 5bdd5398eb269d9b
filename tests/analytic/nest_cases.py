"""Small random problems for nests: einsums, hierarchies and mappings, drawn from a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from simaccel.hardware.levels import ROLES, Hierarchy, Level, Memory, Role, Spatial, Temporal
from simaccel.hardware.quantity import Rate
from simaccel.mapping.choices import NestLevel, NestMapping
from simaccel.workload import Affine, Conv, Einsum, Operand, operand

MOST_POINTS = 400


@dataclass(frozen=True)
class Case:
    """An einsum on a hierarchy, with mappings of it."""

    einsum: Einsum
    hierarchy: Hierarchy
    mappings: tuple[NestMapping, ...]


def draw_einsum(draw: random.Random) -> Einsum:
    """Draw a GEMM, a convolution, or an einsum with an odd index."""
    while True:
        kind = draw.choice(["gemm", "conv", "conv", "line", "odd"])
        sizes = [draw.choice([1, 1, 2, 3, 4, 5, 7, 8, 11, 13]) for _ in range(8)]
        if kind == "gemm":
            ranks = dict(zip("bmkn", sizes, strict=False))
            inputs: tuple[Operand, ...] = (operand("A b m k"), operand("B b k n"))
            if draw.random() < 0.2:  # one input and no weight
                inputs = (operand("A b m k n"),)
            found = Einsum("gemm", ranks, inputs, operand("C b m n"))
        elif kind == "conv":
            m, c, p, q, r, s, g, n = sizes
            pairs = [(draw.randint(1, 3), draw.randint(1, 3)) for _ in range(2)]
            conv = Conv(m=m, c=c, p=p, q=q, r=r, s=s, g=g, n=n, stride=pairs[0], dilation=pairs[1])
            found = conv.einsum("conv")
        elif kind == "line":  # one dimension only, with long remainders
            ranks = {"p": draw.randint(5, 23), "r": draw.randint(1, 9), "m": draw.choice([1, 2])}
            line = Affine((("p", draw.randint(1, 3)), ("r", draw.randint(1, 3))))
            found = Einsum(
                "line", ranks, (Operand("I", (line,)), operand("W r m")), operand("O p m")
            )
        else:  # three ranks in one index, and a rank that is stretched alone
            ranks = {"p": sizes[0], "r": sizes[1], "t": sizes[2], "m": sizes[3]}
            three = Affine((("p", draw.randint(1, 2)), ("r", 1), ("t", draw.randint(1, 3))))
            alone = Affine((("m", draw.randint(1, 2)),))
            found = Einsum(
                "odd",
                ranks,
                (Operand("I", (three, alone)), operand("W r t m")),
                operand(draw.choice(["O p m", "O p", "O p t"])),
            )
        if found.macs <= MOST_POINTS:
            return found


def draw_hierarchy(draw: random.Random) -> Hierarchy:
    """Draw two to four memories with up to two fan-outs between any two and below the last."""
    levels: list[Level] = []
    for index in range(draw.randint(1, 4)):
        levels.append(_memory(draw, index))
        levels += [
            Spatial(
                name=f"fan{index}{which}", fanout=draw.randint(1, 6), reduces=draw.random() < 0.7
            )
            for which in range(draw.choice([0, 1, 1, 2]))
        ]
    return Hierarchy(levels=tuple(levels), mac_pj=2.0)


def _memory(draw: random.Random, index: int) -> Temporal:
    def rate() -> Rate:
        return draw.choice([Rate(1, 0), Rate(3, 2), Rate(7, 1)])

    groups: list[set[Role]] = [set(ROLES)]
    if draw.random() < 0.3:
        alone = draw.choice(ROLES)
        groups = [set(ROLES) - {alone}, {alone}]
    if index and draw.random() < 0.2:
        groups = groups[1:] or [{draw.choice(ROLES)}]
    memories = tuple(
        Memory(
            roles=frozenset(group),
            capacity_bytes=draw.choice([None, 40, 400]) if index else None,
            read_pj_per_byte=draw.choice([0.5, 3.0]),
            write_pj_per_byte=draw.choice([0.25, 2.0]),
        )
        for group in groups
    )
    return Temporal(name=f"mem{index}", memories=memories, read=rate(), write=rate(), both=rate())


def draw_mapping(draw: random.Random, einsum: Einsum, hierarchy: Hierarchy) -> NestMapping:
    """Draw a mapping from inside out, with remainders, and factors beyond what is left."""
    left = dict(einsum.ranks)
    padded = {}
    for rank, size in einsum.ranks.items():
        if draw.random() < 0.05:
            padded[rank] = left[rank] = size + draw.randint(1, 3)
    if math.prod(left.values()) > 2 * MOST_POINTS:
        padded, left = {}, dict(einsum.ranks)
    levels = []
    for index in range(len(hierarchy.levels) - 1, -1, -1):
        level = hierarchy.levels[index]
        factors = {}
        for rank in einsum.ranks if index else ():
            if draw.random() < (0.35 if isinstance(level, Spatial) else 0.5):
                most = min(left[rank], 4) if isinstance(level, Spatial) else left[rank]
                pieces = draw.randint(1, most) + (draw.random() < 0.03)
                factors[rank] = pieces
                left[rank] = -(-left[rank] // pieces)
        order: tuple[str, ...] = ()
        keep: tuple[Role, ...] = ()
        if isinstance(level, Temporal):
            order = tuple(draw.sample(sorted(einsum.ranks), len(einsum.ranks)))
            keep = tuple(
                r for r in ROLES if r in level.roles and (not index or draw.random() < 0.75)
            )
        levels.append(NestLevel(level=level.name, factors=factors, order=order, keep=keep))
    return NestMapping(levels=tuple(levels[::-1]), padded=padded)


def draw_case(seed: int, mappings: int = 1) -> Case:
    """Draw a problem with as many mappings."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    einsum, hierarchy = draw_einsum(draw), draw_hierarchy(draw)
    return Case(
        einsum, hierarchy, tuple(draw_mapping(draw, einsum, hierarchy) for _ in range(mappings))
    )
