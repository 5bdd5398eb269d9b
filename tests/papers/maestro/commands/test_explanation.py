"""Three analyses of a run: each figure from a hand calculation, or another part of simaccel."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from simaccel import gemm, load_accelerator, simulate
from simaccel.analytic.floor.compulsory import compulsory_bytes
from simaccel.analytic.floor.floor import ByteBound, floors_of, on_chip_bytes
from simaccel.mapping.text import parse_text
from simaccel.papers.maestro.commands.attribution import attribute, streaming
from simaccel.papers.maestro.commands.disagreement import (
    DirectiveRuntime,
    Disagreement,
    RepeatedTransfer,
    against_directives,
    against_floor,
    against_prediction,
)
from simaccel.papers.maestro.commands.explanation import GroupExplanation, explain
from simaccel.papers.maestro.commands.explanation_figures import draw_shares, shared_groups
from simaccel.papers.maestro.commands.explanation_tables import (
    explanation_html,
    explanation_json,
    explanation_sections,
)
from simaccel.papers.maestro.dataflows.reading import parse_directives
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.report.figures.style import style
from simaccel.report.tables import Column, tabulate
from simaccel.study.experiment import ExperimentResult, result_json
from simaccel.workload import ModelDimensions, attention
from simaccel.workload.layers import Product, layers_workload
from tests.agreement import dram_total
from tests.draws import some
from tests.trees import einsum, mapping
from tests.trees import workload as small

SMALL = ModelDimensions(hidden=8, heads=2, head_size=4, ff_size=12, layers=1)
TREE = """
mapping mine of {workload.name} {workload.fingerprint}
  group gemm
    loop m 40
    loop n 16
    keep A buffer, B buffer x2, C buffer x2
    do gemm array ws
"""
NET = """
Network net { Layer CONV2 { Type: CONV Stride { X: 1, Y: 1 }
  Dimensions { K: 64, C: 64, R: 3, S: 3, Y: 58, X: 58 }
  Dataflow { SpatialMap(1,1) K; TemporalMap(64,64) C; TemporalMap(Sz(R),Sz(R)) R;
    TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X;
    Cluster(64,P); SpatialMap(1,1) C; } } }
