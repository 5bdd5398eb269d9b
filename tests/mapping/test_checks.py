"""Every fault of a mapping, with its place and what is allowed."""

from dataclasses import replace

import pytest

from simaccel.diagnosis.check import check
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import faults, require_mapping
from simaccel.mapping.lifetimes import lifetimes
from simaccel.mapping.tree import Do, ResidentScope
from simaccel.program.lowering import lower
from simaccel.workload import Workload
from tests.data_files import data_beside
from tests.program.tree_cases import ATTENTION, GEMM
from tests.refusals import refusal_of
from tests.trees import einsum, mapping, vector, workload

NORM = workload(
    vector("norm", "rms_norm", "N r e", "X r e", axis="e", r=7, e=5),
    einsum("Wq", "Q r o", "N r e", "W e o", r=7, e=5, o=11),
)
CHAIN = workload(
    einsum("one", "T m k", "A m e", "B e k", m=7, k=5, e=3),
    einsum("two", "U m n", "T m k", "C k n", m=7, k=5, n=11),
)
GEMM_TREE = """
group FF
  keep x buffer, W buffer, out buffer
  do FF array ws
"""
WORKLOADS = {
    "gemm": GEMM,
    "attention": ATTENTION,
    "norm": NORM,
    "chain": CHAIN,
    "both": workload(
        einsum("one", "T m k", "A m e", "B e k", m=7, k=5, e=3),
        vector("relu", "relu", "R m k", "T m k", m=7, k=5),
        vector("add", "residual", "U m k", "R m k", "T m k", m=7, k=5),
    ),
    "square": workload(
        einsum("one", "T m k", "A m e", "B e k", m=7, k=5, e=3),
        einsum("two", "U m n", "T m k", "T n k", m=7, k=5, n=7),
    ),
    "three": workload(einsum("E", "out m n", "x m k", "W k n", "s k", m=7, n=11, k=5)),
    "odd": workload(einsum("E", "out m", "x m k", "W m", m=7, k=5)),
    "pool": workload(vector("pool", "pooling", "O p", "I 2*p+r", p=4, r=3)),
    "convs": workload(
        einsum("c1", "T m p", "I c p+r", "W1 m c r", m=3, c=2, p=9, r=3),
        einsum("c2", "O n p", "T m p+r", "W2 n m r", n=5, m=3, p=7, r=3),
    ),
    "softmax": workload(vector("softmax", "softmax", "P q c", "S q c", axis="c", q=3, c=7)),
}
CASES: dict[str, dict[str, str]] = data_beside(__file__)


@pytest.mark.parametrize("case", CASES.values(), ids=[*CASES])
def test_a_fault_is_found_at_its_place(case: dict[str, str]) -> None:
    of = WORKLOADS[case["of"]]
    found = faults(of, mapping(of, case["tree"]))
    texts = [one.allowed for one in found if one.field == f"groups[0].{case['field']}"]
    assert any(case["allowed"] in text for text in texts), found


SPATIAL = load_accelerator("eyeriss_like")
SYSTOLIC = load_accelerator("toy")


@pytest.mark.parametrize(
    ("of", "tree", "field", "allowed"),
    [
        (GEMM, "keep out buffer\ndo FF mac", "tree[1]", "the array is systolic"),
        (GEMM, "keep x buffer, W buffer, out buffer\ndo FF array ws", "tree[3]", "is spatial"),
        (
            GEMM,
            "keep x buffer, W buffer, out buffer\ndo FF array ws diagonal",
            "tree[3]",
            "no diagonal, as array.diagonal of a systolic array is false",
        ),
        (GEMM, "keep out buffer\nspread n 1 rows\ndo FF mac", "tree[1]", ""),
        (GEMM, "keep out buffer\nspread k 3 cols\ndo FF mac", "tree[1]", "add nothing up"),
        (
            workload(einsum("FF", "out m n", "x m k", "W k n", m=70, n=11, k=5)),
            "keep out buffer\nspread m 5 cols\nspread m 2 cols\ndo FF mac",
            "tree[2]",
            "at most 14 cols; this makes 42",
        ),
        (GEMM, "keep W buffer, out buffer\ndo FF mac", "tree[0]", "weight passes it by"),
    ],
)
def test_what_an_array_lacks_is_found(of: Workload, tree: str, field: str, allowed: str) -> None:
    lines = "".join(f"  {line}\n" for line in tree.splitlines())
    one = mapping(of, "group FF\n" + lines)
    on = SYSTOLIC if "systolic" in allowed else SPATIAL
    assert faults(of, one) == []
    found = {fault.field: fault.allowed for fault in faults(of, one, on)}
    if not allowed:
        assert found == {}
    else:
        assert allowed in found.get(f"groups[0].{field}", ""), found


AROUND = """
around
  keep {keep}
  group one
    keep A buffer, B buffer
    do one array ws
  group two
    keep C buffer, U buffer
    do two array ws
"""


@pytest.mark.parametrize(
    ("keep", "field", "allowed"),
    [
        ("T buffer", "", ""),
        ("T[0..7,0..5] buffer", "", ""),
        ("X buffer", "keep[0]", "a tensor; one of"),
        ("T pe", "keep[0]", "level buffer"),
        ("T[0..8,0..5] buffer", "keep[0]", "spans within 7 x 5"),
        ("T[0..7] buffer", "keep[0]", "a span for each dimension of T: m, k"),
        ("T[0..2,0..5] buffer", "groups[0].tree[2]", "parts that are inside"),
        ("T buffer, T buffer", "keep[1]", "don't overlap"),
        ("T buffer, C buffer", "keep[1]", "a group inside makes"),
        ("T buffer, U buffer", "keep[1]", "no output of the workload"),
    ],
)
def test_what_is_kept_around_groups(keep: str, field: str, allowed: str) -> None:
    found = faults(CHAIN, mapping(CHAIN, AROUND.format(keep=keep)))
    if not allowed:
        assert found == []
    else:
        texts = [one.allowed for one in found if one.field == f"groups[0].{field}"]
        assert any(allowed in text for text in texts), found


