"""What stays on chip between groups: bytes by hand, capacities from both sides, drawn chains."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.analytic.floor.floor import floor_of
from simaccel.analytic.prediction import predict
from simaccel.diagnosis.check import check
from simaccel.hardware import Accelerator
from simaccel.hardware.compiler import CompilerSpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.mapping.text import parse_text, tree_text
from simaccel.mapping.tree import Do, Fork, Keep, Loop, Mapping, ResidentScope, Tree
from simaccel.program.lowering import lower
from simaccel.program.overlap import most_reserved_bytes
from simaccel.program.text import parse_program, program_text
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.choice import _MappingChoice
from simaccel.schedulers.group_place import minimise_slots, resident_tensors
from simaccel.schedulers.residency import bound_beside_held, fusion_depends_on_residency
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge
from simaccel.study.experiment import simulate
from simaccel.workload import Conv, Einsum, ModelDimensions, Vector, Workload, attention
from simaccel.workload.linking import IMAGE, conv
from tests.agreement import assert_counts, dram_total
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator
from tests.nodes import linked, pooling, residual
from tests.trees import assert_computes, einsum, mapping, vector, workload


def _on(capacity: int, *, resident: bool = True) -> Accelerator:
    on = accelerator(
        array={"rows": 2, "cols": 2} if capacity > 7 else {"rows": 1, "cols": 1},
        buffer={"capacity_bytes": capacity},
        dram={
            "bandwidth_bytes_per_second": "2 GB/s",
            "latency_cycles": 3,
            "interleave_bytes": min(capacity, 64),
        },
    )
    return on.model_copy(update={"compiler": CompilerSpec(resident=resident)})


def _pair(m: int, k: int, n: int, p: int) -> Workload:
    return workload(
        einsum("one", "T m n", "X m k", "A k n", m=m, k=k, n=n),
        einsum("two", "Y m p", "T m n", "B n p", m=m, n=n, p=p),
        bits=dict.fromkeys("TXAYB", 8),
    )


def _kept(mapping: Mapping) -> list[str]:
    return [
        keep.tensor for one in mapping.body if isinstance(one, ResidentScope) for keep in one.keeps
    ]


def test_what_is_held_is_neither_stored_nor_loaded() -> None:
    """X 3x5, A 5x7, B 7x2 come in and Y 3x2 goes out; without, T 3x7 goes out and comes in."""
    of, sides = _pair(3, 5, 7, 2), 3 * 5 + 5 * 7 + 7 * 2 + 3 * 2
    with_it, without = (
        make_mapping(of, _on(4096, resident=r), "flex", BYTES) for r in (True, False)
    )
    assert _kept(with_it) == ["T"]
    assert _kept(without) == []
    assert dram_total(assert_counts(of, with_it, _on(4096)).moved) == sides
    assert dram_total(assert_counts(of, without, _on(4096)).moved) == sides + 2 * 3 * 7


BYTES = Options(objective="dram-bytes")


@pytest.mark.parametrize("capacity", [6, 5])
def test_a_tensor_is_held_where_it_fits_exactly(capacity: int) -> None:
    """T has 4 B. Beside it, one tile of 1 B for each of two other tensors is the least: 6 B.

    Then X (2 B) comes once and A (2 B) for both rows, B (2 B) for both rows, and Y (2 B) goes out:
    12 B. With 5 B, T goes out and comes in, which alone is 8 B beside 2 each of X, A, B, Y.
    """
    of = _pair(2, 1, 2, 1)
    mapping = make_mapping(of, _on(capacity), "flex", BYTES)
    assert _kept(mapping) == (["T"] if capacity == 6 else [])
    run = assert_counts(of, mapping, _on(capacity))
    assert run.peak_buffer_bytes <= capacity
    assert (dram_total(run.moved) == 12) if capacity == 6 else (dram_total(run.moved) >= 16)


@pytest.mark.parametrize("sides", [(3, 5, 7, 2), (17, 4, 19, 5), (40, 2, 40, 2)])
def test_nothing_is_searched_apart_where_holding_gains_more(
    sides: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T of m x n goes out and comes in again, which is more than a tenth of all bytes."""
    of, on, names = _pair(*sides), _on(4096), list[str]()
    options = replace(BYTES, on_account=lambda account: names.append(account.name))
    held = make_mapping(of, on, "flex", options)
    assert set(names) == {"kept"}
    assert _kept(held) == ["T"]
    monkeypatch.setattr(_MappingChoice, "bodies_with_held_tensors", lambda _: [])
    names.clear()
    slow = make_mapping(of, on, "flex", options)
    assert {"alone", "kept"} == set(names)
    cycles = [Machine(on, lower(of, one)).run().cycles for one in (held, slow)]
    assert cycles[0] <= cycles[1] * 1.01


