"""SCALE-Sim topologies; files as its repository has them, and files with mistakes."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.importers.scalesim.topology import load_estimates, load_topology, read_topology
from simaccel.workload import Conv, Product, Workload, parse_workload
from simaccel.workload.layers import Layers
from tests.data_files import data_beside
from tests.refusals import faults_of, refusal_of

DATA = data_beside(__file__)

HEADER = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, "
    "Channels, Num Filter, Strides,"
)
SIZE = "a whole number from 1 to 1073741824"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.csv"


def _read(file: Path, *lines: str) -> Layers:
    file.write_text("\n".join(lines))
    return read_topology(file).layers


def _faults(file: Path, *lines: str) -> list[str]:
    found = refusal_of(_read, file, *lines).splitlines()
    assert all(line.startswith(f"{file}: ") for line in found)
    return [line.removeprefix(f"{file}: ") for line in found]


def test_convolutions_as_in_scalesim_are_read(file: Path) -> None:
    layers = _read(
        file,
        HEADER,
        "",
        "Conv1     ,224         ,224        ,11           ,11          ,3       ,96        ,4  ,",
        "Conv2_dw, 112, 112, 3, 3, 1, 1, 1,#dw",
        "\tConv14,14,14,3,3,1,1,1,",
        "Two strides, 96, 98, 3, 3, 3, 8, 2, 3",
        "DP3, 10, 10, 3, 3, 16, 1, 1",
        "FC, 1, 1, 1, 1, 1024, 1000, 1,",
    )
    assert layers == {
        # ceil((224 - 11 + 4) / 4) = 55
        "Conv1": Conv(m=96, c=3, p=55, q=55, r=11, s=11, stride=(4, 4)),
        "Conv2_dw": Conv(m=1, c=1, p=110, q=110, r=3, s=3),
        "Conv14": Conv(m=1, c=1, p=12, q=12, r=3, s=3),
        "Two_strides": Conv(m=8, c=3, p=48, q=33, r=3, s=3, stride=(2, 3)),
        "DP3": Conv(g=16, m=1, c=1, p=8, q=8, r=3, s=3),
        "FC": Conv(m=1000, c=1024, p=1, q=1, r=1, s=1),
    }


def test_products_are_read_by_the_positions_of_their_columns(file: Path) -> None:
    expected = {"1": Product(m=2048, n=4096, k=32), "2": Product(m=1, n=2, k=3)}
    assert _read(file, "Layer,M,N,K", "1,2048,4096,32", "2,1,2,3,") == expected
    assert _read(file, "L,M,N,J,", "1,2048,4096,32,", "2,1,2,3") == expected
    assert _read(file, "a,b,c,d", "1,2048,4096,32,", "2,1,2,3") == expected
    assert _faults(file, "Layer,K,M,N,", "1,32,2048,4096,") == [
        (
            "line 1: got 'Layer, K, M, N'; allowed: the columns of SCALE-Sim in its order, as it "
            "reads them by position: Layer, M, N, K"
        )
    ]
    estimated = _read(file, "Layer,Estimate,M,N,K", "1,,2048,4096,32", "2,7,1,2,3,")
    assert estimated == expected
    batched = _read(file, "layer name, m, n, k, batch", "a,1,2,3,4", "b,1,2,3,")
    assert batched == {"a": Product(m=1, n=2, k=3, b=4), "b": Product(m=1, n=2, k=3)}


def test_names_that_come_twice_are_numbered(file: Path) -> None:
    layers = _read(file, "Layer,M,N,K", "fc,1,2,3", "fc,1,2,4")
    assert {name: shape.ranks["k"] for name, shape in layers.items()} == {"fc": 3, "fc_2": 4}


@given(
    st.lists(
        st.tuples(*[st.integers(1, 30)] * 2, *[st.integers(1, 9)] * 5, st.integers(1, 4)),
        min_size=1,
        max_size=4,
    )
)
def test_rows_that_are_written_are_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, ...]]
) -> None:
    file = tmp_path_factory.mktemp("csv") / "net.csv"
    lines, expected = [], []
    for at, (height, width, r, s, c, m, stride, step_w) in enumerate(rows):
        h, w = height + r, width + s
        lines.append(f"L{at},{h},{w},{r},{s},{c},{m},{stride},{step_w},")
        # The formula of SCALE-Sim's topology_utils.py
        p, q = math.ceil((h - r + stride) / stride), math.ceil((w - s + step_w) / step_w)
        expected.append(p * q * r * s * c * m)
    file.write_text("\n".join([f"{HEADER}Stride Width", *lines]))
    workload = load_topology(file)
    assert [operator.macs for operator in workload.operators] == expected
    again = parse_workload(dict(workload.parameters))
    assert (again, again.name) == (workload, "net")


def test_a_batch_a_layer_and_element_sizes(file: Path) -> None:
    file.write_text(f"{HEADER}\nc, 8, 8, 3, 3, 2, 4, 1\nd, 4, 4, 1, 1, 1, 1, 1\n")
    workload = load_topology(file, batch=5, layer="c", bytes_by_tensor={"W": 1})
    assert workload.macs == 5 * 36 * 9 * 2 * 4
    assert workload.tensor_bytes("c.W") == 4 * 2 * 9
    assert workload.tensor_bytes("c.I") == 5 * 2 * 64 * 2
    said = refusal_of(load_topology, file, batch=0, layer="e")
    assert said.splitlines() == [
        f"topology: batch: got 0; allowed: {SIZE}",
        f"{file}: layer: got 'e'; allowed: one of c, d",
    ]


def test_all_faults_of_a_file_are_reported_with_line_and_column(file: Path) -> None:
    assert _faults(
        file,
        HEADER,
        "a, 0, 8, 3, 3, 2, 4, 1,",
        "b, 8, abc, 3, 3.5, 2, -4,",
        "",
        ", 8, 8, 1000000000000, 3, 2, 4, 1,",
        "d, 8, 2, 9, 3, 2, 4, 1,",
        "e, 8, 8, 3, 3, 2, 4, 1, 1, 7",
    ) == [
        f"line 2, column 2 (IFMAP Height): got 0; allowed: {SIZE}",
        f"line 3, column 3 (IFMAP Width): got 'abc'; allowed: {SIZE}",
        f"line 3, column 5 (Filter Width): got '3.5'; allowed: {SIZE}",
        f"line 3, column 7 (Num Filter): got -4; allowed: {SIZE}",
        f"line 3, column 8 (Strides): got nothing; allowed: {SIZE}",
        "line 5, column 1 (Layer name): got nothing; allowed: a name",
        f"line 5, column 4 (Filter Height): got 1000000000000; allowed: {SIZE}",
        "line 6, column 4 (Filter Height): got 9; allowed: at most the IFMAP Height, 8",
        "line 6, column 5 (Filter Width): got 3; allowed: at most the IFMAP Width, 2",
    ]


@pytest.mark.parametrize(("lines", "faults"), DATA["structure"])
def test_headers_and_structure(file: Path, lines: list[str], faults: list[str]) -> None:
    if faults:
        assert _faults(file, *lines) == faults
    else:
        assert list(_read(file, *lines)) == ["a"]


def _account(file: Path, *lines: str) -> tuple[Workload, list[str]]:
    file.write_text("\n".join(lines))
    made = load_topology(file)
    return made, [str(one) for one in made.account.entries if "a layer" not in one.why]


def test_columns_and_lines_that_are_no_layers_are_accounted_for(file: Path) -> None:
    """Its own Resnet50.csv has a blank line and three columns behind two without a title."""
    made, found = _account(
        file,
        f"{HEADER},,Eh,Ew,e2",
        ",,,,,,,,,,,,",
        "AlphaGoZero,",
        "Conv1,224,224,7,7,3,64,2,,,110,110,12100",
        "score_QxK',56,56,1,1,64,64,1,,,,,",
    )
    assert made.macs == 110 * 110 * 49 * 3 * 64 + 56 * 56 * 64 * 64
    assert [one.name for one in made.operators] == ["Conv1", "score_QxK_"]
    assert found == [
        "harmless: line 3 (AlphaGoZero) (row): a heading: a name without sizes",
        "not taken: column 11 (Eh) (column): SCALE-Sim reads no such column",
        "not taken: column 12 (Ew) (column): SCALE-Sim reads no such column",
        "not taken: column 13 (e2) (column): SCALE-Sim reads no such column",
    ]
    made.account.require_modelled()


def test_strides_by_short_titles_are_two(file: Path) -> None:
    header = HEADER.replace("Strides,", "Stride H, Stride W")
    # ceil(13 / 2) x 12 positions of 9 x 8 x 16 products
    made, _ = _account(file, header, "a,14,14,3,3,8,16,2,1")
    assert made.macs == 7 * 12 * 9 * 8 * 16


def test_titles_that_nobody_reads_are_named(file: Path) -> None:
    header = HEADER.replace("Channels", "Chanels").replace("Height", "Width", 1)
    made, found = _account(file, header, "a,34,18,3,3,16,24,1")
    assert made.macs == 1_769_472
    assert found == [
        "harmless: column 2 (IFMAP Width) (column): read as IFMAP Height, by its position",
        "harmless: column 6 (Chanels) (column): read as Channels, by its position",
    ]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((f"{HEADER} Sparsity", "a,34,18,3,3,16,24,1,2:4"), "line 2, column 9 (Sparsity)"),
        (("Layer,M,N,K,Sparsity Ratio,", "a,1,2,3,2:4"), "line 2, column 5 (Sparsity)"),
        (("Layer,M,N,K,", "a,1,2,3,4,"), "column 5"),
        (("Layer,M,N,K,M", "a,1,2,3,4"), "column 5 (M)"),
        ((f"{HEADER} Stride Width", "e,8,8,3,3,2,4,1,1,2:4"), "column 10"),
        ((f"{HEADER} Padding", "a,34,18,3,3,16,24,1,1"), "column 9 (Padding)"),
    ],
)
def test_what_changes_the_work_is_refused(file: Path, lines: tuple[str, ...], found: str) -> None:
    made, _ = _account(file, *lines)
    (fault,) = faults_of(made.account.require_modelled)
    assert fault.field.startswith(found)
    assert "work that can't be counted" in fault.allowed


@pytest.mark.parametrize(
    ("name", "got", "allowed"),
    [
        ("missing.csv", "nothing", "an existing CSV file"),
        ("binary.csv", "'invalid start byte'", "UTF-8 text"),
        (".", "'Is a directory'", "a readable CSV file"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, name: str, got: str, allowed: str) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    said = refusal_of(read_topology, tmp_path / name)
    assert said == f"{tmp_path / name}: file: got {got}; allowed: {allowed}"


def test_products_need_no_names(file: Path) -> None:
    file.write_text("M,N,K\n2,3,4\n5,6,7\n")
    assert {name: shape.ranks for name, shape in read_topology(file).layers.items()} == {
        "layer1": {"b": 1, "m": 2, "k": 4, "n": 3},
        "layer2": {"b": 1, "m": 5, "k": 7, "n": 6},
    }


def test_estimates_stand_in_a_column_of_their_own(file: Path) -> None:
    file.write_text("Layer,M,N,K,Estimate\na,2,3,4,100\nb,5,6,7,\na,5,6,7,12.5\n")
    assert load_estimates(file) == {"a": 100, "a_2": 12.5}
    assert load_topology(file).macs == 24 + 210 + 210
    file.write_text(f"{HEADER} Estimate\nc,8,8,3,3,2,4,1,9\n")
    assert load_estimates(file) == {"c": 9}


@pytest.mark.parametrize("text", ["0", "-3", "x", "1e3", "nan", "1.", "9" * 19])
def test_estimates_that_are_none_are_refused(file: Path, text: str) -> None:
    where = f"line 2, column 5 (Estimate): got {text!r}"
    allowed = "cycles: a number above 0, at most 18 digits"
    assert _faults(file, "Layer,M,N,K,Estimate", f"a,2,3,4,{text}") == [
        f"{where}; allowed: {allowed}"
    ]


@pytest.mark.parametrize(("sign", "name"), [("\t", "tabs"), (";", "semicolons")])
def test_other_signs_are_no_commas(file: Path, sign: str, name: str) -> None:
    lines = ("Layer name, IFMAP Height, IFMAP Width", "Conv1, 572, 572")
    file.write_text("\n".join(lines).replace(",", sign))
    with pytest.raises(InputError, match=f"commas between cells, not {name}"):
        read_topology(file)


def test_names_have_any_sign(file: Path) -> None:
    file.write_text("Layer,M,N,K,\n#G0,1,2,3,\n")
    assert [*load_topology(file).tensors] == ["_G0.I", "_G0.W", "_G0.O"]
