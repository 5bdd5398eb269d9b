"""`simaccel explore` for the design space of a MAESTRO description: PEs, NoC bandwidth, L1, L2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from simaccel.cli.choices import DESIGN_AXES, DIRECTIVES
from simaccel.cli.exploration_inputs import WantedSpace, read_load
from simaccel.cli.output import OutputFiles
from simaccel.cli.settings import fault
from simaccel.errors import InputError, gather, require_none, suggest

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator
    from simaccel.papers.maestro.analysis.design import Objective
    from simaccel.papers.maestro.commands.design_space import DirectedSpace
    from simaccel.papers.maestro.dataflows.reading import DirectedLayer
    from simaccel.study.parameters import Parameter
    from simaccel.workload import Workload

MOST_DESIGNS: Final = 10_000_000
"""Most designs of a space, whose figures are all in memory at once."""
_MOST_ANALYSED: Final = 200_000
"""Most pairs of PEs and bandwidth, each of which needs an analysis of its own."""
_UM2_PER_MM2: Final = 1e6
_OBJECTIVES: Final[dict[str, Objective]] = {
    "cycles": "throughput",
    "energy": "energy",
    "edp": "edp",
}


def explore_directed(
    ctx: click.Context, wanted: WantedSpace, prices: str, files: OutputFiles, *, as_json: bool
) -> None:
    """Sweep the space, run the best few designs on the machine, and show and write the results.

    Raises:
        InputError: all faults of what was given.
        NoDesignError: no design is within the limits.
    """
    read, within, objectives, _ = gather(
        partial(_inputs, wanted),
        partial(_read_limits, wanted),
        partial(_objectives, ctx),
        files.require,
    )
    # nothing of what follows is loaded for an error
    from simaccel.papers.maestro.analysis.design import DesignLimits
    from simaccel.papers.maestro.analysis.prices import PAPER_ERA, PRESENT
    from simaccel.papers.maestro.commands import tables as report
    from simaccel.papers.maestro.commands.design_space import sweep_directed
    from simaccel.papers.maestro.commands.figures import draw_designs

    space, limits = _space(*read), DesignLimits(**within)
    chosen = PAPER_ERA if prices == "paper" else PRESENT
    designs = sweep_directed(space, chosen, limits, objectives)
    title = report.designs_title(designs)
    made = {
        "--csv": lambda: report.designs_csv(designs),
        "--plot-frontier": lambda: draw_designs(designs, title),
    }
    files.show_rows(
        title,
        lambda: (report.designs_table(designs), *report.designs_lines(designs)),
        lambda: report.designs_json(designs),
        made,
        as_json=as_json,
    )


_Sizes = dict[str, tuple[int, ...]]
"""Values by axis."""


def _inputs(wanted: WantedSpace) -> tuple[Accelerator, Workload, _Sizes]:
    if wanted.dataflow != DIRECTIVES:
        allowed = f"{DIRECTIVES}, with {', '.join(DESIGN_AXES)} as axes"
        raise InputError([fault("--dataflow", wanted.dataflow or "nothing", allowed)])
    loads = (partial(read_load, text, wanted.sizes) for text in wanted.workloads)
    accelerators, axes, *read = gather(wanted.accelerators, partial(_axes, wanted.axes), *loads)
    (load,), (accelerator,) = _single_value("--workload", read), _single_value("--hw", accelerators)
    return accelerator, load[0], axes


def _space(accelerator: Accelerator, given: Workload, axes: _Sizes) -> DirectedSpace:
    from simaccel.hardware import SpatialArraySpec
    from simaccel.papers.maestro.commands.design_space import DirectedSpace
    from simaccel.study.placement import place_on

    workload = place_on(given, accelerator)
    if not isinstance(accelerator.array, SpatialArraySpec):
        allowed = "an accelerator with a spatial array, as maestro_256"
        raise InputError([fault("--hw", accelerator.name, allowed)])
    directed = _only_layer(given)
    return DirectedSpace(directed=directed, workload=workload, accelerator=accelerator, **axes)


def _single_value(option: str, given: Sequence[Any]) -> Sequence[Any]:
    allowed = "one, where a description's own design space is explored"
    require_none(fault(option, f"{len(given)} of them", allowed) for _ in [0] if len(given) != 1)
    return given


def _only_layer(workload: Workload) -> DirectedLayer:
    from simaccel.papers.maestro.dataflows.translating import directives_for

    layers = directives_for(workload).layers
    if len(layers) > 1:
        raise InputError(
            [fault("--layer", f"{len(layers)} layers", "one layer of the description")]
        )
    return layers[0]


def _axes(texts: Sequence[str]) -> _Sizes:
    from simaccel.study.parameters import read_axis

    known = _parameters()
    sizes: _Sizes = {}
    read = []
    for text in texts:
        name = text.partition("=")[0].strip()
        most = _MOST_ANALYSED if name in DESIGN_AXES[:2] else MOST_DESIGNS
        read.append(partial(read_axis, "--axis", text, most, known.get))
        if "=" in text and name not in known:
            allowed = f"{', '.join(known)} alone, as a description's own design space; " + suggest(
                name, known
            )
            raise InputError([fault("--axis", name, allowed)])
    for settings in gather(*read):
        axis = settings[0].axis
        require_none(fault("--axis", axis.name, "once") for _ in [0] if axis.column in sizes)
        sizes[axis.column] = tuple(sorted(setting.value for setting in settings))
    pairs = len(sizes.get("pes", " ")) * len(sizes.get("bandwidths", " "))
    every = pairs * len(sizes.get("l1_bytes", " ")) * len(sizes.get("l2_bytes", " "))
    for count, most, what in (
        (every, MOST_DESIGNS, "designs"),
        (pairs, _MOST_ANALYSED, "pairs of PEs and bandwidth"),
    ):
        if count > most:
            raise InputError([fault("--axis", f"{count:,} {what}", f"at most {most:,}")])
    return sizes


def _parameters() -> dict[str, Parameter]:
    from simaccel.hardware.quantity import format_quantity, parse_quantity
    from simaccel.study.parameters import Parameter, whole_number
    from simaccel.study.points import Axis

    counted: dict[str, Any] = {"read": partial(whole_number, least=1, most=2**20), "write": str}
    functions = {"read": parse_quantity, "write": format_quantity}
    sized: dict[str, Any] = {what: partial(of, kind="B") for what, of in functions.items()}
    fields = {"pes": counted, "bandwidths": counted, "l1_bytes": sized, "l2_bytes": sized}
    return {
        name: Parameter(axis=Axis(name, field, name), fields=(field,), **how)
        for name, (field, how) in zip(DESIGN_AXES, fields.items(), strict=True)
    }


def _read_limits(wanted: WantedSpace) -> dict[str, float]:
    found = {"area_mm2": float("inf"), "power_mw": float("inf")}
    for one in wanted.limits():
        if one.figure not in found or one.sign != "<=":
            allowed = "area_mm2<=NUMBER or power_mw<=NUMBER, with a description's own design space"
            raise InputError([fault("--where", str(one), allowed)])
        found[one.figure] = min(found[one.figure], one.value)
    return {"area_um2": found["area_mm2"] * _UM2_PER_MM2, "power_mw": found["power_mw"]}


def _objectives(ctx: click.Context) -> list[Objective]:
    """Read by what designs are best: by all, if nothing is said."""
    objective = ctx.params["objective"]
    if ctx.get_parameter_source("objective") is not ParameterSource.COMMANDLINE:
        return [*_OBJECTIVES.values()]
    if objective not in _OBJECTIVES:
        allowed = f"{', '.join(_OBJECTIVES)}, with a description's own design space"
        raise InputError([fault("--objective", objective, allowed)])
    return [_OBJECTIVES[objective]]
