"""Timeloop problems: a convolution as Timeloop's exercises write it, and what can't be read."""

from pathlib import Path

import pytest

from simaccel import load_accelerator
from simaccel.errors import InputError
from simaccel.files.documents import document_text
from simaccel.importers.workloads import load_workload
from simaccel.study.placement import place_on
from simaccel.workload import conv2d, parse_workload
from tests.data_files import data_beside
from tests.refusals import refusal_of

DATA = data_beside(__file__)

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
  instance: {N: 1, C: 3, M: 64, R: 7, S: 7, P: 112, Q: 112, Wstride: 2, Hstride: 2}
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


@pytest.mark.parametrize(("old", "new", "said"), DATA["unreadable"])
def test_what_cannot_be_read_says_what_it_looks_like(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = CONV.replace(old, new)
    text = text.replace("  shape:\n  junk", "  junk") if "junk" in new else text
    assert said in refusal_of(load_workload, _write(tmp_path, text))


def test_files_of_another_kind_are_recognised(tmp_path: Path) -> None:
    path = _write(tmp_path, "architecture: {version: 0.4}\n")
    for load in (load_workload, load_accelerator):
        with pytest.raises(InputError, match="this looks like a Timeloop architecture"):
            load(path)
    with pytest.raises(InputError, match="this looks like a Timeloop problem, which is a"):
        load_accelerator(_write(tmp_path, CONV))
    with pytest.raises(InputError, match="this looks like an accelerator, which is given with"):
        load_workload(Path(__file__).parents[2] / "hwconfigs" / "edge.yaml")


MATMUL = """
problem:
  version: 0.4
  shape:
    name: MatMul
    dimensions: [M, N, K]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[N]], [[K]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 48, N: 32, K: 64}
"""


def test_the_named_shape_of_the_library(tmp_path: Path) -> None:
    text = (
        "problem:\n  shape: cnn-layer\n  instance: {C: 16, M: 24, P: 20, Q: 12, R: 3, S: 3, N: 1}"
    )
    found = load_workload(_write(tmp_path, text))
    assert found.macs == 16 * 24 * 20 * 12 * 9
    strided = load_workload(
        _write(tmp_path, text.replace("N: 1", "N: 1, Wstride: 2, Hdilation: 3"))
    )
    assert strided.shapes["Inputs"] == (1, 16, 2 * 19 + 3, 11 + 3 * 2 + 1)
    with pytest.raises(InputError, match="of others in Timeloop's library write out the file"):
        load_workload(_write(tmp_path, text.replace("cnn-layer", "mttkrp")))


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("Hstrid: 2", "problem.instance.Hstrid: got 2; .*did you mean 'Hstride'"),
        ("HStride: 2", "did you mean 'Hstride'"),
        ("Hdilation: 2", "problem.instance.Hdilation: got 2; allowed: a size of a dimension"),
        ("Z: 7", "problem.instance.Z: got 7"),
    ],
)
def test_sizes_that_nothing_uses_are_faults(tmp_path: Path, size: str, said: str) -> None:
    """Also of a coefficient that is declared and that no projection has."""
    text = CONV.replace("Hstride: 2", size).replace(
        "{name: Hstride, default: 1}", "{name: Hstride, default: 1}\n    - {name: Hdilation}"
    )
    with pytest.raises(InputError, match=said):
        load_workload(_write(tmp_path, text))
    one = load_workload(_write(tmp_path, text.replace(size, f"{size.partition(':')[0]}: 1")))
    assert one.shapes["Inputs"][3] == 7 + 111  # the default stride


def test_densities_are_not_taken_and_refused_where_something_runs(tmp_path: Path) -> None:
    text = MATMUL.replace("K: 64}", "K: 64, densities: {A: {density: 0.25}}}")
    found = load_workload(_write(tmp_path, text))
    (left,) = found.account.entries_of("not taken")
    assert (left.name, left.macs) == ("problem.instance.densities", None)
    with pytest.raises(InputError, match=r"densities .*work that can't be counted"):
        found.account.require_modelled()


@pytest.mark.parametrize("dense", ["1.0", "{A: 1.0, Z: {distribution: fixed, density: 1}}"])
def test_densities_of_one_are_dense(tmp_path: Path, dense: str) -> None:
    text = MATMUL.replace("K: 64}", f"K: 64, densities: {dense}}}")
    load_workload(_write(tmp_path, text)).account.require_modelled()


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("  version: 0.4", "  version: 0.4\n  densty: 0.5", "problem.densty"),
        ("    name: MatMul", "    name: MatMul\n    stride: 2", "problem.shape.stride"),
        ("problem:", "mapping: []\nextra: 1\nproblem:", "extra"),
    ],
)
def test_unknown_keys_are_named(tmp_path: Path, old: str, new: str, name: str) -> None:
    found = load_workload(_write(tmp_path, MATMUL.replace(old, new, 1)))
    assert [one.name for one in found.account.entries_of("not taken")] == [name]


def test_sizes_beside_the_shape_as_in_old_files(tmp_path: Path) -> None:
    text = MATMUL.replace("  instance: {M: 48, N: 32, K: 64}", "  M: 48\n  N: 32\n  K: 64")
    found = load_workload(_write(tmp_path, text))
    assert found.macs == 48 * 32 * 64
    assert not found.account.entries_of("not taken")


@pytest.mark.parametrize(
    "text",
    [
        "{{include_text('base.yaml')}}\n" + MATMUL,
        MATMUL.replace("M: 48", "M: {{ rows }}"),
        "{% set rows = 48 %}\n" + MATMUL,
        MATMUL.replace("  version: 0.4", "  <<<: *base"),
    ],
)
def test_templates_are_told_where_to_get_the_parsed_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"a template \(Jinja.*parsed-processed-input.yaml"):
        load_workload(_write(tmp_path, text))
    with pytest.raises(InputError, match=r"a template \(Jinja.*parsed-processed-input.yaml"):
        load_accelerator(_write(tmp_path, text))


