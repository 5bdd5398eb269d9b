"""No run is below the lower bound; small cases and groups that overlap, by hand."""

import math
from dataclasses import replace
from random import Random
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.analytic.evaluation import FamilyTotals, evaluate
from simaccel.analytic.family import family_of, ints, take, tree_of
from simaccel.analytic.prediction import predict
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group, Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers.chains import chain_family, chain_of
from simaccel.workload import Einsum, Workload
from tests.drawn_trees import draw_case
from tests.draws import DRAWS, seeds
from tests.machine.accelerators import accelerator, accelerators, gigabytes
from tests.program.programs import LA, Case, attention_workload, case, fused_cases, gemm_cases
from tests.trees import einsum, mapping, vector, workload


def totals(of: Workload, one: Mapping, on: Accelerator) -> FamilyTotals:
    """Count a mapping of one group."""
    ((group, around),) = one.groups_with_keeps()
    return evaluate(family_of(space_of(of, group), group, around), on)


@given(gemm_cases() | fused_cases(), accelerators())
def test_no_run_is_below(of: Case, on: Accelerator) -> None:
    if of.workload.repeat == 1:
        least = int(totals(of.workload, of.mapping, on).bound())
        assert least <= Machine(on, of.program).run().cycles


@pytest.mark.parametrize("spatial", [False, True])
def test_no_run_of_a_drawn_tree_is_below(*, spatial: bool) -> None:
    compared = 0
    for seed in seeds(16):
        drawn = draw_case(seed, spatial=spatial)
        if drawn.of.repeat > 1 or len(list(drawn.mapping.groups_with_keeps())) > 1:
            continue
        least = int(totals(drawn.of, drawn.mapping, drawn.on).bound())
        assert least <= Machine(drawn.on, lower(drawn.of, drawn.mapping)).run().cycles
        compared += 1
    assert compared > 4


@settings(max_examples=2 * DRAWS)
@given(
    st.sampled_from([("L", "softmax"), ("softmax", "A"), LA]),
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 17), st.integers(1, 9)),
    accelerators(),
    st.randoms(use_true_random=False),
)
def test_no_run_of_a_chain_is_below(
    names: tuple[str, ...], sizes: tuple[int, int, int, int], on: Accelerator, rnd: Random
) -> None:
    workload = attention_workload(*sizes).select_operators(names)
    chain = chain_of(workload, names)
    assert chain is not None
    family = chain_family(chain, on)
    number = ints(rnd.randrange(math.prod(family.shape)))
    one = take(family, np.unravel_index(number, family.shape))
    of = case(workload, replace(chain.group, tree=tree_of(one)))
    assert evaluate(one, on).bound() <= Machine(on, of.program).run().cycles


ON = accelerator(
    sfu={"lanes": 1, "passes": 3, "latency_cycles": 0},
    dram={"bandwidth_bytes_per_second": gigabytes(1), "latency_cycles": 7},
)
"""4 x 4 PEs without overlap: an output-stationary fold takes K + 4 + 4 - 2 cycles.

DRAM has 1 byte per cycle and 7 cycles of latency, softmax takes 3 cycles an element.
"""


def fused(
    text: str,
    rows: int,
    depth: int,
    batch: int = 1,
    operators: tuple[str, ...] = LA,
    on: Accelerator = ON,
) -> tuple[int, int]:
    """Return what the closed form says of (a part of) an attention, and the machine.

    Elements have 2 B.
    """
    workload = attention_workload(batch, 1, rows, depth).select_operators(operators)
    merged = mergeable(workload, operators)
    tree = parse_tree(dedent(text))
    of = case(workload, Group(operators=operators, tree=tree, merged=merged))
    least = int(totals(of.workload, of.mapping, on).bound())
    return least, Machine(on, of.program).run().cycles


@pytest.mark.parametrize(("held", "lead"), [("ws", 0), ("is", 4)])
def test_phases_drain_and_fill_the_array(held: str, lead: int) -> None:
    """Of 4 x 4 PEs results need 4 + 4 - 2 cycles more, and a stationary operand 4 before."""
    text = f"""
    loop bh 1
    keep Q buffer x3, K buffer x3, V buffer x3, Z buffer x3, S buffer
    fork
      | do L array is
      | do softmax sfu
      | do A array {held}
    """
    streams = ON.model_copy(update={"array": ON.systolic.model_copy(update={"overlap": "stream"})})
    logit, softmax, attend = 2 * 8, 64 * 3, 16
    tensor, tail = 8 * 4 * 2, 4 + 4 - 2
    least, cycles = fused(text, 8, 4, batch=3, on=streams)
    stays = 3 * (logit + tail + softmax + lead + attend)
    assert least == 7 + 2 * tensor + stays + tail + tensor
    assert least == cycles


