"""The dataflows by name, and the module of `simaccel.schedulers` that each is in.

This loads nothing, so that the command line knows the names without the schedulers.
"""

from __future__ import annotations

from typing import Final

DEPLOYED: Final = "deployed"
"""What a chip's compiler makes of a workload; the default where a chip describes its compiler."""
DATAFLOWS: Final = {
    **dict.fromkeys(("naive-m", "naive-b", "naive-h", "naive-r", "naive"), "choice"),
    "strips": "strips",
    **dict.fromkeys(("flex-m", "flex-b", "flex-h", "flex-r", "flex"), "choice"),
    **dict.fromkeys(("flat-m", "flat-b", "flat-h", "flat-r", "flat", "flash"), "choice"),
    "best": "choice",
    DEPLOYED: "deployed",
}
"""On systolic arrays; a new one is a module with such names in `SCHEDULERS`, and a line here."""
_FIXED: Final = ("naive", "strips", "deployed")
"""Families of dataflows that search nothing: rules say the mapping."""
SEARCHING: Final = tuple(name for name in DATAFLOWS if name.partition("-")[0] not in _FIXED)
COMPARED: Final = ("naive", "flex", "flat", "flash")
"""What a systolic array is compared with where nothing is given."""
FUSING: Final = ("flat", "flash")
"""Those of them that fuse attentions: without one they do what `flex` does."""
ON_ANY_ARRAY: Final = tuple(name for name in DATAFLOWS if name != DEPLOYED)
"""Those that every systolic array has."""
