"""All tile sizes of an einsum: each runs on the machine, and none is below its bound."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import Accelerator, Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import SearchAccount
from simaccel.search.all_sizes import AllSizes, all_sizes
from simaccel.search.candidate_set import capacity
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge
from simaccel.workload import Workload, build, conv2d, gemm
from tests.draws import some
from tests.search.every_tree import run_every_tree

_FOREVER = float("inf")


def _toy(*settings: str) -> Accelerator:
    return load_accelerator("toy", ["dram.interleave_bytes=16 B", *settings])


def _all(
    workload: Workload,
    on: Accelerator,
    below: float,
    most: int = 10**6,
    held: Stationarity | None = None,
) -> AllSizes | None:
    search = TreeSearch(Goal(Judge(on), stationarity=held))
    candidates = search.operator_candidates(workload, workload.operators[0].name).candidates
    return all_sizes(candidates, below, most)


def _account(
    workload: Workload, on: Accelerator, tolerance: float = 0.0, held: Stationarity | None = None
) -> tuple[int, SearchAccount]:
    accounts: list[SearchAccount] = []
    asked = Options(tolerance=tolerance, stationarity=held, on_account=accounts.append)
    mapping = make_mapping(workload, on, "best", asked)
    return Machine(on, lower(workload, mapping)).run().cycles, accounts[-1]


@pytest.mark.parametrize(
    ("sizes", "held", "room", "bandwidth"),
    some(
        [
            ((17, 2, 2), "ws", 1024, 8),
            ((1, 19, 2), "ws", 128, 4),
            ((3, 17, 2), "is", 96, 1),
            ((3, 1, 19), "os", 96, 1),
            ((2, 3, 17), "os", 160, 2),
        ],
        3,
    ),
)
def test_what_is_proved_is_the_best_of_all_trees(
    sizes: tuple[int, int, int], held: Stationarity, room: int, bandwidth: int
) -> None:
    """A rank of a prime beyond sixteen, whose grid has a few sizes only."""
    on = _toy(
        f"buffer.capacity_bytes={room} B", f"dram.bandwidth_bytes_per_second={bandwidth} GB/s"
    )
    m, k, n = sizes
    workload = gemm(m=m, k=k, n=n)
    brute = run_every_tree(workload, on, [held])
    every = _all(workload, on, _FOREVER, held=held)
    assert every is not None
    assert every.candidates is not None
    fits = every.candidates.fitting(capacity(on))
    assert sorted(every.candidates.run(fits)) == sorted(brute)
    cycles, account = _account(workload, on, held=held)
    assert cycles == account.value <= min(brute)  # neighbours have other slots for each tensor
    assert account.gap_text == "optimal of all its tile sizes and orders"
    below = _all(workload, on, min(brute) + 1, held=held)
    assert below is not None
    assert below.candidates is not None
    assert below.candidates.run(below.candidates.fitting(capacity(on))).min() == min(brute)


_settings = st.tuples(
    st.sampled_from([1, 2, 8, 32]).map(lambda n: f"dram.bandwidth_bytes_per_second={n} GB/s"),
    st.sampled_from([0, 1, 20, 60]).map(lambda n: f"dram.latency_cycles={n}"),
    st.sampled_from([0, 7]).map(lambda n: f"dram.turnaround_cycles={n}"),
    st.sampled_from([8, 32, 1024]).map(lambda n: f"dram.batch_bytes={n} B"),
    st.sampled_from([1, 3]).map(lambda n: f"dram.channels={n}"),
    st.sampled_from([256, 1024, 65536]).map(lambda n: f"buffer.capacity_bytes={n} B"),
    st.sampled_from(["full", "used"]).map(lambda name: f"array.edge_folds={name}"),
    st.sampled_from(["per_tensor", "single"]).map(lambda name: f"dma.in_queues={name}"),
)
_few = st.integers(1, 4)
_workloads = st.one_of(
    st.builds(
        gemm, m=st.integers(1, 17), k=st.integers(1, 9), n=_few, batch=st.integers(1, 2)
    ).filter(lambda made: made.macs > 2),  # two numbers times two are a vector operator
    st.builds(
        conv2d,
        m=_few,
        c=_few,
        p=_few,
        q=_few,
        r=st.integers(1, 3),
        s=_few,
        stride=st.integers(1, 3),
    ),
)


@given(_workloads, _settings, st.randoms(use_true_random=False))
def test_no_run_is_below_its_bound(
    workload: Workload, settings: tuple[str, ...], draw: random.Random
) -> None:
    """Some of those with the lowest bounds, and of all."""
    on = _toy(*settings)
    every = _all(workload, on, _FOREVER, most=300)
    if every is None or every.candidates is None:
        return
    candidates = every.candidates
    fits = candidates.fitting(capacity(on))
    if not fits.size:
        return
    bounds = candidates.columns.bounds[fits]
    lowest = np.argsort(bounds, kind="stable")[:4]
    which = np.unique([*lowest, *(draw.randrange(fits.size) for _ in range(8))])
    assert (candidates.run(fits[which]) >= bounds[which]).all()


def test_sums_leave_the_array_while_the_next_tiles_come() -> None:
    """A block waits for whichever takes longer, not for one after the other."""
    on = _toy("dram.latency_cycles=20")
    every = _all(conv2d(m=1, c=2, p=2, q=1, r=3, s=1), on, _FOREVER, held="os")
    assert every is not None
    assert every.candidates is not None
    fits = every.candidates.fitting(capacity(on))
    assert (every.candidates.run(fits) >= every.candidates.columns.bounds[fits]).all()


def test_without_a_proof_the_gap_is_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a gain ends it, where what is left may be faster."""
    monkeypatch.setitem(vars(EFFORT), "proof", 1)
    _, account = _account(gemm(m=37, k=19, n=23), _toy(), held="ws")
    assert 0 < account.rest_bound < account.value
    assert account.gap_text.startswith("at most ")
    assert account.gap_text.endswith("the best of all its tile sizes and orders")


def test_what_has_no_proof() -> None:
    """Too many tilings, tensors outside of DRAM, a near-tie that may be taken."""
    workload, on = gemm(m=17, k=2, n=2), _toy()
    assert _all(workload, on, _FOREVER, most=10) is None
    assert _all(workload, load_accelerator("tpu_v1"), _FOREVER) is None
    _, account = _account(workload, on, tolerance=0.01)
    assert not account.complete
    assert _all(build("conv", shape="M=4,C=4,P=5,Q=5,R=2,S=2,G=3"), on, 1.0) == AllSizes(
        None, size=3 * 3 * 6 * 4 * 25 * 16
    )


def test_operands_with_too_many_tilings_leave_the_others() -> None:
    """A product of 592 x 48 x 17 is as fast as with its weights held, but nothing is proved."""
    workload, on = gemm(m=592, k=48, n=17, bytes_per_element=2), load_accelerator("edge_tpu")
    fixed, of_weights = _account(workload, on, held="ws")
    free, of_any = _account(workload, on)
    assert of_weights.complete
    assert not of_any.complete
    assert free <= fixed
    assert of_any.better
    assert of_any.gap_text.startswith("better than the best of a grid of tile sizes")
    assert of_any.space == sum(of_any.pruned.values()) + of_any.ran - of_any.outside