"""


@pytest.fixture(scope="module")
def product() -> ExperimentResult:
    """The first example of docs/guide/mappings.md: 100 x 64 x 48 on 4 x 4 PEs, 2 bytes."""
    workload = gemm(m=100, k=64, n=48)
    hw = load_accelerator("toy", ["buffer.capacity_bytes=64 KiB"])
    return simulate(workload, hw, parse_text(TREE.format(workload=workload)))


@pytest.fixture(scope="module")
def fused() -> ExperimentResult:
    return simulate(attention(SMALL, batch=1, seq_len=8, scope="la"), load_accelerator("toy"))


@pytest.fixture(scope="module")
def convolution() -> tuple[ExperimentResult, tuple[GroupExplanation, ...]]:
    net = parse_directives(NET)
    workload = layers_workload("net", {one.name: one.layer.shape() for one in net.layers})
    hw = load_accelerator("maestro_256")
    result = simulate(workload, hw, directed_mapping(net.layers, workload, hw))
    return result, explain(result, net.layers)


def _assumptions(result: ExperimentResult, analysis: str) -> list[str]:
    """Return what a page says of the differences of an analysis."""
    (group,) = explanation_json(result, explain(result))["groups"]
    return [each["assumption"] for each in group["disagreements"] if each["analysis"] == analysis]


def test_the_bound_names_the_tensor_that_comes_again_and_the_loop(
    product: ExperimentResult,
) -> None:
    """B comes for each of 3 pieces of m; A and C cross once."""
    (one,) = explain(product)
    assert one.floor.least_bytes == one.floor.compulsory_bytes == 2 * (6400 + 3072 + 4800)
    assert one.dram_bytes - one.floor.least_bytes == 2 * 2 * 3072
    (told,) = (each for each in one.disagreements if each.what == "DRAM bytes")
    assert (told.machine, told.other) == (one.dram_bytes, one.floor.least_bytes)
    assert told.reason == "floor"
    *_, text = _assumptions(product, "bound")
    assert text.endswith("the mapping moves B 3.00 times (for each piece of m 40)")


def test_reuse_of_a_held_and_of_a_streamed_operand(product: ExperimentResult) -> None:
    """A streams again for each 4 columns, B is sent for each piece of m, sums leave each 4 rows."""
    (one,) = explain(product)
    by_name = {each.tensor: each for each in one.reuse}
    assert by_name["A"].macs_per_element_sent == by_name["A"].multicast == 4
    assert by_name["B"].macs_per_element_sent == Fraction(100, 3)
    assert by_name["B"].multicast == 1
    assert by_name["C"].macs_per_sum_back == 4
    assert by_name["C"].macs_per_element_sent is None
    assert by_name["A"].reads_per_buffer_byte == 48 // 4
    assert by_name["B"].reads_per_buffer_byte == 1


def test_needs_are_bytes_over_computing(product: ExperimentResult) -> None:
    (one,) = explain(product)
    computing = product.run.engines["array"].busy
    need = {each.level: each for each in one.needs}
    assert need["dram"].needed_bytes_per_cycle == Fraction(2 * (6400 + 3 * 3072 + 4800), computing)
    assert need["noc_distribution"].bytes == 2 * (6400 * 12 + 3072 * 3)
    hw = product.accelerator
    assert hw.dram.bandwidth_bytes_per_second is not None
    per_cycle = Fraction(hw.dram.bandwidth_bytes_per_second, hw.clock_hz)
    assert need["dram"].offered_bytes_per_cycle == per_cycle


def test_figures_are_those_of_the_run(fused: ExperimentResult) -> None:
    run, page = result_json(fused), explanation_json(fused, explain(fused))
    assert page["cycles"] == run["cycles"]
    assert page["dram_bound"] == run["dram_bound"]
    for group, operator in zip(page["groups"], run["operators"], strict=True):
        assert group["name"] == operator["name"]
        assert group["machine"]["cycles"] == operator["cycles"]
        assert group["machine"]["stalls"] == operator["engines"]["array"]["stalls"]
        assert group["bound"]["by"] == operator["bound"]["by"]
        dram = operator["bytes"]["dram"]
        assert group["dram_bytes"] == sum(dram["read"].values()) + sum(dram["write"].values())
        for one in group["reuse"]:
            parts = (dram[way].get(one["tensor"], 0) for way in ("read", "write"))
            assert one["dram_bytes"] == sum(parts)
    assert json.loads(json.dumps(page, allow_nan=False)) == page


def test_what_softmax_makes_in_place_is_used_as_its_input(fused: ExperimentResult) -> None:
    """The array reads P where S was: 4 columns take each element."""
    reuse = {each.tensor: each for each in explain(fused)[0].reuse}
    assert "P" not in reuse
    assert reuse["S"].macs_per_element_sent == 4
    assert reuse["S"].dram_bytes == 0


def test_a_fused_group_is_told_by_operator_softmax_by_its_passes(fused: ExperimentResult) -> None:
    """Of 2 heads of 8 x 8 scores, each by 2 passes of 4 lanes, as flat cuts the softmax."""
    (one,) = explain(fused)
    first, softmax, second = one.directives.operators
    assert fused.accelerator.sfu.lanes == 4
    assert softmax.cycles == 2 * 2 * 8 * 8 // 4
    assert first.cycles is not None
    assert second.cycles is not None
    assert first.cycles + second.cycles >= fused.run.macs / 16
    assert one.directives.cycles == first.cycles + softmax.cycles + second.cycles


def test_a_fused_group_that_overlaps_is_told_apart_from_one_operator_after_the_other() -> None:
    longer = simulate(attention(SMALL, batch=1, seq_len=16, scope="la"), load_accelerator("toy"))
    (text,) = _assumptions(longer, "directives")
    assert "run one operator after the other" in text


def test_bytes_that_take_longer_than_the_array_are_the_directives_time() -> None:
    """One byte a cycle: 2 (6 x 4 + 4 x 5 + 6 x 5) bytes, each once."""
    workload = gemm(m=6, k=4, n=5)
    toy = load_accelerator("toy", ["dram.bandwidth_bytes_per_second=1 GB/s"])
    tree = TREE.replace("    loop m 40\n    loop n 16\n", "").replace(" x2", "")
    result = simulate(workload, toy, parse_text(tree.format(workload=workload)))
    (one,) = explain(result)
    assert toy.clock_hz == 10**9
    assert (one.directives.cycles, one.directives.memory) == (2 * (24 + 20 + 30), "dram")
    assert "at its full rate" in _assumptions(result, "directives")[0]


def test_what_waits_is_named_with_its_core() -> None:
    """In JSON it is the kind of the unit."""
    workload, toy = (
        gemm(m=100, k=64, n=48),
        load_accelerator("toy", ["cores.count=2", "buffer.capacity_bytes=64 KiB"]),
    )
    tree = TREE.replace("group gemm", "group gemm on core 1")
    result = simulate(workload, toy, parse_text(tree.format(workload=workload)))
    (text,) = _assumptions(result, "directives")
    assert "(the array of core 1 waits " in text
    (document,) = explanation_json(result, explain(result))["groups"]
    assert document["machine"]["unit"] == "array"


def test_directives_speak_where_the_mapping_was_written_so(
    convolution: tuple[ExperimentResult, tuple[GroupExplanation, ...]],
) -> None:
    """Cycles stand in docs/guide/directives.md. 4 clusters take an input, one PE a weight."""
    result, (one,) = convolution
    assert (result.run.cycles, one.directives.cycles) == (461_210, 2_308_847)
    told = {each.analysis: each for each in one.disagreements}["directives"]
    assert told.relative == pytest.approx(2_308_847 / 461_210 - 1)
    assert told.reason == "description"
    multicast = {each.tensor: each.multicast for each in one.reuse}
    assert multicast["CONV2.I"] == 4
    assert multicast["CONV2.W"] == 1
    assert multicast["CONV2.O"] is None


def test_directives_are_found_for_a_product_of_a_mapspace() -> None:
    """16 PEs on K, without limits: machine and directives both take MACs / 16 cycles."""
    result = simulate(gemm(m=64, k=16, n=32), load_accelerator("toy_linear"), "pfm")
    (one,) = explain(result)
    assert one.directives.cycles == result.run.cycles == 64 * 16 * 32 // 16
    assert (
        one.directives.operators[0].written
        == "TemporalMap(1,1) m; Cluster(16,P); SpatialMap(1,1) k"
    )
    assert not one.disagreements


def test_a_tree_speaks_without_the_directives_that_it_was_made_of(
    convolution: tuple[ExperimentResult, tuple[GroupExplanation, ...]], product: ExperimentResult
) -> None:
    """Its clusters pass on what one NoC brings: one first fill for all, as on the machine."""
    result, _ = convolution
    (tree,) = explain(result)
    assert (tree.directives.cycles or 0) >= 64 * 64 * 9 * 56 * 56 // 256
    assert abs((tree.directives.cycles or 0) - result.run.cycles) < 0.001 * result.run.cycles
    (folded,) = explain(product)
    assert folded.directives.cycles == folded.directives.operators[0].cycles


def test_silence_has_a_reason() -> None:
    """Three factors: MAESTRO's layers have an input and a filter."""
    of = small(einsum("one", "C m", "A m k", "B k", "V m", m=4, k=3))
    tree = """
        group one
          loop m 1
          keep A pe, B pe, C pe
          do one mac
    """
    (one,) = explain(simulate(of, load_accelerator("toy_linear"), mapping(of, tree)))
    assert one.directives.cycles is None
    assert one.directives.silent == "3 inputs: the notation has one input and one filter"


