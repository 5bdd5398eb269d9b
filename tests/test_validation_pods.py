"""All chips of small pods beside the one that stands for them, and collectives as messages."""

import pytest

from simaccel.hardware import Accelerator
from simaccel.hardware.chips import COLLECTIVES, ChipPod
from simaccel.hardware.links import LinksSpec
from tests.machine.accelerators import accelerator
from tests.mapping.chips.feed_forward import feed_forward, spread
from validation.pods.all_chips import run_all
from validation.pods.messages import steps_of

TOPOLOGIES = [
    ("ring", "ring"),
    ("ring", "bidirectional_ring"),
    ("all_to_all", "direct"),
    ("switch", "ring"),
    ("switch", "halving_doubling"),
]
CUTS = {
    "column then row": {"FF1": "f {f}", "act": "f {f}", "FF2": "f {f}"},  # an all-reduce
    "rows of the norm": {"FF1": "f {f}", "act": "f {f}", "FF2": "f {f}", "norm": "m {m}"},
    "columns, then rows": {"FF1": "f {f}", "act": "m {m}", "FF2": "m {m}"},  # an all-to-all
}


def _chips(count: int, topology: str, algorithm: str) -> ChipPod:
    links = LinksSpec.model_validate(
        {
            "topology": topology,
            "algorithm": algorithm,
            "bytes_per_second": "3 GB/s",
            "hop_cycles": 5,
            "chunk_bytes": 300,
        }
    )
    return ChipPod(links, (count,))


def _pod(chips: ChipPod) -> Accelerator:
    found = accelerator(dram={"bandwidth_bytes_per_second": "5 GB/s", "latency_cycles": 7})
    return found.model_copy(update={"links": chips.links, "chips": chips.shape})


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(
    ("count", "topology", "algorithm"),
    [(2, *TOPOLOGIES[1]), (3, *TOPOLOGIES[1]), (4, *TOPOLOGIES[0]), (4, *TOPOLOGIES[4])],
)
def test_one_chip_stands_for_all(
    cuts: dict[str, str], count: int, topology: str, algorithm: str
) -> None:
    """Each chip on a machine of its own has every figure of the one, to the cycle and the byte."""
    workload = feed_forward(m=12, e=8, f=24)
    sizes = {"m": 12 // count, "f": 24 // count}
    mapping = spread(workload, **{name: cut.format(**sizes) for name, cut in cuts.items()})
    together = run_all(workload, mapping, _pod(_chips(count, topology, algorithm)))
    assert len(together.all) == len(together.sent) == count
    assert min(together.sent) > 0
    assert list(together.differences()) == []


@pytest.mark.parametrize("kind", COLLECTIVES)
@pytest.mark.parametrize(("topology", "algorithm"), TOPOLOGIES)
def test_what_messages_carry_is_what_collectives_cost(
    topology: str, algorithm: str, kind: str
) -> None:
    """Rings of two to nine chips, messages that arrive nowhere or twice are errors themselves."""
    for count in range(2, 10):
        if algorithm == "halving_doubling" and count & (count - 1):
            continue
        spec = _chips(count, topology, algorithm)
        for n_bytes in (1, 7, 16, 63, 64):
            steps = [step for _, step in steps_of(kind, n_bytes, (count,), spec)]  # type: ignore[arg-type]
            longest = tuple(max(one.n_bytes for one in step) for step in steps)
            assert longest == spec.messages(kind, n_bytes, (count,))  # type: ignore[arg-type]
            for chip in range(count):
                sent = sum(one.n_bytes for step in steps for one in step if one.source == chip)
                assert sent == spec.sent_bytes(kind, n_bytes, (count,))  # type: ignore[arg-type]


def test_a_chip_that_is_late_is_seen() -> None:
    """The comparison can fail: with a latency that the one chip doesn't have."""
    workload = feed_forward(m=12, e=8, f=24)
    mapping = spread(workload, FF1="f 12", act="f 12", FF2="f 12")
    pod = _pod(_chips(2, "ring", "ring"))
    together = run_all(workload, mapping, pod)
    later = pod.links.model_copy(update={"hop_cycles": 6})
    together.all = run_all(workload, mapping, pod.model_copy(update={"links": later})).all
    assert any("cycles" in line for line in together.differences())
