"""Shortcuts around padded convolutions: a rank of the group would be a sum of itself."""

import pytest

from simaccel.experiment.check import check
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.space import space_of
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group
from simaccel.program.lowering import lower
from simaccel.schedulers import make_mapping
from simaccel.workload import Workload, parse_workload
from tests.program.programs import mapping_of

NAMES = ("relu", "conv", "add")


def _shortcut() -> Workload:
    """Return relu, a convolution of 3 x 3 over it, padded, and the sum of both."""
    box = ["i0", "i1", "i2"]
    inside = {"tensor": "P", "projection": box, "start": [0, 1, 1]}
    window = ["c", {"p": 1, "r": 1}, {"q": 1, "s": 1}]
    sizes = {"i0": 4, "i1": 5, "i2": 5}
    operators = {
        "relu": {
            "kind": "relu",
            "ranks": sizes,
            "inputs": [{"tensor": "I", "projection": box}],
            "output": inside,
        },
        "conv": {
            "ranks": {"c": 4, "p": 5, "r": 3, "q": 5, "s": 3, "m": 4},
            "inputs": [
                {"tensor": "P", "projection": window},
                {"tensor": "W", "projection": ["m", "c", "r", "s"]},
            ],
            "output": {"tensor": "O", "projection": ["m", "p", "q"]},
        },
        "add": {
            "kind": "residual",
            "ranks": sizes,
            "inputs": [{"tensor": "O", "projection": box}, inside],
            "output": {"tensor": "Y", "projection": box},
        },
    }
    kinds = {"I": "input", "P": "intermediate", "W": "weight", "O": "intermediate", "Y": "output"}
    tensors = {name: {"kind": kind} for name, kind in kinds.items()}
    document = {"kind": "einsums", "name": "block", "tensors": tensors, "operators": operators}
    return parse_workload(document)


@pytest.mark.parametrize("dataflow", ["naive", "flex", "best"])
def test_a_shortcut_around_a_padded_convolution_is_scheduled(dataflow: str) -> None:
    of, on = _shortcut(), load_accelerator("edge")
    mapping = make_mapping(of, on, dataflow)
    assert faults(of, mapping, on) == []
    assert [one.operator for one in check(of, mapping, lower(of, mapping))][-1] == "add"


def test_a_group_with_such_a_shortcut_is_refused() -> None:
    of = _shortcut()
    group = Group(operators=NAMES, tree=())
    assert space_of(of, group).circular
    tree = parse_tree(
        "keep I buffer, P buffer, W buffer, O buffer, Y buffer\n"
        "fork\n  | do relu sfu\n  | do conv array ws\n  | do add sfu\n"
    )
    found = faults(of, mapping_of(of, Group(operators=NAMES, tree=tree)))
    assert [one.allowed for one in found] == ["another group: relu sees another box of P"]
