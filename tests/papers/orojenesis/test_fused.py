"""Fused bounds: attained on the machine, never above what they contain, the paper's figures."""

import itertools
from dataclasses import replace

import pytest

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import compulsory_bytes
from simaccel.mapping.checks import faults
from simaccel.mapping.files import require_same
from simaccel.papers.orojenesis.fused import fused_segment
from simaccel.papers.orojenesis.fusion import TEMPLATES
from simaccel.papers.orojenesis.single import Mapspace
from simaccel.papers.orojenesis.whole import (
    FUSIONS,
    UNFUSED,
    WorkloadBound,
    in_chains,
    workload_bound,
)
from simaccel.workload import ModelDimensions, Workload, attention, parse_workload
from tests.agreement import dram_total
from tests.draws import DRAWS
from tests.trees import einsum, vector
from tests.trees import workload as small

ANY = Mapspace(imperfect=True, uneven=True)


def chain(*sizes: int, bytes_per_element: int = 2) -> Workload:
    """Return X0[m,r0] W0[r0,r1] -> X1[m,r1], X1 W1 -> ..., of sizes m, r0, r1, ..."""
    rows, *ranks = sizes
    operators = [
        einsum(f"mm{n}", f"X{n + 1} m n", f"X{n} m k", f"W{n} k n", m=rows, k=k, n=columns)
        for n, (k, columns) in enumerate(itertools.pairwise(ranks))
    ]
    names = [f"{kind}{n}" for n in range(len(ranks)) for kind in "XW"]
    bits = dict.fromkeys(names, 8 * bytes_per_element)
    return small(*operators, bits=bits, weights=[name for name in names if name[0] == "W"])


def attended(scope: str = "la", tokens: int = 6, batch: int = 2) -> Workload:
    """Return a small attention."""
    dimensions = ModelDimensions(hidden=6, heads=2, head_size=3, ff_size=8)
    return attention(dimensions, batch=batch, seq_len=tokens, scope=scope)


def grouped() -> Workload:
    """Return two query heads for each head of keys."""
    sizes = {"g": 2, "e": 2, "q": 4, "c": 5}
    return small(
        einsum("L", "S g e q c", "Q g e q d", "K g c d", **sizes, d=3),
        vector("softmax", "softmax", "P g e q c", "S g e q c", axis="c", **sizes),
        einsum("A", "Z g e q d", "P g e q c", "V g c d", **sizes, d=3),
    )


def assert_attained(found: WorkloadBound, step: int = 1) -> None:
    """Run points of a front: they fit, and move exactly those bytes."""
    numbers = {*range(0, len(found.front), step), len(found.front) - 1}
    for number in sorted(numbers):
        point = found.point(number)
        mapping = found.mapping(point)
        assert mapping is not None
        size = max(256, point.buffer_bytes)
        hw = load_accelerator("toy", [f"buffer.capacity_bytes={size}", "compiler.overlap=false"])
        require_same(found.workload, mapping)
        assert not faults(found.workload, mapping, hw)
        result = simulate(found.workload, hw, mapping)
        moved = dram_total(result.run.moved)
        assert moved == point.dram_bytes == point.moved_bytes
        assert result.prediction.buffer_bytes == point.buffer_bytes
        assert result.run.peak_buffer_bytes <= point.buffer_bytes


@pytest.mark.parametrize(
    ("workload", "step"),
    [
        (chain(5, 3, 4, 2), 1),
        (chain(4, 6, 5, 3, 2), 4),
        (chain(1, 4, 1, 3), 1),
        (attended(), 4 if DRAWS > 1 else 7),
        (grouped(), 5 if DRAWS > 1 else 8),
        pytest.param(attended("block", tokens=2, batch=1), 24, marks=pytest.mark.long),
    ],
    ids=["two", "three", "ones", "attention", "gqa", "block"],
)
def test_every_point_is_attained(workload: Workload, step: int) -> None:
    mapspace = ANY if len(workload.operators) < 5 else Mapspace()
    assert_attained(workload_bound(workload, mapspace, "best"), step)


