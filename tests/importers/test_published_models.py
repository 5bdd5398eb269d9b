"""Published models by the sizes of their config.json: parameters, weights, what is refused."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.files.documents import parse_document
from simaccel.importers.hugging_face.config import load_config
from simaccel.importers.hugging_face.families import FAMILIES
from simaccel.importers.workloads import load_workload
from simaccel.workload import transformer
from tests.draws import DRAWS
from tests.refusals import faults_of
from tests.workload.language.reference import weights_read, weights_unread

MODELS: Final[dict[str, Any]] = parse_document(
    (Path(__file__).parent / "published_models.yaml").read_text()
)
MOST_LAYERS, TOKENS = 4, 32


def write_config(folder: Path, document: object) -> Path:
    """Write a configuration as Hugging Face has it."""
    path = folder / "config.json"
    path.write_text(json.dumps(document, indent="\t"))
    return path


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_the_published_ones(tmp_path: Path, name: str) -> None:
    published = MODELS[name]
    model, account = load_config(write_config(tmp_path, published["config"]))
    left = " ".join(entry.why for entry in account.entries_of("not taken"))
    beside = sum(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) parameters", left))
    assert beside == published.get("beside", 0)
    assert model.parameters + beside == published["parameters"]
    assert "not read" not in left


def test_there_are_30_models_of_15_families() -> None:
    families = {published["config"]["model_type"] for published in MODELS.values()}
    assert len(MODELS) >= 30
    assert len(families) >= 15
    assert families <= {*FAMILIES, "gemma3_text"}


@pytest.mark.parametrize(
    "name", [name for name in MODELS if not re.match("bert|roberta|distil|t5|flan|umt5|vit", name)]
)
def test_a_prefill_reads_all_parameters(tmp_path: Path, name: str) -> None:
    """But of the tables of tokens and positions those of these tokens; tied ones are read whole."""
    config = dict(MODELS[name]["config"])
    for key in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        if key in config:
            config[key] = min(config[key], MOST_LAYERS)
    model, _ = load_config(write_config(tmp_path, config))
    assert weights_read(model, TOKENS) == model.parameters - weights_unread(model, TOKENS)


def test_layers_without_experts_by_the_keys_of_families(tmp_path: Path) -> None:
    """DeepSeek-MoE's first layer is dense, of 10,944; a token uses 2,828,650,496 of its parameters.

    So says its authors' page. Other keys, of six layers: Qwen's every second from the second on,
    and none in the last; DeepSeek's every third from the first on; Ernie's second to fourth.
    """
    name = "deepseek-moe-16b"
    model, _ = load_config(write_config(tmp_path, MODELS[name]["config"]))
    assert (model.dense, model.dense_ff) == ((True, *[False] * 27), 10944)
    assert model.active_parameters == 2_828_650_496
    plain = {k: v for k, v in MODELS[name]["config"].items() if k != "first_k_dense_replace"}
    for keys, dense in (
        ({"decoder_sparse_step": 2, "mlp_only_layers": [5]}, "101011"),
        ({"moe_layer_freq": 3}, "011011"),
        ({"moe_layer_freq": [0, 1, 1, 0, 1, 1]}, "100100"),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 3}, "100011"),
        ({"moe_layer_interval": 1, "moe_layer_end_index": -1}, "000000"),
    ):
        model, account = load_config(
            write_config(tmp_path, plain | {"num_hidden_layers": 6} | keys)
        )
        found = [model.dense[at % len(model.dense)] for at in range(6)]
        assert found == [flag == "1" for flag in dense], keys
        assert not account.entries_of("not taken")
    model, _ = load_config(write_config(tmp_path, plain | {"first_k_dense_replace": 28}))
    assert (model.experts, model.ff_size) == (0, 10944)


SMALL_GPT_OSS: dict[str, Any] = {
    "model_type": "gpt_oss",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
    "attention_bias": True,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


def test_gpt_oss_in_small_by_hand(tmp_path: Path) -> None:
    """Count 158,416 parameters, of which 8 sinks are named, and the MACs of a decode step.

    A layer: Q 4,160, K and V 2,080 each, O 4,160, sinks 4, router 260, experts 49,920, norms 128;
    then the last norm of 64 and two tables of 16,384. A token multiplies 12,288 of attention, 256
    of the router and two experts of 12,288 in each layer, then the table; beside these it sees 16
    and 21 keys of 4 heads of 16, twice.
    """
    path = write_config(tmp_path, SMALL_GPT_OSS)
    model, account = load_config(path)
    assert model.parameters == 158_416 - 8
    assert model.windows == (16, None)
    (sinks,) = account.entries_of("not taken")
    assert (sinks.name, ": 8 parameters, 5e-05 of all" in sinks.why) == ("sinks", True)
    step = load_workload(path, phase="decode", kv_len=20, scope="model")
    assert step.macs == 90_624 + 2 * (16 + 21) * 4 * 16


def test_a_family_that_nobody_knows_is_built_by_its_sizes(tmp_path: Path) -> None:
    known = MODELS["Llama-3-8B"]["config"]
    path = write_config(tmp_path, known | {"model_type": "lama", "kv_pooling_lora": 8})
    model, account = load_config(path)
    assert model.parameters == MODELS["Llama-3-8B"]["parameters"]
    left = {entry.name: entry for entry in account.entries_of("not taken")}
    assert "lama isn't known; did you mean 'llama'?" in left["model_type"].why
    assert "with a gate" in left["model_type"].why
    assert left["kv_pooling_lora"].macs is None  # so that it doesn't run without being asked
    with pytest.raises(InputError, match="kv_pooling_lora"):
        load_workload(path).account.require_modelled()


def test_keys_of_a_family_that_nobody_knows_say_norms_and_gate(tmp_path: Path) -> None:
    keys = {"layer_norm_eps": 1e-5, "activation_function": "gelu", "bias": True}
    known = MODELS["Llama-2-7B"]["config"] | {"model_type": "of-1999", **keys}
    model, _ = load_config(write_config(tmp_path, known))
    assert (model.norm, model.gated, model.biased) == ("layer_norm", False, ("qkv", "o", "ff"))


STRUCTURES: dict[str, tuple[dict[str, Any], str]] = {
    "MLA": ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "multi-head latent attention"),
    "MLA of another": ({"model_type": "kimi_k9", "kv_lora_rank": 512}, "kv_lora_rank: got 512"),
    "Llama 4": ({"model_type": "llama4_text"}, "Llama 4's attention by turns"),
    "Mamba": ({"model_type": "mamba", "state_size": 16}, "a state instead of a cache"),
    "a hybrid": ({"model_type": "new", "mamba_d_state": 64}, "a scan over tokens"),
    "linear": ({"layer_types": ["linear_attention"] * 32}, "no layers of linear_attention"),
    "Whisper": ({"model_type": "whisper"}, "cross-attention"),
    "BART": ({"model_type": "bart", "is_encoder_decoder": True}, "cross-attention"),
    "another": ({"model_type": "new", "is_encoder_decoder": True}, "is_encoder_decoder: got True"),
    "ALBERT": ({"model_type": "albert"}, "layers that share their weights"),
    "an encoder": ({"model_type": "new", "architectures": ["NewForMaskedLM"]}, "a decoder"),
    "nothing": ({"model_type": None}, "model_type: got nothing"),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_other_structures_are_refused_by_name(tmp_path: Path, name: str) -> None:
    change, said = STRUCTURES[name]
    path = write_config(tmp_path, MODELS["Llama-2-7B"]["config"] | change)
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert said in str(caught.value)
    assert len(caught.value.faults) == 1


def test_what_a_configuration_expands_to_is_bounded(tmp_path: Path) -> None:
    """Ten thousand layers that all differ, and more random numbers than memory has room for."""
    kinds = ["full_attention"] * 10_000
    for at in range(10_000):
        if (at * at) % 1_009 < 500:
            kinds[at] = "sliding_attention"
    long = {"num_hidden_layers": 10_000, "layer_types": kinds, "sliding_window": 8}
    path = write_config(tmp_path, SMALL_GPT_OSS | long)
    (fault,) = faults_of(load_workload, path, prompt=16, scope="model")
    assert str(fault).endswith("operators: got 10001; allowed: at most 10000 different ones")
    (fault,) = faults_of(transformer, "mixtral-8x7b", prompt=10**12, experts="drawn:3")
    assert str(fault).endswith("allowed: at most 2097152 tokens over 8 experts, or uniform")


SCALES: tuple[object, ...] = ("x", "", 0, -1, [], {}, 10**400, True)
WRONG: list[tuple[str, str, object, str]] = [
    ("Mistral-7B", "num_hidden_layers", 0, "a whole number from 1 to 10000"),
    ("Mistral-7B", "num_hidden_layers", -1, "a whole number from 1 to 10000"),
    ("Mistral-7B", "num_hidden_layers", 10**9, "a whole number from 1 to 10000"),
    ("Mistral-7B", "num_hidden_layers", 2.0, "a whole number from 1 to 10000"),
    ("Mistral-7B", "sliding_window", -1, "a whole number from 0"),
    ("Mistral-7B", "hidden_size", 2**41, "a whole number from 1 to 1099511627776"),
    ("Mistral-7B", "layer_types", ["full_attention"], "a list of 32 kinds"),
    ("Mistral-7B", "layer_types", 7, "a list of 32 kinds"),
    ("Mistral-7B", "hidden_act", 3, "text"),
    ("bert-base", "architectures", 3, "a list of names"),
    ("Mixtral", "num_local_experts", 10**9, "a whole number from 0 to 10000"),
    ("Mixtral", "mlp_only_layers", 3, "a list of numbers of layers"),
    ("Mixtral", "moe_layer_freq", [1, 0], "a number, or a list of 32 of 0 and 1"),
    ("Mixtral", "decoder_sparse_step", 0, "a whole number from 1"),
    *(
        ("gemma-2-9b", "query_pre_attn_scalar", value, "a number above 0, up to 1099511627776")
        for value in SCALES
    ),
    ("gemma-2-9b", "final_logit_softcapping", "30", "a number above 0"),
    ("gemma-2-9b", "sliding_window_pattern", 0, "a whole number from 1"),
    ("vit-base-patch16", "id2label", 1000, "a mapping from numbers to names"),
    ("vit-base-patch16", "image_size", 225, "a multiple of patch_size, 16"),
    ("t5-small", "feed_forward_proj", "gated-tanh", "did you mean 'gated-"),
    ("Llama-2-7B", "tie_word_embeddings", "false", "true or false"),
]


@pytest.mark.parametrize(("name", "key", "value", "allowed"), WRONG)
def test_a_wrong_value_is_named(
    tmp_path: Path, name: str, key: str, value: object, allowed: str
) -> None:
    path = write_config(tmp_path, MODELS[name]["config"] | {key: value})
    (fault,) = faults_of(load_config, path)
    assert (fault.field, fault.value) == (key, value)
    assert allowed in str(fault)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from([2**31, 2**63, 10**400, -1.5, 0.5, 1e300, float("nan"), "", "x", "silu"]),
    st.lists(st.one_of(st.integers(0, 3), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
SMALL: dict[str, Any] = {
    "hidden_size": 8,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 10,
    "intermediate_size": 12,
    "n_positions": 64,
    "max_position_embeddings": 64,
    "image_size": 32,
    "patch_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
KEYS: tuple[str, ...] = (
    *SMALL,
    *("sliding_window", "layer_types", "query_pre_attn_scalar", "id2label", "head_dim"),
    *("num_key_value_heads", "hidden_act", "architectures", "tie_word_embeddings", "bias"),
    *("max_window_layers", "attention_types", "attention_layers", "attn_config", "moe_layer_freq"),
    *("no_rope_layers", "partial_rotary_factor", "feed_forward_proj", "text_config", "alibi"),
    *("type_vocab_size", "shared_expert_intermediate_size", "expansion_ratio", "window_size"),
    *("first_k_dense_replace", "mlp_only_layers", "decoder_sparse_step", "moe_layer_end_index"),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=24 * DRAWS)
@given(
    family=st.sampled_from([*FAMILIES, "new"]),
    wrong=st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=3),
)
def test_any_value_is_taken_or_named(tmp_path: Path, family: str, wrong: dict[str, Any]) -> None:
    path = write_config(tmp_path, SMALL | {"model_type": family} | wrong)
    with suppress(InputError):
        assert load_workload(path, prompt=16, scope="model").macs > 0
