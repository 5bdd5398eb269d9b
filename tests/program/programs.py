"""Random small workloads with random mappings, lowered, and the tensors to run them on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.mapping.choices import (
    ORDERS,
    FusedGroup,
    FusedMapping,
    GemmGroup,
    GemmMapping,
    Group,
    Mapping,
    SoftmaxGroup,
    SoftmaxMapping,
    StagedGroup,
    WorkloadReference,
)
from simaccel.program.lower import lower
from simaccel.program.program import Program
from simaccel.workload import Dimensions, Workload, attention, gemm

Array = npt.NDArray[np.float64]
LA = ("L", "softmax", "A")
_SIZES = st.integers(1, 11)
_SLOTS = st.integers(1, 3)
_STATIONARITIES = st.sampled_from(STATIONARITIES)


@dataclass(frozen=True)
class Case:
    """A workload, its mapping and the program that this makes."""

    workload: Workload
    mapping: Mapping
    program: Program


def case(workload: Workload, *groups: Group) -> Case:
    """Map a workload by its groups and lower it."""
    mapping = Mapping(
        workload=WorkloadReference(name=workload.name, fingerprint=workload.fingerprint),
        dataflow="test",
        groups=groups,
    )
    return Case(workload, mapping, lower(workload, mapping))


def gemm_case(workload: Workload, **choices: Any) -> Case:  # noqa: ANN401 - any field
    """Map a GEMM workload; what ``choices`` leave out is one whole tile."""
    _, m, k, n = gemm_shape(workload)
    whole: dict[str, Any] = {"m": m, "k": k, "n": n, "order": "mnk", "stationarity": "ws"}
    return case(workload, GemmGroup(operator="gemm", mapping=GemmMapping(**(whole | choices))))


def gemm_shape(workload: Workload) -> tuple[int, int, int, int]:
    """Give batch, m, k, n of a GEMM workload."""
    batch, m, k = workload.shapes["A"]
    return batch, m, k, workload.shapes["B"][2]


def attention_workload(batch: int, heads: int, rows: int, depth: int) -> Workload:
    """Give L, softmax and A of a few short heads."""
    sizes = Dimensions(hidden=heads * depth, heads=heads, head_size=depth, ff_size=4)
    return attention(sizes, batch=batch, seq_len=rows, scope="la")


@st.composite
def gemm_mappings(draw: st.DrawFn, m: int, k: int, n: int, *, most_slots: int = 3) -> GemmMapping:
    """Draw a mapping of one GEMM."""
    slots = st.integers(1, most_slots)
    return GemmMapping(
        m=draw(st.integers(1, m)),
        k=draw(st.integers(1, k)),
        n=draw(st.integers(1, n)),
        order=draw(st.sampled_from(ORDERS)),
        stationarity=draw(_STATIONARITIES),
        a_slots=draw(slots),
        b_slots=draw(slots),
        out_slots=draw(slots),
    )


@st.composite
def gemm_cases(draw: st.DrawFn, *, most_slots: int = 3) -> Case:
    """Draw a batched GEMM with any tiles, order and slots."""
    m, k, n = draw(_SIZES), draw(_SIZES), draw(_SIZES)
    workload = gemm(m=m, k=k, n=n, batch=draw(st.integers(1, 3)))
    mapping = draw(gemm_mappings(m, k, n, most_slots=most_slots))
    return case(workload, GemmGroup(operator="gemm", mapping=mapping))


@st.composite
def attention_workloads(draw: st.DrawFn) -> Workload:
    """Draw an attention of few heads; rows and depth include 1 and primes."""
    return attention_workload(
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 9)),
        draw(st.integers(1, 5)),
    )


@st.composite
def separate_cases(draw: st.DrawFn) -> Case:
    """Draw L, softmax and A as three groups."""
    workload = draw(attention_workloads())
    _, _, rows, depth = workload.shapes["Q"]
    softmax = SoftmaxMapping(
        rows=draw(st.integers(1, rows)), cols=draw(st.integers(1, rows)), slots=draw(_SLOTS)
    )
    return case(
        workload,
        GemmGroup(operator="L", mapping=draw(gemm_mappings(rows, depth, rows))),
        SoftmaxGroup(operator="softmax", mapping=softmax),
        GemmGroup(operator="A", mapping=draw(gemm_mappings(rows, rows, depth))),
    )


@st.composite
def staged_cases(draw: st.DrawFn) -> Case:
    """Draw L, softmax and A one after the other with any number of resident rows."""
    workload = draw(attention_workloads())
    batch, heads, rows, depth = workload.shapes["Q"]
    group = StagedGroup(
        operators=LA,
        logit=draw(gemm_mappings(rows, depth, rows)),
        softmax=SoftmaxMapping(
            rows=draw(st.integers(1, rows)), cols=draw(st.integers(1, rows)), slots=draw(_SLOTS)
        ),
        attend=draw(gemm_mappings(rows, rows, depth)),
        resident_rows=draw(st.integers(0, batch * heads * rows)),
    )
    return case(workload, group)


@st.composite
def fused_cases(
    draw: st.DrawFn, *, online: bool | None = None, pipelined: bool | None = None
) -> Case:
    """Draw fused attention; a pipelined one has the two slots of the logits that it needs."""
    workload = draw(attention_workloads())
    batch, heads, rows, _ = workload.shapes["Q"]
    ahead = draw(st.booleans()) if pipelined is None else pipelined
    least = 2 if ahead else 1
    mapping = FusedMapping(
        heads=draw(st.integers(1, batch * heads)),
        rows=draw(st.integers(1, rows)),
        keys=draw(st.integers(1, rows)),
        online=draw(st.booleans()) if online is None else online,
        pipelined=ahead,
        logit_stationarity=draw(_STATIONARITIES),
        attend_stationarity=draw(_STATIONARITIES),
        in_slots=draw(_SLOTS),
        out_slots=draw(_SLOTS),
        tile_slots=draw(st.integers(least, 3)),
    )
    return case(workload, FusedGroup(operators=LA, mapping=mapping))


def cases() -> st.SearchStrategy[Case]:
    """Draw from all kinds of mappings."""
    return gemm_cases() | separate_cases() | staged_cases() | fused_cases()


def gemm_operands(workload: Workload) -> tuple[Array, Array]:
    """Give small whole numbers for A and B, so that every product is exact."""
    batch, m, k, n = gemm_shape(workload)
    numbers = np.random.default_rng(m * 10_000 + k * 100 + n)
    return (
        numbers.integers(-9, 10, (batch, m, k)).astype(np.float64),
        numbers.integers(-9, 10, (batch, k, n)).astype(np.float64),
    )


def choose(stationarity: str) -> Stationarity:
    """Check a stationarity that comes as text."""
    return next(s for s in STATIONARITIES if s == stationarity)