@pytest.mark.parametrize(("slots", "least_cycles", "cycles"), [(1, 1430, 1430), (3, 477, 550)])
def test_slots_wait_for_latency_in_turns(slots: int, least_cycles: int, cycles: int) -> None:
    """13 tiles of 4 + 4 + 4 - 2 cycles, each 100 cycles after the tile before it in its slot.

    With one slot 13 * 110. With three a slot has five of them, 5 * 110; the bound has the mean of
    all: the first load, then (13 * 10 + 10 * 100) / 3.
    """
    on = accelerator(dram={"latency_cycles": 100})
    text = f"""
    loop bh 1
    keep Q buffer x{slots}, K buffer x{slots}, S buffer x{slots}
    do L array os
    """
    assert fused(text, 4, 4, batch=13, operators=("L",), on=on) == (least_cycles, cycles)


def test_phases_follow_one_another() -> None:
    text = """
    loop bh 1
    keep Q buffer x3, K buffer x3, V buffer x3, Z buffer x3, S buffer
    fork
      | do L array os
      | do softmax sfu
      | do A array os
    """
    logit, softmax, attend = 4 * (4 + 4 + 4 - 2), 64 * 3, 2 * (8 + 4 + 4 - 2)
    tensor = 8 * 4 * 2
    least, cycles = fused(text, 8, 4, batch=3)
    assert least == 7 + 2 * tensor + 3 * (logit + softmax + attend) + tensor
    assert least == cycles


def test_passes_over_a_row_have_tiles_of_their_own() -> None:
    """The first tile of the second pass comes while the last of the first is in use.

    A row of two tiles of 8 B, 40 cycles of latency, a byte a cycle: tiles are there at 48 and, when
    the slot is free, at 100 (4 cycles for statistics of each), the first of the second pass, right
    behind, at 108; its results leave from 112 to 120, the last tile comes until 168 and leaves from
    172 to 180.
    """
    of = workload(vector("softmax", "softmax", "P r c", "S r c", axis="c", r=1, c=8))
    one = mapping(of, "group softmax\n  loop c 4\n  keep S buffer\n  do softmax sfu")
    dram = {"bandwidth_bytes_per_second": "1 GB/s", "latency_cycles": 40, "batch_bytes": 64}
    on = accelerator(dram=dram, sfu={"lanes": 1, "passes": 2})
    run = Machine(on, lower(of, one)).run()
    path = {name: int(n) for name, n in totals(of, one, on).path.items() if int(n)}
    assert run.cycles == 180
    assert path == {"fill": 48, "sfu": 4 * 4, "dram": 2 * (8 + 40), "drain": 8}


def test_tiles_of_one_slot_are_waited_for() -> None:
    text = """
    keep Q buffer, Z buffer, S buffer
    fork
      | loop c 4
        keep K buffer
        do L array os
      | do softmax sfu
      | loop c 4
        keep V buffer
        do A array os
    """
    fold, softmax, tile = 4 + 4 + 4 - 2, 64 * 3, 4 * 4 * 2
    least, cycles = fused(text, 8, 4)
    first, wait = 7 + 2 * tile + tile, 7 + tile
    assert least == first + 2 * (4 * fold + wait) + softmax + 2 * tile
    assert least <= cycles


