"""Operators that begin before the one before has ended: by hand, event by event."""

from dataclasses import replace

import pytest

from simaccel.analytic.prediction import predict
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group
from simaccel.program.lowering import lower
from simaccel.program.overlap import most_reserved_bytes, overlaps
from simaccel.program.text import parse_program, program_text
from simaccel.schedulers import Options, make_mapping
from simaccel.search.effort import Effort
from simaccel.workload import Product, layers_workload
from tests.agreement import assert_bounded, assert_exact
from tests.drawn_trees import draw_case
from tests.draws import seeds
from tests.machine.accelerators import accelerator
from tests.program.programs import mapping_of, reserved_bytes
from tests.trees import einsum, mapping, vector, workload

FREE = ("one", "two", "three")
IN_PLACE = """\
  operator {name}
    tile {tile} 1x1x4 x1 of {tile}[g=1,q=1,c=4] 2B
    load {tile} queue 0{of}
    sfu softmax whole {tile} = {tile} over g=1 q=1 c=4 axis c of softmax
    store {tile}
"""
TO_ANOTHER = """\
  operator two
    tile Y 1x1x4 x1 of Y[g=1,q=1,c=4] 2B
    tile W 1x1x4 x1 of W[g=1,q=1,c=4] 2B
    load Y queue 0
    sfu softmax whole W = Y over g=1 q=1 c=4 axis c of softmax
    store W
"""


def _on(capacity: int | None = None, *, overlap: bool = True, starts: int = 0) -> Accelerator:
    """A DRAM of 4 bytes per cycle that answers 3 cycles later; an SFU with 8 cycles for 4."""
    on = accelerator(
        dram={"bandwidth_bytes_per_second": "4 GB/s", "latency_cycles": 3},
        buffer={
            "capacity_bytes": "unlimited",
            "read_bytes_per_second": "unlimited",
            "write_bytes_per_second": "unlimited",
        },
        sfu={"lanes": 1, "passes": 2, "latency_cycles": 0},
        compiler={"overlap": overlap, "kernel_start_cycles": starts},
    )
    return _with_room(on, capacity)


def _with_room(on: Accelerator, capacity: int | None) -> Accelerator:
    """Give the buffer a size, be it smaller than any that is built."""
    buffer = on.buffer.model_copy(update={"capacity_bytes": capacity})
    return on.model_copy(update={"buffer": buffer})


def _operator(name: str, of: str = "") -> str:
    tile = {"one": "X", "two": "Y", "three": "Z"}[name]
    return IN_PLACE.format(name=name, tile=tile, of=of)


def _run(on: Accelerator, *operators: str) -> Run:
    return Machine(on, parse_program("program hand\n" + "".join(operators))).run()


def _windows(run: Run) -> list[int]:
    return [one.cycles for one in run.operators]


def test_without_overlap_chains_add_up() -> None:
    """Loads in 2 cycles, there after 3 more; 8 on the SFU; 2 to store."""
    assert _windows(_run(_on(), _operator("one"))) == [15]
    assert _windows(_run(_on(overlap=False), *map(_operator, FREE))) == [15, 15, 15]


def test_the_next_loads_while_this_one_works_and_its_results_leave() -> None:
    """Y comes from 2 to 7; the SFU takes it at 13, and X leaves meanwhile, until 15.

    Z may come when the first has ended, at 15; the SFU has it from 21 to 29, and it is out at 31.
    The cycles of the first end at 13 and those of the second at 21, when the SFU is done.
    """
    run = _run(_on(), *map(_operator, FREE))
    assert _windows(run) == [13, 8, 10]
    assert [run.operators[at].engines["sfu"].busy for at in range(3)] == [8, 8, 8]
    assert run.cycles == 31


