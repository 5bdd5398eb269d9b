"""Small random nests on spatial accelerators, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from simaccel.analytic.nest import evaluate
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.hardware.dataflow import LevelConstraint
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Role, Spatial
from simaccel.mapping.choices import Mapping, NestGroup, NestLevel, NestMapping, WorkloadReference
from simaccel.mapping.nest import Nests
from simaccel.mapping.systolic import dataflow
from simaccel.program.lower import lower
from simaccel.program.program import DoesNotFitError, require_fit
from simaccel.workload import Einsum, Tensor, Workload, operand
from tests.analytic.nest_cases import draw_einsum, draw_mapping


@dataclass(frozen=True)
class NestCase:
    """A workload of one einsum, an accelerator with a spatial array, and a mapping."""

    workload: Workload
    accelerator: Accelerator
    mapping: Mapping

    @property
    def einsum(self) -> Einsum:
        """The einsum."""
        found = self.workload.operators[0]
        assert isinstance(found, Einsum)
        return found

    @property
    def nest(self) -> NestMapping:
        """Its mapping."""
        group = self.mapping.groups[0]
        assert isinstance(group, NestGroup)
        return group.mapping


def draw_accelerator(draw: random.Random, *, limited: bool = True) -> Accelerator:
    """Draw a spatial array, with memories that some roles share or lack, and slow ways to it."""

    def per_second(rates: list[str]) -> str:
        return draw.choice(["unlimited", *rates]) if limited else "unlimited"

    def memory() -> dict[str, object]:
        prices = {"read_pj_per_byte": 0.5, "write_pj_per_byte": 0.25}
        return {"capacity_bytes": draw.choice(["unlimited", "400 B"]), **prices}

    memories = {role: memory() for role in (*ROLES, "shared") if draw.random() < 0.7}
    reduces = [fan for fan in ("rows", "cols", "vectors", "lanes") if draw.random() < 0.8]
    slow: dict[str, object] = {"topology": "tree", "link_bytes_per_cycle": draw.randint(1, 4)}
    free: dict[str, object] = {"topology": "unlimited"}
    distribution = draw.choice([slow, free]) if limited else free
    collection = draw.choice([slow, free]) if limited else free
    return Accelerator.model_validate(
        {
            "name": "drawn",
            "clock_hz": "1 GHz",
            "array": {
                "kind": "spatial",
                "rows": draw.randint(1, 3),
                "cols": draw.randint(1, 4),
                "vectors": draw.choice([1, 1, 2]),
                "lanes": draw.choice([1, 1, 2, 3]),
                "memories": memories,
                "reduces": reduces,
                "bypass_buffer": draw.choice(
                    [[], [], ["weight"], ["input"], ["output"], ["weight", "output"], [*ROLES]]
                ),
            },
            "buffer": {
                "capacity_bytes": "unlimited",
                "read_bytes_per_second": per_second(["3 GB/s", "7 GB/s"]),
                "write_bytes_per_second": per_second(["3 GB/s", "7 GB/s"]),
                "turn_cycles": draw.choice([1, 4]),
            },
            "noc": {
                "distribution": {**distribution, "multicast": draw.random() < 0.7},
                "collection": collection,
            },
            "sfu": {"lanes": 1, "passes": 2, "latency_cycles": 0},
            "dram": {
                "bandwidth_bytes_per_second": per_second(["2 GB/s", "9 GB/s"]),
                "latency_cycles": draw.choice([0, 5, 40]) if limited else 0,
                "channels": draw.choice([1, 1, 2]),
            },
            "dma": {"in_queues": draw.choice(["per_tensor", "per_tensor", "single"])},
            "energy": {
                "mac_pj": 1.0,
                "sfu_pj_per_element": 1.0,
                "buffer_pj_per_byte": 3.0,
                "noc_pj_per_byte": 0.5,
                "dram_pj_per_byte": 100.0,
            },
        }
    )


def draw_systolic(draw: random.Random) -> Accelerator:
    """Draw a systolic array with slow ways to it."""
    base = draw_accelerator(draw).model_dump()
    array = {
        "kind": "systolic",
        "rows": draw.randint(1, 3),
        "cols": draw.randint(1, 4),
        "overlap": draw.choice(["none", "preload", "stream"]),
        "edge_folds": draw.choice(["full", "used"]),
    }
    return Accelerator.model_validate({**base, "array": array})


def draw_systolic_nest(seed: int) -> NestCase | None:
    """Draw a case for a systolic array; None if the einsum is none for it."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    einsum, accelerator = draw_einsum(draw), draw_systolic(draw)
    if len(einsum.inputs) < len(ROLES) - 1:
        return None
    limits = dataflow(einsum, draw.choice(STATIONARITIES))
    drawn = draw_mapping(draw, einsum, levels(accelerator))
    found = []
    for level in drawn.levels:
        limit = limits.get(level.level, LevelConstraint())
        factors = {
            rank: n
            for rank, n in level.factors.items()
            if limit.ranks is None or rank in limit.ranks
        }
        keep = level.keep if limit.keep is None else limit.keep
        found.append(level.model_copy(update={"factors": factors, "keep": keep}))
    return _case(draw, einsum, accelerator, drawn.model_copy(update={"levels": tuple(found)}))