@pytest.mark.parametrize(
    ("slots", "scores", "latency", "expected"),
    [
        (1, 2, 300, 3 * (428 + 40)),  # loads and products in turn
        (1, 2, 100, 228 + 40 + 3 * 192 + 128),  # softmax after the first product, then its store
        (2, 2, 100, 228 + 40 + 3 * 192 + 128),
        (1, 1, 100, 228 + 3 * 40 + 3 * 192 + 128),  # softmax and products in turn
        (1, 1, 300, 3 * (428 + 40)),
    ],
)
def test_tiles_around_a_fork_are_waited_for(
    slots: int, scores: int, latency: int, expected: int
) -> None:
    """Queries and keys of 64 B each, a byte a cycle, come between the products of 40 cycles.

    Meanwhile softmax works, for 192 cycles; three times.
    """
    text = f"""
    loop bh 1
    keep Q buffer x{slots}, K buffer x{slots}, S buffer x{scores}, P buffer x2
    fork
      | do L array os
      | do softmax sfu
    """
    on = accelerator(
        sfu={"lanes": 1, "passes": 3, "latency_cycles": 0},
        dram={"bandwidth_bytes_per_second": gigabytes(1), "latency_cycles": latency},
    )
    least, cycles = fused(text, 8, 4, batch=3, operators=("L", "softmax"), on=on)
    assert least == expected
    assert least <= cycles


def test_only_as_many_tiles_as_have_slots_come_before_a_phase() -> None:
    text = """
    keep V buffer
    loop q 4
    keep Q buffer x2, Z buffer x2, S buffer
    fork
      | loop c 2
        keep K buffer x2
        do L array os
      | do softmax sfu
      | do A array os
    """
    blocks, keys, rows = 8, 2 * 16 * 2, 4 * 16 * 2
    softmax, attend = 4 * 32 * 3, 4 * (32 + 4 + 4 - 2)
    least, cycles = fused(text, 32, 16)
    moved = (16 - 2) * keys
    assert moved > 16 * (16 + 4 + 4 - 2), "the transfers take longer than the folds"
    assert least == 7 + rows + keys + blocks * moved + blocks * (softmax + attend) + rows
    assert least <= cycles


@pytest.mark.parametrize("slots", [1, 2])
def test_array_and_sfu_take_turns_at_a_tile_of_one_slot(slots: int) -> None:
    softmax, attend, logit = 64 * 3, 2 * (8 + 4 + 4 - 2), 4 * (4 + 4 + 4 - 2)
    tensor, scores = 8 * 4 * 2, 8 * 8 * 2
    before = f"""
    loop bh 1
    keep S buffer x2, V buffer x3, P buffer x{slots}, Z buffer x3
    fork
      | do softmax sfu
      | do A array os
    """
    least, cycles = fused(before, 8, 4, batch=3, operators=("softmax", "A"))
    assert least <= cycles
    assert (least == 7 + scores + 3 * (softmax + attend) + tensor) == (slots == 1)
    behind = f"""
    loop bh 1
    keep Q buffer x3, K buffer x3, S buffer x{slots}, P buffer x2
    fork
      | do L array os
      | do softmax sfu
    """
    least, cycles = fused(behind, 8, 4, batch=3, operators=("L", "softmax"))
    assert least <= cycles
    beside = 2 * logit * (slots == 1)  # only the first logits come before all softmax
    assert least == 7 + 2 * tensor + logit + beside + 3 * softmax + scores


@pytest.mark.parametrize(
    ("rows", "lanes", "visit"),
    [
        (4, 1, 20 + 2 * 96 + 14),
        (4, 4, 20 + 2 * 24 + 14),
        (4, 6, 2 * (20 + 14) + 18 - 14),
        (6, 4, (40 + 36 + 28) + (20 + 12 + 14)),
    ],
    ids=["the SFU is busy", "softmax is longer", "A hides all but one", "no tile early"],
)
def test_logits_of_the_next_tile_come_before_the_last_operator(
    rows: int, lanes: int, visit: int
) -> None:
    """Of 8 rows the array does L of the second 4 before A of the first; of 6 and 2 it doesn't.

    An output-stationary fold takes 10 cycles in L (two of them for each 4 rows) and 14 in A,
    softmax 3 cycles an element by the lanes. L of 8 rows, softmax behind it and A last are from 0
    to 20, 20 to 44 and 44 to 68, 68 to 82 by 4 lanes; by 6 (6 turns a pass), where L ends at
    40, from 40 to 58 and from 58 to 72. DRAM has 8 bytes a cycle.
    """
    on = accelerator(
        sfu={"lanes": lanes, "passes": 3, "latency_cycles": 0},
        dram={"bandwidth_bytes_per_second": gigabytes(8), "latency_cycles": 7},
    )
    text = f"""
    loop bh 1
    loop q {rows}
    keep Q buffer x3, K buffer x3, V buffer x3, Z buffer x3, S buffer x2
    fork ahead 1
      | do L array os
      | do softmax sfu
      | do A array os
    """
    least, cycles = fused(text, 8, 4, batch=3, on=on)
    tile, tensor, last = rows * 4 * 2, 8 * 4 * 2, (8 % rows or rows) * 4 * 2
    assert least == 7 + (tile + tensor) // 8 + 3 * visit + last // 8
    assert least == cycles


