"""The verbs of Python: names or objects, and what their results say and show."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from click.testing import CliRunner

import simaccel
from simaccel import (
    Options,
    bound,
    build,
    compare,
    conv2d,
    estimate,
    explore,
    gemm,
    load_accelerator,
    load_workload,
    record,
    simulate,
)
from simaccel import workload as transformers
from simaccel.cli import main
from simaccel.errors import InputError
from simaccel.hardware.presets import list_accelerators
from simaccel.mapping.files import mapping_text
from simaccel.schedulers import compared_dataflows
from simaccel.search.effort import STRATEGIES, Effort
from simaccel.verbs.comparing import Comparison
from simaccel.verbs.running import Result
from simaccel.workload import Workload
from tests.agreement import dram_total
from tests.importers.test_scalesim import SHIPPED
from tests.refusals import faults_of, refusal_of
from tests.small_pods import SMALL

GEMM = gemm(m=9, k=7, n=5)
SHEET = "Layer,M,N,K,Estimate\na,9,5,7,1000\nb,4,4,4,\n"


@pytest.fixture(scope="module")
def result() -> Result:
    workload = build("bert", seq_len=8, scope="la")
    return simulate(workload, "toy", "naive-m")


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    file = tmp_path / "sheet.csv"
    file.write_text(SHEET)
    return file


def _json(line: str) -> Any:  # noqa: ANN401 - whatever a command prints
    ran = CliRunner().invoke(main, line.split(), prog_name="simaccel", catch_exceptions=False)
    assert ran.exit_code == 0, ran.stderr
    return json.loads(ran.stdout)


class _Tags(HTMLParser):
    """Checks that tags close in the order in which they were opened, and keeps the texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_all_names_are_there() -> None:
    wanted = "load_accelerator load_workload build estimate simulate record compare bound Trace"
    assert set(wanted.split()) <= set(simaccel.__all__)
    for name in simaccel.__all__:
        assert getattr(simaccel, name) is not None
        assert name in dir(simaccel)
    assert not hasattr(simaccel, "nothing_of_this_name")


