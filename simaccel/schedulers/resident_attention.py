"""L, softmax and A one after the other, with rows of the intermediate that stay on chip.

Between the operators, the intermediate of the whole batch is alive. As much of it stays on chip as
fits, in units of a granularity (FLAT, sections 5.1 and 5.3): all samples and heads (M), whole
samples (B), whole heads (H), or any number of rows (R). The rest goes to DRAM and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group, Keep, Part, ResidentScope, Span, Tree
from simaccel.schedulers.attention import AttentionProblem
from simaccel.search.candidate_set import capacity
from simaccel.search.judge import Body

GRANULARITIES: Final = "mbhr"
ALL: Final = 16
"""Up to this many numbers of resident units are all tried, beside none."""
_SHARES: Final = (0.0, 0.25, 0.5, 0.75, 0.875, 0.9375, 0.96875, 1.0)
"""Shares of the most resident rows that a front has."""

Placed = tuple[Group, str, Tree]
"""An operator's group, the intermediate that it reads or writes, and its tree for rows in DRAM."""


def units(problem: AttentionProblem, granularity: str, accelerator: Accelerator) -> tuple[int, int]:
    """Return the rows of one unit of a granularity, and how many units fit an empty buffer."""
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    unit = {"m": g * q, "b": problem.per_sample * q, "h": q, "r": 1}[granularity]
    if len(problem.heads) > 1 or len(problem.rows) != 1:
        return unit, 0  # what is kept would be more boxes than two
    return unit, min(g * q, capacity(accelerator) // problem.row_bytes) // unit


def candidate_counts(
    problem: AttentionProblem, granularity: str, accelerator: Accelerator
) -> list[int]:
    """Return candidate numbers of resident rows: all of them if few, else shares of the most."""
    unit, most = units(problem, granularity, accelerator)
    if most <= ALL:
        return [unit * count for count in range(most + 1)]
    side = accelerator.array.rows if unit == 1 and most >= 2 * accelerator.array.rows else 1
    return sorted({int(most * share) // side * side * unit for share in _SHARES})


def stage_attention(problem: AttentionProblem, rows: int, placed: Sequence[Placed]) -> Body:
    """Return L, softmax and A one after the other, with ``rows`` of the intermediate kept on chip.

    Resident rows have the same tiles as the others, so that both share slots.
    """
    if not rows:
        return tuple(replace(group, tree=spilled) for group, _, spilled in placed)
    q, c = problem.size(problem.rows), problem.size((problem.c,))
    g = problem.size(problem.heads)
    heads, part = divmod(rows, q)
    s = problem.tensors[2]
    keeps = []
    if heads:
        keeps.append(Keep(s, slots=1, region=_region(problem, (0, heads), (0, q), c)))
    if part:
        keeps.append(Keep(s, slots=1, region=_region(problem, (heads, heads + 1), (0, part), c)))
    groups = []
    for group, held, spilled in placed:
        resident = tuple(
            node for node in spilled if not isinstance(node, Keep) or node.tensor != held
        )
        view = next(
            view
            for _, view in space_of(problem.workload, group).operators[0].uses
            if view.name in problem.intermediates
        )
        tree = _part_tree(view.ranks, (heads, part, g), spilled, resident)
        groups.append(replace(group, tree=tree))
    return (ResidentScope(keeps=tuple(keeps), groups=tuple(groups)),)


def _region(
    problem: AttentionProblem, heads: tuple[int, int], rows: tuple[int, int], c: int
) -> tuple[Span, ...]:
    spans = [Span(*heads)] if problem.heads else []
    return (*spans, Span(*rows), Span(0, c))


def _part_tree(
    ranks: Sequence[str], kept: tuple[int, int, int], spilled: Tree, resident: Tree
) -> Tree:
    """Return the tree of whole heads kept, of a part of one, and of the rest.

    ``ranks`` of the intermediate: of heads if there are any, of rows, of keys.
    """
    heads, part, g = kept
    q = ranks[-2]
    branches: list[Tree] = []
    sizes: list[int] = []
    if heads:
        branches.append(resident)
        sizes.append(heads)
    if part:
        branches.append((Part(q, (part,), (resident, spilled)),))
        sizes.append(1)
    if heads + bool(part) < g:
        branches.append(spilled)
        sizes.append(g - heads - bool(part))
    if len(branches) == 1:
        return branches[0]
    return (Part(ranks[0], tuple(sizes[:-1]), tuple(branches)),)


def parts_of(problem: AttentionProblem) -> Iterator[tuple[str, str]]:
    """Yield L, softmax and A, each with the intermediate that it reads or writes."""
    logit, softmax, attend = problem.part
    s, weights = problem.tensors[2], problem.workload.operator(softmax).output.tensor
    yield from ((logit, s), (softmax, s), (attend, weights))
