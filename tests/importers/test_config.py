"""Hugging Face's config.json: sizes of published models, and what becomes of every key.

The sizes are those of the model cards' files; MACs are counted by hand.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simaccel import load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.errors import InputError
from simaccel.importers.hugging_face.config import load_config
from simaccel.importers.workloads import load_workload
from simaccel.study.generation import generate
from simaccel.workload import find_transformer, parse_workload, transformer
from tests.data_files import data_beside
from tests.importers.test_published_models import MODELS, write_config
from tests.refusals import refusal_of

DATA = data_beside(__file__)

PUBLISHED = {name: model["config"] for name, model in MODELS.items()}
LLAMA3, MIXTRAL = PUBLISHED["Llama-3-8B"], PUBLISHED["Mixtral"]
MISTRAL, QWEN = PUBLISHED["Mistral-7B"], PUBLISHED["Qwen2.5-7B"]
GEMMA2, GPT2, BERT = PUBLISHED["gemma-2-9b"], PUBLISHED["gpt2"], PUBLISHED["bert-base"]
VIT = PUBLISHED["vit-base-patch16"] | {"id2label": {str(at): f"LABEL_{at}" for at in range(1000)}}
T5_SMALL = PUBLISHED["t5-small"]
T5 = T5_SMALL | {"d_ff": 3072, "d_model": 768, "num_heads": 12, "num_layers": 12}
T5 |= {"num_decoder_layers": 12, "feed_forward_proj": "gated-gelu", "dropout_rate": 0.1}


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("llama3-8b", LLAMA3),
        ("mistral-7b", MISTRAL),
        ("mixtral-8x7b", MIXTRAL),
        ("qwen2.5-7b", QWEN),
        ("gemma2-9b", GEMMA2),
        ("gpt2", GPT2),
        ("vit-b16", VIT),
    ],
)
def test_published_files_are_the_published_models(
    tmp_path: Path, name: str, document: dict[str, Any]
) -> None:
    model, account = load_config(write_config(tmp_path, document))
    known = find_transformer(name)
    same: dict[str, Any] = {"name": name, "aliases": known.aliases, "source": known.source}
    if name == "gemma2-9b":
        same["score_scale"] = known.score_scale  # 256 ** -0.5, which is the usual of its heads
        assert model.scale == known.scale
        # the first layer has the window in both
        assert model.windows == (4096, None)
    assert replace(model, **same) == known
    assert not account.entries_of("not taken")
    every = {one.name for one in account.entries}
    assert every >= set(document)


@pytest.mark.parametrize("document", [LLAMA3, MIXTRAL, GEMMA2, GPT2, BERT, T5, VIT])
def test_a_key_that_nobody_knows_is_named(tmp_path: Path, document: dict[str, Any]) -> None:
    before = load_config(write_config(tmp_path, document))[1].entries_of("not taken")
    found = load_config(write_config(tmp_path, document | {"hiden_size": 7, "mixture": {"a": 1}}))[
        1
    ]
    new = [one.name for one in found.entries_of("not taken") if one not in before]
    assert new == ["hiden_size", "mixture"]


def test_a_key_is_taken_only_if_it_is_read(tmp_path: Path) -> None:
    """Of two names of a size the first is read; OLMo's clip, unless null, would be another pass."""
    for extra, left in (
        ({"n_embd": 4096}, []),
        ({"n_embd": 7}, ["n_embd"]),
        ({"model_type": "olmoe", "clip_qkv": None}, []),
        ({"model_type": "olmoe", "clip_qkv": 8.0}, ["clip_qkv"]),
        ({"model_type": "chatglm", "rope_ratio": 500, "rmsnorm": True}, []),
    ):
        entries = load_config(write_config(tmp_path, LLAMA3 | extra))[1].entries_of("not taken")
        assert [one.name for one in entries if one.name in LLAMA3 | extra] == left
    model, _ = load_config(
        write_config(tmp_path, LLAMA3 | {"model_type": "chatglm", "rmsnorm": False})
    )
    assert model.norm == "layer_norm"


def test_bert_sees_all_tokens_and_keeps_no_cache(tmp_path: Path) -> None:
    path = write_config(tmp_path, BERT)
    found = load_workload(path, prompt=128)
    n, e, f = 128, 768, 3072
    assert found.macs == n * (4 * e * e + 2 * e * f) + 2 * n * n * e
    assert not [one for one in found.tensors.values() if one.kind == "cache"]
    whole = load_workload(path, prompt=128, scope="model")
    assert whole.macs == 12 * found.macs
    with pytest.raises(InputError, match="an encoder's input comes at once"):
        load_workload(path, phase="decode")
    with pytest.raises(InputError, match="prompt: got 513; allowed: at most 512, with"):
        load_workload(path, prompt=513)


