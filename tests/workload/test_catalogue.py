from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simaccel.files.catalogue import FOLDER, Catalogue
from simaccel.workload import MODELS, NETWORKS, TRANSFORMERS, build, load_document, parse_workload
from simaccel.workload.attention import attention_model, find_model, parse_model
from tests.refusals import refusal_of

KINDS = ("attention", "networks", "transformers")
FILES = sorted(
    (path for kind in KINDS for path in (FOLDER / kind).glob("*.yaml")),
    key=lambda path: path.name != "flaubert-large.yaml",
)

MIB = 2**20
SIZE = "a whole number from 1 to 1099511627776"


def _intermediate_mib(model: str, seq_len: int) -> float:
    """FLAT figure 4: the logits between L and A and the two operands of L, in MiB."""
    la = build(model, batch=1, seq_len=seq_len, scope="la")
    return sum(map(la.tensor_bytes, "SQK")) / MIB


@pytest.mark.parametrize(
    ("model", "mib"),
    [
        ("trxl", {512: 10, 2048: 136, 16384: 8256}),
        ("xlm", {512: 12, 2048: 144, 16384: 8320}),
        # The figure says 10 MB for BERT(-base), which 12 heads of 64 don't need.
        ("bert", {512: 7.5}),
    ],
)
def test_intermediate_sizes_of_flat_figure_4(model: str, mib: dict[int, float]) -> None:
    assert {seq_len: _intermediate_mib(model, seq_len) for seq_len in mib} == mib


@pytest.mark.parametrize(
    ("model", "million_weights"),
    [  # 4 D H d + 2 D FF per layer, times the layers
        ("bert", 84.934656),
        ("trxl", 226.492416),
        ("flaubert", 84.934656),
        ("flaubert-large", 301.989888),
        ("t5", 18.874368),
        ("xlm", 603.979776),
    ],
)
def test_weights_of_all_layers(model: str, million_weights: float) -> None:
    workload = build(model, batch=1, seq_len=1, scope="model", bytes_per_element=1)
    weights = [x.name for x in workload.tensors.values() if x.kind == "weight"]
    assert workload.repeat * sum(map(workload.tensor_bytes, weights)) == million_weights * 1e6


def test_names_are_distinct_and_found_in_any_case() -> None:
    names = [name for model in MODELS.values() for name in (model.name, *model.aliases)]
    assert len(set(names)) == len(names)
    assert all(model.source for model in MODELS.values())
    assert find_model("BERT-base") is find_model("bert")
    assert build("transfo-xl-wt103", batch=1, seq_len=8).name == "trxl"


def _asked() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each published workload with what may be asked of it."""
    for name in MODELS:
        yield name, {"batch": 2, "seq_len": 7, "scope": "model"}
    for network in NETWORKS.values():
        layer = [*network.layers][1]
        yield network.name, {"bytes_by_tensor": {"W": 1}}
        yield network.name, {"bytes_by_tensor": {"W": 1}, "layer": layer}
    for name, model in TRANSFORMERS.items():
        yield name, {"prompt": 70}
        yield name, {"prompt": 9, "scope": "la"}
        if not model.is_vision:
            yield name, {"phase": "decode", "kv_len": 5}


@pytest.mark.parametrize(("name", "asked"), [*_asked()])
def test_a_workload_comes_back_from_its_parameters(name: str, asked: dict[str, Any]) -> None:
    workload = build(name, **asked)
    assert {**workload.parameters, **asked} == workload.parameters
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)


def _faults(name: str, **changed: Any) -> list[str]:  # noqa: ANN401 - wrong types on purpose
    return refusal_of(attention_model, name, **{"batch": 1, "seq_len": 512, **changed}).splitlines()


def test_unknown_models_get_a_suggestion() -> None:
    assert _faults("brt") == ["workload: model: got 'brt'; did you mean 'bert'?"]
    known = "bert, flaubert, flaubert-large, t5, trxl, xlm"
    assert _faults("gpt2") == [f"workload: model: got 'gpt2'; allowed: one of {known}"]


@pytest.mark.parametrize("value", [0, -1, "512", "x", 1.0, None, 2**40 + 1])
def test_wrong_sizes_are_refused(value: object) -> None:
    assert _faults("bert", seq_len=value, batch=value) == [
        f"bert: batch: got {value!r}; allowed: {SIZE}",
        f"bert: seq_len: got {value!r}; allowed: {SIZE}",
    ]


def test_all_faults_of_an_unknown_model_are_reported() -> None:
    assert _faults("brt", seq_len=0, batch="x", scope="blok") == [
        "workload: model: got 'brt'; did you mean 'bert'?",
        f"workload: batch: got 'x'; allowed: {SIZE}",
        f"workload: seq_len: got 0; allowed: {SIZE}",
        "workload: scope: got 'blok'; did you mean 'block'? (allowed: la, block, model)",
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_file_is_a_workload_file_of_its_kind(path: Path) -> None:
    """The form of a user's own file takes it, and its sizes are those of its name."""
    by_path, by_name = load_document(path), build(path.stem)
    assert by_path.operators == by_name.operators
    assert by_path.tensors == by_name.tensors
    assert by_path.name == by_name.name == path.stem
    again = parse_workload(dict(by_path.parameters))
    assert (again, again.parameters) == (by_path, by_path.parameters)


def test_a_workload_is_added_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "attention").mkdir()
    text = FILES[0].read_text(encoding="utf-8")
    (tmp_path / "attention" / "small.yaml").write_text(text + "aliases: [tiny]\n", encoding="utf-8")
    catalogue = Catalogue("attention", parse_model, root=tmp_path)
    assert list(catalogue.names_and_aliases) == ["small", "tiny"]
    assert catalogue.find("TINY") == catalogue["small"]
    assert catalogue["small"].dimensions == find_model("flaubert-large").dimensions
