"""Random small workloads with random mappings, lowered, and the tensors to run them on."""

from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.mapping.space import IterationSpace, mergeable, space_of
from simaccel.mapping.tree import (
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Mapping,
    Node,
    Part,
    ResidentScope,
    Span,
    Tree,
    WorkloadReference,
)
from simaccel.program.fit import reserved_slots
from simaccel.program.lowering import lower
from simaccel.program.program import Program
from simaccel.workload import ModelDimensions, Vector, Workload, attention, gemm

Array = npt.NDArray[np.float64]


def reserved_bytes(program: Program) -> int:
    """Return the peak of the reserved buffer in bytes, without overlap of operators."""
    uses = reserved_slots(program).values()
    return max((sum(b * s for b, s in use.values()) for use in uses), default=0)


LA = ("L", "softmax", "A")
ORDERS = tuple("".join(order) for order in permutations("mkn"))
_SIZES = st.integers(1, 11)
_SLOTS = st.integers(1, 3)
_STATIONARITIES = st.sampled_from(STATIONARITIES)


@dataclass(frozen=True)
class Case:
    """A workload, its mapping and the program that this makes."""

    workload: Workload
    mapping: Mapping
    program: Program


@dataclass(frozen=True, kw_only=True)
class GemmTiles:
    """Tiles of a grouped GEMM [m, k] x [k, n], one of the group at a time; 0 is the whole rank."""

    m: int = 0
    k: int = 0
    n: int = 0
    order: str = "mnk"
    stationarity: Stationarity = "ws"
    a_slots: int = 2
    b_slots: int = 2
    out_slots: int = 2


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Tiles of a softmax; ``cols`` less than a row: it is gone through twice."""

    rows: int
    cols: int
    slots: int = 2


@dataclass(frozen=True, kw_only=True)
class FlatTiles:
    """Tiles of an attention as one group."""

    heads: int = 1
    rows: int
    keys: int
    online: bool = False
    pipelined: bool = False
    logit_stationarity: Stationarity = "ws"
    attend_stationarity: Stationarity = "ws"
    in_slots: int = 2
    out_slots: int = 2
    tile_slots: int = 1


def mapping_of(workload: Workload, *body: Group | ResidentScope) -> Mapping:
    """Map a workload by its groups."""
    reference = WorkloadReference(workload.name, workload.fingerprint)
    return Mapping(workload=reference, dataflow="test", body=body)


def case(workload: Workload, *body: Group | ResidentScope) -> Case:
    """Map a workload by its groups and lower it."""
    mapping = mapping_of(workload, *body)
    return Case(workload, mapping, lower(workload, mapping))


def gemm_case(workload: Workload, **choices: object) -> Case:
    """Map a GEMM workload; what ``choices`` leave out is one whole tile."""
    return case(workload, gemm_group(workload, "gemm", GemmTiles(**choices)))  # type: ignore[arg-type]


def _space(workload: Workload, operators: tuple[str, ...]) -> tuple[Group, IterationSpace]:
    group = Group(operators=operators, tree=(), merged=mergeable(workload, operators))
    return group, space_of(workload, group)


def gemm_group(
    workload: Workload, operator: str, tiles: GemmTiles, keep: tuple[bool, bool] = (True, True)
) -> Group:
    """Return the group of one GEMM; ``keep``: whether its first input and its output have tiles."""
    group, space = _space(workload, (operator,))
    (seen,) = space.operators
    a, b = seen.inputs
    kinds = {(True, True, True): "g", (True, False, True): "m"}
    kinds |= {(True, True, False): "k", (False, True, True): "n"}
    views = (a, b, seen.output)
    ranks: dict[str, str] = {}
    for rank in seen.ranks:
        first, second, out = (rank in view.names for view in views)
        ranks.setdefault(kinds[first, second, out], rank)
    tree: list[Node] = [Loop(ranks["g"], 1)] if "g" in ranks else []
    given = {name: getattr(tiles, name) for name in tiles.order if name in ranks}
    tree += [Loop(ranks[name], tile) for name, tile in given.items() if tile]
    names = (*seen.names, seen.output.name)
    slots = (tiles.a_slots, tiles.b_slots, tiles.out_slots)
    there = (keep[0], True, keep[1])
    tree += [Keep(t, "buffer", n) for t, n, k in zip(names, slots, there, strict=True) if k]
    return replace(group, tree=(*tree, Do(operator, "array", tiles.stationarity)))


def softmax_group(workload: Workload, operator: str, tiles: Rows, *, keep: bool = True) -> Group:
    """Return the group of one softmax; ``keep``: whether it has a tile of its own."""
    vector = workload.operator(operator)
    assert isinstance(vector, Vector)
    *heads, row = (rank for rank in vector.input.ranks if rank != vector.axis)
    head = "".join(heads)
    merged = {head: tuple(heads)} if len(heads) > 1 else {}
    tree: list[Node] = [Loop(head, 1)] if heads else []
    tree.append(Loop(row, tiles.rows))
    if keep:
        assert vector.axis is not None
        tree += [Loop(vector.axis, tiles.cols), Keep(vector.input.tensor, "buffer", tiles.slots)]
    return Group(operators=(operator,), tree=(*tree, Do(operator, "sfu")), merged=merged)


def staged_groups(
    workload: Workload, logit: GemmTiles, softmax: Rows, attend: GemmTiles, resident_rows: int
) -> tuple[Group | ResidentScope, ...]:
    """Return L, softmax and A one after the other; so many rows of S stay on chip."""
    spilled = (
        gemm_group(workload, "L", logit),
        softmax_group(workload, "softmax", softmax),
        gemm_group(workload, "A", attend),
    )
    if not resident_rows:
        return spilled
    inside = (
        gemm_group(workload, "L", logit, keep=(True, False)),
        softmax_group(workload, "softmax", softmax, keep=False),
        gemm_group(workload, "A", attend, keep=(False, True)),
    )
    *heads, rows, keys = workload.shapes["S"]
    whole, part = divmod(resident_rows, rows)
    regions = [(Span(0, whole), Span(0, rows), Span(0, keys))] if whole else []
    if part:
        regions.append((Span(whole, whole + 1), Span(0, part), Span(0, keys)))
    names = _ranks_of_s(workload)
    groups = tuple(
        replace(one, tree=_parted(names, whole, part, (out.tree, one.tree), int(np.prod(heads))))
        for out, one in zip(spilled, inside, strict=True)
    )
    keeps = tuple(Keep("S", "buffer", 1, region) for region in regions)
    return (ResidentScope(keeps=keeps, groups=groups),)


def _ranks_of_s(workload: Workload) -> tuple[str, str]:
    (seen,) = _space(workload, ("L",))[1].operators
    head, row, _ = seen.output.ranks
    return head, row


def _parted(
    names: tuple[str, str], whole: int, part: int, trees: tuple[Tree, Tree], heads: int
) -> Tree:
    """Return the tree whose first ``whole`` heads and ``part`` rows of the next are resident."""
    spilled, resident = trees
    sizes = [whole] if whole else []
    branches = [resident] if whole else []
    if part:
        sizes.append(1)
        branches.append((Part(names[1], (part,), (resident, spilled)),))
    if sum(sizes) < heads:
        branches.append(spilled)
    else:
        sizes.pop()
    return (Part(names[0], tuple(sizes), tuple(branches)),) if len(branches) > 1 else branches[0]


def flat_group(workload: Workload, tiles: FlatTiles) -> Group:
    """Return L, softmax and A as one group."""
    group, space = _space(workload, LA)
    logit, _, attend = space.operators
    (q, k), (_, v) = logit.names, attend.names
    s, z = logit.output.name, attend.output.name
    head, row, _ = logit.output.ranks
    key = space.axes["softmax"]
    online = tiles.online
    streamed = tiles.keys < space.sizes[key] or online
    leaves: tuple[Node, Node, Node] = (
        Do("L", "array", tiles.logit_stationarity),
        Do("softmax", "sfu"),
        Do("A", "array", tiles.attend_stationarity),
    )
    of = {name: Keep(name, "buffer", tiles.in_slots) for name in (q, k, v)}
    of |= {z: Keep(z, "buffer", tiles.out_slots), s: Keep(s, "buffer", tiles.tile_slots)}
    cut = Loop(key, tiles.keys)
    first, last = ((cut, of[k]), (cut, of[v])) if streamed and not online else ((), ())
    fork = Fork(((*first, leaves[0]), (leaves[1],), (*last, leaves[2])), int(tiles.pipelined))
    tree: list[Node] = [Loop(head, tiles.heads)]
    if not streamed:
        tree += [of[k], of[v]]
    tree += [Loop(row, tiles.rows), of[q], of[z]]
    if online:
        tree += [cut, of[k], of[v]]
    return replace(group, tree=(*tree, of[s], fork))


def gemm_shape(workload: Workload) -> tuple[int, int, int, int]:
    """Give batch, m, k, n of a GEMM workload."""
    batch, m, k = workload.shapes["A"]
    return batch, m, k, workload.shapes["B"][2]


@st.composite
def gemm_mappings(draw: st.DrawFn, m: int, k: int, n: int, *, most_slots: int = 3) -> GemmTiles:
    """Draw a mapping of one GEMM."""
    slots = st.integers(1, most_slots)
    return GemmTiles(
        m=draw(st.integers(1, m)),
        k=draw(st.integers(1, k)),
        n=draw(st.integers(1, n)),
        order=draw(st.sampled_from(ORDERS)),
        stationarity=draw(_STATIONARITIES),
        a_slots=draw(slots),
        b_slots=draw(slots),
        out_slots=draw(slots),
    )


def softmaxes(rows: int) -> st.SearchStrategy[Rows]:
    """Draw tiles of a softmax of so many rows and columns."""
    sides = st.integers(1, rows)
    return st.builds(Rows, rows=sides, cols=sides, slots=_SLOTS)


def attention_workload(batch: int, heads: int, rows: int, depth: int) -> Workload:
    """Give L, softmax and A of a few short heads."""
    sizes = ModelDimensions(hidden=heads * depth, heads=heads, head_size=depth, ff_size=4)
    return attention(sizes, batch=batch, seq_len=rows, scope="la")


Workloads = st.SearchStrategy[Workload]
GEMMS = st.builds(gemm, m=_SIZES, k=_SIZES, n=_SIZES, batch=st.integers(1, 3))
ATTENTIONS = st.builds(attention_workload, *(st.integers(1, most) for most in (2, 3, 9, 5)))
"""Few heads; rows and depth include 1 and primes."""


@st.composite
def gemm_cases(draw: st.DrawFn, of: Workloads = GEMMS, *, most_slots: int = 3) -> Case:
    """Draw a batched GEMM with any tiles, order and slots."""
    workload = draw(of)
    _, m, k, n = gemm_shape(workload)
    tiles = draw(gemm_mappings(m, k, n, most_slots=most_slots))
    return case(workload, gemm_group(workload, "gemm", tiles))


@st.composite
def separate_cases(draw: st.DrawFn, of: Workloads = ATTENTIONS) -> Case:
    """Draw L, softmax and A as three groups."""
    workload = draw(of)
    _, _, rows, depth = workload.shapes["Q"]
    return case(
        workload,
        gemm_group(workload, "L", draw(gemm_mappings(rows, depth, rows))),
        softmax_group(workload, "softmax", draw(softmaxes(rows))),
        gemm_group(workload, "A", draw(gemm_mappings(rows, rows, depth))),
    )


@st.composite
def staged_cases(draw: st.DrawFn, of: Workloads = ATTENTIONS) -> Case:
    """Draw L, softmax and A one after the other with any number of resident rows."""
    workload = draw(of)
    batch, heads, rows, depth = workload.shapes["Q"]
    groups = staged_groups(
        workload,
        logit=draw(gemm_mappings(rows, depth, rows)),
        softmax=draw(softmaxes(rows)),
        attend=draw(gemm_mappings(rows, rows, depth)),
        resident_rows=draw(st.integers(0, batch * heads * rows)),
    )
    return case(workload, *groups)


@st.composite
def fused_cases(
    draw: st.DrawFn,
    of: Workloads = ATTENTIONS,
    *,
    online: bool | None = None,
    pipelined: bool | None = None,
) -> Case:
    """Draw fused attention; a pipelined one has the two slots of the logits that it needs."""
    workload = draw(of)
    batch, heads, rows, _ = workload.shapes["Q"]
    ahead = draw(st.booleans()) if pipelined is None else pipelined
    tiles = FlatTiles(
        heads=draw(st.integers(1, batch * heads)),
        rows=draw(st.integers(1, rows)),
        keys=draw(st.integers(1, rows)),
        online=draw(st.booleans()) if online is None else online,
        pipelined=ahead,
        logit_stationarity=draw(_STATIONARITIES),
        attend_stationarity=draw(_STATIONARITIES),
        in_slots=draw(_SLOTS),
        out_slots=draw(_SLOTS),
        tile_slots=draw(st.integers(2 if ahead else 1, 3)),
    )
    return case(workload, flat_group(workload, tiles))


def cases(gemms: Workloads = GEMMS, attentions: Workloads = ATTENTIONS) -> st.SearchStrategy[Case]:
    """Draw from all kinds of mappings."""
    of = attentions
    return gemm_cases(gemms) | separate_cases(of) | staged_cases(of) | fused_cases(of)


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
