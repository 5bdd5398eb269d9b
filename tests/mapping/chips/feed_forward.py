"""A feed-forward layer on chips, small enough for sums by hand."""

from dataclasses import replace

from simaccel.hardware import Accelerator
from simaccel.hardware.links import LinksSpec
from simaccel.mapping.text import parse_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from tests.machine.accelerators import accelerator
from tests.trees import einsum, vector, workload

_TREES = {
    "FF1": "loop m 16\nkeep X buffer x2, W1 buffer, H buffer x2\ndo FF1 array ws",
    "act": "loop m 16\nkeep H buffer x2\ndo act sfu",
    "FF2": "loop m 16\nkeep U buffer x2, W2 buffer, Y buffer x2\ndo FF2 array ws",
    "norm": "loop m 4\nkeep Y buffer x2, g buffer\ndo norm sfu",
}


def feed_forward(m: int = 64, e: int = 32, f: int = 128) -> Workload:
    """Return H = X W1, U = gelu(H), Y = U W2, N = norm(Y)."""
    operators = (
        einsum("FF1", "H m f", "X m e", "W1 e f", m=m, e=e, f=f),
        vector("act", "gelu", "U m f", "H m f", m=m, f=f),
        einsum("FF2", "Y m e", "U m f", "W2 f e", m=m, e=e, f=f),
        vector("norm", "rms_norm", "N m e", "Y m e", "g e", axis="e", m=m, e=e),
    )
    return replace(workload(*operators, weights=["W1", "W2", "g"]), name="ff")


def chain(repeat: int = 1) -> Workload:
    """Return S = X W, then Y = S V: 8 x 4 x 4 both."""
    operators = (
        einsum("one", "S m n", "X m k", "W k n", m=8, k=4, n=4),
        einsum("two", "Y m n", "S m k", "V k n", m=8, k=4, n=4),
    )
    return workload(*operators, weights=["W", "V"], repeat=repeat)


def free_chips(
    count: int = 2, compiler: dict[str, object] | None = None, **links: object
) -> Accelerator:
    """Return chips whose memories take no time, with links of 4 B a cycle that take 5 cycles."""
    given = {"bytes_per_second": "4 GB/s", "hop_cycles": 5, **links}
    free = {"bandwidth_bytes_per_second": "unlimited", "latency_cycles": 0}
    found = accelerator(dram=free, compiler=compiler or {})
    update = {"links": LinksSpec.model_validate(given), "chips": (count,)}
    return found.model_copy(update=update)


def spread(of: Workload, **spreads: str) -> Mapping:
    """Return a mapping of it with spreads over chips by group: ``FF1="f 32"``, several by ``;``."""
    lines = [f"mapping hand of ff {of.fingerprint}"]
    for name, tree in _TREES.items():
        cuts = [one.strip() for one in spreads.get(name, "").split(";") if one.strip()]
        nodes = [f"spread {one} chips" for one in cuts] + tree.split("\n")
        lines += [f"  group {name}", *(f"    {node}" for node in nodes)]
    return parse_text("\n".join(lines) + "\n")