def test_a_comment_is_no_template(tmp_path: Path) -> None:
    assert load_workload(_write(tmp_path, MATMUL + "# {{ rows }}\n")).macs == 48 * 32 * 64


def test_element_sizes_are_free_as_no_problem_says_them(tmp_path: Path) -> None:
    path = _write(tmp_path, MATMUL)
    assert place_on(load_workload(path), load_accelerator("edge_tpu")).tensor_bytes("A") == 3072
    wide = load_workload(path, bytes_per_element=4, bytes_by_tensor={"Z": 1})
    sizes = {"A": 48 * 64 * 4, "B": 32 * 64 * 4, "Z": 48 * 32}
    assert {name: wide.tensor_bytes(name) for name in sizes} == sizes
    assert place_on(wide, load_accelerator("edge_tpu")) is wide
    assert parse_workload(dict(wide.parameters)) == wide
    path.write_text(document_text(dict(wide.parameters)))
    with pytest.raises(InputError, match=r"bytes_per_element: got 2; .*the file sets it"):
        load_workload(path, bytes_per_element=2)


FLAT = (
    "problem:\n  {shape}R: 3\n  S: 3\n  P: 48\n  Q: 480\n  C: 1\n  {m}: 16\n  N: 1\n  Wstride: 1\n"
)


@pytest.mark.parametrize("shape", ["", "shape: cnn-layer\n  ", "shape: cnn_layer.yaml\n  "])
@pytest.mark.parametrize("outputs", ["M", "K"])
def test_old_files_have_a_convolution(tmp_path: Path, shape: str, outputs: str) -> None:
    workload = load_workload(_write(tmp_path, FLAT.format(shape=shape, m=outputs)))
    assert workload.macs == 3 * 3 * 48 * 480 * 16
    assert workload.shapes["Inputs"] == (1, 1, 50, 482)
    assert workload.shapes["Weights"] == (1, 16, 3, 3)
    assert not workload.account.entries_of("not taken")


def test_a_product_of_the_library(tmp_path: Path) -> None:
    text = "problem: {shape: gemm-ABZ, instance: {M: 4, N: 5, K: 6}}"
    workload = load_workload(_write(tmp_path, text))
    assert workload.macs == 4 * 5 * 6
    assert workload.shapes == {"A": (4, 6), "B": (5, 6), "Z": (4, 5)}


def test_sizes_of_the_input_are_what_the_projections_reach(tmp_path: Path) -> None:
    more = CONV.replace("{N: 1,", "{N: 1, H: 224, W: 224, Hpad: 3, Wpad: 3,")
    workload = load_workload(_write(tmp_path, more))
    assert workload.shapes["Inputs"] == (1, 3, 229, 229)
    assert {one.name for one in workload.account.entries_of("harmless")} >= {
        f"problem.instance.{name}" for name in ("H", "W", "Hpad", "Wpad")
    }


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("shape: {name: CNN-Layer, dimensions: [R], data-spaces: []}", "got nothing"),
        ("problem: [{shape: {name: Fc1, dimensions: [P1]}}]", "got"),
    ],
)
def test_a_part_of_a_problem_or_several_are_refused(tmp_path: Path, text: str, got: str) -> None:
    allowed = "a mapping with a shape and its sizes; several shapes are a workload of einsums"
    with pytest.raises(InputError, match=f"problem: {got}.*; allowed: {allowed}"):
        load_workload(_write(tmp_path, text))


@pytest.mark.parametrize("problem", ["null", "3", "no"])
def test_a_problem_that_is_no_mapping_is_refused_as_one(tmp_path: Path, problem: str) -> None:
    said = refusal_of(load_workload, _write(tmp_path, f"problem: {problem}\n"))
    assert "problem.yaml: problem: got " in said
    assert "; allowed: a mapping with a shape and its sizes" in said


def test_a_rank_that_is_no_dimension_is_said(tmp_path: Path) -> None:
    text = CONV.replace("[[[C]], [[M]]", "[[[G]], [[C]], [[M]]").replace("{N: 1,", "{N: 1, G: 2,")
    with pytest.raises(InputError, match=r"G: got 2; .*; it is in a projection only"):
        load_workload(_write(tmp_path, text))


def test_a_rank_twice_in_a_dimension_counts_twice(tmp_path: Path) -> None:
    """P + 2 P + R + S reaches 3 * 111 + 6 + 6 + 1 elements."""
    text = CONV.replace("[[S], [Q, Hstride]]", "[[P], [P, Hstride], [R], [S]]")
    workload = load_workload(_write(tmp_path, text.replace("[[Q]], [[P]]]", "[[P]], [[Q]]]")))
    assert workload.shapes["Inputs"][3] == 3 * 111 + 6 + 6 + 1


@pytest.mark.parametrize(("old", "new", "said"), DATA["no problem"])
def test_what_is_no_problem_as_it_stands(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_workload(_write(tmp_path, CONV.replace(old, new)))


def test_keys_of_data_spaces_are_accounted_for(tmp_path: Path) -> None:
    text = CONV.replace("    - name: Weights\n", "    - name: Weights\n      density: 0.3\n")
    account = load_workload(_write(tmp_path, text)).account
    assert [one.name for one in account.entries_of("not taken")] == [
        "problem.shape.data_spaces.Weights.density"
    ]
    with pytest.raises(InputError, match="density"):
        account.require_modelled()