def test_bytes_of_the_directives_are_compared(product: ExperimentResult) -> None:
    """100 x 64 elements of A once, 64 x 48 of B for each of 3 pieces of m; then one byte more."""
    (one,) = explain(product)
    told = {each.tensor: each.directives_dram_bytes for each in one.reuse}
    assert told == {"A": 2 * 6400, "B": 3 * 2 * 64 * 48, "C": 2 * 4800}
    assert all(each.directives_dram_bytes == each.dram_bytes for each in one.reuse)
    (found,) = against_directives(one.run, DirectiveRuntime(), {**told, "A": 12801})  # type: ignore[dict-item]
    assert (found.analysis, found.what, found.machine, found.other) == (
        *("directives", "DRAM bytes of A"),
        *(12800, 12801),
    )


@pytest.mark.parametrize(("percent", "times"), [(102, 0), (103, 1), (98, 0), (97, 1)])
def test_the_tolerance_of_cycles(product: ExperimentResult, percent: int, times: int) -> None:
    run, predicted = product.groups()[0]
    run = replace(run, cycles=10_000)
    there = replace(predicted, bound_terms={"array": 100 * percent})
    found = list(against_prediction(run, there))
    assert [each.what for each in found] == ["cycles"] * times
    spoken = list(against_directives(run, DirectiveRuntime(cycles=100 * percent), {}))
    assert [each.other for each in spoken] == [100 * percent] * times


