"""Mapping files: saved, loaded, refused."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings

from simaccel.errors import InputError
from simaccel.mapping.documents import MappingReader
from simaccel.mapping.files import load_mapping, mapping_text, require_same
from simaccel.mapping.space import NotThisWorkloadError
from simaccel.mapping.text import tree_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import gemm
from tests.data_files import data_beside
from tests.draws import DRAWS
from tests.mapping.trees_drawn import MAPPINGS
from tests.program.tree_cases import CASES
from tests.refusals import faults_of
from tests.trees import mapping

DATA = data_beside(__file__)

TEXT = """\
workload:
  name: small
  fingerprint: FINGERPRINT
dataflow: test
groups:
- operators:
  - L
  - softmax
  - A
  tree:
  - loop g 1
  - loop q 3
  - keep Q buffer x2
  - keep Z buffer x2
  - loop c 4
  - keep K buffer x2
  - keep V buffer x2
  - keep S buffer x2
  - fork ahead 1:
    - - do L array os
    - - do softmax sfu
    - - do A array os
"""


@given(MAPPINGS)
@settings(max_examples=14 * DRAWS)
def test_any_mapping_comes_back(one: Mapping) -> None:
    reader = MappingReader("f.yaml")
    assert reader.mapping(yaml.safe_load(mapping_text(one))) == one
    assert reader.faults == []


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_loaded_as_it_was_saved(name: str, tmp_path: Path) -> None:
    of, one = CASES[name]
    (tmp_path / "m.yaml").write_text(mapping_text(one))
    assert load_mapping(tmp_path / "m.yaml", of) == one


@pytest.mark.parametrize("fingerprint", [True, False])
def test_what_map_prints_is_a_file_too(tmp_path: Path, fingerprint: bool) -> None:  # noqa: FBT001
    """Without the fingerprint it is for every workload that it fits."""
    of, one = CASES["flash pipelined"]
    text = tree_text(one)
    path = tmp_path / "m.txt"
    path.write_text(text if fingerprint else text.replace(f" {of.fingerprint}", "", 1))
    assert load_mapping(path, of) == one
    path.write_text(text.replace(of.fingerprint, "0" * 16))
    with pytest.raises(NotThisWorkloadError):
        load_mapping(path, of)


def test_a_line_that_is_no_node_is_named(tmp_path: Path) -> None:
    of, one = CASES["flash pipelined"]
    path = tmp_path / "m.txt"
    path.write_text(tree_text(one).replace("loop q 3", "loop q three"))
    with pytest.raises(InputError, match=r"m\.txt: line \d+: got 'loop q three'"):
        load_mapping(path, of)


def test_a_file_without_a_fingerprint_is_for_what_it_fits(tmp_path: Path) -> None:
    of, one = CASES["flash pipelined"]
    path = tmp_path / "m.yaml"
    path.write_text(TEXT.replace("  fingerprint: FINGERPRINT\n", ""))
    assert load_mapping(path, of) == one


def test_a_file_is_short_and_plain() -> None:
    of, one = CASES["flash pipelined"]
    assert mapping_text(one) == TEXT.replace("FINGERPRINT", of.fingerprint)


def _load(tmp_path: Path, text: str) -> list[str]:
    of, _ = CASES["flash pipelined"]
    path = tmp_path / "m.yaml"
    path.write_text(text.replace("FINGERPRINT", of.fingerprint))
    return [str(fault).removeprefix(f"{path}: ") for fault in faults_of(load_mapping, path, of)]


def test_all_faults_of_a_file_come_at_once(tmp_path: Path) -> None:
    text = TEXT.replace("loop q 3", "loop q three").replace("- do A array os", "- do A os")
    text = text.replace("dataflow: test", "dataflw: test").replace("name: small", "name: 3")
    text = text.replace("  - loop c 4", "  - {loop c 4: [a]}")
    found = _load(tmp_path, text)
    assert [line.split(";")[0] for line in found] == [
        "dataflw: got 'test'",
        "workload.name: got 3",
        "groups[0].tree[1]: got 'loop q three'",
        "groups[0].tree[4]: got 'a mapping'",
        "groups[0].tree[8].fork[2][0]: got 'do A os'",
        "dataflow: got nothing",
    ]
    assert found[0].endswith("did you mean 'dataflow'? (allowed: workload, dataflow, groups)")


@pytest.mark.parametrize(("old", "new", "fault"), DATA["faults"])
def test_a_fault_says_what_is_allowed(old: str, new: str, fault: str, tmp_path: Path) -> None:
    assert any(line.startswith(fault) for line in _load(tmp_path, TEXT.replace(old, new)))


def test_an_old_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (line,) = _load(tmp_path, "groups:\n- {kind: softmax, operator: x}\n- {kind: nest}\n")
    assert "make a new file with simaccel map ... -o FILE" in line


def test_a_mapping_for_another_workload_is_refused() -> None:
    of, one = CASES["gemm"]
    with pytest.raises(NotThisWorkloadError, match=r"is for workload small .* not for gemm"):
        require_same(gemm(m=2, k=2, n=2), one)
    other, _ = CASES["ffn"]
    with pytest.raises(NotThisWorkloadError, match="cover nothing; the workload needs FF1, gelu"):
        require_same(other, mapping(other, ""))
    require_same(of, one)