def test_the_array_waits_for_sums_that_are_rescaled() -> None:
    text = """
    keep Q buffer, Z buffer
    loop c 4
    keep K buffer x2, V buffer x2, S buffer
    fork
      | do L array os
      | do softmax sfu
      | do A array os
    """
    logit, online, attend = 2 * (4 + 4 + 4 - 2), 8 * 4 * 2, 2 * (4 + 4 + 4 - 2)
    tile, tensor, rescaled = 4 * 4 * 2, 8 * 4 * 2, 8 * 4
    least, cycles = fused(text, 8, 4)
    assert least == 7 + tensor + tile + 2 * (logit + online + attend) + rescaled + tensor
    assert least <= cycles


def test_a_tensor_that_an_operator_reads_twice_comes_once() -> None:
    """X + X: 2 x 3 elements of 2 B come in 7 + 12 cycles, and 3 cycles an element follow."""
    of = workload(vector("add", "residual", "Y i j", "X i j", "X i j", i=2, j=3))
    tree = parse_tree("keep X buffer x2, Y buffer\ndo add sfu")
    made = case(of, Group(operators=("add",), tree=tree))
    assert int(totals(made.workload, made.mapping, ON).path["fill"]) == 7 + 12
    assert (
        int(totals(made.workload, made.mapping, ON).bound())
        <= Machine(ON, made.program).run().cycles
    )


def test_a_group_beside_another_need_not_wait_for_it() -> None:
    """A product of other tensors is done while a long vector operator before it works."""
    of = workload(
        vector("gelu", "gelu", "G r f", "H r f", r=16, f=16),
        einsum("FF", "Y m n", "X m k", "W k n", m=4, k=4, n=4),
    )
    first = Group(operators=("gelu",), tree=parse_tree("keep H buffer, G buffer\ndo gelu sfu"))
    text = "keep X buffer, W buffer, Y buffer\ndo FF array os"
    made = case(of, first, Group(operators=("FF",), tree=parse_tree(text)))
    bound = predict(made.workload, made.mapping, ON).bound_cycles
    assert bound <= Machine(ON, made.program).run().cycles


def _product(name: str, rows: int) -> Einsum:
    return einsum(name, f"C{name} m n", f"A{name} m k", f"B{name} k n", m=rows, k=4, n=4)


def _group(name: str, place: str, cut: str = "") -> str:
    keeps = ", ".join(f"{tensor}{name} buffer" for tensor in "ABC")
    return f"""
    group {name}{place}
      {cut or "loop k 4"}
      keep {keeps}
      do {name} array ws
    """


@pytest.mark.parametrize(
    ("shared", "rows", "cut"),
    [
        (" on cores 0-1", 10, "spread m 5 cores"),
        (" on cores 0-2", 15, "spread m 5 cores"),
        ("", 15, "spread m 5 cores"),
    ],
)
def test_a_core_waits_at_the_end_of_a_group_that_it_shares(
    shared: str, rows: int, cut: str
) -> None:
    """Core 1 is busy with ``one`` until 90, and with its 5 rows of ``two`` until 105.

    Core 0 does its own rows of ``two`` (0-15) and ``three`` (15-45); ``four`` (40 cycles) begins
    when ``two`` has ended everywhere: 105-145. The bound knows that ``two`` does not end before
    ``one`` does: 90 + 40. Without overlap ``three`` waits as well: 105 + 30 + 40, at least 90 + 70.
    """
    of = workload(*map(_product, ("one", "two", "three", "four"), (80, rows, 20, 30)))
    text = _group("one", " on core 1") + _group("two", shared, cut)
    one = mapping(of, text + _group("three", " on core 0") + _group("four", " on core 0"))
    for overlap, bound, cycles in ((True, 130, 145), (False, 160, 175)):
        on = accelerator(cores={"count": 3}, compiler={"overlap": overlap})
        assert predict(of, one, on).bound_cycles == bound
        assert Machine(on, lower(of, one)).run().cycles == cycles
