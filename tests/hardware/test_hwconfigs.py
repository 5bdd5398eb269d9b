from pathlib import Path

import pytest
import yaml

from simaccel.errors import InputError
from simaccel.hardware import Accelerator, ArraySpec, Rate
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.presets import list_accelerators
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.accelerators import accelerator_rows
from simaccel.schedulers import Options, default_dataflow
from simaccel.study.experiment import simulate
from simaccel.workload import build

FOLDER = Path(__file__).parents[2] / "hwconfigs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def test_the_shipped_accelerators_are_listed() -> None:
    assert list_accelerators() == NAMES
    assert set(NAMES) >= {"cloud", "edge", "edge_tpu", "toy", "mxu_128"}


@pytest.mark.parametrize("name", NAMES)
def test_each_file_has_its_own_name_sources_and_capacities(name: str) -> None:
    """It survives its dump; a memory has a capacity, or none and says so with its bandwidth."""
    accelerator = load_accelerator(name)
    assert accelerator.name == name
    assert load_accelerator(FOLDER / f"{name}.yaml") == accelerator
    assert Accelerator.model_validate_json(accelerator.model_dump_json()) == accelerator
    sections = ("array", "buffer", "noc", "sfu", "dram", "energy")
    assert accelerator.source
    assert all(getattr(accelerator, section).source for section in sections)
    for dram in (accelerator.dram, *accelerator.memories.by_class().values()):
        assert "capacity_bytes" in dram.model_fields_set
        assert (dram.capacity_bytes is None) <= (dram.bandwidth_bytes_per_second is None)


# FLAT (Kao et al., ASPLOS 2023), Table 2 and section 8
@pytest.mark.parametrize(
    ("name", "side", "capacity_bytes", "on_chip", "off_chip"),
    [
        ("edge", 32, 512 * 1024, 10**12, 50 * 10**9),
        ("cloud", 256, 32 * 1024**2, 8 * 10**12, 400 * 10**9),
    ],
)
def test_edge_and_cloud_are_flat_table_2(
    name: str, side: int, capacity_bytes: int, on_chip: int, off_chip: int
) -> None:
    accelerator = load_accelerator(name)
    assert (accelerator.array.rows, accelerator.array.cols) == (side, side)
    assert accelerator.buffer.capacity_bytes == capacity_bytes
    assert accelerator.buffer.read_bytes_per_second == on_chip
    assert accelerator.buffer.write_bytes_per_second == on_chip
    assert accelerator.dram.bandwidth_bytes_per_second == off_chip
    assert accelerator.clock_hz == 720_000_000  # what Fig. 16 implies, not Table 2


@pytest.mark.parametrize("name", ["edge", "cloud", "mxu_128"])
def test_the_noc_feeds_two_byte_operands_from_both_sides(name: str) -> None:
    accelerator = load_accelerator(name)
    operands = 2 * (accelerator.array.rows + accelerator.array.cols)
    assert accelerator.distribution_rate.cycles(operands) == 1
    assert accelerator.collection_rate.cycles(2 * accelerator.array.cols) == 1


@pytest.mark.parametrize("name", ["edge", "cloud"])
def test_the_sfu_reads_no_more_than_the_buffer_gives(name: str) -> None:
    accelerator = load_accelerator(name)
    assert accelerator.read_rate.cycles(2 * accelerator.sfu.lanes) == 1


def test_rates_by_hand() -> None:
    edge = load_accelerator("edge")
    assert edge.channel_rate == Rate(625, 9)
    assert edge.read_rate == Rate(12500, 9)
    assert edge.distribution_rate == Rate(128, 1)
    assert edge.lead_latency_cycles == edge.tail_latency_cycles == 1
    assert edge.seconds(720_000_000) == 1.0
    assert load_accelerator("cloud").channel_rate == Rate(625, 9)  # over more channels
    toy = load_accelerator("toy")
    assert toy.channel_rate == Rate(8, 1)
    assert toy.read_rate == toy.write_rate == Rate(32, 1)
    assert toy.distribution_rate == Rate(16, 1)


