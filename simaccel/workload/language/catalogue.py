"""Published transformers with the sources of their sizes.

Parameters (`Transformer.parameters`) equal the counts that the authors publish; the tests have
them from other places than the sizes.
"""

from __future__ import annotations

from simaccel.errors import Fault, InputError, suggest
from simaccel.workload.language.model import Transformer

_GPT3 = (
    "Brown et al., Language Models are Few-Shot Learners, arXiv:2005.14165, table 2.1; vocabulary, "
    "biases and learned positions as in GPT-2; its alternating sparse attention is modelled dense"
)

TRANSFORMERS = (
    Transformer(
        name="llama2-7b",
        aliases=("llama-2-7b",),
        source="Touvron et al., Llama 2, arXiv:2307.09288; model card meta-llama/Llama-2-7b-hf, "
        "config.json",
        hidden=4096,
        layers=32,
        heads=32,
        kv_heads=32,
        head_size=128,
        ff_size=11008,
        vocabulary=32000,
    ),
    Transformer(
        name="llama3-8b",
        aliases=("llama-3-8b",),
        source="Grattafiori et al., The Llama 3 Herd of Models, arXiv:2407.21783, table 3; model "
        "card meta-llama/Meta-Llama-3-8B, config.json",
        hidden=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_size=128,
        ff_size=14336,
        vocabulary=128256,
    ),
    Transformer(
        name="llama3-70b",
        aliases=("llama-3-70b",),
        source="Grattafiori et al., The Llama 3 Herd of Models, arXiv:2407.21783, table 3; model "
        "card meta-llama/Meta-Llama-3-70B, config.json",
        hidden=8192,
        layers=80,
        heads=64,
        kv_heads=8,
        head_size=128,
        ff_size=28672,
        vocabulary=128256,
    ),
    Transformer(
        name="mistral-7b",
        aliases=("mistral-7b-v0.1",),
        source="Jiang et al., Mistral 7B, arXiv:2310.06825, table 1 (window of 4096)",
        hidden=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_size=128,
        ff_size=14336,
        vocabulary=32000,
        windows=(4096,),
    ),
    Transformer(
        name="qwen2.5-7b",
        aliases=("qwen2-7b",),
        source="Qwen2.5 Technical Report, arXiv:2412.15115, table 1; model card Qwen/Qwen2.5-7B, "
        "config.json (biases of Q, K and V)",
        hidden=3584,
        layers=28,
        heads=28,
        kv_heads=4,
        head_size=128,
        ff_size=18944,
        vocabulary=152064,
        biased=("qkv",),
    ),
    Transformer(
        name="gemma2-9b",
        aliases=("gemma-2-9b",),
        source="Gemma 2, arXiv:2408.00118, tables 1 and 2: windows of 4096 in every other layer, "
        "soft caps of 50 and 30, norms before and behind each sub-layer",
        hidden=3584,
        layers=42,
        heads=16,
        kv_heads=8,
        head_size=256,
        ff_size=14336,
        vocabulary=256128,
        post_norms=True,
        activation="gelu",
        windows=(4096, None),
        tied=True,
        scaled_embedding=True,
        attention_cap=50.0,
        logits_cap=30.0,
    ),
    Transformer(
        name="mixtral-8x7b",
        aliases=("mixtral",),
        source="Jiang et al., Mixtral of Experts, arXiv:2401.04088, table 1",
        hidden=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_size=128,
        ff_size=14336,
        vocabulary=32000,
        experts=8,
        chosen=2,
    ),
    Transformer(
        name="gpt2",
        aliases=("gpt-2", "gpt2-small"),
        source="Radford et al., Language Models are Unsupervised Multitask Learners (2019), table "
        "2; sizes of the authors' release (github.com/openai/gpt-2, 124M, hparams.json)",
        hidden=768,
        layers=12,
        heads=12,
        kv_heads=12,
        head_size=64,
        ff_size=3072,
        vocabulary=50257,
        norm="layer_norm",
        positions=1024,
        activation="gelu",
        gated=False,
        biased=("qkv", "o", "ff"),
        tied=True,
    ),
    Transformer(
        name="gpt3-6.7b",
        aliases=("gpt-3-6.7b",),
        source=_GPT3,
        hidden=4096,
        layers=32,
        heads=32,
        kv_heads=32,
        head_size=128,
        ff_size=16384,
        vocabulary=50257,
        norm="layer_norm",
        positions=2048,
        activation="gelu",
        gated=False,
        biased=("qkv", "o", "ff"),
        tied=True,
    ),
    Transformer(
        name="gpt3-175b",
        aliases=("gpt-3-175b", "gpt3"),
        source=_GPT3,
        hidden=12288,
        layers=96,
        heads=96,
        kv_heads=96,
        head_size=128,
        ff_size=49152,
        vocabulary=50257,
        norm="layer_norm",
        positions=2048,
        activation="gelu",
        gated=False,
        biased=("qkv", "o", "ff"),
        tied=True,
    ),
    Transformer(
        name="vit-b16",
        aliases=("vit-b/16", "vit_b_16"),
        source="Dosovitskiy et al., An Image is Worth 16x16 Words, arXiv:2010.11929, table 1, at "
        "224 x 224 with a linear head of 1000 classes",
        hidden=768,
        layers=12,
        heads=12,
        kv_heads=12,
        head_size=64,
        ff_size=3072,
        vocabulary=1000,
        norm="layer_norm",
        positions=197,
        activation="gelu",
        gated=False,
        biased=("qkv", "o", "ff"),
        patches=(196, 768),
    ),
)


def transformer_names() -> dict[str, Transformer]:
    """Return the transformers by their names and aliases."""
    return {name: one for one in TRANSFORMERS for name in (one.name, *one.aliases)}


def is_known(model: Transformer) -> bool:
    """Return whether a transformer is the one that the catalogue has by its name."""
    return transformer_names().get(model.name) == model


def find_transformer(name: str) -> Transformer:
    """Return the transformer of this name or alias, in any case.

    Raises:
        InputError: there is none; says which is meant, or which there are.

    """
    known, key = transformer_names(), str(name).lower()
    if key not in known:
        allowed = suggest(key, known)
        if not allowed.startswith("did"):
            allowed = suggest("", [one.name for one in TRANSFORMERS])
        raise InputError([Fault("workload", "model", name, allowed)])
    return known[key]
