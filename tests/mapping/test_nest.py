"""Nests: what is put into arrays comes out again, files are checked, and the machine refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from simaccel.analytic.nest import evaluate
from simaccel.errors import InputError
from simaccel.experiment.run import simulate
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Hierarchy, Memory, Spatial, Temporal
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.choices import Mapping, NestGroup, NestLevel, NestMapping, WorkloadReference
from simaccel.mapping.files import load_mapping, save_mapping
from simaccel.mapping.nest import Nests, nest_faults
from simaccel.workload import Einsum, Tensor, conv2d, operand
from tests.analytic.nest_cases import draw_case

GEMM = Einsum(
    "gemm", {"m": 7, "k": 5, "n": 3}, (operand("A m k"), operand("B k n")), operand("C m n")
)
TOY = Hierarchy(
    levels=(
        Temporal(name="dram", memories=(Memory(),)),
        Spatial(name="cols", fanout=4),
        Temporal(name="pe", memories=(Memory(roles=frozenset({"input", "output"})),)),
    )
)


def _mapping(
    factors: dict[str, int] | None = None,
    order: tuple[str, ...] = (),
    padded: dict[str, int] | None = None,
) -> NestMapping:
    return NestMapping(
        levels=(
            NestLevel(level="dram", order=order, keep=ROLES),
            NestLevel(level="cols", factors=factors or {}),
            NestLevel(level="pe", keep=("input",)),
        ),
        padded=padded or {},
    )


def test_a_mapping_as_arrays() -> None:
    nests = Nests.of(GEMM, TOY, [_mapping({"m": 3, "n": 2}, ("n", "m"), {"k": 6})])
    assert nests.sizes.tolist() == [[7, 6, 3]]
    assert nests.factors.tolist() == [[[3, 6, 2], [3, 1, 2], [1, 1, 1]]]
    assert nests.orders.tolist() == [[[2, 0, 1], [0, 1, 2]]]
    assert nests.keeps.tolist() == [[[True, True, True], [True, False, False]]]


def test_a_factor_beyond_the_tiles_makes_no_more_trips() -> None:
    nests = Nests.of(GEMM, TOY, [_mapping({"m": 9, "n": 3})])
    assert nests.trips().tolist() == [[[1, 5, 1], [7, 1, 3], [1, 1, 1]]]


def test_mappings_cost_the_same_after_a_round_trip() -> None:
    for seed in range(100):
        case = draw_case(seed, 3)
        nests = Nests.of(case.einsum, case.hierarchy, case.mappings)
        found = [nests.mapping(case.einsum, case.hierarchy, i) for i in range(3)]
        again = Nests.of(case.einsum, case.hierarchy, found)
        assert again.trips().tolist() == nests.trips().tolist()
        names = {given.tensor for given in (*case.einsum.inputs, case.einsum.output)}
        tensors = {name: Tensor(name) for name in names}
        one = evaluate(case.einsum, tensors, case.hierarchy, nests)
        two = evaluate(case.einsum, tensors, case.hierarchy, again)
        assert one.reads.tolist() == two.reads.tolist()
        assert one.writes.tolist() == two.writes.tolist()
        assert one.cycles.tolist() == two.cycles.tolist()
        again = Nests.of(case.einsum, case.hierarchy, found)
        assert [again.mapping(case.einsum, case.hierarchy, i) for i in range(3)] == found


def test_candidates_are_taken_and_put_together() -> None:
    mappings = [_mapping({"m": pieces}) for pieces in (1, 2, 3, 4)]
    nests = Nests.of(GEMM, TOY, mappings)
    assert len(nests) == len(mappings)
    odd = nests.take(np.array([True, False, True, False]))
    even = nests.take(np.array([1, 3]))
    both = Nests.concatenate([odd, even, nests.take(slice(0, 0))])
    assert both.factors[:, 1, 0].tolist() == [1, 3, 2, 4]
    assert len(both.orders) == len(both.keeps) == len(both.sizes) == len(mappings)


def _changed(**changes: object) -> NestMapping:
    """A mapping of which level 0, 1 or 2 has other fields."""
    plain = _mapping().model_dump()
    for path, value in changes.items():
        place, _, field = path.partition("_")
        plain["levels"][int(place.removeprefix("at"))][field] = value
    return NestMapping.model_validate(plain)


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        (_mapping({"q": 2}), "levels[1].factors.q: got 2; allowed: one of m, k, n"),
        (_mapping(order=("q",)), "levels[0].order: got 'q'; allowed: each of m, k, n at most once"),
        (
            _mapping(order=("m", "m")),
            "levels[0].order: got 'm'; allowed: each of m, k, n at most once",
        ),
        (_mapping(padded={"m": 6}), "padded.m: got 6; allowed: 7 or more"),
        (_mapping(padded={"q": 6}), "padded.q: got 6; allowed: one of m, k, n"),
        (
            _changed(at0_factors={"m": 2}),
            "levels[0].factors: got {'m': 2}; allowed: none: it takes what is left",
        ),
        (
            _changed(at0_keep=["input"]),
            "levels[0].keep: got ('input',); allowed: all roles: input, weight, output",
        ),
        (
            _changed(at1_order=["m"]),
            "levels[1].order: got ('m',); allowed: none at a spatial level",
        ),
        (_changed(at1_keep=["weight"]), "levels[1].keep: got 'weight'; allowed: nothing"),
        (_changed(at2_keep=["weight"]), "levels[2].keep: got 'weight'; allowed: input, output"),
        (
            _changed(at1_level="columns"),
            "levels: got 'dram, columns, pe'; allowed: dram, cols, pe",
        ),
    ],
)
def test_what_is_not_for_the_einsum_or_the_levels_is_told(mapping: NestMapping, said: str) -> None:
    faults = nest_faults(GEMM, TOY, mapping, "m.yaml")
    assert f"m.yaml: {said}" in {str(fault) for fault in faults}
    with pytest.raises(InputError) as caught:
        Nests.of(GEMM, TOY, [_mapping(), mapping])
    assert said in str(caught.value)


CONV = conv2d(m=4, c=3, p=5, q=5, r=3, s=3)


def _saved(tmp_path: Path, factors: dict[str, int]) -> Path:
    hierarchy = levels(load_accelerator("eyeriss_like"))
    found = NestMapping(
        levels=tuple(
            NestLevel(
                level=level.name,
                factors=factors if level.name == "cols" else {},
                keep=ROLES if level.name in {"dram", "pe"} else (),
            )
            for level in hierarchy.levels
        )
    )
    mapping = Mapping(
        workload=WorkloadReference(name=CONV.name, fingerprint=CONV.fingerprint),
        dataflow="ruby-s",
        groups=(NestGroup(operator="conv", mapping=found),),
    )
    save_mapping(mapping, tmp_path / "m.yaml")
    return tmp_path / "m.yaml"


def test_a_nest_in_a_file_is_what_was_saved(tmp_path: Path) -> None:
    file = _saved(tmp_path, {"q": 4})
    found = load_mapping(file, CONV)
    raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert raw["groups"][0]["kind"] == "nest"
    assert raw["groups"][0]["mapping"]["levels"][3]["factors"] == {"q": 4}
    assert found == Mapping.model_validate(raw)


def test_a_nest_in_a_file_with_more_pieces_than_the_rank_has(tmp_path: Path) -> None:
    file = _saved(tmp_path, {"q": 6})
    with pytest.raises(InputError) as caught:
        load_mapping(file, CONV)
    field = "groups[0].mapping.levels[3].factors.q"
    allowed = "1 to 5, the size of the rank in conv"
    assert str(caught.value).endswith(f"{file}: {field}: got 6; allowed: {allowed}")


def test_a_nest_of_pes_with_memories_is_none_for_a_systolic_array(tmp_path: Path) -> None:
    mapping = load_mapping(_saved(tmp_path, {}), CONV)
    with pytest.raises(InputError, match=r"levels\[5\]|levels\[4\]"):
        simulate(CONV, load_accelerator("toy"), mapping)
