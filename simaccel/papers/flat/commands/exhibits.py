"""FLAT's figures 5, 9, 15 and 17 as saved studies of `compare`."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from simaccel.study.points import Exhibit


def _call(module: str, name: str, *of: Any) -> Any:  # noqa: ANN401 - as what is called has it
    """Call a function of a module that loads what runs, or what draws."""
    return getattr(import_module(f"simaccel.papers.flat.commands.{module}"), name)(*of)


def _exhibit(name: str, heading: str, dataflow: str, **others: Any) -> Exhibit:  # noqa: ANN401 - fields
    """Return an exhibit whose rows and figure are functions of its name."""
    return Exhibit(
        heading=heading,
        dataflow=dataflow,
        rows=partial(_call, "rows", name),
        table=partial(_call, "rows", "exhibit_table"),
        draw=partial(_call, "figures", f"draw_{name}"),
        **others,
    )


roofline = _exhibit("roofline", "operational intensity", "flex,flat")
"""Fig. 5."""
granularity = _exhibit(
    "granularity",
    "utilisation of the attentions by granularity",
    "naive,flex-m,flex-b,flex-h,flex-r,flat-m,flat-b,flat-h,flat-r",
    sweep="buffer=64KiB:1GiB:x4",
)
"""Fig. 9."""
breakdown = _exhibit("breakdown", "cycles by part", "naive,flex,flat")
"""Fig. 15."""
bandwidth = _exhibit(
    "bandwidth",
    "bandwidth for a utilisation of {target:.0%}",
    "flex,flat",
    find=partial(_call, "rows", "find_bandwidth"),
    notes=partial(_call, "rows", "bandwidth_notes"),
)
"""Fig. 17."""
