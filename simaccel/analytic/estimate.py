"""The estimate of a whole mapping: group by group, from the mapping alone."""

from __future__ import annotations

from dataclasses import dataclass

from simaccel.analytic.array import Widths
from simaccel.analytic.attention import (
    AttentionProblem,
    softmax_work,
    staged_gemm_work,
    staged_softmax_work,
)
from simaccel.analytic.fused import fused_work
from simaccel.analytic.gemm import GemmProblem, GemmTiles, gemm_work
from simaccel.analytic.nest_work import nest_work
from simaccel.analytic.row_blocks import FusedTiles
from simaccel.analytic.work import Level, Work, energy_pj, ints
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.choices import (
    FusedGroup,
    FusedMapping,
    GemmGroup,
    GemmMapping,
    Group,
    Mapping,
    NestGroup,
    SoftmaxGroup,
    StagedGroup,
)
from simaccel.workload import Einsum, Vector, Workload, as_matmul, as_rows


class EstimateError(SimaccelError):
    """A mapping names operators that the workload doesn't have in this form."""


@dataclass(frozen=True)
class OperatorEstimate:
    """Prediction for one operator or fused group, all repetitions."""

    name: str
    cycles: int
    resource_bound_cycles: int
    macs: int
    elements: int
    moved: dict[Level, int]
    buffer_bytes: int
    resources: dict[str, int]
    energy_pj: dict[str, float]

    @property
    def bound_by(self) -> str:
        """Name of the busiest resource."""
        return max(self.resources, key=lambda name: self.resources[name])


@dataclass(frozen=True)
class Estimate:
    """Prediction for a mapping. Operators run one after another."""

    operators: tuple[OperatorEstimate, ...]

    @property
    def cycles(self) -> int:
        """Estimated cycles."""
        return sum(o.cycles for o in self.operators)

    @property
    def resource_bound_cycles(self) -> int:
        """Sum of the operators' resource bounds: no run is shorter."""
        return sum(o.resource_bound_cycles for o in self.operators)

    @property
    def macs(self) -> int:
        """MACs of all operators."""
        return sum(o.macs for o in self.operators)

    @property
    def buffer_bytes(self) -> int:
        """Peak buffer requirement."""
        return max(o.buffer_bytes for o in self.operators)

    @property
    def moved(self) -> dict[Level, int]:
        """Bytes by level and tensor."""
        total: dict[Level, int] = {}
        for operator in self.operators:
            for level, n_bytes in operator.moved.items():
                total[level] = total.get(level, 0) + n_bytes
        return dict(sorted(total.items()))

    @property
    def energy_pj(self) -> dict[str, float]:
        """Energy by level in pJ."""
        total: dict[str, float] = {}
        for operator in self.operators:
            for level, energy in operator.energy_pj.items():
                total[level] = total.get(level, 0.0) + energy
        return total


MOST_MACS = 2**60
"""Beyond, counts in 64-bit integers could wrap."""


def require_countable(workload: Workload) -> None:
    """Refuse a workload whose counts may not fit 64-bit integers.

    Raises:
        EstimateError: names the MACs and the limit.

    """
    if workload.macs > MOST_MACS:
        raise EstimateError(f"{workload.name}: {workload.macs} MACs; allowed: at most 2^60")


def estimate(workload: Workload, mapping: Mapping, accelerator: Accelerator) -> Estimate:
    """Predict a mapping of a whole workload.

    Raises:
        EstimateError: the counts would not fit 64-bit integers.

    """
    require_countable(workload)
    found: list[OperatorEstimate] = []
    for group in mapping.groups:
        for name, work in group_works(workload, group, accelerator):
            found.append(_figures(name, work, workload.repeat, accelerator))
    return Estimate(tuple(found))


def _figures(name: str, work: Work, repeat: int, accelerator: Accelerator) -> OperatorEstimate:
    resources = {
        "array": work.array,
        "sfu": work.sfu,
        "dram": work.dram,
        "buffer_read": work.read_port,
        "buffer_write": work.write_port,
        "noc": work.noc,
    }
    moved = {level: int(n) * repeat for level, n in work.moved.items() if int(n)}
    return OperatorEstimate(
        name=name,
        cycles=int(work.cycles()) * repeat,
        resource_bound_cycles=int(work.bound()) * repeat,
        macs=int(work.macs) * repeat,
        elements=int(work.elements) * repeat,
        moved=moved,
        buffer_bytes=int(work.buffer_bytes),
        resources={resource: int(n) * repeat for resource, n in resources.items()},
        energy_pj={k: float(v) * repeat for k, v in energy_pj(work, accelerator).items()},
    )


