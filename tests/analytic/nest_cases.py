"""Small random problems on spatial arrays: einsums, accelerators and mappings by a seed."""

import math
import random
from dataclasses import dataclass, field

from simaccel.hardware import Accelerator
from simaccel.hardware.hierarchy import levels as levels_of
from simaccel.hardware.levels import ROLES, Hierarchy, Role, SpatialLevel, TemporalLevel
from simaccel.workload import AffineDimension, Conv, Einsum, Operand, operand

MOST_POINTS = 400


@dataclass(frozen=True)
class NestLevel:
    """Pieces by rank, order of the loops from outside in, and the roles that are kept."""

    level: str
    factors: dict[str, int] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    keep: tuple[Role, ...] = ()


@dataclass(frozen=True)
class NestMapping:
    """One mapping by level, and sizes of ranks that run as though they were longer."""

    levels: tuple[NestLevel, ...]
    padded: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """An einsum on an accelerator, with mappings of it."""

    einsum: Einsum
    accelerator: Accelerator
    mappings: tuple[NestMapping, ...]

    @property
    def hierarchy(self) -> Hierarchy:
        """The levels of the accelerator."""
        return levels_of(self.accelerator)


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
            line = AffineDimension((("p", draw.randint(1, 3)), ("r", draw.randint(1, 3))))
            found = Einsum(
                "line", ranks, (Operand("I", (line,)), operand("W r m")), operand("O p m")
            )
        else:  # three ranks in one index, and a rank that is stretched alone
            ranks = {"p": sizes[0], "r": sizes[1], "t": sizes[2], "m": sizes[3]}
            three = AffineDimension(
                (("p", draw.randint(1, 2)), ("r", 1), ("t", draw.randint(1, 3)))
            )
            alone = AffineDimension((("m", draw.randint(1, 2)),))
            found = Einsum(
                "odd",
                ranks,
                (Operand("I", (three, alone)), operand("W r t m")),
                operand(draw.choice(["O p m", "O p", "O p t"])),
            )
        if found.macs <= MOST_POINTS:
            return found


def draw_accelerator(draw: random.Random) -> Accelerator:
    """Draw a spatial array; roles may share a memory in the PEs, lack one, or pass the buffer."""

    def memory() -> dict[str, object]:
        prices = {"read_pj_per_byte": draw.choice([0.5, 3.0]), "write_pj_per_byte": 0.25}
        return {"capacity_bytes": draw.choice(["unlimited", "40 B", "400 B"]), **prices}

    bypass: list[list[str]] = [[], [], ["weight"], ["input"], ["output"], ["weight", "output"]]
    pipe = {"topology": "unlimited", "link_bytes_per_cycle": 4}
    return Accelerator.model_validate(
        {
            "name": "drawn",
            "clock_hz": "1 GHz",
            "array": {
                "kind": "spatial",
                "rows": draw.randint(1, 6),
                "cols": draw.randint(1, 6),
                "vectors": draw.choice([1, 1, 2, 4]),
                "lanes": draw.choice([1, 1, 2, 3]),
                "memories": {one: memory() for one in (*ROLES, "shared") if draw.random() < 0.6},
                "reduces": [
                    fan for fan in ("rows", "cols", "vectors", "lanes") if draw.random() < 0.7
                ],
                "bypass_buffer": draw.choice([*bypass, [*ROLES]]),
            },
            "buffer": {
                "capacity_bytes": draw.choice(["unlimited", "256 B", "600 B"]),
                "read_bytes_per_second": "unlimited",
                "write_bytes_per_second": "unlimited",
            },
            "noc": {"distribution": pipe, "collection": pipe},
            "sfu": {"lanes": 1, "passes": 2, "latency_cycles": 0},
            "dram": {"bandwidth_bytes_per_second": "unlimited", "interleave_bytes": 64},
            "energy": {
                "mac_pj": 2.0,
                "sfu_pj_per_element": 1.0,
                "buffer_pj_per_byte": 3.0,
                "noc_pj_per_byte": 0.0,
                "dram_pj_per_byte": 100.0,
            },
        }
    )


def draw_mapping(draw: random.Random, einsum: Einsum, hierarchy: Hierarchy) -> NestMapping:
    """Draw a mapping from inside out, with remainders, and factors beyond what is left."""
    left = dict(einsum.ranks)
    padded = {}
    for rank, size in einsum.ranks.items():
        if size > 1 and draw.random() < 0.08:
            padded[rank] = left[rank] = size + draw.randint(1, 3)
    if math.prod(left.values()) > 2 * MOST_POINTS:
        padded, left = {}, dict(einsum.ranks)
    levels = []
    for index in range(len(hierarchy.levels) - 1, -1, -1):
        level = hierarchy.levels[index]
        factors = {}
        for rank in einsum.ranks if index else ():
            if draw.random() < (0.35 if isinstance(level, SpatialLevel) else 0.5):
                most = min(left[rank], 4) if isinstance(level, SpatialLevel) else left[rank]
                pieces = draw.randint(1, most) + (draw.random() < 0.03)
                factors[rank] = pieces
                left[rank] = -(-left[rank] // pieces)
        order: tuple[str, ...] = ()
        keep: tuple[Role, ...] = ()
        if isinstance(level, TemporalLevel):
            order = tuple(draw.sample(sorted(einsum.ranks), len(einsum.ranks)))
            keep = tuple(
                r for r in ROLES if r in level.roles and (not index or draw.random() < 0.75)
            )
        levels.append(NestLevel(level=level.name, factors=factors, order=order, keep=keep))
    return NestMapping(levels=tuple(levels[::-1]), padded=padded)


def draw_case(seed: int, mappings: int = 1) -> Case:
    """Draw a problem with as many mappings."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    einsum, accelerator = draw_einsum(draw), draw_accelerator(draw)
    hierarchy = levels_of(accelerator)
    drawn = (draw_mapping(draw, einsum, hierarchy) for _ in range(mappings))
    return Case(einsum, accelerator, tuple(drawn))
