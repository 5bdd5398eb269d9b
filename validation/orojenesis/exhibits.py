"""The paper's workloads and their bounds: GEMMs, convolutions, BMMs, and GPT-3-6.7b in chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simaccel.analytic.floor.problem import BoundProblem, problem_of
from simaccel.papers.orojenesis.fused import fused_segment
from simaccel.papers.orojenesis.fusion import TEMPLATES
from simaccel.papers.orojenesis.segment import Segment, SkiSlope, join_slopes
from simaccel.papers.orojenesis.single import Mapspace, bound
from simaccel.papers.orojenesis.whole import segment_front
from simaccel.workload import (
    ModelDimensions,
    Workload,
    attention,
    bmm,
    conv2d,
    gbmm,
    gemm,
    parse_workload,
)

GEMMS = {
    "1k_1k_1k": (1024, 1024, 1024),
    "2k_2k_2k": (2048, 2048, 2048),
    "4k_4k_4k": (4096, 4096, 4096),
    "16k_1k_1k": (16384, 1024, 1024),
    "1k_16k_1k": (1024, 16384, 1024),
    "4k_4k_16k": (4096, 4096, 16384),
}
CONVS: dict[str, dict[str, int]] = {
    "1x1": {"r": 1, "s": 1},
    "3x3": {"r": 3, "s": 3},
    "5x5": {"r": 5, "s": 5},
    "3x3, stride 2": {"r": 3, "s": 3, "stride": 2},
    "3x3, dilation 2": {"r": 3, "s": 3, "dilation": 2},
}
HEADS = (1, 2, 4, 8, 16, 32, 64)
GROUPS = (1, 2, 4, 8, 16, 32)
GPT3 = ModelDimensions(hidden=4096, heads=32, head_size=128, ff_size=16384)
ROWS, BATCH = 32768, 16
SIX = ("Q", "L", "A", "O", "FF1", "FF2")
"""The einsums of figure 21; softmax goes with L, and is left out where L is alone, as there."""

# figure 23: a die of 40 nm
AREA_UM2, MAC_UM2, BYTE_UM2 = 432.2e6, 332.25, 2.59
CLOCK_HZ, BANDWIDTH = 700e6, 149e9


@dataclass(frozen=True)
class EinsumFront:
    """An einsum, its front, and how many mappings it is over."""

    problem: BoundProblem
    front: SkiSlope
    mappings: int


def bound_of(workload: Workload, mapspace: Mapspace | None = None) -> EinsumFront:
    """Return the front of a workload of one einsum."""
    problem = problem_of(workload, workload.operators[0].name)
    found = bound(problem, mapspace)
    return EinsumFront(problem, found.front, found.mappings)


def gemms() -> dict[str, EinsumFront]:
    """Figures 10 and 11."""
    return {
        name: bound_of(gemm(m=m, k=k, n=n, bytes_per_element=1))
        for name, (m, k, n) in GEMMS.items()
    }


def convs() -> dict[str, EinsumFront]:
    """Figure 12."""
    return {
        name: bound_of(conv2d(m=64, c=64, p=16, q=16, bytes_per_element=1, **sizes))  # type: ignore[arg-type]
        for name, sizes in CONVS.items()
    }


def batched() -> dict[int, EinsumFront]:
    """Figure 13: as many operations, more heads."""
    return {h: bound_of(bmm(h=h, m=4096, k=4096 // h, n=4096, bytes_per_element=1)) for h in HEADS}


def grouped() -> dict[int, EinsumFront]:
    """Figure 14."""
    return {
        g: bound_of(gbmm(g=g, h=32, m=4096, k=128, n=4096, bytes_per_element=1)) for g in GROUPS
    }


def ffn() -> Workload:
    """Return figure 18's pair: 32k x 4k x 16k and 32k x 16k x 4k, two bytes an element."""
    shapes = {"mm0": (4096, 16384, "X", "W0", "H"), "mm1": (16384, 4096, "H", "W1", "Y")}
    kinds = {"X": "input", "W0": "weight", "H": "intermediate", "W1": "weight", "Y": "output"}
    return parse_workload(
        {
            "kind": "einsums",
            "name": "ffn",
            "tensors": {name: {"kind": kind} for name, kind in kinds.items()},
            "operators": {
                name: {
                    "ranks": {"m": ROWS, "k": k, "n": n},
                    "inputs": [
                        {"tensor": x, "projection": ["m", "k"]},
                        {"tensor": w, "projection": ["k", "n"]},
                    ],
                    "output": {"tensor": y, "projection": ["m", "n"]},
                }
                for name, (k, n, x, w, y) in shapes.items()
            },
        }
    )