@pytest.mark.parametrize(("name", "gmacs"), [("mxu_128", 15401), ("edge_tpu", 1966)])
def test_public_peak_rates(name: str, gmacs: int) -> None:
    """A TPU v3 chip of four MXUs makes 123 Tflop/s, an Edge TPU 4 TOPS."""
    accelerator = load_accelerator(name)
    assert round(accelerator.array.pes * accelerator.clock_hz / 10**9) == gmacs


@pytest.mark.parametrize(
    ("name", "count", "tera_flops"),
    [("tpu_v5e_4x4", 4, 197), ("tpu_v5e_8x8", 4, 197), ("tpu_v4_4x4x4", 8, 275)],
)
def test_chips_of_pods_have_their_published_arrays(name: str, count: int, tera_flops: int) -> None:
    """Google Cloud documentation of TPU v5e; Jouppi et al., ISCA 2023, table 4."""
    found = load_accelerator(name)
    array = found.array
    assert isinstance(array, ArraySpec)
    assert (array.rows, array.cols, array.count) == (128, 128, count)
    assert round(2 * found.pes * found.clock_hz / 1e12) == tera_flops


def test_no_two_files_describe_one_chip() -> None:
    """A file that is `of` another gives links, hosts and numbers of chips, and no hardware.

    Others that stand for chips differ in their arrays, clocks or memories.
    """
    written = {name: yaml.safe_load((FOLDER / f"{name}.yaml").read_text()) for name in NAMES}
    words = {"name", "description", "source", "of", "chips", "compiler", "dram"}
    others = {name: document for name, document in written.items() if "of" in document}
    assert {key for document in others.values() for key in document} <= words
    assert {document["of"] for document in others.values()} <= set(NAMES)
    chips = [
        (on.clock_hz, on.array.pes, on.dram.bandwidth_bytes_per_second, on.buffer.capacity_bytes)
        for name in NAMES
        if name not in others and (on := load_accelerator(name)).stands_for == "chip"
    ]
    assert len(chips) >= 9
    assert len({*chips}) == len(chips)
    beginnings = [name for name in others if not name.startswith(others[name]["of"])]
    assert beginnings == ["coral_dev_board"]  # all others are called as their chip is
    plain = [name for name in NAMES if name not in others and written[name]["stands_for"] == "chip"]
    assert not [(a, b) for a in plain for b in plain if a.startswith(f"{b}_")]
    for name, document in others.items():
        one, chip = load_accelerator(name), load_accelerator(document["of"])
        for section in ("array", "buffer", "sfu", "noc"):
            assert getattr(one, section) == getattr(chip, section), name
        beside = (one.dram, one.compiler) != (chip.dram, chip.compiler)
        assert beside == (one.pod.count == 1), name


def test_one_chip_of_a_pod_is_the_chip() -> None:
    """To the cycle: a pod's file says how many chips there are, and nothing else of them."""
    work = build("gpt2", phase="decode", kv_len=64, scope="la", batch=2)
    for pod, chip in (("tpu_v5e_4x4", "tpu_v5e"), ("tpu_v4_4x4x4", "tpu_v4")):
        one, alone = (
            simulate(work, load_accelerator(name, ["chips=1"]), "naive").run for name in (pod, chip)
        )
        assert (one.cycles, one.moved) == (alone.cycles, alone.moved)


