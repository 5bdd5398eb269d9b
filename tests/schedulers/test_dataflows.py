"""Every dataflow: its mappings are what it says, fit, compute the right thing, and are the best."""

import gc
import math
import weakref
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import pytest

from simaccel.analytic.prediction import predict
from simaccel.dataflows import ON_ANY_ARRAY
from simaccel.diagnosis.check import check
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Mapping, ResidentScope, Tree, nodes
from simaccel.program.fit import require_fit
from simaccel.program.lowering import lower
from simaccel.program.overlap import most_reserved_bytes
from simaccel.schedulers import NothingFitsError, NotMappableError, Options, flat, make_mapping
from simaccel.schedulers.attention import problem_of
from simaccel.schedulers.group_search import GroupSearch, GroupSearchResult
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge
from simaccel.search.problems import parts
from simaccel.workload import ModelDimensions, Workload, attention, build, gemm
from tests.draws import DRAWS, some
from tests.refusals import refusal_of
from tests.trees import vector
from tests.trees import workload as make_workload

SMALL = ModelDimensions(hidden=6, heads=2, head_size=5, ff_size=7)
FITS_ON_TOY = ("naive", "flex", "flat", "flash")


def la(batch: int, seq_len: int) -> Workload:
    return attention(SMALL, batch=batch, seq_len=seq_len, scope="la")


def toy(capacity: str) -> Accelerator:
    return load_accelerator(
        "toy", [f"buffer.capacity_bytes={capacity}", "dram.interleave_bytes=16 B"]
    )


@cache
def small(batch: int, seq_len: int, capacity: str, dataflow: str) -> Mapping | None:
    """Mapping of a small attention on toy, or None if nothing fits."""
    return _mapping(la(batch, seq_len), toy(capacity), dataflow)


THE_BEST = Options(tolerance=0.0)
"""Near-ties are no concern of what is to be the best of its kind."""


def _mapping(workload: Workload, on: Accelerator, dataflow: str) -> Mapping | None:
    try:
        return make_mapping(workload, on, dataflow, THE_BEST)
    except NothingFitsError:
        return None


@dataclass(frozen=True)
class FlatTile:
    """What the tree of L, softmax and A together holds at once."""

    heads: int
    rows: int
    keys: int
    online: bool
    ahead: int
    slots: dict[str, int]


def fused(workload: Workload, mapping: Mapping) -> FlatTile:
    (group,) = (group for group in mapping.groups if len(group.operators) == 3)
    sizes = dict(space_of(workload, group).sizes)
    every = list(nodes(group.tree))
    sizes |= {node.rank: node.tile for node in group.tree if isinstance(node, Loop)}
    keys = [node.tile for node in every if isinstance(node, Loop) and node.rank == "c"]
    (fork,) = (node for node in every if isinstance(node, Fork))
    heads = math.prod(size for rank, size in sizes.items() if rank in ("b", "h", "bh"))
    return FlatTile(
        heads=heads,
        rows=sizes["q"],
        keys=min([sizes["c"], *keys]),
        online=any(isinstance(node, Loop) and node.rank == "c" for node in group.tree),
        ahead=fork.ahead,
        slots={node.tensor: node.slots for node in every if isinstance(node, Keep)},
    )


def resident_rows(mapping: Mapping) -> int:
    """Rows of the logits that stay on chip from L to A."""
    found = 0
    for one in mapping.body:
        for keep in one.keeps if isinstance(one, ResidentScope) else ():
            assert keep.tensor == "S"
            *heads_and_rows, keys = keep.region
            assert keys.start == 0
            found += math.prod(span.stop - span.start for span in heads_and_rows)
    return found


def gemm_tree(mapping: Mapping) -> Tree:
    (group,) = mapping.body
    assert isinstance(group, Group)
    return group.tree


def loops(tree: Tree) -> list[tuple[str, int]]:
    return [(node.rank, node.tile) for node in tree if isinstance(node, Loop)]


