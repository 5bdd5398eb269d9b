"""Lowering: a workload and its mapping become a program."""

from __future__ import annotations

from collections.abc import Mapping as Sizes

from simaccel.errors import SimaccelError
from simaccel.hardware.levels import ROLES, Role
from simaccel.mapping.choices import (
    FusedGroup,
    GemmGroup,
    Group,
    Mapping,
    NestGroup,
    SoftmaxGroup,
    StagedGroup,
)
from simaccel.program.lower_attention import (
    AttentionViews,
    SoftmaxViews,
    lower_fused,
    lower_softmax,
    lower_staged,
)
from simaccel.program.lower_gemm import GemmViews, Region, lower_gemm
from simaccel.program.lower_nest import lower_nest
from simaccel.program.program import Loop, Node, Operator, Program, View
from simaccel.workload import Einsum, Vector, Workload, as_matmul, as_rows


class NotThisWorkloadError(SimaccelError):
    """A mapping was made for another workload, or doesn't cover this one."""


def gemm_views(workload: Workload, name: str) -> GemmViews:
    """Give the tensors of an einsum that is a (batched) GEMM as a[g,m,k], b[g,k,n], out."""
    matmul = as_matmul(_einsum(workload, name))
    g, m, k, n = matmul.g, matmul.m, matmul.k, matmul.n
    return GemmViews(
        a=_view(workload, matmul.a, "gmk", (g, m, k)),
        b=_view(workload, matmul.b, "gkn", (g, k, n)),
        out=_view(workload, matmul.out, "gmn", (g, m, n)),
    )


def nest_views(workload: Workload, einsum: Einsum, padded: Sizes[str, int]) -> dict[Role, View]:
    """Give the tensors of an einsum by role, in their natural shapes, as large as is run."""
    sizes = {rank: padded.get(rank, size) for rank, size in einsum.ranks.items()}
    operands = dict(zip(ROLES, einsum.inputs, strict=False)) | {"output": einsum.output}
    return {
        role: View(
            name=one.tensor,
            ranks=tuple(str(dim) for dim in one.projection),
            shape=one.shape(sizes),
            bytes_per_element=workload.tensors[one.tensor].bytes_per_element,
        )
        for role, one in operands.items()
    }


def softmax_views(workload: Workload, name: str) -> SoftmaxViews:
    """Give the input and output [g, q, c] of a softmax and its scale."""
    operator = workload.operator(name)
    if not isinstance(operator, Vector) or operator.kind != "softmax":
        raise NotThisWorkloadError(f"operator {name} is not a softmax")
    rows = as_rows(operator)
    shape = (rows.g, rows.m, rows.cols)
    logits = _view(workload, operator.input.tensor, "gqc", shape)
    weights = _view(workload, operator.output.tensor, "gqc", shape)
    return SoftmaxViews(name, logits, weights, operator.scale)


def attention_views(workload: Workload, operators: tuple[str, str, str]) -> AttentionViews:
    """Give the tensors of L, softmax and A.

    Raises:
        NotThisWorkloadError: the three operators don't feed one another.

    """
    logit, softmax, attend = operators
    first, last = (as_matmul(_einsum(workload, name)) for name in (logit, attend))
    rows = softmax_views(workload, softmax)
    if first.out != rows.logits.name or last.a != rows.weights.name or first.g != last.g:
        raise NotThisWorkloadError(f"{logit}, {softmax} and {attend} are no attention")
    g, q, d, c, e = first.g, first.m, first.k, first.n, last.n
    return AttentionViews(
        q=_view(workload, first.a, "gqd", (g, q, d)),
        k=_view(workload, first.b, "gdc", (g, d, c)),
        rows=rows,
        v=_view(workload, last.b, "gce", (g, c, e)),
        z=_view(workload, last.out, "gqe", (g, q, e)),
    )


def _einsum(workload: Workload, name: str) -> Einsum:
    operator = workload.operator(name)
    if not isinstance(operator, Einsum):
        raise NotThisWorkloadError(f"operator {name} is not an einsum")
    return operator


def _view(workload: Workload, tensor: str, ranks: str, shape: tuple[int, ...]) -> View:
    width = workload.tensors[tensor].bytes_per_element
    return View(name=tensor, ranks=tuple(ranks), shape=shape, bytes_per_element=width)


def group_name(group: Group) -> str:
    """Name of a group in tables and traces, e.g. ``L+softmax+A``."""
    return "+".join(operators_of(group))


def operators_of(group: Group) -> tuple[str, ...]:
    """Operators of a group, in order."""
    return group.operators if isinstance(group, StagedGroup | FusedGroup) else (group.operator,)


def lower(workload: Workload, mapping: Mapping) -> Program:
    """Lower a whole workload; layers become a loop around the block.

    Raises:
        NotThisWorkloadError: the mapping is for another workload.

    """
    require_same(workload, mapping)
    body: list[Node] = []
    for group in mapping.groups:
        body += lower_group(workload, group)
    if workload.repeat > 1:
        body = [Loop(rank="layer", trips=workload.repeat, body=tuple(body))]
    return Program(name=f"{workload.name}-{mapping.dataflow}", body=tuple(body))


def require_same(workload: Workload, mapping: Mapping) -> None:
    """Refuse a mapping that was made for another workload.

    Raises:
        NotThisWorkloadError: names both workloads, or the operators that are not mapped.

    """
    if mapping.workload.fingerprint != workload.fingerprint:
        raise NotThisWorkloadError(
            f"the mapping is for workload {mapping.workload.name} "
            f"({mapping.workload.fingerprint}), not for {workload.name} ({workload.fingerprint})"
        )
    mapped = [name for group in mapping.groups for name in operators_of(group)]
    expected = [operator.name for operator in workload.operators]
    if mapped != expected:
        raise NotThisWorkloadError(
            f"the mapping's groups cover {', '.join(mapped) or 'nothing'}; the workload needs "
            f"{', '.join(expected)} in this order"
        )


def lower_group(workload: Workload, group: Group) -> tuple[Node, ...]:
    """Lower one group of a mapping.

    Raises:
        NotExecutableError: a nest keeps partial sums nowhere.

    """
    if isinstance(group, NestGroup):
        einsum = _einsum(workload, group.operator)
        tensors = nest_views(workload, einsum, group.mapping.padded)
        return (lower_nest(einsum, tensors, group.mapping),)
    if isinstance(group, GemmGroup):
        views = gemm_views(workload, group.operator)
        whole = Region((0, views.shape[0]), (0, views.shape[1]))
        body = lower_gemm(views, group.mapping, whole)
        return (Operator(name=group.operator, body=body),)
    if isinstance(group, SoftmaxGroup):
        rows = softmax_views(workload, group.operator)
        whole = Region((0, rows.logits.shape[0]), (0, rows.logits.shape[1]))
        body = lower_softmax(rows, group.mapping, whole)
        return (Operator(name=group.operator, body=body),)
    views_ = attention_views(workload, group.operators)
    if isinstance(group, StagedGroup):
        return lower_staged(views_, group)
    return (lower_fused(views_, group.mapping, group_name(group)),)
