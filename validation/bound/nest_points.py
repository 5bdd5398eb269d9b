"""The points at which the bound of nests is held against the machine: a seeded draw."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from itertools import chain

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.schedulers import Options
from simaccel.search.effort import Effort
from simaccel.workload import Einsum, Workload, network

GIGABYTES = {
    "eyeriss_like": (0.5, 1, 2, 4, 8),
    "simba_like": (4, 8, 15, 30, 60),
    "toy_linear": (1, 2, 4, 8, 16),
    "edge": (6.25, 12.5, 25, 50, 100),
    "cloud": (50, 100, 200, 400, 800),
    "mxu_128": (28, 56, 112, 225, 450),
}
"""DRAM bandwidths in GB/s from where most layers wait for it to where few do."""
SPATIAL = ("eyeriss_like", "simba_like", "toy_linear")
NETWORKS = ("resnet50", "alexnet", "mobilenet_v2", "deepbench")
MOST_MACS = 400_000_000
"""Larger layers need no more events but a longer search."""
EFFORT = Effort(patience=2_000, exhaustive=20_000)
"""A short search finds mappings that are good enough and more of a kind than the best are."""


@dataclass(frozen=True)
class NestPoint:
    """One experiment: a layer, an accelerator with other limits, a mapspace and its objective."""

    hw: str
    network: str
    layer: str
    mapspace: str
    objective: str
    settings: tuple[str, ...]

    def accelerator(self) -> Accelerator:
        """Build the accelerator."""
        return load_accelerator(self.hw, list(self.settings))

    def workload(self) -> Workload:
        """Build the workload."""
        return network(self.network, layer=self.layer, bytes_per_element=2)

    def options(self) -> Options:
        """Give the search."""
        objective = next(one for one in ("cycles", "energy", "edp") if one == self.objective)
        return Options(
            effort=Effort(
                objective=objective, patience=EFFORT.patience, exhaustive=EFFORT.exhaustive
            )
        )


@cache
def layers(name: str) -> list[str]:
    """Give the layers of a network that are small enough."""
    return [
        operator.name
        for operator in network(name, scope="layers").operators
        if isinstance(operator, Einsum) and operator.macs <= MOST_MACS
    ]


def _pipe(random_: random.Random, way: str) -> list[str]:
    topology = random_.choice(("unlimited", "bus", "tree", "mesh", "crossbar"))
    width = random_.choice((2, 8, 32) if topology in {"mesh", "crossbar"} else (8, 16, 32))
    return [
        f"noc.{way}.topology={topology}",
        f"noc.{way}.link_bytes_per_cycle={width}",
        f"noc.{way}.hop_cycles={random_.choice((0, 1, 2))}",
    ]


def _settings(random_: random.Random, hw: str) -> list[str]:
    settings = [
        f"dram.bandwidth_bytes_per_second={random_.choice(GIGABYTES[hw])} GB/s",
        f"dram.latency_cycles={random_.choice((0, 20, 100))}",
    ]
    if hw not in SPATIAL:
        return settings
    clock = load_accelerator(hw).clock_hz
    for port in ("read", "write"):
        rate = random_.choice((0, 8, 16, 64))
        text = f"{rate * clock / 1e9:g} GB/s" if rate else "unlimited"
        settings.append(f"buffer.{port}_bytes_per_second={text}")
    ways = (_pipe(random_, way) for way in ("distribution", "collection"))
    return [*settings, *chain.from_iterable(ways)]


def draw_nests(count: int, seed: int = 2026) -> list[NestPoint]:
    """Draw ``count`` points."""
    random_ = random.Random(seed)  # noqa: S311 - a reproducible sample, no secret
    points = []
    for _ in range(count):
        hw = random_.choice(tuple(GIGABYTES))
        name = random_.choice(NETWORKS)
        points.append(
            NestPoint(
                hw=hw,
                network=name,
                layer=random_.choice(layers(name)),
                mapspace=random_.choice(("pfm", "ruby-s", "ruby")),
                objective=random_.choice(("cycles", "edp", "energy")),
                settings=tuple(_settings(random_, hw)),
            )
        )
    return points