def test_one_byte_is_a_disagreement(product: ExperimentResult) -> None:
    run, predicted = product.groups()[0]
    level = ("dram_read", "B")
    there = replace(
        predicted,
        bound_terms={"array": run.cycles},
        moved={**predicted.moved, level: predicted.moved[level] + 1},
    )
    (found,) = against_prediction(run, there)
    assert (found.what, found.other - found.machine) == ("dram_read bytes of B", 1)
    fewer = {key: n for key, n in predicted.moved.items() if key != level}
    (found,) = against_prediction(run, replace(there, moved=fewer))
    assert found.relative == -1
    extra = replace(there, moved={**predicted.moved, ("dram_read", "X"): 7})
    (found,) = against_prediction(run, extra)
    assert (found.machine, found.other, found.relative) == (0, 7, None)
    assert not list(against_floor(ByteBound(0, 0, None), []))


@pytest.mark.parametrize("dataflow", ["flat-r", *some(["naive-m", "flex-r"])])
def test_bounds_of_groups_add_up(dataflow: str) -> None:
    workload = attention(SMALL, batch=1, seq_len=5, scope="block")
    hw = load_accelerator("toy", ["buffer.capacity_bytes=1 KiB"])
    result = simulate(workload, hw, dataflow)
    found = explain(result)
    assert [one.run.name for one in found] == [one.name for one in result.run.operators]
    last = [one for one in found if one.run.name == one.together[-1]]
    assert sum(one.floor.least_bytes for one in last) == result.floor.least_bytes
    assert sum(one.floor.compulsory_bytes for one in last) == result.floor.compulsory_bytes
    for one in last:
        moved = sum(each.dram_bytes for each in found if each.run.name in one.together)
        assert moved >= one.floor.least_bytes
        said = [each.what for each in one.disagreements]
        assert any(what.startswith("DRAM bytes") for what in said) == (
            moved > one.floor.least_bytes
        )


def test_an_operator_that_runs_once_has_its_bytes_once() -> None:
    """``a`` runs 5 times and ``b`` once; each moves two inputs and an output of 2 bytes."""
    base = layers_workload("two", {"a": Product(m=8, k=4, n=6), "b": Product(m=9, k=7, n=5)})
    workload = replace(base, repeat=5, once=frozenset({"b"}))
    result = simulate(workload, load_accelerator("toy"), "naive")
    found = floors_of(workload, result.mapping, on_chip_bytes(result.accelerator))
    once = {names: floor.compulsory_bytes for names, floor in found}
    assert once == {("a",): 5 * 2 * (8 * 4 + 4 * 6 + 8 * 6), ("b",): 2 * (9 * 7 + 7 * 5 + 9 * 5)}
    assert result.floor.compulsory_bytes == sum(once.values())
    assert compulsory_bytes(workload, [["a"], ["b"]]) == sum(once.values())
    moved = dram_total(result.run.moved)
    assert moved >= result.floor.least_bytes