@pytest.mark.parametrize(("pod", "chip"), [("tpu_v5e_4x4", "tpu_v5e"), ("tpu_v4_4x4x4", "tpu_v4")])
def test_a_chip_that_has_sequences_of_its_own_is_the_chip(pod: str, chip: str) -> None:
    """To the cycle, with the default dataflow: 8 sequences on 4 chips are 2 on one, no message."""
    shared, own = (
        build("gpt2", phase="decode", kv_len=64, scope="block", batch=batch) for batch in (8, 2)
    )
    four, alone = load_accelerator(pod, ["chips=4"]), load_accelerator(chip)
    assert default_dataflow(four, shared) == default_dataflow(alone, own) == "deployed"
    options = Options(data_parallel=4)
    one = simulate(shared, four, "deployed", options=options).run
    assert one.cycles == simulate(own, alone, "deployed").run.cycles


def test_capacities_that_are_published() -> None:
    """GiB: TPU documentation; ISCA 2021 (v4i) and 2023 (v4)."""
    published = {"tpu_v3": 16, "tpu_v4": 32, "tpu_v4i": 8, "tpu_v5e": 16, "tpu_v6e": 32}
    found = {name: load_accelerator(name).dram.capacity_bytes for name in published}
    assert found == {name: size * 2**30 for name, size in published.items()}


def test_a_file_that_is_another_one_but_for_some_fields(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nof: tpu_v5e_4x4\nchips: 2x2\ndram: {channels: 8}\n")
    mine, chip = load_accelerator(file), load_accelerator("tpu_v5e")
    assert (mine.pod.shape, mine.dram.channels, mine.sfu) == ((2, 2), 8, chip.sfu)
    assert mine.dram.capacity_bytes == chip.dram.capacity_bytes
    file.write_text("name: mine\nof: tpu_v9\narray: {rows: 8}\ndram: {channels: 0}\n")
    with pytest.raises(InputError, match=r"mine.yaml: of: got 'tpu_v9'; allowed: the name") as told:
        load_accelerator(file)
    assert [fault.field for fault in told.value.faults] == ["of", "dram.channels"]
    file.write_text("name: mine\nof: tpu_v5e\nchips: {count: 4, topology: ring}\n")
    with pytest.raises(InputError, match="how they are linked is the section links"):
        load_accelerator(file)


def test_multipliers_are_those_of_the_precision() -> None:
    """A TPU v1 has at most 331 mm2 (ISCA 2017, table 2); 65,536 MACs of fp16 alone 382."""
    found = area_of(load_accelerator("tpu_v1"))
    assert found.by_part["mac"] == pytest.approx(65536 * (282 + 137))
    assert found.mm2 is not None
    assert found.mm2 == pytest.approx(274, abs=1)
    own = area_of(load_accelerator("tpu_v1", ["area.number=fp16"]))
    assert own.by_part["mac"] == pytest.approx(65536 * 5824)


def test_the_table_has_units_sources_and_derived_figures() -> None:
    rows = dict(accelerator_rows(load_accelerator("edge")))
    assert rows["clock_hz"] == "720 MHz"
    assert rows["buffer.capacity_bytes"] == "512 KiB"
    assert rows["buffer.source"].startswith("FLAT section 8")
    assert rows["dram.latency_cycles"] == "72 cycles"
    assert rows["energy.dram_pj_per_byte"] == "37.5 pJ/B"
    assert rows["noc.distribution.multicast"] == "true"
    assert rows["derived.peak_macs_per_second"] == "737.28 GMAC/s"
    assert rows["derived.dram_channel_rate"] == "69.4444 B/cycle"
    assert rows["derived.machine_balance"] == "14.7456 MAC/B"


def test_the_table_of_a_machine_without_limits() -> None:
    limits = ["buffer.capacity_bytes", "buffer.read_bytes_per_second"]
    limits += ["dram.bandwidth_bytes_per_second", "noc.distribution.topology"]
    rows = dict(
        accelerator_rows(load_accelerator("edge", [f"{field}=unlimited" for field in limits]))
    )
    assert {rows[field] for field in limits} == {"unlimited"}
    assert rows["derived.buffer_read_rate"] == "unlimited"
    assert rows["derived.machine_balance"] == "unlimited"
    assert rows["derived.noc_lead_latency"] == "0 cycles"
