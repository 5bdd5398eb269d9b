"""Mappings as files: what is saved is what is loaded, and every fault is told with its place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from simaccel.errors import InputError, SimaccelError
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.choices import (
    FusedGroup,
    FusedMapping,
    GemmGroup,
    GemmMapping,
    Mapping,
    SoftmaxGroup,
    SoftmaxMapping,
    StagedGroup,
)
from simaccel.mapping.files import load_mapping, mapping_text, save_mapping
from simaccel.program.lower import NotThisWorkloadError
from simaccel.schedulers import make_mapping
from simaccel.workload import Workload, gemm
from tests.program.programs import LA, Case, attention_workload, case, cases

GEMM = gemm(m=9, k=7, n=5)
ATTENTION = attention_workload(2, 3, 5, 4)  # 6 heads of 5 rows and 5 keys, d = 4
_GEMM = GemmMapping(m=5, k=4, n=4, order="mnk", stationarity="ws")
Edit = Callable[[dict[str, Any]], object]


def _mapping(workload: Workload) -> Mapping:
    if workload is GEMM:
        return case(GEMM, GemmGroup(operator="gemm", mapping=_GEMM)).mapping
    group = FusedGroup(
        operators=LA,
        mapping=FusedMapping(rows=2, keys=5, logit_stationarity="ws", attend_stationarity="os"),
    )
    return case(ATTENTION, group).mapping


def _saved(folder: Path, workload: Workload, edit: Edit = lambda _: None) -> Path:
    """Save a mapping of which ``edit`` has changed the plain data."""
    raw = yaml.safe_load(mapping_text(_mapping(workload)))
    edit(raw)
    file = folder / "m.yaml"
    file.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return file


def _refused(file: Path, workload: Workload = GEMM) -> list[str]:
    """Faults of a file, without the file's name."""
    with pytest.raises(InputError) as caught:
        load_mapping(file, workload)
    for fault in caught.value.faults:
        assert fault.file == str(file)
    said = [str(fault).removeprefix(f"{file}: ") for fault in caught.value.faults]
    return [
        fault.replace("groups[0]", "groups.0").replace("groups[1]", "groups.1") for fault in said
    ]


# -- round trip ------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=cases())
def test_any_mapping_comes_back(tmp_path: Path, drawn: Case) -> None:
    file = tmp_path / "m.yaml"
    save_mapping(drawn.mapping, file)
    assert load_mapping(file, drawn.workload) == drawn.mapping


@pytest.mark.parametrize("dataflow", ["naive", "flex", "flat", "flash"])
def test_a_schedulers_mapping_comes_back(tmp_path: Path, dataflow: str) -> None:
    mapping = make_mapping(ATTENTION, load_accelerator("toy"), dataflow)
    save_mapping(mapping, tmp_path / "m.yaml")
    assert load_mapping(tmp_path / "m.yaml", ATTENTION) == mapping


def test_the_text_is_for_people() -> None:
    """Fields in the order of their definition, defaults written out."""
    assert mapping_text(_mapping(GEMM)) == (
        "workload:\n"
        "  name: gemm\n"
        f"  fingerprint: {GEMM.fingerprint}\n"
        "dataflow: test\n"
        "groups:\n"
        "- kind: gemm\n"
        "  operator: gemm\n"
        "  mapping:\n"
        "    m: 5\n"
        "    k: 4\n"
        "    n: 4\n"
        "    order: mnk\n"
        "    stationarity: ws\n"
        "    a_slots: 2\n"
        "    b_slots: 2\n"
        "    out_slots: 2\n"
    )


def test_defaults_may_be_left_out(tmp_path: Path) -> None:
    def edit(raw: dict[str, Any]) -> None:
        for name in ("a_slots", "b_slots", "out_slots"):
            del raw["groups"][0]["mapping"][name]

    assert load_mapping(_saved(tmp_path, GEMM, edit), GEMM) == _mapping(GEMM)


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "no" / "m.yaml"
    with pytest.raises(SimaccelError) as caught:
        save_mapping(_mapping(GEMM), file)
    assert str(caught.value).endswith("allowed: an existing folder")


# -- what is no mapping ----------------------------------------------------------------------


def test_a_missing_file(tmp_path: Path) -> None:
    expected = "file: got nothing; allowed: an existing YAML file"
    assert _refused(tmp_path / "m.yaml") == [expected]


@pytest.mark.parametrize(
    ("text", "place", "allowed"),
    [
        ("a: [1", "line 2", "YAML"),
        ("- 1\n", "file", "a mapping"),
        ("", "file", "a mapping"),
        ("just words", "file", "a mapping"),
    ],
)
def test_what_is_not_yaml_or_no_mapping(
    tmp_path: Path, text: str, place: str, allowed: str
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text, encoding="utf-8")
    (found,) = _refused(file)
    assert found.startswith(f"{place}: got ")
    assert found.endswith(f"; allowed: {allowed}")


