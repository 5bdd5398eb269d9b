"""Naive: weight-stationary with fixed tiles, operator by operator (FLAT, Table 3).

Weights are held fold by fold: B tiles of one fold, A streamed past them in tiles of fixed
height, partial sums written back and read again for each step of the reduction.
"""

from __future__ import annotations

from simaccel.analytic.estimate import (
    attention_problem,
    gemm_problem,
    softmax_problem,
    tiles_of,
)
from simaccel.analytic.gemm import GemmProblem, gemm_work
from simaccel.hardware import Accelerator
from simaccel.mapping.choices import (
    GemmGroup,
    GemmMapping,
    Group,
    Mapping,
    SoftmaxGroup,
    StagedGroup,
)
from simaccel.schedulers.problems import Options, mapping_of, parts
from simaccel.schedulers.search import NothingFitsError, capacity
from simaccel.schedulers.softmax import softmax_mapping
from simaccel.workload import Vector, Workload

_FOLDS_HIGH = 4
"""Height of the fixed A tile in array sides."""


def naive(workload: Workload, accelerator: Accelerator, _: Options) -> Mapping:
    """Schedule each operator on its own with the fixed tile."""
    groups: list[Group] = []
    for part in parts(workload):
        if isinstance(part, tuple):
            logit, softmax, attend = part
            problem = attention_problem(workload, part)
            rows = softmax_mapping(problem, softmax, accelerator, rows=accelerator.array.rows)
            groups.append(
                StagedGroup(
                    operators=part,
                    logit=_fixed(problem.logit(), logit, accelerator),
                    softmax=rows,
                    attend=_fixed(problem.attend(), attend, accelerator),
                )
            )
        elif isinstance(workload.operator(part), Vector):
            rows = softmax_mapping(
                softmax_problem(workload, part), part, accelerator, rows=accelerator.array.rows
            )
            groups.append(SoftmaxGroup(operator=part, mapping=rows))
        else:
            mapping = _fixed(gemm_problem(workload, part), part, accelerator)
            groups.append(GemmGroup(operator=part, mapping=mapping))
    return mapping_of(workload, "naive", groups)


def _fixed(problem: GemmProblem, operator: str, accelerator: Accelerator) -> GemmMapping:
    """Take the fixed tile; lower it only if the buffer is too small for it."""
    array = accelerator.systolic
    height = _FOLDS_HIGH * array.rows
    while height:
        mapping = GemmMapping(
            m=min(problem.m, height),
            k=min(problem.k, array.rows),
            n=min(problem.n, array.cols),
            order="nkm",
            stationarity="ws",
        )
        need = int(gemm_work(problem, tiles_of(mapping), accelerator).buffer_bytes)
        if need <= capacity(accelerator):
            return mapping
        height //= 2
    raise NothingFitsError(
        f"{operator}: a fold's weights and one row need {need} B, the buffer has "
        f"{capacity(accelerator)} B"
    )


SCHEDULERS = {"naive": naive}
