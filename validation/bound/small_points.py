"""Small points that wait: shapes of 1 to 300, slow memory, few bytes in flight, any mapping.

A point is a seed. It gives an accelerator, a workload and a mapping that no scheduler made: one of
a dataflow whose sizes, orders, slots and stationarities are drawn anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from simaccel.hardware import STATIONARITIES, Accelerator, SpatialArraySpec
from simaccel.hardware.dataflow import Constraints
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Mapping, Node, Tree
from simaccel.schedulers.attention import problem_of
from simaccel.schedulers.einsums import row_merges
from simaccel.search.judge import mapping_of
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.workload import Einsum, Tensor, Vector, Workload, gemm
from simaccel.workload.attention import ModelDimensions, attention
from simaccel.workload.conv import conv2d

KINDS: Final = ("gemm", "batched gemm", "flat", "flash", "pipelined", "logit", "softmax", "spatial")
_TRIES: Final = 64
"""Blocks of drawn nests, or seeds of one point, at most."""
_BLOCK: Final = 32


@dataclass(frozen=True)
class SmallPoint:
    """One experiment."""

    seed: int
    kind: str
    settings: tuple[str, ...]
    shape: str
    workload: Workload
    mapping: Mapping

    @property
    def base(self) -> str:
        """Name of the accelerator that the settings change."""
        return "eyeriss_like" if self.kind == "spatial" else "edge"

    def accelerator(self, *others: str) -> Accelerator:
        """Build the accelerator, with other settings behind its own."""
        return load_accelerator(self.base, [*self.settings, *others])


@lru_cache(maxsize=64)
def small_point(seed: int) -> SmallPoint:
    """Draw a point; what can't be executed is drawn again."""
    for number in range(_TRIES):
        rng = random.Random(seed * _TRIES + number)  # noqa: S311 - a reproducible sample
        kind = KINDS[seed % len(KINDS)]
        settings = _systolic(rng) if kind != "spatial" else _spatial(rng)
        drawn = _DRAWS[kind](rng, settings)
        if drawn is None:
            continue
        shape, workload, group = drawn
        mapping = mapping_of(workload, "drawn", [group])
        point = SmallPoint(seed, kind, settings, shape, workload, mapping)
        if not faults(workload, mapping, point.accelerator()):
            return point
    raise AssertionError(f"seed {seed}: no legal mapping in {_TRIES} draws")


Drawn = tuple[str, Workload, Group]

# -- accelerators


def _memory(rng: random.Random) -> list[str]:
    return [
        f"dram.latency_cycles={rng.randint(0, 400)}",
        f"dram.in_flight_bytes={rng.choice((64, 128, 256, 512, 1024, 4096, 65_536))}",
        f"dram.batch_bytes={rng.choice((64, 256, 2048, 8192))}",
        f"dram.bandwidth_bytes_per_second={rng.choice((5, 20, 50, 200, 1000))} GB/s",
        "buffer.capacity_bytes=unlimited",
    ]


def _ports(rng: random.Random) -> list[str]:
    rates = ("unlimited", "unlimited", "32 GB/s", "128 GB/s")
    return [f"buffer.{way}_bytes_per_second={rng.choice(rates)}" for way in ("read", "write")]


def _pipes(rng: random.Random) -> Iterator[str]:
    for way in ("distribution", "collection"):
        yield f"noc.{way}.topology={rng.choice(('unlimited', 'bus', 'tree', 'mesh', 'crossbar'))}"
        yield f"noc.{way}.link_bytes_per_cycle={rng.choice((2, 8, 32))}"
        yield f"noc.{way}.hop_cycles={rng.choice((0, 1, 2))}"


def _systolic(rng: random.Random) -> tuple[str, ...]:
    sides = [f"array.{side}={rng.choice((4, 8, 16, 32))}" for side in ("rows", "cols")]
    overlap = f"array.overlap={rng.choice(('none', 'preload', 'stream'))}"
    ports = _ports(rng) if rng.random() < 0.25 else []
    return (*sides, overlap, *_memory(rng), *ports)