def convolved(stride: int = 1, rows: int = 4) -> Workload:
    """Return two convolutions with an activation between."""
    inner = stride * (rows - 1) + 3
    window = [f"{stride}*p+r", f"{stride}*q+s"]
    return small(
        einsum(
            "c1", "T m p q", "I c p+r q+s", "W1 m c r s", m=3, c=2, p=inner, q=inner, r=2, s=2
        ),
        vector("relu", "relu", "R m p q", "T m p q", m=3, p=inner, q=inner),
        einsum(
            "c2", "O n p q", f"R m {window[0]} {window[1]}", "W2 n m r s",
            n=2, m=3, p=rows, q=rows, r=3, s=3,
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    "workload", [convolved(stride=2, rows=3), pytest.param(convolved(), marks=pytest.mark.long)]
)
def test_every_point_of_convolutions_is_attained(workload: Workload) -> None:
    """And the last moves what is compulsory, where the convolutions alone move more."""
    mapspace = Mapspace(uneven=True, halo="machine")
    fused = workload_bound(workload, mapspace, "best")
    assert_attained(fused, 6 if DRAWS > 1 else 40)
    names = [one.name for one in workload.operators]
    assert fused.front.largest[1] == compulsory_bytes(workload, [names])
    assert _is_below(fused, workload_bound(workload, mapspace))


def test_rows_of_two_convolutions_by_formula() -> None:
    """Weights, 5 rows of the input and 3 of what is between stay, and an output's element."""
    kernel = {"r": 3, "s": 3}
    workload = small(
        einsum("c1", "T m p q", "I c p+r q+s", "W1 m c r s", m=64, c=64, p=58, q=58, **kernel),
        einsum("c2", "O n p q", "T m p+r q+s", "W2 n m r s", n=64, m=64, p=56, q=56, **kernel),
    )
    found = fused_segment(workload, ["c1", "c2"], TEMPLATES["best"], imperfect=False)
    assert found is not None
    weights, rows = 2 * 64 * 64 * 9, 64 * (5 * 60 + 3 * 58)
    once = 64 * 60 * 60 + weights + 64 * 56 * 56
    width = workload.tensors["I"].bytes_per_element
    assert found.front.points()[-1] == (width * (weights + rows + 1), width * once)


@pytest.mark.parametrize("fuse", [one for one in FUSIONS if one not in {"best", UNFUSED}])
def test_every_template_is_attained(fuse: str) -> None:
    for workload in (chain(3, 2, 4, 2), attended(tokens=3, batch=1)):
        assert_attained(workload_bound(workload, ANY, fuse), 4)


def _is_below(lower: WorkloadBound, upper: WorkloadBound) -> bool:
    numbers = [(lower.front.find_point(room), moved) for room, moved in upper.front.points()]
    return all(at is not None and lower.front.accesses[at] <= moved for at, moved in numbers)


@pytest.mark.parametrize("workload", [chain(12, 8, 6, 10), attended(tokens=5)])
def test_the_best_is_below_all_others(workload: Workload) -> None:
    best = workload_bound(workload, ANY, "best")
    for fuse in ("none", "untiled", "full", "flat"):
        assert _is_below(best, workload_bound(workload, ANY, fuse)), fuse


def test_with_enough_room_a_chain_moves_what_is_compulsory() -> None:
    """Inputs, weights and outputs once; what is between never leaves the chip."""
    for workload in (chain(7, 3, 5, 4, 2), attended(), grouped()):
        names = [one.name for one in workload.operators]
        found = workload_bound(workload, ANY, "best")
        assert found.front.largest[1] == compulsory_bytes(workload, [names])
        alone = workload_bound(workload, ANY)
        assert alone.front.largest[1] == compulsory_bytes(workload, [[name] for name in names])


def test_what_runs_once_counts_once() -> None:
    """The last norm and the logits beside 12 layers; and they don't fuse with a layer."""
    document = {"kind": "transformer", "model": "gpt2", "prompt": 8, "scope": "model"}
    workload = parse_workload(document)
    assert workload.once
    names = [one.name for one in workload.operators]
    found = workload_bound(workload, Mapspace())
    assert found.front.largest[1] == compulsory_bytes(workload, [[name] for name in names])
    assert found.point(len(found.front) - 1).moved_bytes == found.front.largest[1]
    some = workload_bound(chain(4, 3, 5, 2), Mapspace(), "best")
    once = replace(some.workload, repeat=5, once=frozenset({"mm1"}))
    assert (0, 2) in some.segments
    assert (0, 2) not in workload_bound(once, Mapspace(), "best").segments


def test_segments_are_the_best_of_all_cuts() -> None:
    """Against every way to cut a chain of four, summed by hand at each buffer."""
    workload = chain(6, 4, 8, 3, 5, 2)
    names = [one.name for one in workload.operators]
    found = workload_bound(workload, ANY, "best")
    pieces = {}
    for begin, stop in itertools.combinations(range(len(names) + 1), 2):
        some = names[begin:stop]
        segment = (
            found.segments[begin, stop]
            if len(some) == 1
            else fused_segment(workload, some, TEMPLATES["best"], imperfect=True)
        )
        assert segment is not None
        pieces[begin, stop] = segment.front
    for room in range(found.front.smallest, found.front.largest[0] + 8):
        best = None
        for cuts in itertools.product([False, True], repeat=len(names) - 1):
            places = [0, *(n + 1 for n, cut in enumerate(cuts) if cut), len(names)]
            fronts = [pieces[pair] for pair in itertools.pairwise(places)]
            at = [front.find_point(room) for front in fronts]
            if any(one is None for one in at):
                continue
            total = sum(
                int(f.accesses[n]) for f, n in zip(fronts, at, strict=True) if n is not None
            )
            best = total if best is None else min(best, total)
        number = found.front.find_point(room)
        assert number is not None
        assert best == found.front.accesses[number]


def test_a_fused_chain_of_two_by_formula() -> None:
    """Rows of M0 and whole intermediate rows, weights streamed: I + Y + (W0 + W1) M / M0.

    On chip: M0 rows of X, a vector of one branch and of the other, and an element of each.
    """
    m, k, n, r = 8, 4, 6, 2
    workload = chain(m, k, n, r, bytes_per_element=1)
    found = fused_segment(workload, ["mm0", "mm1"], TEMPLATES["flat"], imperfect=False)
    assert found is not None
    points = dict(found.front.points())
    for rows in (1, 2, 4):
        room = rows * n + min(rows, n) + 1 + min(rows, n) + 1
        assert points[room] == m * k + m * r + (k * n + n * r) * m // rows


def test_operators_are_put_in_chains() -> None:
    names = [one.name for one in in_chains(attended("block"))]
    assert names == ["V", "K", "Q", "L", "softmax", "A", "O", "FF1", "FF2"]


# -- the paper's exhibits, two bytes an element (sections VI and VII of Huang et al.)


def test_figure_18_two_gemms_of_an_ffn() -> None:
    """Larger than 256 MB: up to 3.7 x. Below about 10 MB the template doesn't gain."""
    workload = chain(32768, 4096, 16384, 4096)
    alone = workload_bound(workload, Mapspace())
    full = fused_segment(workload, ["mm0", "mm1"], TEMPLATES["full"], imperfect=False)
    assert full is not None
    assert full.front.points()[-1] == (268484608, 2 * 402653184)
    assert alone.front.largest[1] / full.front.accesses[-1] == pytest.approx(3.67, abs=0.005)
    one, two = alone.front.find_point(2**20), full.front.find_point(2**20)
    assert one is not None
    assert two is not None
    assert full.front.accesses[two] > alone.front.accesses[one]


def test_figure_20_attention() -> None:
    """FLAT and FlashAttention: both end at K, V, Q and Z once."""
    dimensions = ModelDimensions(hidden=4096, heads=32, head_size=128, ff_size=16384)
    workload = attention(dimensions, batch=16, seq_len=2048, scope="la")
    ends = set()
    for fuse in ("flat", "flash"):
        found = fused_segment(workload, ["L", "softmax", "A"], TEMPLATES[fuse], imperfect=False)
        assert found is not None
        ends.add(int(found.front.accesses[-1]))
    assert ends == {compulsory_bytes(workload, [["L", "softmax", "A"]])} == {4 * 2 * 32768 * 4096}