# -- any dataflow -----------------------------------------------------------------------------


_ALL_OF = ("flex", "flat", "best")
"""Dataflows that search what several others do: not with each of the sizes below."""
_ONCE = ("strips", *_ALL_OF)
_ALWAYS_FIT = [
    *(f"{name}{which}" for name in ("naive", "flex") for which in ("", "-m", "-b", "-h", "-r")),
    *("flat", "flat-r", "flash", "best"),
]
"""Dataflows that find a mapping for each of the sizes below; a new one need not."""


_COMPUTES = [
    d for d in ON_ANY_ARRAY if d not in ("flex-b", "flex-h", "naive-b", "naive-h", "best", "strips")
]
_OTHERS = (*_COMPUTES, "strips")
_LONG, _LARGE = (
    build("bert", batch=2, seq_len=n, scope="la") for n in (4096 if DRAWS > 1 else 1024, 288)
)


@pytest.mark.parametrize(
    ("workload", "hw", "capacity", "dataflow"),
    some(
        ((la(1, 5), "edge", "6 KiB", d) for d in ON_ANY_ARRAY if d not in (*_COMPUTES, "strips")), 2
    )
    + some(((la(1, 17), "edge", "6 KiB", d) for d in _COMPUTES), 4)
    + some(((la(1, 37), "edge", "12 KiB", d) for d in ON_ANY_ARRAY if d != "strips"), 20)
    + some(((_LONG, "edge", "512 KiB", d) for d in ON_ANY_ARRAY if d not in _ONCE), 20)
    + some(((_LARGE, "cloud", "32 MiB", d) for d in ON_ANY_ARRAY if d not in _ONCE), 20),
)
def test_mappings_lower_and_fit(workload: Workload, hw: str, capacity: str, dataflow: str) -> None:
    on = load_accelerator(hw, [f"buffer.capacity_bytes={capacity}"])
    mapping = _mapping(workload, on, dataflow)
    if mapping is None:
        assert dataflow not in _ALWAYS_FIT
    else:
        _require_sound(workload, on, mapping)
        assert mapping.dataflow == dataflow


def _require_sound(workload: Workload, on: Accelerator, mapping: Mapping) -> None:
    assert faults(workload, mapping, on) == []
    program = lower(workload, mapping)
    require_fit(program, on.capacities)
    predicted = predict(workload, mapping, on)
    assert predicted.buffer_bytes <= most_reserved_bytes(program, on)
    assert predicted.macs == workload.macs


def _cycles(workload: Workload, mapping: Mapping, on: Accelerator) -> int:
    return Machine(on, lower(workload, mapping)).run().cycles


def _require_right(workload: Workload, on: Accelerator, mapping: Mapping) -> list[str]:
    """Require all, and the values of numpy; return the operators that were compared."""
    _require_sound(workload, on, mapping)
    _require_run(workload, on, mapping)
    return [one.operator for one in check(workload, mapping, lower(workload, mapping))]


def _require_run(workload: Workload, on: Accelerator, mapping: Mapping) -> None:
    """The machine moves and computes what is predicted, and is not below the bound."""
    run, predicted = Machine(on, lower(workload, mapping)).run(), predict(workload, mapping, on)
    assert run.macs == predicted.macs
    assert run.moved == predicted.moved
    assert predicted.bound_cycles <= run.cycles


@pytest.mark.parametrize(
    ("batch", "seq_len", "capacity", "dataflow"),
    some(((1, 3, "320 B", d) for d in _COMPUTES), 2)
    + some(((2, 5, "448 B", d) for d in _COMPUTES), 20)
    + some(((2, 7, "4 KiB", d) for d in reversed(_COMPUTES)), 20)
    + some(((1, 7, "512 B", d) for d in _COMPUTES if d not in _ALL_OF), 9),
)
def test_mappings_compute_attention(dataflow: str, batch: int, seq_len: int, capacity: str) -> None:
    workload, on = la(batch, seq_len), toy(capacity)
    mapping = small(batch, seq_len, capacity, dataflow)
    if mapping is None:
        assert dataflow not in _ALWAYS_FIT
        return
    assert _require_right(workload, on, mapping)[-1] == "A"


