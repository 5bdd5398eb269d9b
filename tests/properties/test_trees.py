"""Trees by example and drawn: machine, closed form, numpy and fast-forward agree on each."""

import pytest

from simaccel.hardware import Accelerator
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.tree import Do, Mapping, nodes
from tests.agreement import assert_counts, assert_exact
from tests.program.tree_cases import CASES

SYSTOLIC = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
SPATIAL = load_accelerator(
    "eyeriss_like",
    [
        "buffer.capacity_bytes=unlimited",
        "array.memories.input.capacity_bytes=unlimited",
        "array.memories.weight.capacity_bytes=unlimited",
        "array.memories.output.capacity_bytes=unlimited",
        "array.bypass_buffer=[]",
        "dram.latency_cycles=3",
    ],
)


def _accelerator(one: Mapping) -> Accelerator:
    units = {
        node.unit for group in one.groups for node in nodes(group.tree) if isinstance(node, Do)
    }
    return SPATIAL if "mac" in units else SYSTOLIC


@pytest.mark.parametrize("name", CASES)
def test_an_example_moves_what_the_closed_form_counts(name: str) -> None:
    of, one = CASES[name]
    on = _accelerator(one)
    assert faults(of, one, on) == []
    assert_exact(of, one, on, assert_counts(of, one, on))
