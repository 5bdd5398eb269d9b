"""The published models that FLAT evaluates (section 7.1), with the sources of their sizes.

FLAT names sizes for none of them. Its figure 4 gives BERT(-base) the intermediate
sizes of a model with 1024 hidden and 16 heads (10 MB at 512 tokens), which are those
of BERT-large; here `bert` has the published sizes of BERT-base (7.5 MB).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simaccel.errors import Fault, InputError, suggest
from simaccel.workload.attention import Dimensions, attention, scope_faults
from simaccel.workload.sizes import size_faults
from simaccel.workload.workload import Workload


@dataclass(frozen=True)
class Model:
    """A published model: its names, its sizes and where they are published."""

    name: str
    aliases: tuple[str, ...]
    dimensions: Dimensions
    source: str


MODELS = (
    Model(
        "bert",
        ("bert-base",),
        Dimensions(hidden=768, heads=12, head_size=64, ff_size=3072, layers=12),
        "Devlin et al., BERT, arXiv:1810.04805, section 3: L=12, H=768, A=12, feed-forward 4H",
    ),
    # FLAT counts neither the memory of earlier segments nor the relative positions.
    Model(
        "trxl",
        ("trxl-large", "transformer-xl", "transfo-xl-wt103"),
        Dimensions(hidden=1024, heads=16, head_size=64, ff_size=4096, layers=18),
        "Dai et al., Transformer-XL, arXiv:1901.02860; sizes of the WikiText-103 large model "
        "from the authors' pytorch/run_wt103_large.sh (github.com/kimiyoung/transformer-xl)",
    ),
    # FLAT does not say which FlauBERT. The feed-forward size is 4 * hidden in the XLM code
    # that FlauBERT is trained with (xlm/model/transformer.py, hidden_dim).
    Model(
        "flaubert",
        ("flaubert-base",),
        Dimensions(hidden=768, heads=12, head_size=64, ff_size=3072, layers=12),
        "Le et al., FlauBERT, arXiv:1912.05372; table of models in github.com/getalp/Flaubert",
    ),
    Model(
        "flaubert-large",
        (),
        Dimensions(hidden=1024, heads=16, head_size=64, ff_size=4096, layers=24),
        "Le et al., FlauBERT, arXiv:1912.05372; table of models in github.com/getalp/Flaubert",
    ),
    # Encoder only. T5 folds the scale 1/sqrt(d) into its weights; it costs nothing either way.
    Model(
        "t5",
        ("t5-small",),
        Dimensions(hidden=512, heads=8, head_size=64, ff_size=2048, layers=6),
        "Raffel et al., T5, arXiv:1910.10683, section 3.7 (Small); model card google-t5/t5-small, "
        "config.json",
    ),
    # The feed-forward size is 4 * emb_dim in the XLM code (xlm/model/transformer.py).
    Model(
        "xlm",
        ("xlm-mlm-en", "xlm-mlm-en-2048"),
        Dimensions(hidden=2048, heads=16, head_size=128, ff_size=8192, layers=12),
        "Conneau and Lample, XLM, arXiv:1901.07291; model card FacebookAI/xlm-mlm-en-2048, "
        "config.json",
    ),
)


def find_model(name: str) -> Model:
    """Return the model of this name or alias, in any case."""
    known = {alias: model for model in MODELS for alias in (model.name, *model.aliases)}
    key = str(name).lower()
    if key not in known:
        allowed = suggest(key, known)
        if not allowed.startswith("did"):
            allowed = suggest("", [model.name for model in MODELS])
        raise InputError([Fault("workload", "model", name, allowed)])
    return known[key]


def attention_model(
    name: str,
    *,
    batch: int,
    seq_len: int,
    scope: str = "block",
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return the attention block, its L and A, or all layers of a model of the catalogue."""
    try:
        model = find_model(name)
    except InputError as error:
        others = size_faults("workload", {"batch": batch, "seq_len": seq_len})
        others += scope_faults("workload", scope)
        raise InputError([*error.faults, *others]) from None
    workload = attention(
        model.dimensions,
        batch=batch,
        seq_len=seq_len,
        scope=scope,
        bytes_per_element=bytes_per_element,
        bytes_by_tensor=bytes_by_tensor,
        name=model.name,
    )
    sizes = vars(model.dimensions)
    kept = {key: value for key, value in workload.parameters.items() if key not in sizes}
    return replace(workload, parameters={"model": model.name, **kept})