def test_what_no_candidate_takes_held_is_mapped_without() -> None:
    """T times itself would take one tile of T in two parts, and T is read after it, too."""
    of = workload(
        vector("one", "relu", "T m n", "X m n", m=8, n=8),
        einsum("two", "U m n", "T m k", "T k n", m=8, k=8, n=8),
        vector("three", "residual", "Y m n", "T m n", "U m n", m=8, n=8),
    )
    for objective in ("cycles", "energy"):
        found = make_mapping(of, _on(4096), "best", Options(objective=objective))
        assert_computes(of, found)
        assert_counts(of, found, _on(4096))


@pytest.mark.parametrize("layers", [1, 3])
def test_a_bound_with_held_tensors_is_that_of_all_layers(layers: int) -> None:
    """X 3x5, A 5x7, B 7x2 and Y 3x2 move in each layer; the bounds apart have these layers, too."""
    of, on = replace(_pair(3, 5, 7, 2), repeat=layers), _on(4096)
    search = TreeSearch(Goal.from_options(on, BYTES, of))
    groups = tuple(search.operator_candidates(of, name).group for name in ("one", "two"))
    assert bound_beside_held(of, groups, search) == layers * (3 * 5 + 5 * 7 + 7 * 2 + 3 * 2)


def test_what_crosses_into_the_next_iteration_keeps_two_slots() -> None:
    def tree(ahead: int, few: int) -> Tree:
        inside = (Loop("c", 8), Keep("K", slots=few), Do("L", "array"))
        outside = (Loop("q", 8), Keep("S", slots=few + ahead))
        return (*outside, Fork((inside, (Do("softmax", "sfu"),)), ahead))

    assert minimise_slots(tree(0, 3)) == tree(0, 1)
    assert minimise_slots(tree(1, 3)) == tree(1, 1)


def test_lives_end_with_the_last_reader() -> None:
    """Of a chain of 5 tensors no two but neighbours are alive at once: 2 x 49 B of 4 x 49 B."""
    nodes = [conv("c0", IMAGE, Conv(m=1, c=1, p=7, q=7, r=1, s=1))]
    nodes += [
        conv(f"c{at}", f"c{at - 1}", Conv(m=1, c=1, p=7, q=7, r=1, s=1)) for at in range(1, 5)
    ]
    of = linked(*nodes)
    on = _on(2 * 49 + 16)
    mapping = make_mapping(of, on, "flex", BYTES)
    assert _kept(mapping) == ["c0.O", "c1.O", "c2.O", "c3.O"]
    run = assert_counts(of, mapping, on)
    assert dram_total(run.moved) == 49 + 5 + 49
    assert 2 * 49 < run.peak_buffer_bytes <= 2 * 49 + 16
    assert most_reserved_bytes(lower(of, mapping), on) >= run.peak_buffer_bytes


@pytest.mark.parametrize(("capacity", "differs"), [(75, True), (76, False)])
def test_a_fused_group_matters_where_not_all_fits_beside_it(capacity: int, differs: bool) -> None:  # noqa: FBT001
    """B and C (16 B each) and a row of T, U and V (4 B each); T and V (16 B each) could be held."""
    of = workload(
        einsum("one", "T m n", "X m k", "A k n", m=4, k=2, n=4),
        einsum("two", "U m p", "T m n", "B n p", m=4, n=4, p=4),
        einsum("three", "V m q", "U m p", "C p q", m=4, p=4, q=4),
        vector("last", "residual", "Y m n", "V m n", "T m n", m=4, n=4),
        bits=dict.fromkeys("TXAUBVCY", 8),
    )
    body = mapping(
        of,
        """
        group one
          loop m 1
          keep X buffer, A buffer, T buffer
          do one array ws
        group two+three
          keep B buffer, C buffer
          loop m 1
          keep T buffer, U buffer, V buffer
          fork
            | do two array ws
            | do three array ws
        group last
          loop m 1
          keep V buffer, T buffer
          do last sfu
        """,
    ).body
    assert fusion_depends_on_residency(of, body, TreeSearch(Goal(Judge(_on(capacity))))) is differs