def test_operators_of_one_kernel_have_one_start_and_load_ahead() -> None:
    """Starts of 5 cycles. X comes from 5 to 10; Y, in the same kernel, from 7 to 12.

    The SFU has X from 10 to 18 and Y until 26, which is out at 28. Z has a kernel of its own, which
    starts then: it comes from 33 to 38, and is out at 48. Alone each of the three takes 20 cycles.
    """
    on = _on(overlap=False, starts=5)
    joined = _operator("two").replace("operator two", "operator two joined")
    assert _windows(_run(on, _operator("one"), joined, _operator("three"))) == [18, 10, 20]
    assert _windows(_run(on, *map(_operator, FREE))) == [20, 20, 20]
    text = "program hand\n" + _operator("one") + joined
    assert program_text(parse_program(text)) == text


def test_a_load_waits_for_the_store_of_its_tensor() -> None:
    run = _run(_on(), _operator("one"), _operator("two", " from X[g=1,q=1,c=4] 2B"))
    assert _windows(run) == [15, 15]


def test_where_only_what_comes_first_fits_the_rest_waits() -> None:
    """With room for Y and W, the SFU goes on at 13; for Y alone, at 15 when X has left.

    A slot of Z does not fit beside Y and W.
    """
    for capacity, first in ((8 + 16, 13), (8 + 15, 15), (8 + 8, 15)):
        assert _windows(_run(_on(capacity), _operator("one"), TO_ANOTHER)) == [first, 10]
    assert _windows(_run(_on(16), _operator("one"), TO_ANOTHER, _operator("three"))) == [15, 10, 15]


def test_a_layer_that_follows_itself_has_all_cycles_too() -> None:
    """Weights of two slots: each layer's 8 cycles of the SFU follow those of the one before."""
    body = _operator("one").replace("x1 of", "x2 of").replace("2B\n", "2B weight\n")
    layers = "".join("  " + line + "\n" for line in body.splitlines())
    run = _run(_on(), f"  loop layer 3 from 0 step 1\n{layers}")
    assert _windows(run) == [run.cycles]


def test_layers_of_one_operator_share_its_slots() -> None:
    """Weights alone come for the next layer, in a slot that is free: when X has left."""
    text = _operator("one").replace("    store X\n", "")
    once = parse_program("program hand\n" + text)
    layers = "".join("  " + line + "\n" for line in text.splitlines())
    looped = f"program hand\n  loop layer 3 from 0 step 1\n{layers}"
    assert Machine(_on(), once).run().cycles == 13
    assert Machine(_on(), parse_program(looped)).run().cycles == 3 * 13
    weights = parse_program(looped.replace("2B\n", "2B weight\n"))
    assert Machine(_on(8), weights).run().cycles == 13 + 2 * 13
    two = parse_program(looped.replace("x1 of", "x2 of").replace("2B\n", "2B weight\n"))
    assert Machine(_on(16), two).run().cycles == 13 + 2 * 8


@pytest.mark.parametrize("block", range(3))
def test_no_run_of_groups_that_overlap_is_below_its_bound(block: int) -> None:
    """Whatever there is room for; and nothing needs more than is reserved."""
    found = early = 0
    for seed in seeds(3 * 16, block, 3):
        case = draw_case(seed, spatial=bool(seed % 2))
        if len(case.mapping.body) == 1:
            continue
        program = lower(case.of, case.mapping)
        room = reserved_bytes(program) + seed * 37 % 101
        on = _with_room(case.on, room if seed % 3 else None)
        run = Machine(on, program).run()
        assert run.peak_buffer_bytes <= most_reserved_bytes(program, on), f"seed {seed}"
        predicted = predict(case.of, case.mapping, on)
        assert predicted.bound_cycles <= run.cycles, f"seed {seed}"
        assert predicted.buffer_bytes <= most_reserved_bytes(program, on), f"seed {seed}"
        found += 1
        early += any(one.more_bytes for one in overlaps(program, on).values())
    assert found > 3
    assert early > 1


