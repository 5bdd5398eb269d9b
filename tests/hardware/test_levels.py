"""Hierarchies of levels, those of shipped spatial arrays, and constraints on them as texts."""

from pathlib import Path

import pytest
import yaml

from simaccel.hardware import Accelerator
from simaccel.hardware.array import NotSpatialError, NotSystolicError
from simaccel.hardware.dataflow import LevelConstraint, merge_constraints, parse_constraints, single
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Hierarchy
from simaccel.hardware.presets import list_accelerators
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.accelerators import accelerator_rows
from simaccel.schedulers import NotMappableError, make_mapping
from simaccel.study.documents import accelerator_document
from simaccel.workload import gemm
from tests.data_files import data_beside
from tests.refusals import faults_of

DATA = data_beside(__file__)

FOLDER = Path(__file__).parents[2] / "hwconfigs"
SPATIAL = [
    *("eyeriss_168", "eyeriss_like", "maestro_256", "nvdla_like", "shidiannao_like"),
    *("simba_like", "simba_like_9", "toy_linear"),
]


def _fanouts(hierarchy: Hierarchy) -> dict[str, int]:
    return {fan.name: fan.fanout for fan in hierarchy.fanouts}


def _capacities(hierarchy: Hierarchy) -> dict[tuple[str, str], int | None]:
    return {
        (level.name, role): memory.capacity_bytes
        for level in hierarchy.memories
        for memory in level.memories
        for role in memory.roles
    }


def test_eyeriss_is_what_ruby_says() -> None:
    hierarchy = levels(load_accelerator("eyeriss_like"))
    assert hierarchy.names == ("dram", "buffer", "rows", "cols", "pe")
    assert _fanouts(hierarchy) == {"rows": 12, "cols": 14}
    assert [fan.reduces for fan in hierarchy.fanouts] == [True, False]
    assert hierarchy.macs_per_cycle == 168
    assert _capacities(hierarchy) == {
        ("dram", "input"): None,
        ("dram", "weight"): None,
        ("dram", "output"): None,
        ("buffer", "input"): 131072,  # shared with
        ("buffer", "output"): 131072,
        ("pe", "input"): 2 * 12,
        ("pe", "weight"): 2 * 224,
        ("pe", "output"): 2 * 16,
    }
    prices = load_accelerator("eyeriss_like").prices
    assert (2 * prices.dram_pj_per_byte, 2 * prices.buffer_pj_per_byte) == (200, 7.41)


@pytest.mark.parametrize(("name", "pes", "side"), [("simba_like", 15, 4), ("simba_like_9", 9, 3)])
def test_simba_is_what_ruby_says(name: str, pes: int, side: int) -> None:
    hierarchy = levels(load_accelerator(name))
    assert hierarchy.names == ("dram", "buffer", "rows", "cols", "pe", "vectors", "lanes")
    assert _fanouts(hierarchy) == {"rows": 1, "cols": pes, "vectors": side, "lanes": side}
    assert hierarchy.macs_per_cycle == pes * side**2
    assert "weight" not in hierarchy.memories[1].roles


@pytest.mark.parametrize("pes", [6, 9, 16])
def test_the_toy_is_a_row_of_pes_behind_dram(pes: int) -> None:
    hierarchy = levels(load_accelerator("toy_linear", [f"array.cols={pes}"]))
    assert hierarchy.names == ("dram", "rows", "cols", "pe")
    assert hierarchy.macs_per_cycle == pes
    (memory,) = hierarchy.memories[-1].memories
    assert (memory.roles, memory.capacity_bytes) == (frozenset(ROLES), 1024)


def test_what_takes_time_between_levels_is_known() -> None:
    """Where neither DRAM nor pipes take time, no mapping needs two slots."""
    dram = ["dram.bandwidth_bytes_per_second=1 GB/s"]
    up, down = (f"noc.{way}.topology=mesh" for way in ("collection", "distribution"))
    slow = {None: (), "dram": dram, "up": [up], "down": [down], "all": [*dram, up, down]}
    found = {
        name: levels(load_accelerator("eyeriss_like", text)).limited_rates
        for name, text in slow.items()
    }
    assert found == {
        None: (False, False),
        "dram": (True, False),
        "up": (False, True),
        "down": (False, True),
        "all": (True, True),
    }


def test_a_role_without_memory_bypasses_the_pe() -> None:
    raw = yaml.safe_load((FOLDER / "eyeriss_like.yaml").read_text(encoding="utf-8"))
    del raw["array"]["memories"]["input"]
    hierarchy = levels(Accelerator.model_validate(raw))
    assert hierarchy.memories[-1].roles == {"weight", "output"}
    raw["array"]["memories"]["shared"] = raw["array"]["memories"].pop("weight")
    hierarchy = levels(Accelerator.model_validate(raw))
    assert {memory.roles for memory in hierarchy.memories[-1].memories} == {
        frozenset({"output"}),
        frozenset({"input", "weight"}),
    }