@pytest.mark.parametrize("dataflow", FITS_ON_TOY)
def test_a_single_token(dataflow: str) -> None:
    workload, mapping = la(1, 1), small(1, 1, "512 B", dataflow)
    assert mapping is not None
    assert check(workload, mapping, lower(workload, mapping))[-1].operator == "A"


@pytest.mark.parametrize("dataflow", ["naive", "flex", "flash", "best"])
def test_what_a_search_leaves_is_free_at_once(
    dataflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[weakref.ref[GroupSearch]] = []
    make = GroupSearch.find

    def noted(self: GroupSearch, held_bytes: int = 0, limit: float = math.inf) -> GroupSearchResult:
        found.append(weakref.ref(self))
        return make(self, held_bytes, limit)

    monkeypatch.setattr(GroupSearch, "find", noted)
    gc.disable()
    try:
        make_mapping(la(1, 16), load_accelerator("edge"), dataflow)
        assert found
        assert [one for one in found if one() is not None] == []
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("dataflow", "seq_len"), [("flat-r", 4), pytest.param("flash", 4, marks=pytest.mark.long)]
)
def test_pipelined_mappings_compute_attention(dataflow: str, seq_len: int) -> None:
    workload, on = la(1, seq_len), toy("4 KiB")
    mapping = make_mapping(workload, on, dataflow, Options(pipeline=True))
    tile = fused(workload, mapping)
    assert tile.ahead == 1
    assert tile.slots["S"] >= 2
    assert _require_right(workload, on, mapping)


@pytest.mark.parametrize(
    ("dataflow", "shape"),
    [*((d, (1, 3, 1)) for d in FITS_ON_TOY), ("naive", (9, 7, 5)), ("flex", (5, 6, 2))],
)
def test_gemms_compute(dataflow: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    workload, on = gemm(m=m, k=k, n=n, batch=2), toy("128 B")
    mapping = make_mapping(workload, on, dataflow)
    assert _require_right(workload, on, mapping)


@pytest.mark.parametrize("dataflow", ["naive", "flat-r", "flash"])
def test_the_same_input_gives_the_same_mapping(dataflow: str) -> None:
    once = small(1, 3, "320 B", dataflow)
    assert make_mapping(la(1, 3), toy("320 B"), dataflow, THE_BEST) == once


def test_unknown_dataflow() -> None:
    said = refusal_of(make_mapping, la(1, 2), load_accelerator("toy"), "falt")
    assert said == "--dataflow: dataflow: got 'falt'; did you mean 'flat'?"


def test_attentions_are_found_among_the_operators() -> None:
    workload = attention(SMALL, batch=1, seq_len=3)
    assert parts(workload) == ["Q", "K", "V", ("L", "softmax", "A"), "O", "FF1", "FF2"]
    assert parts(gemm(m=1, k=1, n=1)) == ["gemm"]


# -- the best of its kind -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "seq_len", "capacity"),
    some(
        [
            ("flat", 3, "320 B"),
            ("flat", 5, "448 B"),
            ("flat", 7, "4 KiB"),
            ("flex", 3, "320 B"),
            ("flex", 5, "448 B"),
            ("flex", 7, "unlimited"),
            ("flex", 7, "4 KiB"),
        ],
        7,
    ),
)
def test_the_family_is_never_worse_than_its_granularities(
    family: str, seq_len: int, capacity: str
) -> None:
    batch = 2
    workload, on = la(batch, seq_len), toy(capacity)
    parts_of = [small(batch, seq_len, capacity, f"{family}-{x}") for x in "mbhr"]
    cycles = [_cycles(workload, one, on) for one in parts_of if one is not None]
    chosen = small(batch, seq_len, capacity, family)
    assert chosen is not None
    assert _cycles(workload, chosen, on) == min(cycles)


