"""Flex: each operator on its own with its best mapping (FLAT, Table 3, "Flex-opt").

Between L, softmax and A the intermediate of the whole batch is alive. Flex keeps as much of
it on chip as fits in units of the granularity (all samples and heads, a sample, a head, a
row block) and spills the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simaccel.analytic.attention import AttentionProblem
from simaccel.analytic.estimate import attention_problem, estimate, gemm_problem, softmax_problem
from simaccel.hardware import Accelerator
from simaccel.mapping.choices import (
    GemmGroup,
    GemmMapping,
    Group,
    Mapping,
    SoftmaxGroup,
    StagedGroup,
)
from simaccel.schedulers.problems import Options, heads_per_sample, mapping_of, parts
from simaccel.schedulers.search import GemmSearch, NothingFitsError, best, capacity
from simaccel.schedulers.softmax import softmax_mapping
from simaccel.workload import Vector, Workload

GRANULARITIES = "mbhr"
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.875, 0.9375, 0.96875, 1.0)
"""Shares of the largest possible resident part that are tried."""

AttentionChoice = Callable[[Workload, tuple[str, str, str]], Group]


def operator_group(workload: Workload, part: str, search: GemmSearch) -> Group:
    """Schedule one operator on its own."""
    if isinstance(workload.operator(part), Vector):
        problem = softmax_problem(workload, part)
        mapping = softmax_mapping(problem, part, search.accelerator)
        return SoftmaxGroup(operator=part, mapping=mapping)
    return GemmGroup(operator=part, mapping=search.best(gemm_problem(workload, part), part))


def schedule(
    workload: Workload, dataflow: str, search: GemmSearch, attention: AttentionChoice
) -> Mapping:
    """Schedule all operators, attentions by ``attention``."""
    groups: list[Group] = []
    for part in parts(workload):
        if isinstance(part, tuple):
            groups.append(attention(workload, part))
        else:
            groups.append(operator_group(workload, part, search))
    return mapping_of(workload, dataflow, groups)


def staged_group(
    workload: Workload, part: tuple[str, str, str], granularity: str, search: GemmSearch
) -> StagedGroup:
    """Find the best resident part in units of ``granularity`` and the mappings beside it."""
    problem = attention_problem(workload, part)
    unit = {
        "m": problem.g * problem.q,
        "b": heads_per_sample(workload, part[0]) * problem.q,
        "h": problem.q,
        "r": min(problem.q, search.accelerator.array.rows),
    }[granularity]
    row_bytes = problem.c * problem.tile_width
    rows = min(problem.g * problem.q, capacity(search.accelerator) // row_bytes)
    most = rows // unit
    tried = sorted({int(most * share) * unit for share in _SHARES})
    found = [g for kept in tried if (g := _with_resident(problem, part, kept, search))]
    if not found:
        tables = (search.table(p, (1, 1, 1)) for p in (problem.logit(), problem.attend()))
        smallest = max(int(table.buffer_bytes.min()) for table in tables)
        raise NothingFitsError(
            f"{'+'.join(part)}: no tiling fits the buffer of {capacity(search.accelerator)} B; "
            f"the smallest that was tried needs {smallest} B"
        )
    return min(found, key=lambda group: _cost(workload, group, search.accelerator))


def _cost(workload: Workload, group: Group, accelerator: Accelerator) -> tuple[int, int]:
    """Cycles, then bytes that cross the DRAM channels."""
    whole = estimate(workload, mapping_of(workload, "", [group]), accelerator)
    moved = sum(n for (level, _), n in whole.moved.items() if level.startswith("dram"))
    return whole.cycles, moved


def _with_resident(
    problem: AttentionProblem, part: tuple[str, str, str], kept_rows: int, search: GemmSearch
) -> StagedGroup | None:
    """Best mappings beside ``kept_rows`` resident rows, or None if nothing fits."""
    kept_bytes = kept_rows * problem.c * problem.tile_width
    share = kept_rows / (problem.g * problem.q)
    logit = _shared(problem, "logit", share, kept_bytes, search)
    attend = _shared(problem, "attend", share, kept_bytes, search)
    if logit is None or attend is None:
        return None
    try:
        softmax = softmax_mapping(problem, part[1], search.accelerator, spare_bytes=kept_bytes)
    except NothingFitsError:
        return None
    return StagedGroup(
        operators=part, logit=logit, softmax=softmax, attend=attend, resident_rows=kept_rows
    )


def _shared(
    problem: AttentionProblem, which: str, share: float, kept_bytes: int, search: GemmSearch
) -> GemmMapping | None:
    """Best mapping for a GEMM of which a share has its intermediate on chip."""
    base = problem.logit() if which == "logit" else problem.attend()
    kept = replace(base, kept_out=True) if which == "logit" else replace(base, kept_a=True)
    limit = capacity(search.accelerator) - kept_bytes
    for slots in ((2, 2, 2), (1, 1, 1)):
        spilled, resident = search.table(base, slots), search.table(kept, slots)
        cycles = (1 - share) * spilled.cycles + share * resident.cycles
        space = spilled.buffer_bytes if share < 1 else resident.buffer_bytes
        index = best(cycles, spilled.dram_bytes, space, limit)
        if index is not None:
            return spilled.mapping(index)
    return None


def _flex(granularities: str, name: str) -> Callable[[Workload, Accelerator, Options], Mapping]:
    def scheduler(workload: Workload, accelerator: Accelerator, _: Options) -> Mapping:
        search = GemmSearch(accelerator)

        def attention(workload: Workload, part: tuple[str, str, str]) -> Group:
            groups = [staged_group(workload, part, x, search) for x in granularities]
            return min(groups, key=lambda group: _cost(workload, group, accelerator))

        return schedule(workload, name, search, attention)

    scheduler.__doc__ = f"Schedule {name}: best operator by operator, granularity {granularities}."
    return scheduler


SCHEDULERS = {f"flex-{x}": _flex(x, f"flex-{x}") for x in GRANULARITIES}
SCHEDULERS["flex"] = _flex(GRANULARITIES, "flex")
