"""FIFOs whose slots go on from one operator to the next: by hand, and against a recurrence."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.analytic.prediction import predict
from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.view import TensorView
from simaccel.program.lowering import lower
from simaccel.program.overlap import most_reserved_bytes, overlaps
from simaccel.program.program import (
    Compute,
    Folds,
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Store,
    Tile,
)
from simaccel.program.text import program_text
from simaccel.schedulers import make_mapping
from simaccel.workload import Workload
from simaccel.workload.layers import Product, layers_workload
from tests.agreement import assert_counts, assert_exact, run_exactly
from tests.draws import DRAWS, seeds
from tests.machine.accelerators import DRAM, PIPES, PORTS, accelerator, accelerators
from tests.machine.max_plus import cycles_alone


def _layers(*columns: int) -> Workload:
    """Products of 4 x 12 by so many columns: three tiles of 4 x 4 weights for each four."""
    shapes = {f"l{at}": Product(m=4, k=12, n=n) for at, n in enumerate(columns)}
    return layers_workload("hand", shapes, bytes_per_element=1)


def _run(of: Workload, slots: int, *, fifo: bool = True) -> Run:
    """A tile comes in 16 cycles, one after the other; a fold of 4 x 4 takes 14."""
    memory = {"bandwidth_bytes_per_second": "1 GB/s", "staging_bytes": 16 * slots, "fifo": fifo}
    on = accelerator(memories={"weight": memory})
    return Machine(on, lower(of, make_mapping(of, on, "strips"))).run()


def test_without_it_the_first_tile_of_a_layer_is_waited_for() -> None:
    """Tiles at 16, 32, 48; the last fold ends at 62. From then on the same again."""
    assert _run(_layers(4, 4), 2, fifo=False).cycles == 62 + 62


def test_tiles_of_the_next_layer_come_while_this_one_computes() -> None:
    """The fourth tile has the slot of the second, free at 46: from 48 to 64. The last is at 96."""
    run = _run(_layers(4, 4), 2)
    assert run.cycles == 6 * 16 + 14
    assert [one.cycles for one in run.operators] == [62, 48]


def test_one_slot_is_free_when_its_layer_is_done() -> None:
    assert _run(_layers(4, 4), 1).cycles == 6 * (16 + 14)
    assert _run(_layers(4, 4), 1, fifo=False).cycles == 6 * (16 + 14)


def test_three_layers_are_one_stream_of_tiles() -> None:
    assert _run(_layers(8, 4, 8), 3).cycles == 15 * 16 + 14


def test_a_layer_of_one_tile_has_one_slot_of_its_own() -> None:
    """Its tile is taken once, so that it needs no other: 30 cycles after layers of 62 and 48."""
    shapes = {f"l{at}": Product(m=4, k=k, n=4) for at, k in enumerate((12, 12, 4))}
    of = layers_workload("short", shapes, bytes_per_element=1)
    assert _run(of, 2).cycles == 6 * 16 + 14 + 30


def test_slots_of_another_size_are_others() -> None:
    """Two bytes an element: tiles of 32 B have one slot each of 32 B, the others two."""
    of = _layers(4, 4)
    wide = {**of.tensors, "l1.W": replace(of.tensors["l1.W"], bytes_per_element=2)}
    assert _run(replace(of, tensors=wide), 2).cycles == 62 + 3 * (32 + 14)


def test_spatial_arrays_have_none() -> None:
    with pytest.raises(InputError, match=r"memories\.weight\.fifo: got True; allowed: false"):
        load_accelerator(
            "eyeriss_168",
            ["memories.weight.bandwidth_bytes_per_second=1 GB/s", "memories.weight.fifo=true"],
        )
    with pytest.raises(InputError, match=r"memories\.weight\.fifo"):
        load_accelerator("tpu_v1", ["memories.weight.fifo=4"])


@st.composite
def _operators(draw: st.DrawFn, number: int) -> Operator:
    """Tiles of weights in a loop, beside what is perhaps the result of the operator before."""

    def tile(name: str, rows: int, slots: int, kind: str = "") -> Tile:
        view = TensorView(
            name=name, ranks=("g", "q", "c"), shape=(9, 9, 9), bytes_per_element=2, kind=kind
        )
        return Tile(name=name, view=view, shape=(1, rows, 3), slots=slots)

    wide, slots = draw(st.sampled_from([2, 2, 2, 3])), draw(st.sampled_from([3, 3, 2, 1]))
    weights = tile(f"W{number}", wide, slots, "weight")
    given_, made = tile(f"A{number}", 2, 1), tile(f"A{number + 1}", 2, draw(st.integers(1, 2)))
    before = draw(st.sampled_from([given_.view, replace(given_.view, name="X")]))

    def seen(one: Tile, ranks: str) -> Tile:
        return replace(one, view=replace(one.view, ranks=(ranks,)))

    product = Compute(
        out=seen(made, "g+m+n"),
        inputs=(seen(given_, "g+m+k"), seen(weights, "g+k+n")),
        ranks=("g", "m", "k", "n"),
        shape=(1, draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 5))),
        on=Folds(draw(st.sampled_from(["ws", "ws", "is", "os"]))),
    )
    inner = ProgramLoop(
        rank="c",
        trips=draw(st.integers(1, 6)),
        tiles=(weights,),
        body=(Load(tile=weights, queue=1), product),
    )
    body: tuple[Node, ...] = (inner, Store(tile=made))
    outer = ProgramLoop(rank="q", trips=draw(st.integers(1, 3)), tiles=(made,), body=body)
    load = Load(tile=given_, queue=0, view=before)
    return Operator(name=f"op{number}", tiles=(given_,), body=(load, outer))


@st.composite
def _programs(draw: st.DrawFn) -> Program:
    operators = tuple(draw(_operators(number)) for number in range(draw(st.integers(1, 4))))
    cut = draw(st.integers(0, len(operators)))
    layers = ProgramLoop(rank="layer", trips=draw(st.integers(1, 5)), body=operators[:cut])
    return Program(name="random", body=((layers,) if cut else ()) + operators[cut:])


@settings(max_examples=9 * DRAWS)
@given(
    _programs(),
    accelerators(dram=DRAM, buffer=PORTS, noc=PIPES),
    st.integers(1, 40),
    st.integers(0, 9),
    st.sampled_from([None, 1, 2]),
)
def test_random_programs_take_the_cycles_of_the_recurrence(
    program: Program, on: Accelerator, rate: int, latency: int, tight: int | None
) -> None:
    weight = {
        "bandwidth_bytes_per_second": f"{rate * 100} MB/s",
        "latency_cycles": latency,
        "fifo": True,
    }
    if tight is not None:  # as much as one operator needs, or two
        weight["staging_bytes"] = tight * 3 * 18
    on = Accelerator.model_validate({**on.model_dump(), "memories": {"weight": weight}})
    run = run_exactly(on, program)
    assert run.cycles == cycles_alone(on, program), program_text(program)
    assert run.peak_buffer_bytes <= most_reserved_bytes(program, on)


@pytest.mark.parametrize("block", range(2))
def test_the_closed_form_knows_what_goes_on(block: int) -> None:
    """Bytes and MACs are equal, the same is reserved at once, no run is below the bound."""
    ahead = 0
    for seed in seeds(2 * 8, block, 2):
        draw = random.Random(seed)  # noqa: S311 - not for cryptography
        shapes = {
            f"l{at}": Product(m=draw.randint(1, 20), k=draw.randint(1, 20), n=draw.randint(1, 20))
            for at in range(draw.randint(1, 5))
        }
        of = layers_workload("drawn", shapes, bytes_per_element=1)
        memory = {
            "bandwidth_bytes_per_second": f"{draw.choice([1, 4, 40])} GB/s",
            "latency_cycles": draw.choice([0, 9]),
            "staging_bytes": 16 * draw.randint(1, 5),
            "fifo": True,
        }
        on = accelerator(
            array={"overlap": draw.choice(["none", "preload", "stream"])},
            dram={"bandwidth_bytes_per_second": f"{draw.choice([2, 8])} GB/s"},
            memories={"weight": memory},
        )
        one = make_mapping(of, on, "strips")
        run, program = assert_counts(of, one, on), lower(of, one)
        assert_exact(of, one, on, run)
        assert predict(of, one, on).bound_cycles <= run.cycles, f"seed {seed}"
        ahead += any(one.ahead for one in overlaps(program, on).values())
    assert ahead > 3