@pytest.mark.parametrize(
    ("hw", "dataflow"),
    some(
        [
            ("edge", "flash"),
            ("cloud", "flex"),
            ("cloud", "flash"),
            ("cloud", "flat"),
            ("edge", "flat-r"),
        ],
        5,
    ),
)
def test_more_buffer_never_moves_more(hw: str, dataflow: str) -> None:
    """BERT at 64 or 128: neither bytes nor cycles grow with the buffer.

    Cycles may by a little: a search looks near the best of its grid, which with more room is
    another one, whose neighbours may be worse than those of the one before.
    """
    workload = build("bert", batch=1, seq_len=128 if hw == "cloud" else 64, scope="la")
    moved: list[int] = []
    cycles: list[int] = []
    for capacity in ("512 KiB", "2 MiB", "16 MiB"):
        on = load_accelerator(hw, [f"buffer.capacity_bytes={capacity}"])
        mapping = _mapping(workload, on, dataflow)
        if mapping is not None:
            found = predict(workload, mapping, on)
            moved.append(sum(n for (level, _), n in found.moved.items() if level[:4] == "dram"))
            cycles.append(_cycles(workload, mapping, on))
    assert len(moved) > 1
    assert moved == sorted(moved, reverse=True)
    assert all(after <= 1.03 * before for before, after in pairwise(cycles))


# -- what a granularity is ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "seq_len", "capacity"),
    [
        (2, 3, "320 B"),
        (2, 3, "unlimited"),
        *[(2, 5, "448 B"), (1, 7, "512 B"), (2, 7, "4 KiB")] * (DRAWS > 1),
    ],
)
def test_flat_tiles_are_of_their_granularity(batch: int, seq_len: int, capacity: str) -> None:
    """M: all heads of all samples; B: whole samples; H: whole heads; R: rows of one head."""
    workload = la(batch, seq_len)
    mappings = {x: small(batch, seq_len, capacity, f"flat-{x}") for x in "mbhr"}
    found = {x: fused(workload, made) for x, made in mappings.items() if made is not None}
    assert "r" in found
    assert capacity != "unlimited" or len(found) == 4
    heads = SMALL.heads
    for granularity, tile in found.items():
        assert not tile.online
        allowed = {
            "m": [batch * heads],
            "b": [heads * samples for samples in range(1, max(2, batch))],
            "h": range(1, heads),
            "r": [1],
        }[granularity]
        assert tile.heads in allowed
        assert tile.rows < seq_len if granularity == "r" else tile.rows == seq_len


@pytest.mark.long
@pytest.mark.parametrize("dataflow", ["naive", "flex"])
@pytest.mark.parametrize("granularity", "mbhr")
@pytest.mark.parametrize(
    ("rows", "capacity"), [(3, "320 B"), (5, "448 B"), (7, "4 KiB"), (7, "unlimited")]
)
def test_the_resident_part_is_whole_units(
    dataflow: str, granularity: str, rows: int, capacity: str
) -> None:
    """M: all or nothing; B: samples; H: heads; R: any number of rows."""
    batch = 2
    mapping = small(batch, rows, capacity, f"{dataflow}-{granularity}")
    assert mapping is not None
    all_rows = batch * SMALL.heads * rows
    unit = {"m": all_rows, "b": SMALL.heads * rows, "h": rows, "r": 1}[granularity]
    resident = resident_rows(mapping)
    assert resident % unit == 0
    assert resident * rows * 2 <= (toy(capacity).buffer.capacity_bytes or all_rows * rows * 2)


@pytest.mark.parametrize(
    "fields",
    [
        ("dram.bandwidth_bytes_per_second=1 GB/s",),
        (
            *("dram.bandwidth_bytes_per_second=unlimited", "dram.latency_cycles=0"),
            *("dram.turnaround_cycles=0", "sfu.passes=2"),
        ),
    ],
)
def test_flex_keeps_everything_in_an_unlimited_buffer(fields: tuple[str, ...]) -> None:
    """Where memory is slow; and where it takes no time, as what costs no cycle saves bytes."""
    on = load_accelerator("toy", ["buffer.capacity_bytes=unlimited", *fields])
    one = ModelDimensions(hidden=4, heads=2, head_size=2, ff_size=4)
    workload = attention(one, batch=1, seq_len=2, scope="la")
    assert resident_rows(make_mapping(workload, on, "flex")) == 2 * 2