@pytest.mark.parametrize("name", SPATIAL)
def test_a_spatial_array_survives_its_document(name: str, tmp_path: Path) -> None:
    accelerator = load_accelerator(name)
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(accelerator_document(accelerator)), encoding="utf-8")
    assert load_accelerator(file) == accelerator
    rows = dict(accelerator_rows(accelerator))
    assert rows["array.kind"] == "spatial"
    assert not any("None" in value for value in rows.values())


def test_an_array_without_a_kind_is_systolic(tmp_path: Path) -> None:
    raw = yaml.safe_load((FOLDER / "toy.yaml").read_text(encoding="utf-8"))
    assert "kind" not in raw["array"]
    raw["array"]["kind"] = "systolic"
    file = tmp_path / "toy.yaml"
    file.write_text(yaml.safe_dump(raw), encoding="utf-8")
    assert load_accelerator(file) == load_accelerator("toy")
    assert "kind" not in accelerator_document(load_accelerator("toy"))["array"]


def _refused(overrides: list[str], name: str = "eyeriss_like") -> list[str]:
    return [str(fault) for fault in faults_of(load_accelerator, name, overrides)]


@pytest.mark.parametrize(("override", "said"), DATA["refused"])
def test_wrong_fields_of_a_spatial_array_are_told(override: str, said: str) -> None:
    faults = _refused([override])
    assert any(said in fault for fault in faults), faults


def test_memories_are_set_by_name() -> None:
    accelerator = load_accelerator("eyeriss_like", ["array.memories.weight.capacity_bytes=1 KiB"])
    assert _capacities(levels(accelerator))["pe", "weight"] == 1024


def test_each_array_is_taken_by_what_is_made_for_it() -> None:
    kinds = {name: load_accelerator(name).array.kind for name in list_accelerators()}
    assert sorted(name for name, kind in kinds.items() if kind == "spatial") == SPATIAL
    with pytest.raises(NotSpatialError, match=r"edge: array.kind = 'systolic'; allowed: spatial"):
        _ = load_accelerator("edge").spatial
    assert levels(load_accelerator("edge")).names == ("dram", "buffer", "rows", "cols")
    spatial = load_accelerator("eyeriss_like")
    with pytest.raises(NotSystolicError, match=r"eyeriss_like: array.kind = 'spatial'; allowed"):
        _ = spatial.systolic
    with pytest.raises(NotMappableError, match="dataflow flex takes systolic arrays; eyeriss_like"):
        make_mapping(gemm(m=9, k=7, n=5), spatial, "flex")


def test_each_kind_of_constraint() -> None:
    texts = [
        *("cols=Q, M", "rows.S=5", "rows.C = all", "pe.C<=4"),
        *("pe.order=M,C", "buffer.keep=output,input"),
    ]
    found = parse_constraints(texts)
    assert found["cols"] == LevelConstraint(ranks=("Q", "M"))
    assert found["rows"].factors == {"S": 5, "C": "all"}
    assert found["pe"].most == {"C": 4}
    assert found["pe"].order == ("M", "C")
    assert found["buffer"].keep == ("input", "output")
    assert parse_constraints(["cols=none"])["cols"].ranks == ()


@pytest.mark.parametrize(
    "text",
    [
        *("cols", "cols=", "=Q", "cols.Q=0", "cols.Q=-1", "cols.Q=x", "cols<=Q", "cols.Q<=all"),
        *("cols.Q=1.5", "cols=Q,,M", "buffer.keep=ifmap", "buffer.keep<=input", "pe.order<=M", ""),
    ],
)
def test_what_is_none(text: str) -> None:
    found = faults_of(parse_constraints, [text, "pe.M=2", "b"])
    assert [fault.value for fault in found] == [text, "b"]
    assert (found[0].file, found[0].field) == ("command line", "--constrain")
    assert found[0].allowed.startswith("LEVEL=RANK,..., LEVEL.RANK=N|all")


def test_the_later_decides_where_it_says_something() -> None:
    """What it doesn't say lifts nothing; other levels stay."""
    below = parse_constraints(["cols=Q,M", "cols.M<=4", "cols.Q=7", "pe=C"])
    over = parse_constraints(["cols=M", "cols.Q=3", "rows=S"])
    both = merge_constraints(below, over)
    assert both["cols"].ranks == ("M",)
    assert both["cols"].factors == {"Q": 3}
    assert both["cols"].most == {"M": 4}
    assert both["pe"].ranks == ("C",)
    assert both["rows"].model_fields_set == {"ranks"}
    over = parse_constraints(["cols.Q=3", "cols.M<=2"])
    assert merge_constraints(parse_constraints(["cols=Q,M"]), over)["cols"].ranks == ("Q", "M")
    lifted = merge_constraints(parse_constraints(["cols=Q"]), parse_constraints(["cols=any"]))
    assert lifted["cols"].ranks is None


def test_taken_apart_and_put_together_again() -> None:
    texts = ["cols=Q,M", "rows.S=5", "pe.C<=4", "pe.order=M,C", "buffer.keep=input"]
    whole = parse_constraints(texts)
    parts = single(whole)
    assert [text for text, _, _ in parts] == texts
    again = parse_constraints([text for text, _, _ in parts])
    assert again == whole