def test_an_empty_mapping_misses_everything(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("{}\n", encoding="utf-8")
    assert [fault.split(":")[0] for fault in _refused(file)] == ["workload", "dataflow", "groups"]


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    file = _saved(tmp_path, GEMM)
    file.write_text(file.read_text(encoding="utf-8") + "dataflow: flat\n", encoding="utf-8")
    (found,) = _refused(file)
    assert found.startswith("dataflow: got again on line ")
    assert found.endswith("allowed: each key once")


def _group(**changes: object) -> Edit:
    return lambda raw: raw["groups"][0]["mapping"].update(changes)


@pytest.mark.parametrize(
    ("edit", "field", "said"),
    [
        (_group(colour=1), "groups.0.mapping.colour", "1"),
        (_group(m=0), "groups.0.mapping.m", "0"),
        (_group(m=-3), "groups.0.mapping.m", "-3"),
        (_group(m="four"), "groups.0.mapping.m", "'four'"),
        (_group(m=2.0), "groups.0.mapping.m", "2.0"),
        (_group(m=True), "groups.0.mapping.m", "True"),
        (_group(order="mmk"), "groups.0.mapping.order", "'mmk'"),
        (_group(stationarity="rs"), "groups.0.mapping.stationarity", "'rs'"),
        (_group(a_slots=0), "groups.0.mapping.a_slots", "0"),
        (_group(a_slots=65), "groups.0.mapping.a_slots", "65"),
        (lambda raw: raw.update(note="x"), "note", "'x'"),
        (lambda raw: raw["groups"][0].pop("operator"), "groups.0.operator", "nothing"),
        (lambda raw: raw["groups"][0]["mapping"].pop("k"), "groups.0.mapping.k", "nothing"),
        (lambda raw: raw.update(groups="all"), "groups", "'all'"),
        (lambda raw: raw["workload"].pop("fingerprint"), "workload.fingerprint", "nothing"),
    ],
)
def test_each_wrong_field_is_named(tmp_path: Path, edit: Edit, field: str, said: str) -> None:
    (found,) = _refused(_saved(tmp_path, GEMM, edit))
    assert found.startswith(f"{field}: got {said}; allowed: ")


def test_an_unknown_kind_of_group(tmp_path: Path) -> None:
    (found,) = _refused(_saved(tmp_path, GEMM, lambda raw: raw["groups"][0].update(kind="conv")))
    assert found.endswith(
        "allowed: a mapping with 'kind' one of 'gemm', 'softmax', 'staged', 'fused', 'nest'"
    )


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    file = _saved(tmp_path, GEMM, _group(m=0, order="x", colour=1))
    fields = {fault.split(":")[0] for fault in _refused(file)}
    assert fields == {f"groups.0.mapping.{name}" for name in ("m", "order", "colour")}


# -- tiles larger than their rank ------------------------------------------------------------


def _too_large(tmp_path: Path, made: Case) -> list[str]:
    save_mapping(made.mapping, tmp_path / "m.yaml")
    return _refused(tmp_path / "m.yaml", made.workload)


def test_gemm_tiles_larger_than_their_ranks(tmp_path: Path) -> None:
    mapping = _GEMM.model_copy(update={"m": 10, "k": 8, "n": 6})
    assert _too_large(tmp_path, case(GEMM, GemmGroup(operator="gemm", mapping=mapping))) == [
        "groups.0.mapping.m: got 10; allowed: 1 to 9, the size of the rank in gemm",
        "groups.0.mapping.k: got 8; allowed: 1 to 7, the size of the rank in gemm",
        "groups.0.mapping.n: got 6; allowed: 1 to 5, the size of the rank in gemm",
    ]


def test_separate_softmax_larger_than_its_ranks(tmp_path: Path) -> None:
    made = case(
        ATTENTION,
        GemmGroup(operator="L", mapping=_GEMM),
        SoftmaxGroup(operator="softmax", mapping=SoftmaxMapping(rows=6, cols=7)),
        GemmGroup(operator="A", mapping=_GEMM),
    )
    assert _too_large(tmp_path, made) == [
        "groups.1.mapping.rows: got 6; allowed: 1 to 5, the size of the rank in softmax",
        "groups.1.mapping.cols: got 7; allowed: 1 to 5, the size of the rank in softmax",
    ]


def test_staged_tiles_larger_than_their_ranks(tmp_path: Path) -> None:
    """L is 5 x 4 x 5, A is 5 x 5 x 4; 30 rows in all."""
    large = GemmMapping(m=6, k=6, n=6, order="mnk", stationarity="ws")
    group = StagedGroup(
        operators=LA,
        logit=large,
        softmax=SoftmaxMapping(rows=6, cols=6),
        attend=large,
        resident_rows=31,
    )
    faults = _too_large(tmp_path, case(ATTENTION, group))
    assert {fault.split(" in ")[0].removeprefix("groups.0.") for fault in faults} == {
        "logit.m: got 6; allowed: 1 to 5, the size of the rank",
        "logit.k: got 6; allowed: 1 to 4, the size of the rank",
        "logit.n: got 6; allowed: 1 to 5, the size of the rank",
        "attend.m: got 6; allowed: 1 to 5, the size of the rank",
        "attend.k: got 6; allowed: 1 to 5, the size of the rank",
        "attend.n: got 6; allowed: 1 to 4, the size of the rank",
        "softmax.rows: got 6; allowed: 1 to 5, the size of the rank",
        "softmax.cols: got 6; allowed: 1 to 5, the size of the rank",
        "resident_rows: got 31; allowed: 0 to 30, the rows of the intermediate",
    }


def test_fused_tiles_larger_than_their_ranks(tmp_path: Path) -> None:
    mapping = FusedMapping(
        heads=7, rows=6, keys=8, logit_stationarity="ws", attend_stationarity="ws"
    )
    faults = _too_large(tmp_path, case(ATTENTION, FusedGroup(operators=LA, mapping=mapping)))
    assert faults == [
        "groups.0.mapping.heads: got 7; allowed: 1 to 6, the size of the rank in L+softmax+A",
        "groups.0.mapping.rows: got 6; allowed: 1 to 5, the size of the rank in L+softmax+A",
        "groups.0.mapping.keys: got 8; allowed: 1 to 5, the size of the rank in L+softmax+A",
    ]


def test_whole_ranks_are_allowed(tmp_path: Path) -> None:
    mapping = GemmMapping(m=9, k=7, n=5, order="mnk", stationarity="ws")
    made = case(GEMM, GemmGroup(operator="gemm", mapping=mapping))
    save_mapping(made.mapping, tmp_path / "m.yaml")
    assert load_mapping(tmp_path / "m.yaml", GEMM) == made.mapping


def test_faults_name_places_in_one_way(tmp_path: Path) -> None:
    """What the schema refuses and what the workload refuses stand in the same field."""
    places = []
    for size in (0, 10):
        with pytest.raises(InputError) as caught:
            load_mapping(_saved(tmp_path, GEMM, _group(m=size)), GEMM)
        places += [fault.field for fault in caught.value.faults]
    assert places[0] == places[1]


# -- another workload ------------------------------------------------------------------------


def test_another_workload(tmp_path: Path) -> None:
    with pytest.raises(NotThisWorkloadError) as caught:
        load_mapping(_saved(tmp_path, GEMM), ATTENTION)
    assert str(caught.value) == (
        f"the mapping is for workload gemm ({GEMM.fingerprint}), not for attention "
        f"({ATTENTION.fingerprint})"
    )


def test_another_size_or_width_is_another_workload(tmp_path: Path) -> None:
    file = _saved(tmp_path, GEMM)
    for other in (gemm(m=9, k=7, n=6), gemm(m=9, k=7, n=5, bytes_per_element=4)):
        with pytest.raises(NotThisWorkloadError, match="the mapping is for workload gemm"):
            load_mapping(file, other)


@pytest.mark.parametrize(
    ("groups", "covered"),
    [
        ([], ""),
        (["gemm", "gemm"], "gemm, gemm"),
        (["other"], "other"),
    ],
)
def test_groups_that_do_not_cover_the_workload(
    tmp_path: Path, groups: list[str], covered: str
) -> None:
    def edit(raw: dict[str, Any]) -> None:
        raw["groups"] = [raw["groups"][0] | {"operator": name} for name in groups]

    with pytest.raises(NotThisWorkloadError) as caught:
        load_mapping(_saved(tmp_path, GEMM, edit), GEMM)
    assert str(caught.value) == (
        f"the mapping's groups cover {covered or 'nothing'}; the workload needs gemm in this order"
    )


def test_a_group_of_the_wrong_kind(tmp_path: Path) -> None:
    def edit(raw: dict[str, Any]) -> None:
        softmax = {"rows": 1, "cols": 1}
        raw["groups"] = [{"kind": "softmax", "operator": "gemm", "mapping": softmax}]

    with pytest.raises(NotThisWorkloadError, match="operator gemm is not a softmax"):
        load_mapping(_saved(tmp_path, GEMM, edit), GEMM)


def test_operators_in_another_order(tmp_path: Path) -> None:
    def edit(raw: dict[str, Any]) -> None:
        raw["groups"][0]["operators"] = ["A", "softmax", "L"]

    with pytest.raises(NotThisWorkloadError, match=r"cover A, softmax, L; the workload needs L"):
        load_mapping(_saved(tmp_path, ATTENTION, edit), ATTENTION)