def test_t5_encodes_a_prompt_and_decodes_behind_it(tmp_path: Path) -> None:
    path = write_config(tmp_path, T5)
    n, e, f = 64, 768, 3072
    layer = n * (4 * e * e + 3 * e * f) + 2 * n * n * e
    assert load_workload(path, prompt=n).macs == layer
    whole = load_workload(path, prompt=n, scope="model")
    assert whole.macs == 12 * layer + 2 * 12 * n * e * e  # keys and values of each decoder layer
    assert whole.shapes["cross.K"] == (12, 1, n, 12, 64)
    assert "rotary" not in {getattr(one, "kind", "") for one in whole.operators}
    step = load_workload(path, prompt=n, phase="decode", kv_len=10, scope="model")
    mine, seen = 4 * e * e + 2 * 11 * e, 2 * e * e + 2 * n * e  # Q, K, V, O; Q and O of the other
    assert step.macs == 12 * (mine + seen + 3 * e * f) + e * 32128
    assert step.tensors["cross.K"].kind == "cache"
    assert step.shapes["cross.K"] == (1, n, 12, 64)
    for workload in (whole, step):
        workload.account.require_modelled()
        assert [one.name for one in workload.account.entries_of("not taken")] == [
            "relative positions"
        ]
        assert parse_workload(dict(workload.parameters)).macs == workload.macs


def test_an_encoder_alone_has_no_decoder(tmp_path: Path) -> None:
    path = write_config(tmp_path, T5_SMALL | {"architectures": ["T5EncoderModel"]})
    model, _ = load_config(path)
    assert model.decoder_layers == 0
    with pytest.raises(InputError, match="an encoder's input comes at once"):
        load_workload(path, phase="decode")


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_small_t5_runs_and_computes_what_it_says(tmp_path: Path, phase: str) -> None:
    sizes = {"d_ff": 12, "d_kv": 4, "d_model": 8, "num_heads": 2, "num_layers": 2}
    more = {"num_decoder_layers": 3, "vocab_size": 64}
    path = write_config(tmp_path, T5_SMALL | sizes | more)
    workload = load_workload(path, prompt=6, phase=phase, scope="model")
    assert workload.repeat == (3 if phase == "decode" else 2)
    result = simulate(workload, load_accelerator("edge"), "naive-m")
    assert check(workload, result.mapping, result.program)


def test_a_generation_is_of_a_decoder_alone(tmp_path: Path) -> None:
    model, _ = load_config(write_config(tmp_path, T5_SMALL))
    with pytest.raises(InputError, match="a decoder alone: for an encoder with a decoder"):
        generate(model, load_accelerator("edge"), tokens=4)


def test_layers_of_several_windows(tmp_path: Path) -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    gemma3 = GEMMA2 | {"model_type": "gemma3_text", "layer_types": 2 * kinds}
    gemma3["num_hidden_layers"] = 12
    del gemma3["attn_logit_softcapping"], gemma3["final_logit_softcapping"]
    model, account = load_config(write_config(tmp_path, gemma3))
    assert model.windows == (4096,) * 5 + (None,)
    assert model.head_norms
    assert not account.entries_of("not taken")
    inner = {"model_type": "gemma3", "text_config": gemma3, "vision_config": {"hidden_size": 3}}
    path = write_config(tmp_path, inner)
    assert replace(load_config(path)[0], source="") == replace(model, source="")
    load_workload(path).account.require_modelled()
    with pytest.raises(InputError, match="vision_config"):
        load_workload(path, scope="model").account.require_modelled()


def test_experts_and_what_is_beside_them(tmp_path: Path) -> None:
    moe = QWEN | {
        "model_type": "qwen2_moe",
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
    }
    model, account = load_config(write_config(tmp_path, moe))
    assert (model.experts, model.chosen, model.ff_size) == (60, 4, 1408)
    assert (model.shared_ff, model.shared_gate) == (5632, True)
    assert not list(account.entries_of("not taken"))


def test_a_number_of_experts_in_a_file(tmp_path: Path) -> None:
    """`experts` of a file is their number, or how tokens are spread, where expert_count says it."""
    path = tmp_path / "moe.yaml"
    own = f"{OWN}\nexperts_per_token: 2\nexperts: 8\n"
    path.write_text(own)
    read = load_workload(path)
    path.write_text(own.replace("experts: 8", "expert_count: 8"))
    assert load_workload(path).fingerprint == read.fingerprint
    assert read.operator("router").ranks["x"] == 8
    path.write_text(f"{own}expert_count: 4\n")
    with pytest.raises(InputError, match="experts: got 8; allowed: the same as expert_count, 4"):
        load_workload(path)


DEIT = VIT | {"model_type": "deit", "architectures": ["DeiTForImageClassificationWithTeacher"]}
GEMMA3_4B = {
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152},
}
LLAVA = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "rms_norm_eps": 1e-05, "vocab_size": 32064},
    "vision_config": {"hidden_size": 1024},
}


@pytest.mark.parametrize(
    ("document", "published", "beside"),
    [
        (DEIT, 87_338_192, 769 * 1000),  # the classifier of the token of distillation
        (GEMMA3_4B, 3_880_263_168, 0),  # the text alone
        (LLAVA, 6_738_415_616 + 2 * 64 * 4096, 0),  # Llama 2 7B, with 64 more words
    ],
)
def test_parts_of_several_models_have_the_published_parameters(
    tmp_path: Path, document: dict[str, Any], published: int, beside: int
) -> None:
    assert load_config(write_config(tmp_path, document))[0].parameters + beside == published


