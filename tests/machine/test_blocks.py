"""Instructions of a few positions, tiles that are loaded anew, DMA requests: by hand."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from simaccel.analytic.prediction import predict
from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.fold_grid import BlocksSpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.checks import faults, require_mapping
from simaccel.mapping.node_text import parse_node
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import (
    Fork,
    Group,
    Keep,
    Mapping,
    Node,
    Part,
    ResidentScope,
    Tree,
    WorkloadReference,
    nodes,
)
from simaccel.program.lowering import lower
from simaccel.program.program import DoesNotFitError
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.workload import Workload, gemm
from simaccel.workload.conv import conv2d
from tests.agreement import assert_bounded, assert_counts, assert_exact
from tests.drawn_trees import draw_case
from tests.draws import DRAWS, seeds

FAST = (
    "dram.bandwidth_bytes_per_second=unlimited",
    "dram.latency_cycles=0",
    "dram.model=channel",
    "buffer.capacity_bytes=unlimited",
    "buffer.read_bytes_per_second=unlimited",
    "buffer.write_bytes_per_second=unlimited",
)
WHOLE = ("keep I buffer, W buffer, O buffer", "do conv array ws")


def mapped(workload: Workload, *lines: str) -> Mapping:
    tree = tuple(node for line in lines for node in parse_node(line))
    reference = WorkloadReference(workload.name, workload.fingerprint)
    name = workload.operators[0].name
    return Mapping(workload=reference, dataflow="hand", body=(Group(operators=(name,), tree=tree),))


def ran(workload: Workload, accelerator: Accelerator, *lines: str) -> ExperimentResult:
    """Run a tree; bytes and MACs of tree, program, closed form and machine are held to another."""
    return simulate(workload, accelerator, mapped(workload, *lines))


def without_blocks(accelerator: Accelerator) -> Accelerator:
    array = accelerator.systolic.model_copy(update={"blocks": None})
    return accelerator.model_copy(update={"array": array})


@pytest.mark.parametrize(
    ("p", "q", "folds", "stream"),
    [
        # rows of 16 positions are blocks of 16 cycles, as without instructions
        (3, 16, 4, 48),
        # 7 rows of 7: the first has 16 cycles, as weights shift in behind it, the others 7
        (7, 7, 4, 16 + 6 * 7),
        # 14 rows of 2: 16 and 13 x 4 cycles, and 32 each in the array: 516 over the 5 at once
        (14, 2, 4, 104),
        # 3 rows of 40: blocks of 16, 16 and 8 cycles, 40 in all; 3 x (40 + 3 x 32) / 5 = 81.6 less
        (3, 40, 4, 120),
        # 3 rows of 20: blocks of 16 and 4 cycles; 3 x (20 + 2 x 32) / 5 = 50.4 less than 60
        (3, 20, 4, 60),
        # 5 rows of 17: blocks of 16 and 4 (for 1) cycles: 100, and (20 + 64) x 5 / 5 = 84 less
        (5, 17, 4, 100),
    ],
)
def test_a_fold_takes_what_its_instructions_take(p: int, q: int, folds: int, stream: int) -> None:
    workload = conv2d(m=32, c=32, p=p, q=q, r=1, s=1, bytes_per_element=1)
    array = load_accelerator("gemmini_16", FAST)
    plain = without_blocks(array)
    found, without = ran(workload, array, *WHOLE), ran(workload, plain, *WHOLE)
    assert found.run.cycles - without.run.cycles == folds * (stream - p * q)
    assert found.prediction.bound_cycles - without.prediction.bound_cycles == folds * (
        stream - p * q
    )


def test_a_product_streams_its_rows_as_one_run() -> None:
    workload = gemm(m=100, k=16, n=16, bytes_per_element=1)
    array = load_accelerator("gemmini_16", FAST)
    plain = without_blocks(array)
    lines = ("keep A buffer, B buffer, C buffer", "do gemm array ws")
    assert ran(workload, array, *lines).run.cycles == ran(workload, plain, *lines).run.cycles


def moved(result: ExperimentResult, tensor: str) -> int:
    return result.run.moved["dram_read", tensor]


def test_a_tile_is_loaded_anew_where_nothing_moves_it() -> None:
    # q 10 in 4 pieces, m 32 in 2: I (30 x 10 bytes) moves with q alone, W (30 x 32) with m alone
    workload = conv2d(m=32, c=30, p=1, q=10, r=1, s=1, bytes_per_element=1)
    on = load_accelerator("gemmini_16")
    loops = ("loop q 3", "loop m 16")
    kept = ran(workload, on, *loops, "keep I buffer x2, W buffer x2, O buffer x2", WHOLE[1])
    anew = ran(
        workload, on, *loops, "keep I buffer x2 anew, W buffer x2 anew, O buffer x2", WHOLE[1]
    )
    assert (moved(kept, "I"), moved(kept, "W")) == (300, 4 * 960)
    assert (moved(anew, "I"), moved(anew, "W")) == (2 * 300, 4 * 960)
    assert anew.run.moved["dram_write", "O"] == kept.run.moved["dram_write", "O"] == 320


def test_a_window_that_is_loaded_anew_does_not_slide() -> None:
    # 12 columns of the output in 3 pieces of 4, a filter of 3: windows of 6 columns, 2 shared
    workload = conv2d(m=16, c=16, p=1, q=12, r=1, s=3, bytes_per_element=1)
    on = load_accelerator("gemmini_16")
    kept = ran(workload, on, "loop q 4", "keep I buffer x2, W buffer x2, O buffer x2", WHOLE[1])
    anew = ran(workload, on, "loop q 4", "keep I buffer x2 anew, W buffer, O buffer x2", WHOLE[1])
    assert moved(kept, "I") == 16 * 14
    assert moved(anew, "I") == 16 * 18
    assert moved(kept, "W") == moved(anew, "W") == 16 * 16 * 3


@pytest.mark.parametrize("loops", [("loop q 3", "loop m 7", "loop c 9"), ("loop c 9", "loop q 4")])
@pytest.mark.parametrize("anew", ["I", "W", "IW"])
def test_closed_form_and_machine_agree_on_remainders(loops: tuple[str, ...], anew: str) -> None:
    workload = conv2d(m=20, c=20, p=3, q=10, r=3, s=3, bytes_per_element=1)
    on = load_accelerator("gemmini_16")
    keeps = ", ".join(
        f"{name} buffer x2{' anew' if name in anew else ''}" for name in ("I", "W", "O")
    )
    found = ran(workload, on, *loops, f"keep {keeps}", WHOLE[1])
    assert found.run.macs == workload.macs
    assert found.prediction.bound_cycles <= found.run.cycles


def test_what_pes_keep_cannot_be_loaded_anew() -> None:
    workload = gemm(m=16, k=16, n=16, bytes_per_element=1)
    on = load_accelerator("eyeriss_like")
    lines = ("loop m 4", "keep A buffer x2 anew", "spread n 2 cols", "keep A pe, B pe, C pe")
    mapping = mapped(workload, *lines, "do gemm mac")
    with pytest.raises(InputError, match="anew where no keep inside holds the tensor"):
        require_mapping(workload, mapping, on, "mapping")


def test_what_is_made_cannot_be_loaded_anew() -> None:
    workload = conv2d(m=16, c=16, p=1, q=16, r=1, s=1, bytes_per_element=1)
    on = load_accelerator("gemmini_16")
    mapping = mapped(workload, "keep I buffer, W buffer, O buffer anew", WHOLE[1])
    with pytest.raises(InputError, match="anew only after a tensor that is loaded into the buffer"):
        require_mapping(workload, mapping, on, "mapping")


@pytest.mark.parametrize("seed", range(2 * DRAWS))
def test_drawn_trees_are_counted_bounded_and_fast_forwarded(seed: int) -> None:
    case = draw_case(seed, spatial=False)
    draw = Random(seed)  # noqa: S311 - a reproducible draw
    blocks = BlocksSpec(
        steps=draw.randint(1, 9), least_cycles=draw.randint(1, 5), in_flight=draw.randint(1, 6)
    )
    limits = {"request_bytes": draw.choice([4, 8, 64]), "requests_in_flight": draw.randint(1, 8)}
    dram = case.on.dram.model_copy(
        update={"model": "requests", **limits, "part": None, "map": None}
    )
    one = {"count": 1, "diagonal": False, "steps_per_cycle": 1.0, "macs_per_cycle": None}
    array = case.on.systolic.model_copy(update={"blocks": blocks, **one})
    fields = {name: getattr(case.on, name) for name in type(case.on).model_fields}
    on = Accelerator.model_construct(**{**fields, "array": array, "dram": dram})
    assert_counts(case.of, case.mapping, on)
    run, _ = assert_bounded(case.of, case.mapping, on)
    assert_exact(case.of, case.mapping, on, run)


def test_drawn_trees_whose_tiles_are_loaded_anew_are_counted_and_bounded() -> None:
    compared = 0
    for seed in seeds(6):
        case = draw_case(seed, spatial=bool(seed % 2))
        body = tuple(_anew(case.of, one, seed) for one in case.mapping.body)
        mapping = replace(case.mapping, body=body)
        if faults(case.of, mapping, case.on):
            continue  # kept twice
        with suppress(DoesNotFitError):  # more tiles than there is room for
            run = assert_counts(case.of, mapping, case.on)
            assert predict(case.of, mapping, case.on).bound_cycles <= run.cycles
            compared += mapping != case.mapping
    assert compared > 2 * DRAWS


def _anew(of: Workload, one: Group | ResidentScope, seed: int) -> Group | ResidentScope:
    """Let some tiles be loaded anew: of what nothing in the group makes and no PE keeps."""
    if isinstance(one, ResidentScope):
        return one
    kept = [node for node in nodes(one.tree) if isinstance(node, Keep)]
    inside = {keep.tensor for keep in kept if keep.level != "buffer"}
    names = sorted({keep.tensor for keep in kept} - inside - set(space_of(of, one).made))
    return replace(one, tree=_anew_tree(one.tree, names[seed // 2 % 2 :]))


def _anew_tree(tree: Tree, names: Sequence[str]) -> Tree:
    found: list[Node] = []
    for node in tree:
        if isinstance(node, Fork | Part):
            branches = tuple(_anew_tree(branch, names) for branch in node.branches)
            found.append(replace(node, branches=branches))
        elif isinstance(node, Keep) and node.tensor in names:
            found.append(replace(node, anew=True))
        else:
            found.append(node)
    return tuple(found)


def _load(request_bytes: int, in_flight: int, bandwidth: str = "unlimited") -> Run:
    """Run what begins when 100 rows of 16 bytes, and 16 of them, have come (latency 80)."""
    settings = (
        *(one for one in FAST if one not in FAST[:3]),
        f"dram.bandwidth_bytes_per_second={bandwidth}",
        "dram.latency_cycles=80",
        "dram.model=requests",
        f"dram.request_bytes={request_bytes}",
        f"dram.requests_in_flight={in_flight}",
    )
    workload = gemm(m=100, k=16, n=16, bytes_per_element=1)
    lines = ("keep A buffer, B buffer, C buffer", "do gemm array ws")
    on = load_accelerator("gemmini_16", settings)
    mapping = mapped(workload, *lines)
    run = Machine(on, lower(workload, mapping)).run()
    assert predict(workload, mapping, on).bound_cycles <= run.cycles
    return run


def test_short_rows_take_a_request_each() -> None:
    # twice as many in flight, half the time: A 100 rows, B 16 and C 100 x 80 cycles over 16 or 32
    of_16, of_32 = _load(64, 16).cycles, _load(64, 32).cycles
    assert of_16 - of_32 == (500 + 80 + 500) - (250 + 40 + 250)
    # rows of 16 bytes in requests of 8: as many again
    assert _load(8, 16).cycles - of_16 == 500 + 80 + 500


@pytest.mark.parametrize(
    ("bandwidth", "cause"), [("3.2 GB/s", "dram_bandwidth"), ("3.3 GB/s", "dram_queue")]
)
def test_requests_are_blamed_where_they_take_longer_than_the_bus(
    bandwidth: str, cause: str
) -> None:
    """A: 100 requests take 500 cycles, its 1600 bytes at 3.2 as many; B: 16 requests, 80 cycles."""
    stalls = _load(64, 16, bandwidth).engines["array"].stalls
    assert stalls[cause] == 500 + 80
    assert len(stalls.keys() & {"dram_bandwidth", "dram_queue"}) == 1


def test_requests_need_their_limits(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "hwconfigs" / "gemmini_16.yaml"
    text = shipped.read_text(encoding="utf-8").replace("  requests_in_flight: 16\n", "")
    path = tmp_path / "gemmini_16.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"dram.requests_in_flight: .* a number, with model requests"
    ):
        load_accelerator(path)


def test_pieces_that_are_not_there_are_no_division_by_zero() -> None:
    """Candidates without a last piece have one of size 0, beside those of the docstring."""
    blocks = BlocksSpec(steps=16, least_cycles=4, in_flight=5)
    found = blocks.cycles(np.array([49, 0, 28]), np.array([7, 0, 2]), (16, 16))
    assert found[[0, 2]].tolist() == [58, 104]
