"""Random trees over random pods: exact, conserved, bounded, and the same values as on one chip."""

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simaccel.experiment.check_chips import check_chips
from simaccel.experiment.run import ExperimentResult, simulate
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipsSpec
from simaccel.mapping.chips.sharding import replace_groups, shard
from simaccel.mapping.tree import Group, Loop, Mapping
from simaccel.workload import Workload
from tests.draws import DRAWS
from tests.machine.accelerators import accelerators
from tests.mapping.chips.feed_forward import feed_forward, spread

SHAPES = {2: (2,), 4: (2, 2), 6: (3, 2), 8: (2, 4)}


@st.composite
def pods(draw: st.DrawFn, count: int) -> ChipsSpec:
    """Draw chips on links of all topologies, algorithms and speeds."""
    topology = draw(st.sampled_from(["ring", "torus", "all_to_all", "switch"]))
    algorithms: dict[str, list[str | None]] = {
        "ring": [None, "ring"],
        "torus": [None, "ring"],
        "all_to_all": [None],
        "switch": [None, "halving_doubling"] if count & (count - 1) == 0 else [None],
    }
    return ChipsSpec.model_validate(
        {
            "count": count,
            "topology": topology,
            "shape": SHAPES[count] if topology == "torus" else None,
            "link_bytes_per_second": draw(st.sampled_from(["1 GB/s", "7 GB/s", "unlimited"])),
            "latency_cycles": draw(st.sampled_from([0, 1, 13])),
            "links_per_direction": draw(st.integers(1, 2)),
            "algorithm": draw(st.sampled_from(algorithms[topology])),
            "chunk_bytes": draw(st.sampled_from([7, 64, 300, 4096])),
            "pj_per_bit": 1.0,
        }
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Workload, Accelerator, Mapping]:
    """Draw a feed-forward layer, a pod, and spreads of each group over its chips."""
    count = draw(st.sampled_from(sorted(SHAPES)))
    sizes = {"m": 2 * count * draw(st.integers(1, 2)), "f": count * draw(st.integers(1, 6))}
    sizes["e"] = count * draw(st.integers(1, 3))
    workload = feed_forward(**sizes)
    ranks = {"FF1": "mef", "act": "mf", "FF2": "mef", "norm": "m"}
    spreads = {name: _spread(draw, sizes, ranks[name], count) for name in ranks}
    mapping = spread(workload, **spreads)
    found = draw(accelerators(buffer={"capacity_bytes": "unlimited"}))
    chips = draw(pods(count))
    pod, _ = shard(workload, mapping, chips)
    assume(pod is not None)
    mapping = _fitted(mapping, sizes["m"])
    return workload, found.model_copy(update={"chips": chips}), mapping


def _spread(draw: st.DrawFn, sizes: dict[str, int], ranks: str, count: int) -> str:
    kind = draw(st.sampled_from(["none", "all", "all", "two"]))
    rank = draw(st.sampled_from(ranks))
    if kind == "none":
        return ""
    if kind == "all":
        return f"{rank} {sizes[rank] // count}"
    first = SHAPES[count][0]
    other = draw(st.sampled_from(ranks))
    one, left = f"{rank} {sizes[rank] // first}", {**sizes, rank: sizes[rank] // first}
    rest = count // first
    return f"{one}; {other} {left[other] // rest}" if left[other] % rest == 0 else one


def _fitted(mapping: Mapping, m: int) -> Mapping:
    """Return a mapping whose loops have tiles of at most two rows, as pieces may be small."""

    def smaller(group: Group) -> Group:
        tree = tuple(
            replace(node, tile=min(node.tile, 1 + m % 2)) if isinstance(node, Loop) else node
            for node in group.tree
        )
        return replace(group, tree=tree)

    return replace_groups(mapping, smaller)


def _figures(result: ExperimentResult) -> object:
    return replace(result.run, events=0), result.prediction


@settings(
    max_examples=14 * DRAWS,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(cases())
def test_fast_forward_counts_and_bound_on_chips(
    case: tuple[Workload, Accelerator, Mapping],
) -> None:
    """A run refuses itself where it is below its bound, or moves other bytes than are counted."""
    result = simulate(*case)
    assert _figures(result) == _figures(simulate(*case, fast_forward=False))
    assert result.run.moved == result.prediction.moved
    assert result.run.engines["array"].busy == result.prediction.resources["array"]
    if result.pod.exchanges:
        assert result.run.engines["link"].busy == result.prediction.resources["link"]


@settings(
    max_examples=5 * DRAWS,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(cases())
def test_chips_compute_what_one_computes(case: tuple[Workload, Accelerator, Mapping]) -> None:
    pod = simulate(*case).pod
    assume(pod.cuts)
    check_chips(case[0], pod, case[1].chips.count)