def test_html_escapes_and_has_every_row(product: ExperimentResult) -> None:
    evil = "<script>alert('&')</script>"
    table = tabulate([{"a": evil, "b": "{x}"}], (Column("a", "a", kind="text"), Column("b", "b")))
    page = explanation_html(evil, explain(product), {evil: table}, [evil])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;") == 5
    sections = explanation_sections(explain(product))
    page = explanation_html("a title", explain(product), sections, [])
    rows = sum(one.row_count for one in sections.values())
    heads = sum(bool(one.row_count) for one in sections.values())
    assert page.count("<tr>") == rows + heads


def test_a_relative_difference_needs_something_to_be_relative_to() -> None:
    kwargs: dict[str, Any] = {"analysis": "v", "what": "w", "unit": "bytes", "reason": "loops"}
    assert Disagreement(machine=4, other=1, **kwargs).relative == -0.75


def test_a_difference_is_shared_out_by_runs_with_its_assumptions_changed(
    product: ExperimentResult,
) -> None:
    """The first share is what the accelerator without that latency saves; nothing is left."""
    (one,) = attribute(product, explain(product))
    told = next(each for each in one.disagreements if each.analysis == "directives")
    shares = {each.assumption: each.amount for each in told.shares}
    toy = load_accelerator("toy", ["buffer.capacity_bytes=64 KiB", "dram.latency_cycles=0"])
    without = simulate(product.workload, toy, product.mapping)
    assert shares["no DRAM latency"] == without.run.cycles - product.run.cycles < 0
    said = one.directives.operators[0]
    assert shares["first fills through the NoC"] == said.transfers
    assert told.rest == 0


def test_bytes_are_shared_out_by_tensor(product: ExperimentResult) -> None:
    """B of 3,072 elements of 2 bytes comes two times more than once."""
    (one,) = explain(product)
    (told,) = (each for each in one.disagreements if each.what == "DRAM bytes")
    assert [(each.assumption, each.amount) for each in told.shares] == [
        (RepeatedTransfer("B", Fraction(3), (("m", 40),)), -2 * 2 * 3072)
    ]
    assert told.rest == 0


def test_a_streaming_array_takes_as_long_as_its_folds_stream(product: ExperimentResult) -> None:
    """100 rows stream through 64 / 4 folds of each of 48 / 4 strips."""
    toy = streaming(product.accelerator)
    assert toy.systolic.gemm_cycles(m=100, k=64, n=48, stationarity="ws") == 100 * 16 * 12


def test_shares_stand_on_the_page(fused: ExperimentResult) -> None:
    explained = attribute(fused, explain(fused))
    told = [each for each in explained[0].disagreements if each.shares and each.unit == "cycles"]
    assert told
    page = explanation_json(fused, explained)["groups"][0]["disagreements"]
    for each, written in zip(explained[0].disagreements, page, strict=True):
        if each.shares:
            whole = sum(written["shares"].values()) + written["unexplained"]
            assert whole == written["other"] - written["machine"]
    _, differences, *_ = explanation_sections(explained).values()
    texts = [str(cell) for cell in differences.columns[-1].cells]
    assert sum("unexplained" in text for text in texts) == len(told)


def test_bars_of_shares_end_where_the_difference_is(product: ExperimentResult) -> None:
    """Bars to the right less bars to the left are the whole difference, in % of the machine."""
    assert shared_groups(explain(product)) == []
    rows = shared_groups(attribute(product, explain(product)))
    assert [name for name, _ in rows] == ["gemm"]
    with style():
        (axes,) = draw_shares(rows).axes
    widths = [patch.get_width() for bars in axes.containers for patch in bars]
    assert sum(widths) == pytest.approx(100 * (21_246 / 22_317 - 1))
    assert min(widths) < 0 < max(widths)