@pytest.mark.parametrize("block", range(2))
def test_kernels_of_several_groups_are_counted_bounded_and_skipped(block: int) -> None:
    """Groups that are drawn into the kernel of the one before, and those that start their own."""
    found = 0
    for seed in seeds(2 * 16, block, 2):
        case = draw_case(seed, spatial=bool(seed % 2))
        if len(case.mapping.body) == 1:
            continue
        first, *others = case.mapping.groups
        body = (first, *(replace(group, joined=bool(seed % 3)) for group in others))
        mapping, overlap = replace(case.mapping, body=body), [False, "weights"][seed % 5 == 0]
        compiler = {"overlap": overlap, "kernel_start_cycles": 0 if overlap else 13}
        on = Accelerator.model_validate(case.on.model_dump() | {"compiler": compiler})
        run, predicted = assert_bounded(case.of, mapping, on)
        assert_exact(case.of, mapping, on, run)
        starts = 13 * case.of.repeat * (1 if seed % 3 else len(body)) * (not overlap)
        assert predicted.bound_terms.get("start", 0) in (starts, 0)
        found += 1
    assert found > 1


RESIDENT = """
around
  keep X buffer
  group B
    keep I buffer, W buffer
    do B array ws
  group A
    keep Y buffer
    do A sfu
group J joined
  loop r 256
  keep U buffer x2, V buffer x2, Z buffer
  do J array ws
"""
ON_ONE_CORE = """
group B
  loop n 32
  keep I buffer, W buffer, X buffer
  do B array ws
group A
  loop n 32
  keep X buffer, Y buffer
  do A sfu
group J joined
  spread q 128 cores
  loop r 256
  keep U buffer x2, V buffer x2, Z buffer
  do J array ws
"""


@pytest.mark.parametrize("body", [RESIDENT, ON_ONE_CORE])
def test_what_a_kernel_loads_later_waits_for_its_start_too(body: str) -> None:
    """The first of a kernel's operators loads nothing on some core; two kernels start twice."""
    of = workload(
        einsum("B", "X m n", "I m k", "W k n", m=64, k=64, n=64),
        vector("A", "relu", "Y m n", "X m n", m=64, n=64),
        einsum("J", "Z p q", "U p r", "V r q", p=64, r=2048, q=256),
        weights=["W", "V"],
    )
    document = load_accelerator("mxu_128").model_dump()
    cycles = []
    for starts in (0, 5000):
        more = {"compiler": {"overlap": False, "kernel_start_cycles": starts}}
        cores = {"cores": {"count": 2}} if body is ON_ONE_CORE else {}
        on = Accelerator.model_validate(document | more | cores)
        run, _ = assert_bounded(of, mapping(of, body), on)
        cycles.append(run.cycles)
    assert cycles[1] == cycles[0] + 2 * 5000


@pytest.mark.parametrize("layers", [1, 2, 12])
def test_layers_of_one_operator_wait_for_one_another(layers: int) -> None:
    """X of a layer is what the one before made: no bound is above the run."""
    one = einsum("F", "Y r f", "X r e", "W e f", r=256, e=256, f=256)
    of = workload(one, repeat=layers, weights=["W"])
    tree = parse_tree(
        "keep W buffer x2\nloop r 128\nkeep X buffer x2, Y buffer x2\ndo F array is\n"
    )
    mapping = mapping_of(of, Group(operators=("F",), tree=tree))
    on = load_accelerator("mxu_128")
    bound = predict(of, mapping, on).bound_cycles
    assert 0.8 < bound / Machine(on, lower(of, mapping)).run().cycles <= 1


def test_room_in_pes_is_none_of_what_comes_early() -> None:
    """One tile of the second product's input comes early into the buffer, not on to PEs."""
    of = layers_workload("two", {"a": Product(m=64, k=7, n=64), "b": Product(m=64, k=64, n=7)})
    on = load_accelerator("eyeriss_like")
    mapping = make_mapping(
        of, on, "pfm", Options(effort=Effort(patience=50, exhaustive=100, seed=26))
    )
    program = lower(of, mapping)
    assert overlaps(program, on)["b"].more_bytes > 0
    needed = predict(of, mapping, on).buffer_bytes
    assert (
        needed < most_reserved_bytes(program, on) <= needed + overlaps(program, on)["b"].more_bytes
    )
