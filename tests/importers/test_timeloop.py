"""Timeloop architectures as accelerators: its three formats, and what can't be taken."""

import re
from pathlib import Path

import pytest

from simaccel import load_accelerator, load_workload, simulate
from simaccel.errors import InputError
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.report.accelerators import accelerator_rows
from tests.data_files import data_beside
from tests.refusals import refusal_of

DATA = data_beside(__file__)
HERE = Path(__file__).with_name("data")

NESTED = (HERE / "timeloop_nested.yaml").read_text(encoding="utf-8")

LISTED = (HERE / "timeloop_listed.yaml").read_text(encoding="utf-8")

OLDEST = (HERE / "timeloop_oldest.yaml").read_text(encoding="utf-8")


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "arch.yaml"
    path.write_text(text)
    return path


def test_the_nested_format(tmp_path: Path) -> None:
    """12 x 14 PEs, 128 KiB, 16 words of 2 bytes a cycle at 1 GHz: by hand from the file."""
    path = _write(tmp_path, NESTED)
    found = load_accelerator(path)
    assert isinstance(found.array, SpatialArraySpec)
    assert (found.array.rows, found.array.cols, found.array.lanes) == (12, 14, 1)
    sizes = {
        role: memory.capacity_bytes
        for roles, memory in found.array.memories.by_roles().items()
        for role in roles
    }
    assert sizes == {"input": 24, "weight": 384, "output": 32}
    assert found.array.bypass_buffer == ("weight",)
    assert found.buffer.capacity_bytes == 128 * 1024
    assert found.buffer.read_bytes_per_second == 16 * 2 * 10**9
    assert found.buffer.write_bytes_per_second is None
    assert found.dram.bandwidth_bytes_per_second == 8 * 2 * 10**9
    assert "DummyBuffer" in dict(accelerator_rows(found))["source"]
    assert load_accelerator(path, ["array.rows=3"]).array.rows == 3


def test_a_list_of_nodes_and_a_problem_in_one_file(tmp_path: Path) -> None:
    path = _write(tmp_path, LISTED)
    found = load_accelerator(path)
    assert isinstance(found.array, SpatialArraySpec)
    assert (found.array.rows, found.array.cols, found.array.lanes) == (3, 7, 2)
    assert found.array.memories.by_roles()[frozenset({"weight"})].capacity_bytes == 384
    assert found.buffer.capacity_bytes == 4096
    assert found.clock_hz == 500 * 10**6
    assert found.buffer.read_bytes_per_second == 16 * 500 * 10**6
    workload = load_workload(path)
    assert [one.tensor for one in workload.operators[0].inputs] == ["Inputs", "Weights"]
    run = simulate(workload, found).run
    assert run.macs == 6 * 4 * 7
    assert run.cycles >= run.macs / 42
    assert not any(level.startswith("buffer") and name == "Weights" for level, name in run.moved)


def test_the_oldest_format(tmp_path: Path) -> None:
    found = load_accelerator(_write(tmp_path, OLDEST))
    assert isinstance(found.array, SpatialArraySpec)
    assert (found.array.rows, found.array.cols) == (16, 16)
    assert found.array.memories.shared is not None
    assert found.array.memories.shared.capacity_bytes == 128
    assert found.buffer.capacity_bytes == 128 * 1024
    assert found.dram.bandwidth_bytes_per_second == 4 * 2 * 10**9  # the larger of two


@pytest.mark.parametrize(("old", "new", "said"), DATA["refused"])
def test_what_cannot_be_taken_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in NESTED
    with pytest.raises(InputError, match=said) as caught:
        load_accelerator(_write(tmp_path, NESTED.replace(old, new)))
    assert "this looks like a Timeloop architecture" in str(caught.value)


def test_sizes_as_the_components_of_accelergy_say_them(tmp_path: Path) -> None:
    """4 words of 16 bits in each of 16,384 rows: 128 KiB, whichever names they have."""
    words = "memory_depth: 16384, word_width: 16, n_words: 4, read_bandwidth: 16"
    old = "memory_depth: 16384, memory_width: 64, word-bits: 16, read_bandwidth: 16"
    for text in (NESTED, NESTED.replace(old, words)):
        buffer = load_accelerator(_write(tmp_path, text)).buffer
        assert buffer.capacity_bytes == 16384 * 64 // 8
        assert buffer.read_bytes_per_second == 16 * 2 * 10**9


FLAT = NESTED.replace('"DummyBuffer[0..13]"', "Dummy").replace(
    "{depth: 16, meshX: 14}}\n", "{}}\n", 1
)
TWO_OF_THREE = re.sub(r"name: (\w+_spad)", r'name: "\1[0..1]"', NESTED).replace(
    "name: mac,", 'name: "mac[0..2]",'
)
NOTHING = ("itecture: []", "itecture: {}", ": {nodes: [3]}", ": {nodes: []}")