def block() -> Workload:
    """Return a block of GPT-3-6.7b, 16 sequences of 2048 tokens."""
    return attention(GPT3, batch=BATCH, seq_len=ROWS // BATCH, scope="block")


@dataclass(frozen=True)
class Chains:
    """Fronts of figures 18 and 20 to 23, in bytes."""

    fronts: dict[str, SkiSlope]

    def at(self, name: str, room: float) -> int:
        """Return the bytes moved with a buffer."""
        front = self.fronts[name]
        number = front.find_point(int(room))
        if number is None:
            raise ValueError(f"{name}: nothing runs with {room} B")
        return int(front.accesses[number])


def unfused(workload: Workload, names: tuple[str, ...]) -> SkiSlope:
    """Return the front of einsums one after the other, each tensor in one tile."""
    return _sum(workload, names, Mapspace())


def _sum(workload: Workload, names: tuple[str, ...], mapspace: Mapspace) -> SkiSlope:
    return join_slopes([bound(problem_of(workload, name), mapspace).front for name in names])


def _fused(workload: Workload, names: tuple[str, ...], template: str) -> SkiSlope:
    found = fused_segment(workload, names, TEMPLATES[template], imperfect=False)
    if found is None:
        raise ValueError(f"{names} don't fuse")
    return found.front


def _segmented(workload: Workload) -> SkiSlope:
    """Return the front of the six einsums over all 2^5 ways to cut them."""

    def segment_of(begin: int, stop: int) -> Segment | None:
        names = SIX[begin:stop]
        if len(names) > 1:
            return fused_segment(workload, with_softmax(names), TEMPLATES["best"], imperfect=False)
        front = bound(problem_of(workload, names[0]), Mapspace(uneven=True)).front
        return Segment(names, front, lambda _: None)

    return segment_front(workload, len(SIX), segment_of).front


def with_softmax(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return einsums of a block with the softmax behind L."""
    found: list[str] = []
    for name in names:
        found.append(name)
        if name == "L":
            found.append("softmax")
    return tuple(found)


def chains() -> Chains:
    """Figures 18, 20, 21 and 22."""
    pair, whole = ffn(), block()
    la = attention(GPT3, batch=BATCH, seq_len=ROWS // BATCH, scope="la")
    parts = ("L", "softmax", "A")
    even, uneven = Mapspace(), Mapspace(uneven=True)
    six = _sum(whole, SIX, uneven)
    cut = _segmented(whole)
    others = _sum(whole, ("K", "V"), uneven)
    return Chains(
        {
            "ffn unfused": _sum(pair, ("mm0", "mm1"), even),
            "ffn unfused, uneven": _sum(pair, ("mm0", "mm1"), uneven),
            "ffn untiled": _fused(pair, ("mm0", "mm1"), "untiled"),
            "ffn full": _fused(pair, ("mm0", "mm1"), "full"),
            "ffn tiled-kn": _fused(pair, ("mm0", "mm1"), "tiled-kn"),
            "mha unfused": _sum(la, ("L", "A"), even),
            "mha flat": _fused(la, parts, "flat"),
            "mha flash": _fused(la, parts, "flash"),
            "six unfused": six,
            "six in one": _fused(whole, with_softmax(SIX), "best"),
            "six segmented": cut,
            "block unfused": join_slopes([six, others]),
            "block segmented": join_slopes([cut, others]),
        }
    )


@dataclass(frozen=True)
class Mountain:
    """Figure 23: operations per second by the share of the die that is buffer."""

    shares: list[float]
    memory: list[float]
    compute: list[float]

    @property
    def best(self) -> tuple[float, float]:
        """(share of buffer, operations per second) at the peak."""
        speeds = [min(pair) for pair in zip(self.memory, self.compute, strict=True)]
        top = int(np.argmax(speeds))
        return self.shares[top], speeds[top]


def mountain(front: SkiSlope, macs: int) -> Mountain:
    """Return the performance of a die whose area is parted between buffer and MACs."""
    shares = [n / 1000 for n in range(1, 1000)]
    memory, compute = [], []
    for share in shares:
        number = front.find_point(int(share * AREA_UM2 / BYTE_UM2))
        moved = int(front.accesses[number]) if number is not None else None
        memory.append(0.0 if moved is None else 2 * macs * BANDWIDTH / moved)
        compute.append(2 * CLOCK_HZ * (1 - share) * AREA_UM2 / MAC_UM2)
    return Mountain(shares, memory, compute)


def six_macs() -> int:
    """Return the MACs of the six einsums."""
    whole = block()
    return sum(whole.operator(name).macs for name in SIX)