def test_sums_and_activations_are_made_in_place() -> None:
    """U = act(T) over T, and Z = R + U over R, which lives until V has read Z."""
    of = workload(
        einsum("one", "T m n", "X m k", "A k n", m=3, k=5, n=3),
        vector("act", "relu", "U m n", "T m n", m=3, n=3),
        einsum("two", "R m n", "U m k", "B k n", m=3, k=3, n=3),
        vector("sum", "residual", "Z m n", "R m n", "U m n", m=3, n=3),
        einsum("three", "V m n", "Z m k", "C k n", m=3, k=3, n=2),
    )
    mapping = make_mapping(of, _on(4096), "flex", BYTES)
    found = {
        one.name: (one.tensors, one.first, one.last) for one in resident_tensors(of, mapping.groups)
    }
    assert found == {"T": (("T", "U"), 0, 3), "R": (("R", "Z"), 2, 4)}
    assert _kept(mapping) == ["T", "R"]
    assert not faults(of, mapping, _on(4096))
    check(of, mapping, lower(of, mapping))
    assert_counts(of, mapping, _on(4096))


def test_what_a_later_group_reads_is_not_written_over() -> None:
    of = workload(
        einsum("one", "T m n", "X m k", "A k n", m=3, k=5, n=3),
        vector("act", "relu", "U m n", "T m n", m=3, n=3),
        vector("sum", "residual", "Z m n", "T m n", "U m n", m=3, n=3),
    )
    mapping = make_mapping(of, _on(4096), "flex", BYTES)
    assert _kept(mapping) == ["T", "U"]
    (around,) = mapping.body
    assert isinstance(around, ResidentScope)
    wrong = replace(mapping, body=(replace(around, keeps=around.keeps[:1]),))
    assert "a keep of a tensor that overwrites T, which sum reads later" in [
        one.allowed for one in faults(of, wrong)
    ]
    check(of, mapping, lower(of, mapping))


def test_mappings_and_programs_with_what_is_held_are_read_back() -> None:
    of = linked(
        conv("a", IMAGE, Conv(m=2, c=3, p=5, q=5, r=3, s=3), 1),
        conv("b", "a", Conv(m=3, c=2, p=5, q=5, r=3, s=3), 1),
        pooling("c", "b", 3, 2, reach=2, stride=2),
    )
    on = _on(4096)
    mapping = make_mapping(of, on, "flex", BYTES)
    assert _kept(mapping) == ["a.O", "b.O"]
    assert parse_text(tree_text(mapping)) == mapping
    program = lower(of, mapping)
    again = parse_program(program_text(program))
    assert program_text(again) == program_text(program)
    assert Machine(on, again).run().operators == Machine(on, program).run().operators


@pytest.mark.parametrize("dataflow", ["flex", pytest.param("best", marks=pytest.mark.long)])
def test_attention_blocks_hold_what_is_between_their_groups(dataflow: str) -> None:
    """What is fused, or kept in part already, stays; values and bytes are right."""
    sizes = ModelDimensions(hidden=6, heads=2, head_size=3, ff_size=7, layers=2)
    of = attention(sizes, batch=1, seq_len=5, scope="model", bytes_per_element=1)
    on = _on(211)
    mapping = make_mapping(of, on, dataflow, BYTES)
    assert _kept(mapping)
    assert not faults(of, mapping, on)
    check(of, mapping, lower(of, mapping))
    run = assert_counts(of, mapping, on)
    assert run.peak_buffer_bytes <= most_reserved_bytes(lower(of, mapping), on) <= 211
    assert floor_of(of, mapping, 211).least_bytes <= dram_total(run.moved)


SIZES = st.sampled_from([1, 2, 3, 5])