@pytest.mark.parametrize(
    "mesh",
    [
        "instances: 168, meshX: 14",
        "instances: 168, meshX: 14, meshY: 12",
        "instances: 168, meshY: 12",
        "instances: 168, mesh-x: 14",
        "instances: 168, mesh_y: 12",
    ],
)
def test_instances_and_meshes_however_they_are_said(tmp_path: Path, mesh: str) -> None:
    text = FLAT.replace("PE[0..167]", "PE").replace("meshX: 14", mesh)
    assert mesh in text
    found = load_accelerator(_write(tmp_path, text))
    assert (found.array.rows, found.array.cols, found.array.pes) == (12, 14, 168)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FLAT.replace("meshX: 14", "meshX: 14, instances: 99"), "instances: got 99"),
        (FLAT.replace("PE[0..167]", "PE"), "got 'a mesh of 14, 1 of ifmap_spad'"),
        (FLAT.replace("meshX: 14", "meshX: 14, meshY: 11"), "a mesh of 154, 168"),
        (TWO_OF_THREE, "got '504 MACs, 336 PEs'; allowed: .*whole rows of whole PEs"),
        *((f"arch{text}", "this looks like a Timeloop architecture") for text in NOTHING),
    ],
)
def test_no_parts_and_meshes_that_contradict_are_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    assert re.search(said, refusal_of(load_accelerator, _write(tmp_path, text)))


def test_what_becomes_of_parts_attributes_and_sections(tmp_path: Path) -> None:
    text = NESTED.replace("{technology: 45nm}", "{technology: 45nm, burst: 3}")
    found = load_accelerator(_write(tmp_path, text + "mapper: {algorithm: random}\n")).account
    assert {one.name: one.macs for one in found.entries_of("not taken")} == {
        "DummyBuffer": 0,
        "glb.burst": 0,
        "ifmap_spad.burst": 0,
        "weights_spad.burst": 0,
        "psum_spad.burst": 0,
        "mac.burst": 0,
        "architecture_constraints": 0,
        "mapper": 0,
    }
    sparse = load_accelerator(_write(tmp_path, text + "sparse_optimizations: {targets: []}\n"))
    with pytest.raises(InputError, match="sparse_optimizations"):
        sparse.account.require_modelled()


def test_empty_branches_of_version_04(tmp_path: Path) -> None:
    text = LISTED.replace("  - !Container {name: PE", "  - !Nothing\n  - !Container {name: PE")
    text = text.replace("    nodes:\n    - !Comp", "    nodes:\n    - !Nothing {}\n    - !Comp", 1)
    assert text.count("!Nothing") == 2
    found = load_accelerator(_write(tmp_path, text))
    assert found.array.pes == load_accelerator(_write(tmp_path, LISTED)).array.pes


@pytest.mark.parametrize(
    ("words", "number"), [("16", "int16"), ("8", "int8"), ("32", "int32"), ("24", None)]
)
def test_elements_are_as_wide_as_the_words_of_the_dram(
    tmp_path: Path, words: str, number: str | None
) -> None:
    path = tmp_path / "arch.yaml"
    path.write_text(NESTED.replace("word-bits: 16, shared", f"word-bits: {words}, shared"))
    known = {} if number is None else dict.fromkeys(("weights", "activations", "cache"), number)
    assert load_accelerator(path).precision.by_class == known


_GLB_RULE = "keep: [Inputs, Outputs], bypass: [Weights]}"


@pytest.mark.parametrize(
    ("rule", "bypassed"),
    [
        ("keep_only: [Inputs, Outputs]", ("weight",)),
        ("bypass_only: [Weights]", ("weight",)),
        ("bypass: [Inputs, Outputs]", ("input", "output")),
    ],
)
def test_what_a_buffer_keeps(tmp_path: Path, rule: str, bypassed: tuple[str, ...]) -> None:
    rules = f"{rule}}}, temporal: {{permutation: [N]}}"
    found = load_accelerator(_write(tmp_path, LISTED.replace(_GLB_RULE, rules)))
    assert isinstance(found.array, SpatialArraySpec)
    assert found.array.bypass_buffer == bypassed
    left = [one.name for one in found.account.entries_of("not taken")]
    assert "glb.constraints.temporal" in left


def test_keys_of_nodes_are_accounted_for(tmp_path: Path) -> None:
    """Data spaces whose names say no role, and what leaves out zeros or a part."""
    text = LISTED.replace(_GLB_RULE, "keep: [A]}")
    text = text.replace("    name: glb\n", "    name: glb\n    enabled: false\n    colour: red\n")
    found = load_accelerator(_write(tmp_path, text)).account
    left = {one.name: one.macs for one in found.entries_of("not taken")}
    assert left["glb.dataspace.keep"] == left["glb.colour"] == 0
    assert left["glb.enabled"] is None


def test_amounts_and_the_clock_may_be_variables(tmp_path: Path) -> None:
    before = "variables: {version: 0.4, global_cycle_seconds: 4.0e-9, rows: 64, spare: 3}\n"
    text = LISTED.replace("depth: 512", "depth: 2*rows*4").replace(
        ", global_cycle_seconds: 2e-9", ""
    )
    found = load_accelerator(_write(tmp_path, before + text))
    plain = load_accelerator(_write(tmp_path, LISTED))
    assert found.buffer.capacity_bytes == plain.buffer.capacity_bytes
    assert found.clock_hz == 250_000_000
    left = [one.name for one in found.account.entries_of("not taken")]
    assert [name for name in left if name.startswith("variables")] == ["variables.spare"]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("spatial: {meshZ: 7}", "spatial.meshZ: got 7"),
        ("attributes: {instances: 7}", "attributes.instances: got 'instances'"),
    ],
)
def test_instances_of_containers_are_a_mesh(tmp_path: Path, after: str, said: str) -> None:
    message = refusal_of(
        load_accelerator, _write(tmp_path, LISTED.replace("spatial: {meshX: 7}", after))
    )
    assert said in message
