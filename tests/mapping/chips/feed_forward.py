"""A feed-forward layer on chips, small enough for sums by hand."""

from simaccel.mapping.text import parse_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload, operand
from simaccel.workload.einsum import Einsum, Kind, Tensor, Vector

_KINDS: dict[str, Kind] = {
    "X": "input",
    "W1": "weight",
    "W2": "weight",
    "g": "weight",
    "H": "intermediate",
    "U": "intermediate",
    "Y": "intermediate",
    "N": "output",
}
_TREES = {
    "FF1": "loop m 16\nkeep X buffer x2, W1 buffer, H buffer x2\ndo FF1 array ws",
    "act": "loop m 16\nkeep H buffer x2\ndo act sfu",
    "FF2": "loop m 16\nkeep U buffer x2, W2 buffer, Y buffer x2\ndo FF2 array ws",
    "norm": "loop m 4\nkeep Y buffer x2, g buffer\ndo norm sfu",
}


def feed_forward(m: int = 64, e: int = 32, f: int = 128) -> Workload:
    """Return H = X W1, U = gelu(H), Y = U W2, N = norm(Y)."""
    ranks = {"m": m, "e": e, "f": f}
    operators = (
        Einsum("FF1", ranks, (operand("X m e"), operand("W1 e f")), operand("H m f")),
        Vector("act", "gelu", {"m": m, "f": f}, (operand("H m f"),), operand("U m f")),
        Einsum("FF2", ranks, (operand("U m f"), operand("W2 f e")), operand("Y m e")),
        Vector(
            "norm",
            "rms_norm",
            {"m": m, "e": e},
            (operand("Y m e"), operand("g e")),
            operand("N m e"),
            axis="e",
        ),
    )
    tensors = {name: Tensor(name, 2, kind) for name, kind in _KINDS.items()}
    return Workload("ff", operators, tensors)


def spread(workload: Workload, **spreads: str) -> Mapping:
    """Return a mapping of it with spreads over chips by group: ``FF1="f 32"``, several by ``;``."""
    lines = [f"mapping hand of ff {workload.fingerprint}"]
    for name, tree in _TREES.items():
        cuts = [one.strip() for one in spreads.get(name, "").split(";") if one.strip()]
        nodes = [f"spread {one} chips" for one in cuts] + tree.split("\n")
        lines += [f"  group {name}", *(f"    {node}" for node in nodes)]
    return parse_text("\n".join(lines) + "\n")
