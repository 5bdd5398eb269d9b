"""Timeloop problems: a convolution as Timeloop's exercises write it, and what can't be read."""

from pathlib import Path

import pytest

from simaccel import load_accelerator
from simaccel.errors import InputError
from simaccel.workload import conv2d, load_workload, parse_workload

CONV = """
problem:
  shape:
    name: conv
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    - {name: Wdilation, default: 1}
    data_spaces:
    - name: Weights
      projection: [[[C]], [[M]], [[R]], [[S]]]
    - name: Inputs
      projection: [[[N]], [[C]], [[R, Wdilation], [P, Wstride]], [[S], [Q, Hstride]]]
    - name: Outputs
      projection: [[[N]], [[M]], [[Q]], [[P]]]
      read_write: true
  instance: {C: 3, M: 64, R: 7, S: 7, P: 112, Q: 112, Wstride: 2, Hstride: 2}
"""


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "problem.yaml"
    path.write_text(text)
    return path


def test_a_convolution(tmp_path: Path) -> None:
    workload = load_workload(_write(tmp_path, CONV))
    ours = conv2d(m=64, c=3, p=112, q=112, r=7, s=7, stride=2)
    assert workload.macs == ours.macs == 64 * 3 * 7 * 7 * 112 * 112
    assert workload.shapes["Inputs"] == (1, 3, 229, 229)
    assert str(workload.operators[0].inputs[0]) == "Inputs[N,C,R+2*P,S+2*Q]"
    assert {name: one.kind for name, one in workload.tensors.items()} == {
        "Weights": "weight",
        "Inputs": "input",
        "Outputs": "output",
    }
    assert parse_workload(dict(workload.parameters)) == workload


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("P: 112", "P: 0", "problem.instance.P: got 0; allowed: a whole number from 1"),
        ("read_write: true", "read_write: false", "data_spaces must be one that is read_write"),
        ("[[R, Wdilation]", "[[R, Other]", "sums of a rank, or of a rank and a coefficient"),
        ("dimensions: [C, M, R, S, N, P, Q]", "dimensions: 7", "dimensions must be a list of"),
        ("    name: conv\n", "  junk: 3\n  x:\n", "problem.shape: got nothing"),
    ],
)
def test_what_cannot_be_read_says_what_it_looks_like(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = CONV.replace(old, new)
    text = text.replace("  shape:\n  junk", "  junk") if "junk" in new else text
    with pytest.raises(InputError) as caught:
        load_workload(_write(tmp_path, text))
    assert said in str(caught.value)


def test_files_of_another_kind_are_recognised(tmp_path: Path) -> None:
    path = _write(tmp_path, "architecture: {version: 0.4}\n")
    for load in (load_workload, load_accelerator):
        with pytest.raises(InputError, match="this looks like a Timeloop architecture"):
            load(path)
    with pytest.raises(InputError, match="this looks like a Timeloop problem, which is a"):
        load_accelerator(_write(tmp_path, CONV))
    with pytest.raises(InputError, match="this looks like an accelerator, which is given with"):
        load_workload(Path(__file__).parents[2] / "hwconfigs" / "edge.yaml")
