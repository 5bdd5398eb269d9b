"""Sizes, MACs and bytes of transformers against what their authors publish."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.workload import TRANSFORMERS, Transformer, class_of, find_transformer, transformer
from simaccel.workload.language.experts import expert_counts
from simaccel.workload.language.phase import PhaseTokens
from tests.data_files import data_beside
from tests.refusals import faults_of, refusal_of
from tests.workload.language.reference import small, weights_read, weights_unread

DATA = data_beside(__file__)

PUBLISHED = {
    # Touvron et al. 2023 say 6.7B, the Llama 3 and Mistral papers 8B, 70B and 7B; to the parameter
    # as in the indexes of the authors' weights (bytes divided by two)
    "llama2-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-7b": 7_615_616_512,
    "mixtral-8x7b": 46_702_792_704,
    # arXiv:2408.00118, table 2, non-embedding parameters, and the 256,000 words of the published
    # configuration: as in the index of the weights
    "gemma2-9b": 256_000 * 3584 + 8_324_201_984,
    # github.com/openai/gpt-2: 124M (the paper's 117M was corrected there)
    "gpt2": 124_439_808,
    # torchvision.models.vit_b_16, num_params
    "vit-b16": 86_567_656,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_the_authors_publish(name: str) -> None:
    assert find_transformer(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize(("name", "billions"), [("gpt3-6.7b", 6.7), ("gpt3-175b", 175.0)])
def test_parameters_of_gpt3(name: str, billions: float) -> None:
    """Table 2.1 of arXiv:2005.14165 has two and four digits."""
    assert find_transformer(name).parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_active_parameters_of_mixtral() -> None:
    """arXiv:2401.04088: 47B parameters, of which a token uses 13B."""
    assert round(find_transformer("mixtral").parameters / 1e9) == 47
    assert round(find_transformer("mixtral").active_parameters / 1e9) == 13


@pytest.mark.parametrize("model", TRANSFORMERS.values(), ids=lambda one: one.name)
def test_a_run_reads_all_weights_but_unused_rows_of_tables(model: Transformer) -> None:
    assert weights_read(model, 16) == model.parameters - weights_unread(model, 16)


def test_macs_of_a_vision_transformer() -> None:
    """torchvision.models.vit_b_16 publishes 17.564 GFLOPS, counting a MAC as one."""
    assert transformer("vit-b16", scope="model").macs / 1e9 == pytest.approx(17.564, abs=5e-4)


@pytest.mark.parametrize("name", ["llama2-7b", "llama3-8b", "qwen2.5-7b", "gemma2-9b", "gpt2"])
def test_macs_of_a_decode_step(name: str) -> None:
    """A MAC for each weight that multiplies, and two for each element of K and query head."""
    model, past = find_transformer(name), 700
    matrices = (
        model.layers * model.hidden * (2 * model.heads + 2 * model.kv_heads) * model.head_size
    )
    matrices += model.layers * (2 + model.gated) * model.hidden * model.ff_size
    matrices += model.hidden * model.vocabulary
    attention = 2 * model.layers * model.heads * model.head_size * (past + 1)
    workload = transformer(model, phase="decode", kv_len=past, scope="model")
    assert workload.macs == matrices + attention


@pytest.mark.parametrize(("name", "kib"), [("llama2-7b", 512), ("llama3-8b", 128), ("gpt3", 4608)])
def test_bytes_of_the_cache_per_token(name: str, kib: int) -> None:
    """2 (K and V) x layers x heads of K x head size x 2 B: 0.5 MiB for Llama 2 7B."""
    model, past = find_transformer(name), 99
    workload = transformer(model, phase="decode", kv_len=past, scope="model")
    cached = [one for one, tensor in workload.tensors.items() if class_of(tensor.kind) == "cache"]
    total = workload.repeat * sum(map(workload.tensor_bytes, cached))
    assert total == (past + 1) * kib * 1024


def test_a_window_bounds_the_cache() -> None:
    for past, keys in ((100, 101), (4095, 4096), (9000, 4096)):
        workload = transformer("mistral-7b", phase="decode", kv_len=past)
        assert workload.shapes["K"][1] == keys
    shapes = transformer("gemma2-9b", phase="decode", kv_len=9000).shapes
    assert (shapes["layer0.K"][1], shapes["layer1.K"][1]) == (4096, 9001)


@given(
    st.integers(1, 400),
    st.integers(0, 300),
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 300)),
)
def test_row_blocks_see_what_each_row_sees(
    rows: int, past: int, blocks: int, window: int | None
) -> None:
    tokens = PhaseTokens(batch=1, rows=rows, past=past, blocks=blocks)
    offset, seen = tokens.first_key(window), 0
    count = 0
    for block in tokens.row_blocks(window):
        count += 1
        for row in range(block.rows):
            position = past + block.first + row
            low = 0 if window is None else max(0, position + 1 - window)
            if block.visible is None:
                found = range(block.keys)
            else:
                last = row + block.visible.before
                width = block.visible.window
                first = 0 if width is None else max(0, last + 1 - width)
                found = range(first, min(last + 1, block.keys))
            first_key = offset + block.first_key
            assert (first_key + found.start, first_key + found.stop) == (low, position + 1)
            seen += len(found)
    expected = sum(
        past + row + 1 if window is None else min(past + row + 1, window) for row in range(rows)
    )
    assert (seen, count <= blocks) == (expected, True)


def test_a_causal_mask_halves_the_work_of_attention() -> None:
    def macs(blocks: int) -> int:
        workload = transformer("llama3-8b", prompt=1024, scope="la", causal_blocks=blocks)
        return workload.macs

    assert [macs(blocks) / macs(1) for blocks in (2, 4, 8)] == [0.75, 0.625, 0.5625]


def test_experts_get_tokens() -> None:
    assert expert_counts("uniform", 8, 2, 4) == [1] * 8
    drawn = expert_counts("drawn:7", 8, 2, 100)
    assert (sum(drawn), max(drawn) <= 100, drawn == expert_counts("drawn:7", 8, 2, 100)) == (
        200,
        True,
        True,
    )
    assert drawn != expert_counts("drawn:8", 8, 2, 100)


@pytest.mark.parametrize(
    ("counts", "prompt", "gates"),
    [
        ([0, 3, 3, 0, 0, 0, 0, 0], 3, {"experts.gate": (2, 3)}),
        ([1, 0, 3, 1, 0, 1, 0, 0], 3, {"experts0.gate": (1, 3), "experts1.gate": (3, 1)}),
    ],
)
def test_experts_with_as_many_tokens_are_one_operator(
    counts: list[int], prompt: int, gates: dict[str, tuple[int, int]]
) -> None:
    """MACs are those of six tokens, weights those of the experts that have any."""
    workload = transformer("mixtral", prompt=prompt, experts=counts)
    found = {
        operator.name: (operator.ranks["x"], operator.ranks.get("t", 1))
        for operator in workload.operators
        if operator.name.endswith("gate")
    }
    assert found == gates
    used = sum(count > 0 for count in counts)
    assert workload.shapes["experts.Wgate"] == (used, 4096, 14336)
    macs = sum(op.macs for op in workload.operators if op.name.startswith("experts"))
    assert macs == sum(counts) * 3 * 4096 * 14336


def test_element_sizes_by_class_and_tensor() -> None:
    workload = transformer(
        "llama3-8b", bytes_by_tensor={"weights": 1, "cache": 1, "activations": 2, "S": 4}, prompt=9
    )
    widths = {name: one.bytes_per_element for name, one in workload.tensors.items()}
    assert (widths["Wq"], widths["K"], widths["Q"], widths["S"]) == (1, 1, 2, 4)


@pytest.mark.parametrize(("asked", "said"), DATA["refused"])
def test_wrong_questions_are_refused(asked: dict[str, Any], said: str) -> None:
    assert said in refusal_of(transformer, "mixtral", **asked)


def test_positions_that_were_never_learned_are_refused() -> None:
    for sizes, text in (
        ({"phase": "decode", "kv_len": 1024}, "kv_len: got 1024; allowed: at most 1023, with 1024"),
        ({"prompt": 100, "kv_len": 1000}, "kv_len: got 1000; allowed: at most 924, with 1024"),
        ({"prompt": 1025}, "prompt: got 1025; allowed: at most 1024, with 1024"),
        ({"prompt": 1025, "kv_len": 5}, "prompt: got 1025; allowed: at most 1024, with 1024"),
    ):
        with pytest.raises(InputError, match=f"gpt2: {text} positions in all"):
            transformer("gpt2", **sizes)
    assert transformer("gpt2", phase="decode", kv_len=1023).macs


def test_images_have_no_cache() -> None:
    found = faults_of(transformer, "vit-b16", phase="decode", kv_len=3)
    assert [one.field for one in found] == ["phase", "kv_len"]


def test_models_of_ones_own_are_checked_when_they_are_built() -> None:
    assert transformer(small(), prompt=5).macs > 0