IN_PLACE = """
around
  keep T buffer
  group one
    keep A buffer, B buffer
    do one array ws
  group act
    {keep}do act sfu
"""


@pytest.mark.parametrize("keep", ["", "keep U buffer\n    "])
def test_an_output_made_in_place_of_what_is_kept_needs_a_tile(keep: str) -> None:
    """Without one it would never be stored."""
    of = workload(
        einsum("one", "T m k", "A m e", "B e k", m=7, e=3, k=5),
        vector("act", "relu", "U m k", "T m k", m=7, k=5),
    )
    found = [one.allowed for one in faults(of, mapping(of, IN_PLACE.format(keep=keep)))]
    text = "a keep of U in the group that makes it: no output of the workload, and no cache"
    assert found == ([] if keep else [text])


def test_what_is_made_in_place_of_what_is_kept_has_a_tile_in_all_groups_or_none() -> None:
    """Here the last group would load what was never stored."""
    of = workload(
        einsum("one", "T m k", "A m e", "B e k", m=7, e=3, k=5),
        vector("act", "relu", "U m k", "T m k", m=7, k=5),
        einsum("two", "C m n", "U m k", "D k n", m=7, k=5, n=2),
    )
    last = "  group two\n    keep C buffer, D buffer, {keep}\n    do two array ws\n"
    for keep, allowed in (
        ("U buffer", ["a keep of U, made in place of T, in all groups or none"]),
        ("", []),
    ):
        text = IN_PLACE.format(keep="") + last.format(keep=keep).replace(", \n", "\n")
        assert [one.allowed for one in faults(of, mapping(of, text))] == allowed


def test_what_is_made_over_a_tile_of_its_own_is_not_in_what_is_kept() -> None:
    """`V` is made over `U`, whose tile is in the group, and `U` could be made over `T`."""
    of = workload(
        einsum("one", "T m k", "A m e", "B e k", m=7, e=3, k=5),
        vector("act", "relu", "U m k", "T m k", m=7, k=5),
        vector("add", "residual", "V m k", "U m k", "T m k", m=7, k=5),
        vector("last", "relu", "W m k", "V m k", m=7, k=5),
    )
    text = IN_PLACE.format(keep="keep U buffer\n    ") + (
        "  group add\n    keep U buffer\n    do add sfu\n"
        "group last\n  keep V buffer\n  do last sfu\n"
    )
    one = mapping(of, text)
    assert faults(of, one) == []
    (around, _) = one.body
    assert isinstance(around, ResidentScope)
    (life,) = lifetimes(of, around)
    assert life.tensors == ("T",)
    checked = check(of, one, lower(of, one))
    assert [done.compared for done in checked] == [0, 35, 35, 35]


def test_pes_take_what_is_kept_around_from_there() -> None:
    tree = (
        "  group one\n    keep A pe\n    do one mac\n"
        "  group two\n    keep U pe, {keep}\n    do two mac\n"
    )
    for keep, allowed in (
        ("T pe", ["no keep T pe: PEs take what is kept around the group from there"]),
        ("C pe", []),
    ):
        text = "around\n  keep T buffer\n" + tree.format(keep=keep)
        assert [one.allowed for one in faults(CHAIN, mapping(CHAIN, text))] == allowed


def test_sums_over_parts_have_a_tile_outside() -> None:
    """A tile in each part would begin anew, and what the first one added up were lost."""
    part = "    | keep x buffer, W buffer{inside}\n      do FF array ws\n"
    tree = "group FF\n  {outside}part k 2 rest\n" + 2 * part
    inside = tree.format(outside="", inside=", out buffer")
    outside = tree.format(outside="keep out buffer\n  ", inside="")
    allowed = "a keep of out outside of the parts of k, which it sums"
    assert [one.allowed for one in faults(GEMM, mapping(GEMM, inside))] == [allowed, allowed]
    assert faults(GEMM, mapping(GEMM, outside)) == []


def test_a_keep_beside_what_is_kept_around_is_refused() -> None:
    text = AROUND.format(keep="T buffer").replace("keep A", "keep T buffer, A")
    (fault,) = faults(CHAIN, mapping(CHAIN, text))
    assert (fault.field, fault.allowed) == (
        "groups[0].groups[0].tree[3]",
        "no keep T here: T is kept around the group",
    )


def test_vector_work_has_no_diagonal() -> None:
    one = mapping(NORM, "group norm\n  keep X buffer\n  do norm sfu")
    (group,) = one.groups
    odd = replace(group, tree=(*group.tree[:-1], Do("norm", "sfu", diagonal=True)))
    (fault,) = faults(NORM, replace(one, body=(odd,)))
    assert fault.allowed == "diagonal after array and a stationarity, and nowhere else"


def test_all_faults_come_at_once() -> None:
    text = GEMM_TREE.replace("keep x buffer", "loop m 9\n  keep y buffer")
    said = refusal_of(require_mapping, GEMM, mapping(GEMM, text), file="f.yaml")
    assert said.startswith("f.yaml: groups[0].tree[0]: got 'loop m 9'; allowed: ")