def gemm_problem(workload: Workload, name: str) -> GemmProblem:
    """Give the sizes, tensors and widths of an einsum that is a GEMM."""
    operator = workload.operator(name)
    if not isinstance(operator, Einsum):
        raise EstimateError(f"operator {name} is not an einsum")
    matmul = as_matmul(operator)
    names = (matmul.a, matmul.b, matmul.out)
    widths = Widths(*(workload.tensors[t].bytes_per_element for t in names))
    return GemmProblem(g=matmul.g, m=matmul.m, k=matmul.k, n=matmul.n, names=names, widths=widths)


def attention_problem(workload: Workload, operators: tuple[str, str, str]) -> AttentionProblem:
    """Give the sizes, tensors and widths of L, softmax and A."""
    first = gemm_problem(workload, operators[0])
    last = gemm_problem(workload, operators[2])
    names = {
        "q": first.names[0],
        "k": first.names[1],
        "logits": first.names[2],
        "weights": last.names[0],
        "v": last.names[1],
        "z": last.names[2],
    }
    return AttentionProblem(
        g=first.g,
        q=first.m,
        c=first.n,
        d=first.k,
        e=last.n,
        names=names,
        widths={role: workload.tensors[t].bytes_per_element for role, t in names.items()},
    )


def softmax_problem(workload: Workload, name: str) -> AttentionProblem:
    """Give the sizes of a softmax on its own (no d, no e)."""
    operator = workload.operator(name)
    if not isinstance(operator, Vector) or operator.kind != "softmax":
        raise EstimateError(f"operator {name} is not a softmax")
    rows = as_rows(operator)
    names = {"logits": operator.input.tensor, "weights": operator.output.tensor}
    return AttentionProblem(
        g=rows.g,
        q=rows.m,
        c=rows.cols,
        d=0,
        e=0,
        names=names,
        widths={role: workload.tensors[t].bytes_per_element for role, t in names.items()},
    )


def tiles_of(mapping: GemmMapping) -> GemmTiles:
    """Give one mapping as candidates of one."""
    return GemmTiles(
        m=ints(mapping.m),
        k=ints(mapping.k),
        n=ints(mapping.n),
        order=mapping.order,
        stationarity=mapping.stationarity,
        slots=(mapping.a_slots, mapping.b_slots, mapping.out_slots),
    )


def fused_tiles_of(mapping: FusedMapping) -> FusedTiles:
    """Give one fused mapping as candidates of one."""
    return FusedTiles(
        heads=ints(mapping.heads),
        rows=ints(mapping.rows),
        keys=ints(mapping.keys),
        online=mapping.online,
        pipelined=mapping.pipelined,
        stationarity=(mapping.logit_stationarity, mapping.attend_stationarity),
        slots=(mapping.in_slots, mapping.out_slots, mapping.tile_slots),
    )


def group_works(
    workload: Workload, group: Group, accelerator: Accelerator
) -> list[tuple[str, Work]]:
    """Predict a group: one or three operators, each with its work.

    Raises:
        EstimateError: an operator isn't what the group takes it for.

    """
    if isinstance(group, GemmGroup):
        problem = gemm_problem(workload, group.operator)
        return [(group.operator, gemm_work(problem, tiles_of(group.mapping), accelerator))]
    if isinstance(group, SoftmaxGroup):
        rows = softmax_problem(workload, group.operator)
        mapping = group.mapping
        work = softmax_work(
            rows, ints(mapping.rows), ints(mapping.cols), mapping.slots, accelerator
        )
        return [(group.operator, work)]
    if isinstance(group, NestGroup):
        einsum = workload.operator(group.operator)
        if not isinstance(einsum, Einsum):
            raise EstimateError(f"operator {group.operator} is not an einsum")
        return [(einsum.name, nest_work(einsum, workload.tensors, group.mapping, accelerator))]
    attention = attention_problem(workload, group.operators)
    if isinstance(group, FusedGroup):
        work = fused_work(attention, fused_tiles_of(group.mapping), accelerator)
        return [("+".join(group.operators), work)]
    return _staged(attention, group, accelerator)


def _staged(
    problem: AttentionProblem, group: StagedGroup, accelerator: Accelerator
) -> list[tuple[str, Work]]:
    kept = group.resident_rows
    softmax = group.softmax
    works = (
        staged_gemm_work(problem, "logit", tiles_of(group.logit), kept, accelerator),
        staged_softmax_work(
            problem,
            ints(softmax.rows),
            ints(softmax.cols),
            softmax.slots,
            kept,
            accelerator,
        ),
        staged_gemm_work(problem, "attend", tiles_of(group.attend), kept, accelerator),
    )
    return list(zip(group.operators, works, strict=True))