def test_names_objects_and_paths_are_the_same_run(tmp_path: Path) -> None:
    named = simulate("alexnet", "edge", "naive")
    objects = simulate(build("alexnet"), load_accelerator("edge"), "naive")
    assert named.run.cycles == objects.run.cycles
    workload, accelerator = tmp_path / "w.yaml", tmp_path / "a.yaml"
    workload.write_text("kind: gemm\nshape: {M: 9, K: 7, N: 5}\n")
    text = Path(simaccel.__file__).parents[1] / "hwconfigs" / "toy.yaml"
    accelerator.write_text(text.read_text())
    by_path = simulate(workload, accelerator, "naive")
    assert by_path.run.cycles == simulate(str(workload), "toy", "naive").run.cycles
    assert by_path.run.cycles == simulate(GEMM, "toy", by_path.mapping).run.cycles
    (tmp_path / "m.yaml").write_text(mapping_text(by_path.mapping))
    assert simulate(GEMM, "toy", tmp_path / "m.yaml").run.cycles == by_path.run.cycles
    assert simulate(GEMM, "toy").mapping.dataflow == "flex"  # no attention to fuse


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        (
            lambda: simulate("brt", "tpy"),
            ["workload: name: got 'brt'", "accelerator: name: got 'tpy'"],
        ),
        (
            lambda: simulate(3, None),  # type: ignore[arg-type]
            ["simaccel: workload: got 3", "simaccel: accelerator: got None"],
        ),
        (lambda: simulate(GEMM, "toy", 3), ["simaccel: dataflow: got 3"]),  # type: ignore[arg-type]
        (lambda: simulate(GEMM, "toy", "flt"), ["got 'flt'; did you mean 'flat'?"]),
        (
            lambda: simulate(GEMM, "toy", objective="enrgy"),  # type: ignore[arg-type]
            ["simaccel: objective: got 'enrgy'; did you mean 'energy'?"],
        ),
        (
            lambda: load_accelerator("toy", {"array.row": 8, "dram": "tuy", "sfu.lanes": "a"}),
            ["settings: array.row: got 8; did you mean", "settings: dram: got", "settings: sfu."],
        ),
        (
            lambda: simulate(GEMM, "toy", settings={"patience": 3, "array.rows": 8}),
            ["settings: patience: got 3; allowed: nothing; it is an option: options=Options(pat"],
        ),
        (lambda: load_accelerator("toy", 3), ["allowed: {'path.to.field': value}"]),  # type: ignore[arg-type]
        (lambda: compare(GEMM, "toy", each="layer"), ["simaccel: each: got 'layer'"]),
        (lambda: compare([GEMM, GEMM], "toy", each="operator"), ["nothing with several"]),
        (lambda: compare([], "toy"), ["simaccel: compare: got 'nothing'"]),
        (lambda: compare("bert", []), ["simaccel: compare: got 'nothing'"]),
        (lambda: bound(GEMM, fuse="al", buffer="7 KB/s"), ["bound: buffer", "bound: fuse"]),
        (lambda: bound(GEMM, buffer=0), ["bound: buffer: got 0; allowed: a positive amount"]),
        (
            lambda: Options(objective="speed", stationarity="xs", tolerance=-1),  # type: ignore[arg-type]
            [
                "options: objective: got 'speed'; allowed: cycles, energy, edp, dram-bytes, footpr",
                "options: stationarity: got 'xs'; allowed: None, ws, os, is",
                "options: tolerance: got -1; allowed: 0 to less than 1",
            ],
        ),
        (lambda: build("bert", seqlen=4), ["no such size; did you mean 'seq_len'?"]),  # type: ignore[call-arg]
        (lambda: build("bert", dims=3), ["workload: dims: got 3; allowed: sizes by names"]),  # type: ignore[arg-type]
        (lambda: build("gpt2", bytes_by_tensor=3), ["bytes_by_tensor: got 3; allowed: bytes by"]),  # type: ignore[arg-type]
        (lambda: build("gpt2", bytes_by_tensor={3: 4}), ["got {3: 4}; allowed: bytes by"]),  # type: ignore[dict-item]
        (lambda: build("gpt2", experts=5), ["experts: got 5; allowed: a text such as 'expected'"]),  # type: ignore[arg-type]
        (lambda: build("vgg16", layer=3), ["vgg16: layer: got 3; allowed: one of conv1_1"]),  # type: ignore[arg-type]
        (lambda: build("vgg16", seq_len=4), ["nothing with vgg16; it has no attention blocks"]),
        (lambda: build("gpt2", seq_len=4), ["nothing with gpt2; `prompt` and `kv_len` say it"]),
        (lambda: build("gemm"), ["workload: shape: got nothing"]),
        (lambda: build("gemm", shape="M=0,K=1,N=1"), ["shape: M: got 0"]),
        (lambda: load_workload("nowhere.csv", dims={"n": 3}), ["only ONNX models"]),
        (lambda: load_workload("nowhere.csv"), ["nowhere.csv: file: got nothing"]),
    ],
)
def test_bad_input_names_what_is_allowed(call: Callable[[], object], faults: list[str]) -> None:
    said = refusal_of(call).splitlines()
    assert len(said) == len(faults)
    assert all(part in line for part, line in zip(faults, said, strict=True)), said


def test_build_knows_all_kinds_of_names() -> None:
    assert build("gemm", shape="M=9,K=7,N=5") == GEMM
    assert build("BERT", seq_len=8, batch=2).macs == 2 * build("bert", seq_len=8).macs
    assert build("alexnet", layer="fc8").macs == 4096 * 1000
    step = build("gpt2", phase="decode", kv_len=10)
    assert step.parameters["phase"] == "decode"
    assert build("bert", seq_len=8, batch=None) == build("bert", seq_len=8)


