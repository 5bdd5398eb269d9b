import re
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core._pydantic_core import list_all_errors

from simaccel.errors import ABSENT
from simaccel.files.schema import faults_of, leaf_fields, refusal
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator


class _Gemm(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["gemm"]
    size: Annotated[int, Field(ge=1)]


class _Softmax(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["softmax"]
    axis: str

    @model_validator(mode="after")
    def _known(self) -> "_Softmax":
        if self.axis != "n":
            raise ValueError("the axis n")
        return self


class _Graph(BaseModel):
    model_config = ConfigDict(extra="forbid")

    operators: list[Annotated[_Gemm | _Softmax, Field(discriminator="kind")]]
    scale: int | Literal["auto"] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5


def _faults(raw: object, model: type[BaseModel] | None = _Graph) -> dict[str, tuple[object, str]]:
    with pytest.raises(ValidationError) as caught:
        _Graph.model_validate(raw)
    faults = faults_of(caught.value, "g.yaml", raw, model)
    assert {fault.file for fault in faults} == {"g.yaml"}
    return {fault.field: (fault.value, fault.allowed) for fault in faults}


def test_a_list_index_and_no_branch_of_a_union_is_in_the_path() -> None:
    faults = _faults({"operators": [{"kind": "gemm", "size": 1}, {"kind": "gemm", "size": 0}]})
    assert faults == {"operators[1].size": (0, "an integer >= 1")}


def test_the_branches_of_a_union_are_one_fault() -> None:
    faults = _faults({"operators": [], "scale": "big"})
    assert faults == {"scale": ("big", "an integer or 'auto'")}


def test_an_unknown_kind_and_a_missing_one() -> None:
    faults = _faults({"operators": [{"kind": "conv"}, {}, {"kind": "softmx"}]})
    assert faults["operators[0].kind"] == ("conv", "one of gemm, softmax")
    assert faults["operators[2].kind"][1] == "did you mean 'softmax'? (allowed: gemm, softmax)"
    assert faults["operators[1]"][1] == "a mapping with 'kind'"
    assert repr(faults["operators[1]"][0]) == "an empty mapping"


def test_a_fault_of_a_whole_section_names_the_section() -> None:
    faults = _faults({"operators": [{"kind": "softmax", "axis": "m"}]})
    assert faults["operators[0]"][1] == "the axis n"


def test_missing_and_unknown_keys_know_the_model() -> None:
    raw = {"operators": [{"kind": "gemm", "sise": 3}]}
    assert _faults(raw) == {  # one mistake, one fault
        "operators[0].sise": (3, "did you mean 'size'? (allowed: kind, size, axis)")
    }
    assert _faults({"operators": [{"kind": "gemm"}]}) == {
        "operators[0].size": (ABSENT, "an integer")
    }
    assert _faults(raw, model=None) == {
        "operators[0].size": (ABSENT, "a value; this key is required"),
        "operators[0].sise": (3, "only known keys"),
    }


def test_of_very_many_faults_the_first_thousand_are_told_apart() -> None:
    raw = {"operators": [], **dict.fromkeys(map(str, range(5000)), 1)}
    with pytest.raises(ValidationError) as caught:
        _Graph.model_validate(raw)
    found = faults_of(caught.value, "a.yaml", raw, _Graph)
    assert [fault.field for fault in found[:-1]] == [str(key) for key in range(1000)]
    assert str(found[-1]).startswith("a.yaml: file: got 5000 faults; allowed: none; here are")


def test_unknown_keys_below_mappings_and_lists_know_their_model() -> None:
    class Layers(BaseModel):
        layers: dict[str, list[_Graph] | None]

    # "operators" here is the name of a layer, and not the field of that name
    raw = {"layers": {"operators": [{"operators": [{"kind": "gemm", "size": 1, "sise": 3}]}]}}
    with pytest.raises(ValidationError) as caught:
        Layers.model_validate(raw)
    [fault] = faults_of(caught.value, "f.yaml", raw, Layers)
    assert fault.field == "layers.operators[0].operators[0].sise"
    assert fault.allowed == "did you mean 'size'? (allowed: kind, size, axis)"


def test_bounds_of_numbers() -> None:
    assert _faults({"operators": [], "share": 0})["share"] == (0, "a number > 0.0")
    assert _faults({"operators": [], "share": 1})["share"] == (1, "a number < 1.0")


@pytest.mark.parametrize("raw", [None, 3, "text", []])
def test_not_even_a_mapping(raw: object) -> None:
    [(field, (_, allowed))] = _faults(raw).items()
    assert (field, allowed) == ("file", "a mapping")


def test_leaf_fields_go_into_sections() -> None:
    assert leaf_fields(_Gemm) == ("kind", "size")
    assert leaf_fields(_Graph)[:2] == ("operators.kind", "operators.size")


# what a model of text, numbers, lists and sections can find in a YAML file
FINDINGS = [
    known
    for known in list_all_errors()
    if re.match(
        "(bool|int|float|string|list|tuple|dict|model|greater|less|too|union)_", known["type"]
    )
]


@pytest.mark.parametrize("known", FINDINGS, ids=lambda known: str(known["type"]))
def test_findings_of_pydantic_say_what_is_allowed(known: dict[str, Any]) -> None:
    details: list[Any] = [
        {
            "type": known["type"],
            "loc": ("a",),
            "input": 3,
            "ctx": known.get("example_context") or {},
        }
    ]
    error = ValidationError.from_exception_data("Model", details)
    [fault] = faults_of(error, "f.yaml", {"a": 3})
    assert fault.allowed
    assert "should" not in fault.allowed
    assert fault.allowed[0].islower()


def test_other_findings_keep_their_text() -> None:
    class Dated(BaseModel):
        day: date

    with pytest.raises(ValidationError) as caught:
        Dated.model_validate({"day": [1]})
    [fault] = faults_of(caught.value, "f.yaml", {"day": [1]}, Dated)
    assert (fault.field, fault.allowed) == ("day", "date")


@pytest.mark.parametrize(
    ("leaf", "value", "allowed"),
    [
        ("operators.size", 0, "an integer >= 1"),
        ("operators.size", 1, ""),
        ("operators.axis", 3, "text"),
        ("operators.kind", "softmax", ""),
        ("share", 1, "a number < 1.0"),
        ("scale", "aut", "an integer or 'auto'"),
        ("scale", "auto", ""),
    ],
)
def test_a_field_refuses_what_it_never_allows(leaf: str, value: object, allowed: str) -> None:
    assert refusal(_Graph, leaf, value) == allowed


def test_no_field_refuses_what_an_accelerator_has() -> None:
    fields = leaf_fields(Accelerator)
    for name in ("edge", "eyeriss_like", "edge_banked"):
        document = load_accelerator(name).model_dump()
        for leaf in fields:
            value: Any = document
            for key in leaf.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            assert value is None or refusal(Accelerator, leaf, value) == "", (name, leaf)