def test_flash_tiles_the_keys_online() -> None:
    tile = fused(la(2, 40), make_mapping(la(2, 40), toy("1 KiB"), "flash"))
    assert tile.online
    assert tile.heads == 1
    assert tile.keys < 40


# -- naive ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hw", "side"), [("edge", 32), ("cloud", 256), ("toy", 4)])
def test_naive_has_one_tile_for_every_gemm(hw: str, side: int) -> None:
    """One fold of weights held while rows of A, four array sides at a time, stream past."""
    for size in (8 * side, 16 * side, 64 * side):
        mapping = make_mapping(gemm(m=size, k=size, n=size), load_accelerator(hw), "naive")
        tree = gemm_tree(mapping)
        assert loops(tree) == [("n", side), ("k", side), ("m", 4 * side)]
        assert tree[3:-1] == tuple(Keep(tensor, "buffer", 2) for tensor in "ABC")
        assert tree[-1] == Do("gemm", "array", "ws")


@pytest.mark.parametrize(
    ("capacity", "rows"),
    [
        ("448 B", {"b": 0, "h": 7, "r": 11}),
        *[("448 B", {"m": 0, "": 11}), ("583 B", {"m": 0, "b": 21, "h": 21, "r": 21, "": 21})]
        * (DRAWS > 1),
        *[("unlimited", {"m": 42, "b": 42, "h": 42, "r": 42, "": 42})] * (DRAWS > 1),
    ],
)
def test_naive_keeps_rows_beside_its_tiles(capacity: str, rows: dict[str, int]) -> None:
    """L and A take 2 slots of 7 x 4, 4 x 4 and 7 x 4 elements of 2 B, 288 B; a row takes 14 B.

    2 samples of 3 heads of 7 rows: what moves fewest bytes has as many rows as fit.
    """
    three = replace(SMALL, heads=3)
    workload, on = attention(three, batch=2, seq_len=7, scope="la"), toy(capacity)
    for granularity, expected in rows.items():
        dataflow = f"naive-{granularity}".rstrip("-")
        options = replace(THE_BEST, objective="dram-bytes")
        mapping = make_mapping(workload, on, dataflow, options)
        assert resident_rows(mapping) == expected
        _require_sound(workload, on, mapping)
        _require_run(workload, on, mapping)


def test_naive_lowers_its_tile_only_if_it_must() -> None:
    """On toy a fold's weights take 32 B a slot; A and C 8 B a row and slot."""
    for capacity, rows in (("576 B", 16), ("575 B", 8), ("320 B", 8), ("319 B", 4), ("96 B", 1)):
        tree = gemm_tree(make_mapping(gemm(m=64, k=64, n=64), toy(capacity), "naive"))
        assert loops(tree) == [("n", 4), ("k", 4), ("m", rows)]
    with pytest.raises(NothingFitsError, match=r"one row need 96 B, the buffer has 95 B"):
        make_mapping(gemm(m=64, k=64, n=64), toy("95 B"), "naive")


# -- nothing fits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hw", "seq_len", "side"), [("edge", 262_144, 32), ("edge", 1_048_576, 32), ("toy", 512, 4)]
)
def test_flat_needs_a_whole_row_of_logits(hw: str, seq_len: int, side: int) -> None:
    """One row, even with one slot each and the smallest key tiles, is larger than the buffer.

    Elements of 2 B: a row of S; a row of Q and of Z, 64 wide; K and V of an array side of keys.
    """
    needs = 2 * seq_len + 2 * (64 * 2) + 2 * (side * 64 * 2)
    on = load_accelerator(hw)
    workload = build("bert", batch=64, seq_len=seq_len, scope="la")
    capacity = on.buffer.capacity_bytes
    for dataflow in ("flat", "flat-r"):
        said = refusal_of(make_mapping, workload, on, dataflow, error=NothingFitsError)
        assert said == (
            f"L+softmax+A: no tiling fits the buffer of {capacity} B; the smallest that was tried "
            f"needs {needs} B"
        )