def test_what_stands_behind_bert_is_named(tmp_path: Path) -> None:
    for kind, name in (("Model", "pooler"), ("ForMaskedLM", "head")):
        path = write_config(tmp_path, BERT | {"architectures": [f"Bert{kind}"]})
        account = load_workload(path, scope="model").account
        assert {one.name: one.macs for one in account.entries_of("not taken")}[name] == 768 * 768


def test_deit_has_a_token_more(tmp_path: Path) -> None:
    workload = load_workload(write_config(tmp_path, DEIT), scope="model")
    n, e, f = 198, 768, 3072
    layer = n * (4 * e * e + 2 * e * f) + 2 * n * n * e
    assert workload.macs == 12 * layer + 196 * e * e + e * 1000
    left = {one.name: one.macs for one in workload.account.entries_of("not taken")}
    assert left["distillation_classifier"] == e * 1000
    workload.account.require_modelled()


def test_bert_as_a_decoder_is_causal(tmp_path: Path) -> None:
    model, _ = load_config(write_config(tmp_path, BERT | {"is_decoder": True}))
    assert model.causal
    assert not load_config(write_config(tmp_path, BERT))[0].causal


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (GPT2 | {"add_cross_attention": True}, "add_cross_attention"),
        (BERT | {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ],
)
def test_what_multiplies_beside_the_blocks_is_refused(
    tmp_path: Path, document: dict[str, Any], key: str
) -> None:
    workload = load_workload(write_config(tmp_path, document), prompt=64, scope="model")
    with pytest.raises(InputError, match=key):
        workload.account.require_modelled()


def test_the_first_layers_of_qwen_have_no_window(tmp_path: Path) -> None:
    some = QWEN | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}
    model, account = load_config(write_config(tmp_path, some))
    assert model.windows == (None,) * 20 + (4096,) * 8
    assert not account.entries_of("not taken")


def test_a_window_that_a_file_leaves_out_is_the_families(tmp_path: Path) -> None:
    left_out = {name: value for name, value in MISTRAL.items() if name != "sliding_window"}
    assert load_config(write_config(tmp_path, left_out))[0].windows == (4096,)
    assert load_config(write_config(tmp_path, MISTRAL | {"sliding_window": None}))[0].windows == (
        None,
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": None}, "hidden_size: got nothing; allowed: a whole number from 1"),
        ({"hidden_size": "big"}, "hidden_size: got 'big'; allowed: a whole number"),
        ({"hidden_act": "tanh"}, "hidden_act: got 'tanh'"),
        ({"num_key_value_heads": 5}, "config.json: num_key_value_heads: got 5; allowed: a divi"),
        ({"head_dim": 81}, "config.json: head_dim: got 81; allowed: an even number"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    assert said in refusal_of(load_workload, write_config(tmp_path, LLAMA3 | change))


@pytest.mark.parametrize("text", ["", "[1]", '{"model_type":', "[" * 100_000])
def test_what_is_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        load_workload(path)


OWN = """kind: transformer
name: small-lm
hidden: 512
heads: 8
kv_heads: 2
head_size: 64
ff_size: 1536
layers: 6
vocabulary: 32000
phase: decode
kv_len: 256
"""


def test_a_transformer_of_ones_own_in_a_file(tmp_path: Path) -> None:
    """Q and O 2 x 512 x 512, K and V 2 x 512 x 128, L and A 2 x 257 x 512, 3 x 512 x 1536."""
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    found = load_workload(path)
    assert found.macs == 3_277_824
    again = parse_workload(dict(found.parameters))
    assert (again.fingerprint, again.macs) == (found.fingerprint, 3_277_824)
    assert "model" not in found.parameters
    path.write_text(OWN + "scope: model\n")
    assert load_workload(path).macs == 6 * 3_277_824 + 512 * 32000


def test_one_from_python_that_has_the_name_of_another_is_not_looked_up() -> None:
    model = replace(find_transformer("llama3-8b"), hidden=512, heads=8, kv_heads=2, head_size=64)
    made = transformer(replace(model, ff_size=1536), phase="decode", kv_len=256)
    assert made.macs == 3_277_824
    assert parse_workload(dict(made.parameters)).fingerprint == made.fingerprint


@pytest.mark.parametrize(("line", "said"), DATA["sizes"])
def test_sizes_that_do_not_go_together(tmp_path: Path, line: str, said: str) -> None:
    key = line.partition(":")[0]
    kept = "\n".join(one for one in OWN.splitlines() if not one.startswith(f"{key}:"))
    path = tmp_path / "own.yaml"
    path.write_text(f"{kept}\n{line}\n")
    assert said in refusal_of(load_workload, path)


def test_a_configuration_is_called_by_its_file_or_by_the_folder_of_a_config_json(
    tmp_path: Path,
) -> None:
    sizes = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 10}
    sizes |= {"num_attention_heads": 4, "intermediate_size": 96}
    for name, called in (("config.json", "tiny"), ("tiny-2.json", "tiny-2")):
        path = tmp_path / "tiny" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(sizes))
        assert load_config(path)[0].name == called
