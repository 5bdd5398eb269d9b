"""Groups at once on cores of their own: time lines by hand, and a model that goes by cycles.

The array is 4 x 4 without overlap of folds: a weight-stationary product of h x 4 x 4 is one fold
of 4 (preload) + h (stream) + 6 (skew) cycles. Ports and NoC are unlimited.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.program import Program, ProgramError, ProgramLoop
from simaccel.program.text import parse_program, program_text
from tests.agreement import run_exactly
from tests.draws import DRAWS, seeds
from tests.machine.accelerators import accelerator


@dataclass(frozen=True)
class _Product:
    """C = A B in blocks of ``rows`` rows, of four columns, on one core."""

    name: str
    core: int
    blocks: int
    rows: int
    reads: str
    """The tensor in the place of A, which nobody makes or another product does."""
    hands_on: bool = False
    awaits: bool = False
    """Whether it hands C on, and waits for A, block by block."""

    @property
    def text(self) -> list[str]:
        """The lines of its program."""
        name, m = self.name, self.blocks * self.rows
        tiles = f" hands on C_{name}" * self.hands_on
        tiles += f" awaits {self.reads} {self.blocks} for {self.blocks}" * self.awaits
        return [
            f"  operator {name} on cores {self.core}-{self.core}",
            f"    tile B 4x4 x1 of B_{name}[k=4,n=4] 2B weight",
            "    load B queue 0",
            f"    loop m {self.blocks} from 0 step {self.rows}{tiles}",
            f"      tile A {self.rows}x4 x2 of {self.reads}[m={m},k=4] 2B",
            f"      tile C {self.rows}x4 x1 of C_{name}[m={m},n=4] 2B",
            "      load A queue 0",
            f"      compute C = A B over m={self.rows} k=4 n=4 folds ws",
            "      store C",
        ]


def _program(products: Sequence[_Product]) -> Program:
    text = "\n".join(["program products", *(line for one in products for line in one.text), ""])
    program = parse_program(text)
    assert program_text(program) == text
    return program


def _cores(count: int, latency_cycles: int, *, overlap: bool) -> Accelerator:
    return accelerator(
        dram={
            "bandwidth_bytes_per_second": "4 GB/s",
            "latency_cycles": latency_cycles,
            "batch_bytes": 2**20,
        },
        dma={"in_queues": "single"},
        compiler={"overlap": overlap},
        cores={"count": count},
    )


def _run(on: Accelerator, products: Sequence[_Product]) -> Run:
    return run_exactly(on, _program(products))


def test_two_products_at_once_share_the_dram() -> None:
    """DRAM 4 B/cycle, latency 10: a B takes 8 cycles, a block of A or C 20. A fold takes 20.

    dram    B 0-8  B' 8-16  A 16-36  A' 36-56  C 66-86  C' 86-106
    array   46-66 (A is there at 46)
    core1   66-86 (A' at 66)
    """
    products = [_Product("one", 0, 1, 10, "A"), _Product("two", 1, 1, 10, "X")]
    run = _run(_cores(2, 10, overlap=True), products)
    assert run.cycles == 106
    assert [one.cycles for one in run.operators] == [86, 106]
    assert run.engines["core1.array"].busy == 20
    assert run.served_cycles["dram0"] == 2 * (8 + 20 + 20)


def test_a_product_waits_for_what_another_core_makes() -> None:
    """Its own B comes early, with those of the other.

    dram    B 0-8  B' 8-16  A 16-36         C 66-86  X 86-106       C' 136-156
    array   46-66
    core1   116-136, of C that it has read as X from 86 on
    """
    products = [_Product("one", 0, 1, 10, "A"), _Product("two", 1, 1, 10, "C_one")]
    run = _run(_cores(2, 10, overlap=True), products)
    assert run.cycles == 156
    assert [one.cycles for one in run.operators] == [86, 156]
    # core 1's loader waits from 16 to 86: for the transfer, its latency, the fold, the store; from
    # 106 on for the end of its own product
    stalls = run.engines["core1.dma_in"].stalls
    assert stalls == {"dram_bandwidth": 20 + 20, "dram_latency": 10, "array": 20, "drain": 50}
    # without overlap: B 0-8, A 8-28, fold 38-58, C 58-78; then B' 78-86, X 86-106 and so on
    run = _run(_cores(2, 10, overlap=False), products)
    assert [one.cycles for one in run.operators] == [78, 156]


def test_a_product_reads_block_by_block_what_another_core_makes() -> None:
    """B 0-8, B' 8-16. Blocks of 5 rows take 10 in the DRAM, folds 15; two blocks, one slot of C.

    dram    A0 16-26  A1 26-36  C0 51-61  X0 61-71  C1 76-86  X1 86-96  C'0 96-106  C'1 121-131
    array   36-51, and 61-76 when C0 is stored
    core1   81-96 (X0 is there at 81), and 106-121 (X1 is there, and C'0 stored)
    """
    products = [
        _Product("one", 0, 2, 5, "A", hands_on=True),
        _Product("two", 1, 2, 5, "C_one", awaits=True),
    ]
    run = _run(_cores(2, 10, overlap=True), products)
    assert [one.cycles for one in run.operators] == [86, 131]
    whole = [replace(one, hands_on=False, awaits=False) for one in products]
    assert _run(_cores(2, 10, overlap=True), whole).cycles > run.cycles


def test_a_layer_waits_for_the_one_before_it_on_other_cores() -> None:
    """What nobody in a layer makes is of the layer before, by another name."""
    both = [_Product("one", 0, 1, 10, "A"), _Product("two", 1, 1, 10, "X")]
    layer = ProgramLoop(rank="layer", trips=3, body=_program(both).body)
    program = Program(name="layers", body=(layer,))
    assert Machine(_cores(2, 10, overlap=False), program).run().cycles == 3 * 106


# -- a model that goes by cycles ------------------------------------------------------------------


@dataclass
class _Core:
    """Where a core is: its products in order, and what it has done of the present one."""

    products: list[_Product]
    loads: int = 0
    """Requests for loads: the first one is B, the others blocks of A."""
    loading: bool = False
    there: list[int] = field(default_factory=list)
    """When each load is there."""
    computed: int = 0
    until: int = 0
    """When the array is through with a block."""
    busy: bool = False
    stored: int = 0
    storing: bool = False

    def begin(self) -> None:
        """Begin the next product."""
        self.products.pop(0)
        self.loads = self.computed = self.stored = 0
        self.there = []


_Asked = tuple[list[tuple[int, int]], list[tuple[int, int]]]
"""New loads and new stores: (core, cycles) of each."""


class _Tie(Exception):  # noqa: N818 - two ask at once, and who comes first isn't said
    pass


def _model(products: Sequence[_Product], n_cores: int, latency: int) -> int:
    """Return the cycles: each core does its products one after the other, without overlap."""
    cores = [_Core([one for one in products if one.core == core]) for core in range(n_cores)]
    made = {f"C_{one.name}": one.blocks for one in products}
    stored: dict[str, int] = {}
    queues: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    way, serving, done_at, now = 0, -1, 0, 0
    while any(core.products for core in cores):
        if serving >= 0 and done_at == now:
            core = cores[serving]
            if way == 0:
                core.loading = False
                core.there.append(now + latency)
            else:
                core.storing, core.stored = False, core.stored + 1
            serving = -1
        _end(cores, stored, now)
        there = [_blocks_there(core, made, stored) for core in cores]
        asked = [_ask(core, number, there[number], now) for number, core in enumerate(cores)]
        turns = serving < 0 and not queues[way] and bool(queues[1 - way])
        for side in (0, 1):
            new = [request for some in asked for request in some[side]]
            queues[side].extend(new)
        if now and _is_tied(asked, way, turns=turns):
            raise _Tie
        if serving < 0:
            way = way if queues[way] else 1 - way
            if queues[way]:
                serving, cycles = queues[way].pop(0)
                done_at = now + cycles
        now += 1
    return now - 1


def _is_tied(asked: Sequence[_Asked], way: int, *, turns: bool) -> bool:
    """Return whether two ask at once, or one asks for the way that the DRAM is leaving."""
    n = sum(len(some[0]) + len(some[1]) for some in asked)
    return n > 1 or (turns and any(some[way] for some in asked))


def _blocks_there(core: _Core, made: Mapping[str, int], stored: Mapping[str, int]) -> int:
    """Return how many blocks of A a core may load; -1 if it can't begin."""
    if not core.products:
        return -1
    product = core.products[0]
    if product.reads not in made:
        return product.blocks
    done = stored.get(product.reads, 0)
    return done if product.awaits or done == made[product.reads] else -1


def _end(cores: Sequence[_Core], stored: dict[str, int], now: int) -> None:
    """Let arrays and products end that are through."""
    for core in cores:
        if core.busy and core.until == now:
            core.busy, core.computed = False, core.computed + 1
        if core.products:
            stored[f"C_{core.products[0].name}"] = core.stored
            if core.stored == core.products[0].blocks:
                core.begin()


def _ask(core: _Core, number: int, there: int, now: int) -> _Asked:
    """Go on where nothing is missing; return what is asked of the DRAM."""
    if not core.products or there < 0:
        return [], []
    product, loads, stores = core.products[0], [], []
    block = 2 * product.rows  # cycles of h x 4 elements of 2 B at 4 B a cycle
    free = core.loads - 1 - core.computed < 2 and core.loads - 1 < there
    if not core.loading and core.loads <= product.blocks and (core.loads == 0 or free):
        loads.append((number, block if core.loads else 8))
        core.loads, core.loading = core.loads + 1, True
    ready = len(core.there) > core.computed + 1 and max(core.there[: core.computed + 2]) <= now
    begun = core.computed + core.busy
    if not core.busy and begun < product.blocks and ready and core.stored == core.computed:
        core.busy, core.until = True, now + 4 + product.rows + 6
    if not core.storing and core.computed > core.stored:
        stores.append((number, block))
        core.storing = True
    return loads, stores


def _draw(draw: random.Random) -> tuple[list[_Product], int]:
    """Draw two or three products on two to four cores; each may read what one before makes."""
    n_cores, products = draw.randint(2, 4), list[_Product]()
    for name in ("one", "two", "three")[: draw.randint(2, 3)]:
        before = [one for one in products if draw.random() < 0.6]
        rows, blocks = draw.randint(1, 9), draw.randint(1, 4)
        reads = "A"
        core, awaits = draw.randrange(n_cores), False
        if before:
            other = before[-1]
            rows, blocks, reads = other.rows, other.blocks, f"C_{other.name}"
            awaits = other.core != core and draw.random() < 0.7
        product = _Product(name, core, blocks, rows, reads, awaits=awaits)
        products.append(product)
    awaited = {one.reads for one in products if one.awaits}
    products = [replace(one, hands_on=f"C_{one.name}" in awaited) for one in products]
    return products, n_cores


@pytest.mark.parametrize("chunk", range(2))
def test_a_model_that_goes_by_cycles_takes_as_long(chunk: int) -> None:
    compared = 0
    for seed in seeds(100, chunk, 2):
        draw = random.Random(f"products {seed}")  # noqa: S311 - tests
        products, n_cores = _draw(draw)
        latency = draw.choice([0, 3, 10])
        try:
            expected = _model(products, n_cores, latency)
        except _Tie:
            continue
        run = _run(_cores(n_cores, latency, overlap=False), products)
        assert run.cycles == expected, (seed, products)
        compared += 1
    assert compared > 10 * DRAWS


def test_a_token_that_came_in_the_cycle_of_a_skip_is_as_old_as_before() -> None:
    """A drawn case, made small: core 3's W0 comes as core 0 ends a layer."""
    on = accelerator(
        array={
            "rows": 3,
            "cols": 4,
            "overlap": "preload",
            "edge_folds": "used",
            "native_bits": 8,
            "accumulator": {"bytes_per_element": 2, "capacity_bytes": "unlimited"},
        },
        buffer={
            "capacity_bytes": 2048,
            "read_bytes_per_second": "3 GB/s",
            "write_bytes_per_second": "1 GB/s",
        },
        cores={"count": 4, "noc": {"topology": "bus", "link_bytes_per_cycle": 1, "hop_cycles": 2}},
        dma={"in_queues": "single"},
        dram={"bandwidth_bytes_per_second": "8 GB/s", "in_flight_bytes": 64},
        compiler={"overlap": True},
        noc={"collection": {"topology": "tree", "link_bytes_per_cycle": 4, "hop_cycles": 1}},
    )
    program = parse_program(
        """program drawn
  loop layer 5 from 0 step 1
    operator o0 on cores 0-0
      tile T0 1x1 x1 of T0[m=1,n=1] 4B
      store T0
    operator o3 on cores 3-3
      tile T0 1x1 x1 of T0[m=1,k=1] 4B
      tile W0 1x1 x1 of W0[k=1,n=1] 2B
      tile T3 1x1 x1 of T3[m=1,n=1] 4B
      load T0 queue 0
      load W0 queue 1
      compute T3 = T0 W0 over m=1 k=1 n=1 folds ws
    operator o4
      tile X 1x1 x1 of X[m=1,k=1] 1B
      tile W0 1x1 x1 of W0[k=1,n=1] 2B
      tile T4 1x1 x1 of T4[m=1,n=1] 1B
      load X queue 0
      load W0 queue 1
      compute T4 = X W0 over m=1 k=1 n=1 folds os
"""
    )
    run = Machine(on, program).run()
    full = Machine(on, program, fast_forward=False).run()
    assert run.events < full.events
    assert replace(run, events=0) == replace(full, events=0)


def test_a_tile_that_nobody_hands_on_is_refused() -> None:
    products = [_Product("one", 0, 2, 5, "A"), _Product("two", 1, 2, 5, "C_one", awaits=True)]
    with pytest.raises(ProgramError, match="awaits tiles of C_one, which no loop hands on"):
        Machine(_cores(2, 10, overlap=True), _program(products))
