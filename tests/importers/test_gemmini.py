"""Gemmini's mapping strings: trees expanded by hand, and what is refused."""

import pytest

from simaccel.importers.gemmini import gemmini_mapping, parse_gemmini
from simaccel.mapping.node_text import node_text
from simaccel.workload import Workload, gemm
from simaccel.workload.conv import conv2d
from tests.refusals import faults_of, refusal_of

PRODUCT = "L3[WIO] P2 C3 K12 - L2[WI] N1 K16X - L1[O] K4 C64 P8 C16X - L0[W] P8"
"""Of 128 x 3072 by 3072 x 768."""
LEVELS = [level.split(" ", 1) for level in PRODUCT.split(" - ")]
STEM = "L3[WIO] P7 Q14 - L2[WI] Q2 K16X - L1[O] K4 S7 R7 P4 C3X - L0[W] Q4 P4"


def product() -> Workload:
    return conv2d(m=768, c=3072, p=1, q=128, r=1, s=1, bytes_per_element=1)


def stem() -> Workload:
    return conv2d(m=64, c=3, p=112, q=112, r=7, s=7, stride=2, bytes_per_element=1)


def lines(workload: Workload, text: str, *, commands: bool = False) -> list[str]:
    mapping = gemmini_mapping(workload, parse_gemmini(text), commands=commands)
    (group,) = mapping.groups
    return [node_text(node) for node in group.tree]


def test_a_product_as_it_is_written() -> None:
    # 128 columns of the output in 2, 3072 inputs in 3, 768 outputs in 12; then 16 x 16 PEs
    assert lines(product(), PRODUCT) == [
        *("loop q 64", "loop c 1024", "loop m 64", "keep I buffer x2", "keep W buffer x2"),
        *("keep O buffer x2", "spread c 64 rows", "spread m 4 cols", "do conv array ws"),
    ]


def test_a_product_as_commands_adds_up_inside_and_loads_anew() -> None:
    assert lines(product(), PRODUCT, commands=True) == [
        *("loop q 64", "loop m 64", "loop c 1024", "keep I buffer x2 anew"),
        *("keep W buffer x2 anew", "keep O buffer x2", "spread c 64 rows"),
        *("spread m 4 cols", "do conv array ws"),
    ]


def test_a_convolution_with_a_loop_between_the_memories() -> None:
    # 112 columns in 7; 112 rows in 14, and those 8 in 2 within the tile of inputs
    assert lines(stem(), STEM) == [
        *("loop q 16", "loop p 8", "keep I buffer x2", "keep W buffer x2", "loop p 4"),
        *("keep O buffer x2", "spread c 1 rows", "spread m 4 cols", "do conv array ws"),
    ]


def test_an_instruction_has_no_loop_between_the_memories() -> None:
    found = lines(stem(), STEM, commands=True)
    assert [line for line in found if line.startswith("loop")] == ["loop q 16", "loop p 8"]


def test_channels_that_nothing_spreads_have_a_row() -> None:
    workload = conv2d(m=16, c=1, p=2, q=2, r=3, s=3, bytes_per_element=1)
    text = "L3[WIO] Q2 - L2[WI] K16X - L1[O] S3 R3 - L0[W] P2"
    assert "spread c 1 rows" in lines(workload, text)


def test_every_factor_is_accounted_for() -> None:
    account = parse_gemmini(PRODUCT, "row 3").account()
    names = [f"{level}.{one}" for level, *_, factors in LEVELS for one in factors.split()]
    assert [one.name for one in account.entries] == names
    assert [one.name for one in account.entries if one.how != "taken"] == ["L2[WI].N1"]
    assert account.source == "row 3"


@pytest.mark.parametrize(
    ("text", "field", "value", "allowed"),
    [
        ("L3[WIO] K48 - L2[WI] K16X", "levels", "L3[WIO] K48 - L2[WI] K16X", "L3[WIO] FACTORS"),
        (PRODUCT.replace("K12", "M12"), "L3[WIO]", "M12", "one of N, K, C, Q, P, S, R"),
        (PRODUCT.replace("K12", "K-12"), "L3[WIO]", "K-12", "such as K16"),
        (PRODUCT.replace("K12", "K0"), "L3[WIO]", "K0", "1 piece or more"),
        (PRODUCT.replace("C16X", "P16X"), "L1[O]", "P16X", "X after K at L2[WI]"),
        (PRODUCT.replace("P8 C16X", "P8 P2 C16X"), "L1[O]", "P2", "each rank once"),
    ],
)
def test_what_cannot_be_read_has_its_place(text: str, field: str, value: str, allowed: str) -> None:
    (fault,) = faults_of(parse_gemmini, text, "row 3")
    assert (fault.file, fault.field, fault.value) == ("row 3", field, value)
    assert allowed in fault.allowed


def test_other_sizes_and_workloads_are_refused() -> None:
    said = refusal_of(gemmini_mapping, product(), parse_gemmini(PRODUCT.replace("K12", "K6")))
    assert "K (m): got 384; allowed: factors that make 768" in said
    said = refusal_of(gemmini_mapping, gemm(m=8, k=8, n=8), parse_gemmini(PRODUCT))
    assert "one convolution over" in said