def test_a_result_is_one_line_and_the_json_of_the_command_line(result: Result) -> None:
    text = repr(result)
    assert "\n" not in text
    assert re.fullmatch(r"<Result bert on toy, scope la, .*: simulated [\d,]+ cycles .*>", text)
    model = "--workload bert --seq-len 8 --scope la --dataflow naive-m --json"
    workload = result.workload
    on_chips = simulate(workload, "tpu_v5e", "naive-m", settings={"chips": "2"})
    for hw, ran in (("toy", result), ("tpu_v5e --chips 2", on_chips)):
        expected, found = _json(f"run --hw {hw} {model}"), json.loads(json.dumps(ran.to_dict()))
        del expected["wall_seconds"], found["wall_seconds"]
        assert found == expected
        assert ("chips" in found) is (ran is on_chips)


def test_a_result_says_what_its_choice_gave_up() -> None:
    """Within 1% of the fastest `flex` takes the tiles that cost less energy, as the command."""
    found = simulate(gemm(m=96, n=96, k=96), "edge", "flex").to_dict()
    rows = _json("run --hw edge --workload gemm --shape M=96,N=96,K=96 --dataflow flex --json")
    assert found["given_up"] == rows["given_up"]
    assert 0 < found["given_up"]["cycles"] <= found["cycles"] / 100
    assert found["given_up"]["energy_pj"] < 0
    alone = simulate(gemm(m=96, n=96, k=96), "edge", "flex", options=Options(tolerance=1e-9))
    assert "given_up" not in alone.to_dict()


def test_a_result_has_its_main_figures(tmp_path: Path) -> None:
    """A GEMM by the row of its trace, tokens by the clock, energy by the JSON's parts."""
    workload = transformers.transformer(SMALL, scope="model", phase="decode", kv_len=3, batch=2)
    result = simulate(workload, "cloud", "naive")
    cycles = sum(operator.cycles for operator in result.run.operators)
    assert result.cycles == cycles
    assert result.seconds == cycles / 720e6
    assert result.tokens_per_second == pytest.approx(2 * 720e6 / cycles)
    energy = sum(result.to_dict()["energy_pj"].values())
    assert result.energy_joules == pytest.approx(energy / 1e12)
    (tmp_path / "own.cfg").write_text(SHIPPED)
    alone = simulate(GEMM, tmp_path / "own.cfg", "naive")
    assert alone.tokens_per_second is None
    assert alone.energy_joules is None


@pytest.mark.parametrize(
    ("product", "dataflow", "last"),
    [(GEMM, "naive", "energy: "), (gemm(m=64, n=64, k=64), "flex", "chosen within 1%: ")],
)
def test_the_summary_is_what_run_prints_without_its_table(
    product: Workload, dataflow: str, last: str
) -> None:
    shape = ",".join(f"{name}={n}" for name, n in product.parameters["shape"].items())
    line = f"run --hw toy --workload gemm --shape {shape} --dataflow {dataflow}"
    printed = " ".join(CliRunner().invoke(main, line.split()).stdout.split())
    summary = simulate(product, "toy", dataflow).summary().splitlines()
    assert len(summary) == 4 + (dataflow == "flex")
    assert summary[-1].startswith(last)
    for text in summary:
        assert " ".join(text.split()) in printed


