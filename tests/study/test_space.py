"""Design spaces: the product, draws of it, and the designs at its points."""

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from simaccel.importers.accelerators import load_accelerator
from simaccel.study.points import Axis, Of, Setting, WeightedWorkload
from simaccel.study.space import DesignSpace, Settings, draw, require_sizes
from simaccel.workload import build, gemm

TOY = load_accelerator("toy")
BUFFERS, LATENCIES = (1024, 2048, 4096), (0, 7)


def _axis(name: str, field: str, values: tuple[int, ...], of: Of = "accelerator") -> Settings:
    axis = Axis(name, name, name, of)
    return tuple(Setting(axis, value, str(value), {field: value}) for value in values)


def _space(*sizes: int) -> DesignSpace:
    """Make a space that is as large as it is said, whatever it is of."""
    axes = [_axis(f"a{at}", "dram.latency_cycles", tuple(range(n))) for at, n in enumerate(sizes)]
    return DesignSpace((TOY,), (WeightedWorkload(gemm(m=9, k=7, n=5)),), tuple(axes))


def test_the_product_of_everything_in_order() -> None:
    space = DesignSpace(
        (TOY, load_accelerator("edge")),
        (WeightedWorkload(gemm(m=9, k=7, n=5)),),
        (
            _axis("buffer", "buffer.capacity_bytes", BUFFERS),
            _axis("latency", "dram.latency_cycles", LATENCIES),
        ),
        ("naive", "flex"),
    )
    designs = list(space.designs(range(space.size)))
    expected = [*product(("toy", "edge"), ("naive", "flex"), BUFFERS, LATENCIES)]
    assert space.size == len(expected) == 24
    for one, (name, dataflow, buffer, latency) in zip(designs, expected, strict=True):
        if name == "edge":  # its folds need more than 1 KiB to 4 KiB
            assert (buffer < 2048) == bool(one.problem), one
        if not one.problem:
            assert one.accelerator.name == name
            assert one.accelerator.buffer.capacity_bytes == buffer
            assert one.accelerator.dram.latency_cycles == latency
        assert one.dataflow == dataflow


def test_what_no_hardware_can_be_is_said() -> None:
    space = DesignSpace((TOY,), (), (_axis("buffer", "buffer.capacity_bytes", (8, 1024)),))
    bad, good = space.designs(range(2))
    assert bad.problem.startswith("design: buffer.capacity_bytes: got 8; allowed: at least 32 B")
    assert good.problem == ""


def test_sizes_of_workloads_are_scenarios_and_not_choices() -> None:
    bert = build("bert", seq_len=8, batch=1, scope="la")
    loads = (WeightedWorkload(bert), WeightedWorkload(gemm(m=9, k=7, n=5), 2))
    space = DesignSpace((TOY,), loads, (
        _axis("seq-len", "seq_len", (4, 16), "workload"),
    ))  # fmt: skip
    require_sizes(space.axes, space.loads)
    short, long = space.designs(range(2))
    assert (short.row.scenario, long.row.scenario) == (("4",), ("16",))
    assert [load.workload.parameters.get("seq_len") for load in long.loads] == [16, None]
    built = build("bert", seq_len=16, batch=1, scope="la")
    assert long.loads[0].workload.fingerprint == built.fingerprint
    assert long.loads[1].weight == space.loads[1].weight
    assert long.loads[1].workload.fingerprint == space.loads[1].workload.fingerprint


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    count=st.integers(1, 60),
    seed=st.integers(0, 9),
)
def test_a_latin_hypercube_uses_each_setting_alike(sizes: list[int], count: int, seed: int) -> None:
    space = _space(*sizes)
    numbers = draw(space, count, "latin", seed)
    assert numbers == draw(space, count, "latin", seed)
    assert len(set(numbers)) == len(numbers) <= min(count, space.size)
    assert all(0 <= number < space.size for number in numbers)
    if count >= space.size:
        assert numbers == [*range(space.size)]
        return
    if len(numbers) < count:
        return  # some were drawn twice whatever was exchanged: see below
    designs = [*product(*map(range, sizes))]
    for axis, size in enumerate(sizes):
        used = Counter(designs[number][axis] for number in numbers)
        assert {used[at] for at in range(size)} <= {count // size, -(-count // size)}


def test_few_of_many_are_all_distinct() -> None:
    for seed in range(20):
        assert len(draw(_space(8, 8, 8), 100, "latin", seed)) == 100
        assert len(draw(_space(10, 10), 50, "latin", seed)) == 50


@given(count=st.integers(1, 50), seed=st.integers(0, 9))
def test_a_random_draw_has_distinct_designs(count: int, seed: int) -> None:
    numbers = draw(_space(5, 7), count, "random", seed)
    assert len(set(numbers)) == len(numbers) == min(count, 35)
    assert numbers == sorted(numbers) == draw(_space(5, 7), count, "random", seed)


def test_a_draw_of_a_space_that_is_too_large_to_list() -> None:
    space = _space(*[1000] * 6)
    assert space.size == 10**18
    assert len(draw(space, 10, "latin")) == len(draw(space, 10, "random")) == 10