@pytest.mark.parametrize(
    ("hw", "seq_len", "fits"),
    [
        ("edge", 131_072, "r"),
        ("edge", 262_144, ""),
        ("cloud", 512, "bhr"),
        ("cloud", 2048, "hr"),
        *[("edge", 512, "r"), ("cloud", 4096, "r"), ("cloud", 1_048_576, "r")] * (DRAWS > 1),
    ],
)
def test_which_granularity_holds_which_length(hw: str, seq_len: int, fits: str) -> None:
    """BERT, batch 64, by Table 1 of FLAT: edge has 512 KiB, cloud 32 MiB."""
    workload = build("bert", batch=64, seq_len=seq_len, scope="la")
    on = load_accelerator(hw)
    problem, goal = problem_of(workload, ("L", "softmax", "A")), Goal(Judge(on))
    bounds = {
        x: flat.candidates(problem, TreeSearch(goal), Options(), f"flat-{x}").bound(goal.room)
        for x in "mbhr"
    }
    assert "".join(x for x, bound in bounds.items() if math.isfinite(bound)) == fits


@pytest.mark.parametrize("dataflow", ["flash", pytest.param("flex", marks=pytest.mark.long)])
def test_the_others_have_no_longest_sequence(dataflow: str) -> None:
    head = ModelDimensions(hidden=64, heads=1, head_size=64, ff_size=64)
    workload = attention(head, batch=1, seq_len=262_144, scope="la")
    on = load_accelerator("edge")
    mapping = make_mapping(workload, on, dataflow, Options(patience=1))
    assert predict(workload, mapping, on).buffer_bytes <= 2**19


@pytest.mark.parametrize("dataflow", ON_ANY_ARRAY)
def test_nothing_fits_says_what_there_is(dataflow: str) -> None:
    """32 B is one operand of a fold on toy: no dataflow finds a mapping of attention.

    All but flex, which has no one smallest mapping, and strips say what the smallest needs.
    """
    workload = build("bert", batch=1, seq_len=64, scope="la")
    needs = r"no tiling fits the buffer of 32 B; the smallest that was tried needs \d+ B"
    if dataflow.startswith("flex"):
        needs = "no tiling fits the buffer of 32 B"
    elif dataflow.startswith("naive"):
        needs = r"needs? \d+ B, the buffer has 32 B"
    elif dataflow == "strips":
        needs = r"needs more than buffer.capacity_bytes \(32 B\)"
    with pytest.raises(NothingFitsError, match=needs):
        make_mapping(workload, toy("32 B"), dataflow)


def test_an_elementwise_product_is_refused_by_name() -> None:
    """With m, k and n of 1 only the batch is left."""
    for dataflow in ON_ANY_ARRAY:
        with pytest.raises(NotMappableError, match="operator gemm: an elementwise product"):
            make_mapping(gemm(m=1, k=1, n=1, batch=2), toy("128 B"), dataflow)


@pytest.mark.parametrize("dataflow", ON_ANY_ARRAY)
def test_vector_operators_are_mapped(dataflow: str) -> None:
    """2 rows of 5 gelus and of a softmax, each on its own."""
    workload = make_workload(
        vector("act", "gelu", "Y m n", "X m n", m=2, n=5),
        vector("softmax", "softmax", "Z m n", "Y m n", axis="n", m=2, n=5),
    )
    on = load_accelerator("toy")
    mapping = make_mapping(workload, on, dataflow)
    assert _require_right(workload, on, mapping) == ["act", "softmax"]