def test_what_is_asked_for_by_keyword_is_what_options_and_overrides_say() -> None:
    settings = {"array.rows": 8, "buffer": {"capacity_bytes": "2 KiB"}, "dram": "1 x DDR4-3200x64"}
    texts = ["array.rows=8", "buffer.capacity_bytes=2 KiB", "dram=1 x DDR4-3200x64"]
    there = load_accelerator("toy", settings)
    assert there == load_accelerator("toy", texts)
    assert (there.array.rows, there.buffer.capacity_bytes) == (8, 2048)
    effort = Effort(objective="energy")
    options = Options(objective="energy", effort=effort)
    expected = simulate(GEMM, there, options=options)
    for given in ("toy", load_accelerator("toy")):
        found = simulate(GEMM, given, objective="energy", settings=settings)
        assert found.mapping == expected.mapping
        assert estimate(GEMM, given, objective="energy", settings=settings).bound_cycles == (
            expected.prediction.bound_cycles
        )
        (row,) = compare(GEMM, given, "flex", objective="energy", settings=settings).rows
        assert row.result is not None
        assert row.result["cycles"] == expected.cycles
    spatial = simulate(GEMM, "toy_linear", objective="cycles")
    assert spatial.cycles <= simulate(GEMM, "toy_linear").cycles


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: gemm(9, 7), "gemm: missing .*'n'; allowed: m, k, n, batch=1,"),  # type: ignore[call-arg]
        (lambda: gemm(9, 7, 5, K=3), "gemm: .*'k'; allowed: m, k, n,"),  # type: ignore[call-arg]
        (lambda: gemm(M=9, m=9, k=7, n=5), "gemm: .*'M'; allowed: m"),  # type: ignore[call-arg]
        (lambda: simulate(GEMM, "toy", dram=3), "simulate: .*'dram'; allowed: workload, accel"),  # type: ignore[call-arg]
        (lambda: explore(GEMM), "explore: missing .*'accelerators'; allowed: workloads,"),  # type: ignore[call-arg]
        (load_accelerator, "missing a required argument: 'name.*; allowed: name"),
    ],
)
def test_a_call_that_does_not_fit_names_the_arguments(
    call: Callable[[], object], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_ranks_may_be_positions_or_capitals() -> None:
    assert gemm(9, 7, 5) == gemm(M=9, K=7, N=5, B=1) == GEMM  # type: ignore[call-arg]
    sizes = {"m": 2, "c": 3, "p": 4, "q": 5, "r": 1, "s": 2}
    capitals = {rank.upper(): size for rank, size in sizes.items()}
    assert conv2d(**sizes, n=2) == conv2d(**capitals, N=2)  # type: ignore[call-arg, arg-type]


def test_numbers_of_numpy_are_whole_numbers() -> None:
    """What comes from an array or a table is a size as any other; a fraction or a truth is none."""
    nine, two = np.int64(9), np.int32(2)
    assert gemm(nine, K=7, n=5) == GEMM  # type: ignore[call-arg, arg-type]
    assert build("bert", seq_len=nine, batch=two) == build("bert", seq_len=9, batch=2)  # type: ignore[arg-type]
    assert simaccel.network("alexnet", batch=two) == simaccel.network("alexnet", batch=2)  # type: ignore[arg-type]
    assert load_accelerator("toy", {"array": {"rows": two}}).array.rows == 2
    for wrong in (np.float64(9), np.array([True])[0]):
        with pytest.raises(InputError, match="M: got "):
            gemm(wrong, 7, 5)  # type: ignore[arg-type]


def test_accelerators_and_workloads_print_as_a_line() -> None:
    for name in list_accelerators():
        text = repr(load_accelerator(name))
        assert text.startswith(f"<Accelerator {name}: ")
        assert len(text) < 120
    for model in ("bert", "resnet50", "mixtral-8x7b"):
        assert len(repr(build(model))) < 300
    assert str(load_accelerator("edge")) == (
        "<Accelerator edge: 32 x 32 PEs at 720 MHz, buffer 512 KiB, DRAM 50 GB/s>"
    )
    assert repr(GEMM) == "<Workload gemm: gemm; 315 MACs>"


def test_the_frames_of_a_result_add_up(result: Result) -> None:
    operators, engines = result.to_pandas(), result.to_pandas("engines")
    stalls = result.to_pandas("stalls")
    assert operators["cycles"].sum() == result.run.cycles
    assert operators["macs"].sum() == 12 * 2 * 8 * 8 * 64  # L and A of 12 heads
    assert list(operators["operator"]) == [one.name for one in result.run.operators]
    total = engines.drop(columns="engine").sum(axis=1)
    assert set(total) == {result.run.cycles}
    array = engines.set_index("engine").loc["array"].drop(["busy", "idle"])
    assert stalls[stalls["engine"] == "array"]["cycles"].sum() == array.sum()
    with pytest.raises(InputError, match="did you mean 'stalls'"):
        result.to_pandas("stall")


def test_html_is_closed_and_escaped(result: Result) -> None:
    tags = _Tags(result._repr_html_())
    assert {"L", "softmax", "A", "total", "array", "dma_in0"} <= set(tags.texts)
    odd = simulate(gemm(m=2, k=2, n=2), "toy", "naive")
    object.__setattr__(odd.mapping, "dataflow", "<b>&")
    assert "&lt;b&gt;&amp;" in odd._repr_html_()


def test_what_is_stored_is_compared_without_a_run(tmp_path: Path) -> None:
    """In two processes, and then from the folder."""
    before = compare(GEMM, "toy", ["naive", "flex"], store=tmp_path / "kept", jobs=2)
    plain = compare(GEMM, "toy", ["naive", "flex"])
    assert [row.run["cycles"] for row in before] == [row.run["cycles"] for row in plain]
    again = compare(GEMM, "toy", ["naive", "flex"], store=tmp_path / "kept")
    assert again.to_dict() == before.to_dict()  # with the times of the first call


def test_what_can_be_shown_is_html_and_frames(sheet: Path) -> None:
    predicted = estimate(GEMM, "toy", "naive")
    compared = compare(str(sheet), "toy", ["naive", "flex"], each="operator")
    limit = bound(GEMM, "toy")
    for one in (predicted, compared, limit):
        assert "\n" not in repr(one)
        _Tags(one._repr_html_())
    result = simulate(GEMM, "toy", predicted.mapping)
    assert predicted.prediction == result.prediction
    assert predicted.bound_cycles <= result.run.cycles
    assert list(predicted.to_pandas()["macs"]) == [9 * 5 * 7]
    assert limit.points == [tuple(one) for one in limit.to_dict()["points"]]
    # with room for everything each operand crosses once
    assert limit.points[-1][1] == 2 * (9 * 7 + 7 * 5 + 9 * 5)
    assert list(limit.to_pandas()["dram_bytes"]) == [moved for _, moved in limit.points]
    assert limit.mapping is not None
    moved = simulate(GEMM, "toy", limit.mapping).run.moved
    dram = dram_total(moved)
    assert dram == 2 * (9 * 7 + 7 * 5 + 9 * 5)


def test_a_sheet_is_checked_layer_by_layer(sheet: Path) -> None:
    compared = compare(sheet, "toy", ["naive", "flex"], each="operator")
    frame = compared.to_pandas()
    assert compared.title == "sheet on toy, int16"
    assert list(frame["operator"]) == ["a", "a", "b", "b"]
    assert list(frame["macs"]) == [9 * 5 * 7] * 2 + [4 * 4 * 4] * 2
    alone = simulate(GEMM, "toy", "naive")
    assert frame["cycles"][0] == alone.run.cycles
    assert frame["estimate_cycles"].tolist()[:2] == [1000, 1000]
    expected = (1000 - alone.run.cycles) / alone.run.cycles
    assert frame["estimate_error"][0] == pytest.approx(expected)
    assert frame["estimate_error"].isna().tolist() == [False, False, True, True]
    line = f"compare --hw toy --workload {sheet} --each operator --dataflow naive,flex --jobs 1"
    shown = [{**one, "wall_seconds": 0} for one in _json(f"{line} --json")]
    assert shown == json.loads(
        json.dumps([{**one, "wall_seconds": 0} for one in compared.to_dict()])
    )


def test_every_operator_of_any_workload_runs_alone() -> None:
    step = transformers.transformer(SMALL, phase="decode", kv_len=7)
    compared = compare(step, "edge", "naive", each="operator")
    assert compared.title == "small on edge, phase decode, kv-len 7, scope block, batch 1, bf16"
    frame = compared.to_pandas()
    assert list(frame["operator"]) == [one.name for one in step.operators]
    assert frame["macs"].sum() == step.macs
    assert frame["problem"].isna().all()


def test_without_dataflows_those_of_the_command_are_compared() -> None:
    """Where something else differs that is the default one; else those that differ, with it."""
    attention, toy = build("bert", seq_len=4, scope="la"), load_accelerator("toy")
    alone = compare(GEMM, "toy")
    assert [row.dataflow for row in alone] == ["naive", "flex"]
    rows = _json("compare --hw toy --workload gemm --shape M=9,K=7,N=5 --json")
    assert [row["dataflow"] for row in rows] == ["naive", "flex"]
    names = {row.dataflow for row in compare([GEMM, gemm(m=4, k=4, n=4)], toy)}
    assert names == {row.dataflow for row in compare(GEMM, toy, each="operator")} == {"flex"}
    every = ["naive", "flex", "flat", "flash"]
    assert compared_dataflows(toy, attention, varied=False) == every
    on_chip = compared_dataflows(load_accelerator("tpu_v5e"), attention, varied=False)
    assert on_chip == ["deployed", *every]
    spatial = load_accelerator("eyeriss_like")
    assert compared_dataflows(spatial, GEMM, varied=False) == STRATEGIES
    assert [*compared_dataflows(spatial, GEMM, varied=True)] == ["ruby-s"]


def test_several_workloads_and_accelerators_are_rows() -> None:
    small = gemm(m=4, k=4, n=4)
    both = compare([GEMM, small], "toy", "naive")
    assert [row.settings[0].text for row in both] == [
        "gemm, M=9, K=7, N=5, B=1",
        "gemm, M=4, K=4, N=4, B=1",
    ]
    fast = load_accelerator("toy", ["dram.bandwidth_bytes_per_second=16 GB/s"])
    cycles = [row.result["cycles"] for row in compare(GEMM, ["toy", fast], "naive") if row.result]
    assert cycles[1] < cycles[0]
    assert repr(compare(GEMM, "toy", "naive")).endswith(": 1 run, naive is the fastest>")


def test_what_does_not_run_is_a_row_that_says_why() -> None:
    narrow = load_accelerator("toy", ["buffer.capacity_bytes=64"])
    compared = compare(GEMM, narrow, "naive")
    assert "none of them runs" in repr(compared)
    assert "the buffer has 64 B" in compared.to_pandas()["problem"][0]
    assert "the buffer has 64 B" in compared._repr_html_()


def test_an_unknown_dataflow_is_refused_before_anything_runs() -> None:
    """As the command refuses it; with what is near, if anything is."""
    with pytest.raises(InputError) as refused:
        compare(GEMM, "toy", ["naive", "flax", "fooo"])
    assert [fault.value for fault in refused.value.faults] == ["flax", "fooo"]
    assert str(refused.value).startswith("compare: dataflows: got 'flax'; did you mean 'flex'?")


def test_figures_are_pictures_and_leave_matplotlib_alone(result: Result, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    plot = result.plot()
    assert plot._repr_png_().startswith(b"\x89PNG")
    names = [text.get_text() for text in plot.figure.axes[0].get_yticklabels()]
    assert [name.partition(" (")[0] for name in names] == ["L", "softmax", "A", "total"]
    shares = [float(name.partition(" (")[2].rstrip("%)")) for name in names[:-1]]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert plot.save(tmp_path / "p.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(InputError):
        plot.save(tmp_path / "p.svg")
    assert Comparison("t", tuple(compare(GEMM, "toy", "naive"))).plot()._repr_png_()
    assert dict(mpl.rcParams) == before


def test_a_transformer_of_ones_own_comes_back_from_its_trace(tmp_path: Path) -> None:
    """Under the name of another, which is not looked up: 3,277,824 MACs a block by hand."""
    known = transformers.find_transformer("llama3-8b")
    own = replace(known, hidden=512, heads=8, kv_heads=2, head_size=64, ff_size=1536)
    made = transformers.transformer(own, phase="decode", kv_len=256)
    record(tmp_path / "own.h5", made, "edge", "naive")
    with simaccel.Trace.open(tmp_path / "own.h5") as trace:
        assert trace.workload().macs == made.macs == 3_277_824


def test_a_recorded_run_says_why_it_waits(tmp_path: Path) -> None:
    done = record(tmp_path / "run.h5", build("bert", seq_len=8, scope="la"), "toy", "naive-m")
    with simaccel.Trace.open(tmp_path / "run.h5") as trace:
        assert trace.cycles == done.run.cycles
        assert repr(trace).startswith("<Trace bert on toy, scope la")
        found = trace.diagnose("softmax")
        _Tags(found._repr_html_())
        assert found.verdict in repr(found)
        frame = found.to_pandas()
        cycles = next(one.cycles for one in done.run.operators if one.name == "softmax")
        assert set(frame.groupby("engine")["cycles"].sum()) == {cycles}
        told = _json(f"trace stalls {tmp_path / 'run.h5'} --operator softmax --json")
        assert json.loads(json.dumps(found.to_dict())) == told
        assert trace.plot("timeline")._repr_png_().startswith(b"\x89PNG")
        with pytest.raises(InputError, match="plot: kind: got 'time'"):
            trace.plot("time")
        with pytest.raises(InputError):
            trace.diagnose("nothing")


def test_the_csv_of_a_run_is_its_operators(sheet: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    line = f"run --hw toy --workload {sheet} --dataflow naive --csv {out}"
    ran = CliRunner().invoke(main, line.split())
    assert ran.exit_code == 0, ran.stderr
    assert f"table: {out}" in ran.stdout
    first, *rows = out.read_text().splitlines()
    names = first.split(",")
    cells = [dict(zip(names, row.split(","), strict=True)) for row in rows]
    assert [one["operator"] for one in cells] == ["a", "b"]
    result = simulate(sheet, "toy", "naive")
    assert sum(int(one["cycles"]) for one in cells) == result.run.cycles
    # groups overlap here: a group's own fill and drain may be another's work
    bounds = [group.resource_bound_cycles for group in result.prediction.groups]
    assert [int(one["bound_cycles"]) for one in cells] == bounds
    assert result.prediction.bound_cycles <= result.run.cycles
    assert float(cells[0]["estimate_cycles"]) == 1000
    assert cells[1]["estimate_error"] == ""
    heads = [set(line.split()) for line in ran.stdout.splitlines()]
    assert any({"operator", "estimate", "error"} <= head for head in heads)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--csv - --json", "--json"),
        ("--csv out.csv --trace out.csv", "out.csv"),
        ("--csv nowhere/out.csv", "nowhere"),
        ("--csv {sheet}", "sheet.csv"),
        ("--batch 2", "--batch: got '2'; allowed: 1, as the estimates in"),
    ],
)
def test_what_a_csv_does_not_go_with_is_refused(sheet: Path, options: str, problem: str) -> None:
    line = f"run --hw toy --workload {sheet} --dataflow naive {options.format(sheet=sheet)}"
    ran = CliRunner().invoke(main, line.split())
    assert ran.exit_code == 2
    assert problem in ran.stderr
    assert sheet.read_text() == SHEET


def test_what_is_left_out_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    """A topology of 64x32x16 with a column of sparsity: nobody counted what it saves."""
    path = tmp_path / "net.csv"
    path.write_text("Layer,M,N,K,Sparsity\nfc,64,32,16,2:4\n")
    for verb in (simulate, estimate, compare, explore):
        for given in (path, load_workload(path)):
            (one,) = faults_of(verb, given, "toy")
            assert one.allowed.startswith("load_workload(..., allow_unmodelled=True), to leave it")
    taken = load_workload(path, allow_unmodelled=True)
    assert simulate(taken, "toy", "naive").to_dict()["macs"] == 64 * 32 * 16