def _spatial(rng: random.Random) -> tuple[str, ...]:
    sides = [f"array.{side}={rng.choice((2, 4, 8))}" for side in ("rows", "cols")]
    free = [
        f"array.memories.{role}.capacity_bytes=unlimited" for role in ("input", "weight", "output")
    ]
    bypass = rng.choice(("[]", "[weight]"))
    wide = ["array.dataflow=[]", f"array.bypass_buffer={bypass}", "array.reduces=[rows, cols]"]
    return (*sides, *free, *wide, *_memory(rng), *_ports(rng), *_pipes(rng))


# -- mappings


def _tile(rng: random.Random, size: int) -> int:
    cuts = (size, -(-size // 2), -(-size // 3), rng.randint(1, size), -(-size // rng.randint(1, 6)))
    return rng.choice(cuts)


def _loops(rng: random.Random, sizes: Sequence[tuple[str, int]]) -> list[Loop]:
    drawn = ((rank, size, _tile(rng, size)) for rank, size in sizes)
    return [Loop(rank, tile) for rank, size, tile in drawn if tile < size]


def _do(rng: random.Random, name: str) -> Do:
    return Do(name, "array", rng.choice(STATIONARITIES))


def _gemm(rng: random.Random, _: Sequence[str], batch: int = 1) -> Drawn:
    m, k, n = (rng.randint(1, 300) for _ in range(3))
    workload = gemm(m=m, k=k, n=n, batch=batch)
    space = space_of(workload, Group(operators=("gemm",), tree=()))
    seen, ranks = space.operators[0], list(space.sizes.items())
    rng.shuffle(ranks)
    nodes: list[Node] = [*_loops(rng, ranks)]
    for name in (*seen.names, seen.output.name):
        # a tensor may be kept outside of inner loops that don't move it, or of those that do
        at = rng.randint(0, len(nodes)) if rng.random() < 0.3 else len(nodes)
        nodes.insert(at, Keep(name, slots=rng.randint(1, 3)))
    shape = f"{batch}x{m}x{k}x{n}"
    return shape, workload, Group(operators=("gemm",), tree=(*nodes, _do(rng, "gemm")))


def _batched(rng: random.Random, settings: Sequence[str]) -> Drawn:
    return _gemm(rng, settings, rng.randint(2, 6))


def _attention(rng: random.Random) -> tuple[str, Workload]:
    batch, heads = rng.randint(1, 2), rng.randint(1, 3)
    size, rows = rng.randint(1, 64), rng.randint(1, 200)
    dimensions = ModelDimensions(hidden=heads * size, heads=heads, head_size=size, ff_size=8)
    workload = attention(dimensions, batch=batch, seq_len=rows, scope="la")
    return f"{batch}x{heads}x{rows}x{size}", workload


def _fused(rng: random.Random, kind: str) -> Drawn:
    shape, workload = _attention(rng)
    logit, softmax, attend = ("L", "softmax", "A")
    problem = problem_of(workload, (logit, softmax, attend))
    sizes = problem.space.sizes
    q, k, s, v, z = problem.tensors
    few, many = rng.randint(1, 3), rng.randint(1, 3)
    ahead = kind == "pipelined"
    slots = 2 if ahead else rng.randint(1, 2)
    heads: list[tuple[str, int]] = [(rank, sizes[rank]) for rank in problem.heads]
    outer: list[Node] = [
        *([Loop(rank, 1) for rank, _ in heads] if rng.random() < 0.5 else _loops(rng, heads)),
        *_loops(rng, [(rank, sizes[rank]) for rank in problem.rows]),
        Keep(q, slots=few),
        Keep(z, slots=many),
    ]
    stream = _loops(rng, [(problem.key_rank, sizes[problem.key_rank])])
    kept = [Keep(name, slots=few) for name in (k, v)]
    leaves = _do(rng, logit), Do(softmax, "sfu"), _do(rng, attend)
    if kind == "flash":
        branches = tuple((leaf,) for leaf in leaves)
        tree: Tree = (*outer, *stream, *kept, Keep(s, slots=slots), Fork(branches))
    else:
        top, two, three = leaves
        first: Tree = (*stream, kept[0], top)
        last: Tree = (*stream, kept[1], three)
        tree = (*outer, Keep(s, slots=slots), Fork((first, (two,), last), int(ahead)))
    return shape, workload, Group(operators=problem.part, tree=tree, merged=problem.merged)


def _alone(workload: Workload, name: str) -> Workload:
    """Return one operator as a workload."""
    operator = workload.operator(name)
    tensors = {
        one.tensor: replace(workload.tensors[one.tensor], kind="input") for one in operator.inputs
    }
    out = operator.output.tensor
    tensors[out] = replace(workload.tensors[out], kind="output")
    return Workload(name, (operator,), tensors)


def _logit(rng: random.Random, _: Sequence[str]) -> Drawn:
    shape, whole = _attention(rng)
    workload = _alone(whole, "L")
    space = space_of(workload, Group(operators=("L",), tree=()))
    seen, ranks = space.operators[0], list(space.sizes.items())
    rng.shuffle(ranks)
    kept = [Keep(name, slots=rng.randint(1, 3)) for name in (*seen.names, seen.output.name)]
    tree: Tree = (*_loops(rng, ranks), *kept, _do(rng, "L"))
    return shape, workload, Group(operators=("L",), tree=tree)


def _softmax(rng: random.Random, _: Sequence[str]) -> Drawn:
    shape, whole = _attention(rng)
    workload = _alone(whole, "softmax")
    vector = workload.operator("softmax")
    assert isinstance(vector, Vector)
    merged = row_merges(vector)
    space = space_of(workload, Group(operators=("softmax",), tree=(), merged=merged))
    seen = space.operators[0]
    loops = _loops(rng, [size for size in space.sizes.items() if size[0] != vector.axis])
    # a row that is cut takes statistics first and is read again
    loops += _loops(rng, [size for size in space.sizes.items() if size[0] == vector.axis])
    kept = [Keep(view.name, slots=rng.randint(1, 3)) for view in seen.inputs]
    tree: Tree = (*loops, *kept, Do("softmax", "sfu"))
    return shape, workload, Group(operators=("softmax",), tree=tree, merged=merged)


def _layer(rng: random.Random) -> tuple[str, Workload]:
    if rng.random() < 0.5:
        m, k, n = (rng.randint(1, 60) for _ in range(3))
        return f"{m}x{k}x{n}", gemm(m=m, k=k, n=n)
    c, m, reach = rng.randint(1, 16), rng.randint(1, 16), rng.randint(1, 3)
    p, q = (rng.randint(1, 20) for _ in range(2))
    workload = conv2d(c=c, m=m, p=p, q=q, r=reach, s=reach, stride=rng.randint(1, 2))
    return f"{m}x{c}x{p}x{q}x{reach}x{reach}", workload


def _nest(rng: random.Random, settings: Sequence[str]) -> Drawn | None:
    shape, workload = _layer(rng)
    einsum = workload.operators[0]
    assert isinstance(einsum, Einsum)
    target = _target(einsum, workload.tensors, load_accelerator("eyeriss_like", list(settings)))
    space = target.spaces()[0]
    numbers = np.random.default_rng(rng.randint(0, 2**32))
    genes, factors = space.fitting(space.random(numbers, _BLOCK))
    if not len(genes):
        return None
    candidates = space.candidates(genes, factors)
    at = rng.randrange(len(candidates))
    group = target.group(space, candidates.take(slice(at, at + 1)))
    tree = tuple(
        replace(node, slots=rng.randint(1, 3)) if isinstance(node, Keep) else node
        for node in group.tree
    )
    return shape, workload, replace(group, tree=tree)


def _target(einsum: Einsum, tensors: Map[str, Tensor], accelerator: Accelerator) -> MappingTarget:
    assert isinstance(accelerator.array, SpatialArraySpec)
    free: Constraints = {}
    return MappingTarget(
        einsum=einsum,
        tensors=tensors,
        accelerator=accelerator,
        strategy="ruby",
        dataflow=free,
        constraints=free,
    )


_DRAWS: Final[dict[str, Callable[[random.Random, Sequence[str]], Drawn | None]]] = {
    "gemm": _gemm,
    "batched gemm": _batched,
    "flat": lambda rng, _: _fused(rng, "flat"),
    "flash": lambda rng, _: _fused(rng, "flash"),
    "pipelined": lambda rng, _: _fused(rng, "pipelined"),
    "logit": _logit,
    "softmax": _softmax,
    "spatial": _nest,
}