def draw_nest(seed: int, *, limited: bool = True) -> NestCase:
    """Draw a case; the mapping may not fit fan-outs or memories."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    einsum, accelerator = draw_einsum(draw), draw_accelerator(draw, limited=limited)
    return _case(draw, einsum, accelerator, draw_mapping(draw, einsum, levels(accelerator)))


def draw_long_nest(draw: random.Random, accelerator: Accelerator) -> NestCase:
    """Draw a case with longer ranks and smaller tiles, so that loops make many trips."""
    small = draw_einsum(draw)
    ranks = {rank: size * draw.choice([1, 1, 2, 5, 9]) for rank, size in small.ranks.items()}
    einsum = replace(small, ranks=ranks)
    mapping = draw_mapping(draw, einsum, levels(accelerator))

    def fewer(level: NestLevel) -> NestLevel:
        most = draw.choice([2, 3, 100])
        factors = {rank: min(pieces, most) for rank, pieces in level.factors.items()}
        return level.model_copy(update={"factors": factors})

    mapping = mapping.model_copy(update={"levels": tuple(map(fewer, mapping.levels))})
    return _case(draw, einsum, accelerator, mapping)


def draw_sums(draw: random.Random, accelerator: Accelerator) -> NestCase:
    """Draw a case in which few sums with remainders come and go often, in several slots."""
    ranks = {"m": draw.randint(2, 9), "k": draw.randint(2, 9), "n": draw.randint(1, 4)}
    einsum = Einsum("gemm", ranks, (operand("A m k"), operand("B k n")), operand("C m n"))
    made = []
    for level in levels(accelerator).levels:
        if isinstance(level, Spatial):
            made.append(NestLevel(level=level.name))
            continue
        factors = {rank: draw.randint(1, 3) for rank in ranks if draw.random() < 0.7}
        keep = tuple(role for role in ROLES if role in level.roles and draw.random() < 0.8)
        made.append(
            NestLevel(
                level=level.name,
                factors=factors if made else {},
                order=tuple(draw.sample(sorted(ranks), len(ranks))),
                keep=keep if made else ROLES,
            )
        )
    return _case(draw, einsum, accelerator, NestMapping(levels=tuple(made)))


def _case(
    draw: random.Random, einsum: Einsum, accelerator: Accelerator, mapping: NestMapping
) -> NestCase:
    mapping = _with_slots(draw, mapping)
    widths: dict[Role, int] = draw.choice(
        [{"input": 1, "weight": 1, "output": 1}, {"input": 2, "weight": 1, "output": 4}]
    )
    operands = dict(zip(ROLES, einsum.inputs, strict=False)) | {"output": einsum.output}
    tensors = {one.tensor: Tensor(one.tensor, widths[role], role) for role, one in operands.items()}
    workload = Workload("drawn", (einsum,), tensors)
    group = NestGroup(operator=einsum.name, mapping=mapping)
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    return NestCase(
        workload, accelerator, Mapping(workload=reference, dataflow="drawn", groups=(group,))
    )


def _with_slots(draw: random.Random, mapping: NestMapping) -> NestMapping:
    def slots(level: NestLevel) -> dict[Role, int]:
        return {role: draw.randint(1, 3) for role in level.keep if draw.random() < 0.5}

    first, *others = mapping.levels
    several = tuple(one.model_copy(update={"slots": slots(one)}) for one in others)
    return mapping.model_copy(update={"levels": (first, *several)})


def runs(case: NestCase) -> bool:
    """Say whether a case fits fan-outs and memories, and keeps its sums somewhere."""
    hierarchy = levels(case.accelerator)
    nests = Nests.of(case.einsum, hierarchy, [case.nest])
    fits = evaluate(case.einsum, case.workload.tensors, hierarchy, nests).valid[0]
    if not fits or not any("output" in level.keep for level in case.nest.levels[1:]):
        return False
    try:
        require_fit(lower(case.workload, case.mapping), case.accelerator.capacities)
    except DoesNotFitError:  # the closed form counts one slot a tile
        return False
    return True