@st.composite
def networks(draw: st.DrawFn) -> Workload:
    """Draw convolutions, poolings and shortcuts behind one another, with odd sizes and padding."""
    channels, size, nodes, last = draw(SIZES), draw(st.integers(2, 7)), [], IMAGE
    same: list[str] = []
    for at in range(draw(st.integers(2, 4))):
        name = f"n{at}"
        kinds = ["conv", "depthwise", "pooling", "grouped"] if at else ["conv"]
        kind = draw(st.sampled_from([*kinds, *["residual"] * (2 * (len(same) > 1))]))
        reach = draw(st.sampled_from([1, 2, 3]))
        padding = draw(st.integers(0, reach - 1)) if kind != "residual" else 0
        stride = draw(st.sampled_from([1, 2]))
        made = (size + 2 * padding - reach) // stride + 1
        if kind == "residual":
            nodes.append(residual(name, last, draw(st.sampled_from(same[:-1])), channels, size))
            made = size
        elif size + 2 * padding < reach:
            break
        elif kind == "pooling":
            nodes.append(
                pooling(name, last, channels, made, reach=reach, stride=stride, padding=padding)
            )
        else:
            groups = {"depthwise": channels, "grouped": 1 + (channels == 2)}.get(kind, 1)
            outer = 1 if kind == "depthwise" else draw(SIZES)
            filters = Conv(m=outer, c=channels // groups, p=made, q=made, r=reach, s=reach)
            sizes = replace(filters, g=groups, stride=(stride, stride))
            nodes.append(conv(name, last, sizes, padding))
        before = channels, size
        channels, size, last = nodes[-1].channels, made, name
        same = [*(same if (channels, size) == before else []), name]
    return linked(*nodes, batch=draw(st.sampled_from([1, 2])))


def assert_held_well(of: Workload, capacity: int) -> None:
    """Hold a chain to everything that is true of any: values, bytes, bounds, figures, room."""
    on, without = _on(capacity), _on(capacity, resident=False)
    plain = make_mapping(of, without, "flex", BYTES)
    mapping = make_mapping(of, on, "flex", BYTES)
    assert not faults(of, mapping, on)
    check(of, mapping, lower(of, mapping))
    run = assert_counts(of, mapping, on)
    every = Machine(on, lower(of, mapping), fast_forward=False).run()
    assert (run.cycles, run.operators) == (every.cycles, every.operators)
    found = predict(of, mapping, on)
    assert found.moved == {key: n for key, n in run.moved.items() if n}
    assert found.bound_cycles <= run.cycles
    assert floor_of(of, mapping, capacity).least_bytes <= dram_total(run.moved)
    reserved_bytes = most_reserved_bytes(lower(of, mapping), on)
    assert max(run.peak_buffer_bytes, found.buffer_bytes) <= reserved_bytes <= capacity
    before = predict(of, plain, on)
    assert dram_total(found.moved) <= dram_total(before.moved)


@settings(max_examples=2 * DRAWS)
@given(networks(), st.sampled_from([64, 97, 211, 4096]))
def test_drawn_chains(of: Workload, capacity: int) -> None:
    """Values, bytes, bounds and room of chains with shortcuts, in buffers of odd sizes."""
    assert_held_well(of, capacity)


def test_around_attention_what_goes_from_operator_to_operator_stays_on_chip() -> None:
    """X 5x6 comes in three times and Y goes out, weights 4 x 6x6 and 2 x 6x8 come in, of two bytes.

    Inside, the rows of S stay that softmax works on in place.
    """
    dimensions = ModelDimensions(hidden=6, heads=2, head_size=3, ff_size=8)
    of = attention(dimensions, batch=1, seq_len=5)
    mapping = make_mapping(of, _on(4096), "flex", BYTES)
    moved = dram_total(assert_counts(of, mapping, _on(4096)).moved)
    assert moved == 2 * (3 * 5 * 6 + 5 * 6 + 4 * 6 * 6 + 2 * 6 * 8)


def _heads(name: str, queries: str, keys: int) -> tuple[Einsum | Vector, ...]:
    """Return an attention of 4 queries; of 4 x ``keys`` elements between its products."""
    ranks = {"q": 4, "c": keys, "d": 4}
    return (
        einsum(f"L{name}", f"S{name} q c", f"{queries} q d", f"K{name} c d", **ranks),
        vector(f"softmax{name}", "softmax", f"P{name} q c", f"S{name} q c", axis="c", q=4, c=keys),
        einsum(f"A{name}", f"Z{name} q d", f"P{name} q c", f"V{name} c d", **ranks),
    )


def test_of_two_attentions_the_larger_fits_a_row_at_a_time_only() -> None:
    """32 bytes are between the products of the first, 256 of the second, of a buffer of 256."""
    of = workload(*_heads("0", "Q", 4), *_heads("1", "Z0", 32))
    on = load_accelerator("toy", ["compiler.resident=true", "buffer.capacity_bytes=256 B"])
    free, fixed = (simulate(of, on, name) for name in ("flat", "flat-r"))
    assert free.run.cycles <= fixed.run.cycles * 1.01
    assert check(of, free.mapping, free.program)[-1].compared == 4 * 4
