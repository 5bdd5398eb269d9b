"""`simaccel explore`: design spaces, whose designs are run and stored."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from simaccel.cli.choices import DIRECTIVES, EXPLORED, PRICES, STRATEGIES
from simaccel.cli.command import Command
from simaccel.cli.experiment_options import dataflow_names
from simaccel.cli.faults import fault, gather, require_none
from simaccel.cli.jobs import JOBS_HELP, Jobs, jobs_options
from simaccel.cli.options import (
    dry_run_option,
    force_option,
    json_option,
    set_option,
    workload_options,
)
from simaccel.cli.progress import ProgressBar
from simaccel.cli.search_options import FIELDS, SEARCH_OPTIONS, SearchOptions, take_sought
from simaccel.cli.weighted_workloads import load_of, read_load, whole_load
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.errors import InputError, WorkerDiedError, suggest

if TYPE_CHECKING:
    from simaccel.cli.parameters import Parameter, Values
    from simaccel.experiment.exploration.explore import ExploredDesigns
    from simaccel.experiment.exploration.limits import FigureLimit
    from simaccel.experiment.exploration.space import DesignAxis, DesignSpace
    from simaccel.experiment.parallel import Watch
    from simaccel.hardware import Accelerator, Stationarity
    from simaccel.schedulers import Options

    Axis = tuple[Parameter, Sequence[Values], bool]
    """As it was read: what varies, the values, and whether they multiply."""

MOST_DESIGNS: Final = 100_000
"""The most designs without --sample; more are probably a mistake."""
_SEARCH = [
    option for option, name in zip(SEARCH_OPTIONS, FIELDS, strict=True) if name != "objective"
]


def _search_options(command: Any) -> Any:  # noqa: ANN401 - as click's own decorators
    """Add the options of a search except ``--objective``, which is the exploration's."""
    for option in reversed(_SEARCH):
        command = option(command)
    return command


def _sizes_options(command: Any) -> Any:  # noqa: ANN401 - as click's own decorators
    """Add the options for sizes of workloads."""
    command = workload_options(command)

    @wraps(command)
    def with_sizes(**given: Any) -> None:  # noqa: ANN401 - what click passes
        command(name="", **given)

    return with_sizes


@dataclass(frozen=True)
class _Wanted:
    """The options as text."""

    hw: tuple[str, ...]
    overrides: tuple[str, ...]
    workloads: tuple[str, ...]
    sizes: WorkloadOptions
    axes: tuple[str, ...]
    dataflow: str | None
    pipeline: bool
    sought: SearchOptions
    objective: str
    where: tuple[str, ...]

    def read(self) -> list[Any]:
        """Read accelerators, axes, dataflows, and then the workloads.

        Raises:
            InputError: all faults together.

        """
        inputs = gather(
            partial(_accelerators, self.hw, self.overrides),
            partial(_axes, self.axes),
            self._dataflows,
            self.sought.require_constraints,
            *(partial(read_load, text, self.sizes) for text in self.workloads),
        )
        return [*inputs[:3], inputs[4:]]

    def space(
        self,
        hardware: tuple[Accelerator, ...],
        read: tuple[Axis, ...],
        dataflows: tuple[str, ...],
        texts: Sequence[Any],
    ) -> DesignSpace:
        """Make the space of what was read.

        Raises:
            InputError: all sizes that no workload has, and all names that are given twice.

        """
        loads = gather(*(partial(load_of, *text) for text in texts))
        from simaccel.experiment.exploration.space import (
            DesignSpace,
            require_described,
            require_sizes,
        )

        axes = tuple(_dimension(*axis) for axis in read)
        gather(
            partial(require_sizes, axes, loads),
            partial(require_described, dataflows, loads),
            partial(_require_once, axes, dataflows),
        )
        return DesignSpace(hardware, tuple(loads), axes, dataflows, self._options())

    def limits(self) -> tuple[FigureLimit, ...]:
        """Read the limits.

        Raises:
            InputError: all texts that are no limits.

        """
        from simaccel.experiment.exploration.limits import read_limit

        return tuple(gather(*(partial(read_limit, text) for text in self.where)))

    def inputs(self) -> list[Path]:
        """Return the input files, which no output may replace."""
        from simaccel.importers.accelerators import accelerator_path

        found = []
        for name in self.hw:
            try:
                found.append(accelerator_path(name))
            except InputError:  # which reading the accelerators reports
                continue
        words = [text.split()[:1] for text in self.workloads]
        return found + [Path(one) for (one,) in words if Path(one).is_file()]

    def _options(self) -> Options:
        from simaccel.schedulers import Options
        from simaccel.search.effort import OBJECTIVES as SEARCHED

        searched = [name for name in SEARCHED if name == self.objective]
        sought = replace(self.sought, objective=searched[0] if searched else None)
        return Options(
            pipeline=self.pipeline,
            objective=searched[0] if searched else Options.objective,
            stationarity=cast("Stationarity | None", sought.stationarity),
            effort=sought.effort(),
            constraints=sought.constraints,
            **sought.parallel(),
            spread=sought.spread,
            tolerance=sought.tolerance(),
        )

    def _dataflows(self) -> tuple[str, ...]:
        """Read the names of dataflows and mapspaces."""
        dataflows: list[str] = []
        faults = []
        options = {
            "--dataflow": (self.dataflow, [*dataflow_names(), DIRECTIVES]),
            "--mapspace": (self.sought.mapspace, STRATEGIES),
        }
        for option, (text, known) in options.items():
            for name in [name.strip() for name in text.split(",")] if text else []:
                if name not in known:
                    faults.append(fault(option, name, suggest(name, known)))
                elif name in dataflows:
                    faults.append(fault(option, name, "each name once"))
                dataflows.append(name)
        require_none(faults)
        return tuple(dataflows)


def _accelerators(hw: Sequence[str], overrides: Sequence[str]) -> tuple[Accelerator, ...]:
    from simaccel.cli.hardware import read_accelerator

    found: list[Accelerator] = gather(*(partial(read_accelerator, one, overrides) for one in hw))
    known = [one.name for one in found]
    again = [name for at, name in enumerate(known) if name in known[:at]]
    require_none(fault("--hw", name, "accelerators of different names") for name in again)
    return tuple(found)


def _axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    if not texts:
        return ()
    from simaccel.cli.axes import read_axis
    from simaccel.cli.parameters import names, parameter_of

    read = partial(read_axis, "--axis", find=parameter_of, names=names(), limit=MOST_DESIGNS)
    return tuple(gather(*(partial(read, text) for text in texts)))


def _dimension(parameter: Parameter, points: Sequence[Values], log: bool) -> DesignAxis:
    from simaccel.experiment.exploration.space import AxisSetting, DesignAxis

    settings = []
    for values in points:
        point = parameter.point(values)
        fields_of = dict(zip(parameter.fields, values, strict=True))
        settings.append(AxisSetting(point.value, point.text, fields_of))
    axis = parameter.axis
    return DesignAxis(axis.name, axis.column, axis.label, parameter.of, tuple(settings), log)


def _require_once(axes: Sequence[DesignAxis], dataflows: Sequence[str]) -> None:
    """Refuse two axes, or an axis and an option, that set the same field."""
    seen: dict[str, str] = {"dataflow": "--dataflow"} if dataflows else {}
    faults = []
    for one in axes:
        for name in one.settings[0].fields:
            if name in seen:
                faults.append(fault("--axis", one.name, f"nothing with {seen[name]}: {name}"))
            seen[name] = f"--axis {one.name}"
    require_none(faults)


@click.command("explore", cls=Command)
@click.option(
    "--hw",
    required=True,
    multiple=True,
    metavar="NAME|FILE",
    help="Accelerator: a name or a YAML file; can be repeated.",
)
@set_option
@click.option(
    "--workload",
    "workloads",
    required=True,
    multiple=True,
    metavar="'NAME|FILE [OPTION=VALUE ...]'",
    help="Workload, with its own options and weight: 'bert seq-len=512 weight=3'; can be repeated.",
)
@_sizes_options
@click.option(
    "--axis",
    "axes",
    multiple=True,
    metavar="NAME=VALUES",
    help="Vary array=8x8,16x16, buffer=64KiB:4MiB:x2, any field of the accelerator, "
    "workload.FIELD, dataflow, stationarity, pipeline or patience; with --dataflow "
    "directives also pes, noc-bandwidth, l1, l2. Can be repeated.",
)
@click.option(
    "--dataflow",
    metavar="NAMES",
    help="List of dataflows: flex,flat; for spatial arrays directives (that of the .m file).",
)
@click.option(
    "--pipeline", is_flag=True, help="Overlap softmax of one row block with L of the next."
)
@_search_options
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Explore N drawn designs.")
@click.option(
    "--draw",
    "how",
    type=click.Choice(("latin", "random")),
    default="latin",
    help="Draw the sample as a Latin hypercube or at random.",
)
@click.option(
    "--objective", type=click.Choice(EXPLORED), default="edp", help="The figure to minimise."
)
@click.option(
    "--where",
    multiple=True,
    metavar="LIMIT ...",
    help="Limits: 'area_mm2<=16' 'power_mw<=450'.",
)
@click.argument("limits", nargs=-1, metavar="[LIMIT]...")
@click.option(
    "--prices",
    type=click.Choice(PRICES),
    default=PRICES[0],
    help="For --axis pes, noc-bandwidth, l1, l2: prices of MAESTRO's tool or of its paper.",
)
@click.option(
    "--store", metavar="DIR", help="Keep results in this folder, and do not run them again."
)
@jobs_options(JOBS_HELP)
@dry_run_option
@click.option("--csv", "table", metavar="FILE", help="Write all designs as CSV; - prints it.")
@click.option("--parquet", metavar="FILE", help="Write all designs as Parquet.")
@click.option("--plot-frontier", metavar="FILE", help="Draw the frontier (.png, .svg or .pdf).")
@click.option("--plot-pairs", metavar="FILE", help="Draw each pair of figures against each other.")
@click.option("--plot-sensitivity", metavar="FILE", help="Draw the effect of each axis.")
@click.option("-o", "--output", metavar="FILE", help="Write one HTML page with all results.")
@force_option
@json_option
@click.pass_context
def explore_command(
    ctx: click.Context,
    /,
    *,
    asked: WorkloadOptions,
    store: str | None,
    sample: int | None,
    how: Any,  # noqa: ANN401 - one of the choices
    jobs: Jobs,
    dry_run: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - what click passes
) -> None:
    """Explore a design space: map each design and run it on the machine.

    The space is the product of --hw, --dataflow and every --axis, or a --sample of it. With axes
    for PEs, NoC bandwidth, L1 or L2, MAESTRO's analysis evaluates the designs of a description.
    """
    from simaccel.cli import designs as directed
    from simaccel.cli.exploration_files import ExplorationFiles, show_cost
    from simaccel.experiment.exploration.manifest import open_store, store_in

    del options["prices"]  # of a description's own space alone
    objective = options.pop("objective")  # of the designs; a search gets it, too, if it can
    sought = take_sought(options)
    wanted = _read_wanted(options, asked, sought, objective)
    is_directed = directed.is_directed_space(wanted.axes)
    outputs = ExplorationFiles.take_options(options, wanted.inputs())
    if not is_directed:
        directed.require_no_prices(ctx)
        read, limits, kept, _ = gather(
            wanted.read,
            wanted.limits,
            partial(store_in, store),
            partial(outputs.require, {"--json": as_json}),
        )
        space = wanted.space(*read)
        space.require_energies(objective)
    if is_directed:
        hardware = partial(_accelerators, wanted.hw, wanted.overrides)
        loads = [partial(whole_load, text, asked) for text in wanted.workloads]
        directed.explore_directed(
            ctx, directed.InputReaders(hardware, loads, wanted.limits), outputs
        )
        return
    from simaccel.experiment.exploration.explore import ExplorationObjective, explore
    from simaccel.experiment.exploration.space import draw

    seed = sought.seed or 0
    designs = draw(space, sample, how, seed)
    require_none(
        fault("--axis", f"{len(designs):,} designs", f"at most {MOST_DESIGNS:,}, or --sample N")
        for _ in range(len(designs) > MOST_DESIGNS)
    )
    plan = ExplorationObjective(limits, wanted.objective)
    if dry_run:
        show_cost(space.designs(designs), plan, kept, as_json=as_json)
        return
    open_store(kept, _command(), seed)
    with ExitStack() as bars, jobs.working(min(os.cpu_count() or 1, len(designs))) as team:
        watch = partial(_watch, bars)
        drawn = space.designs(designs)
        exploration = explore(space.dimensions, drawn, plan, team, store=kept, watch=watch)
    outputs.show(exploration, space, as_json=as_json)
    ctx.exit(_exit_code(exploration))


def _read_wanted(
    given: dict[str, Any], asked: WorkloadOptions, sought: SearchOptions, objective: str
) -> _Wanted:
    where = (*given.pop("where"), *given.pop("limits"))
    names_of = ("hw", "overrides", "workloads", "axes", "dataflow", "pipeline")
    others = {name: given.pop(name) for name in names_of}
    asked = asked.for_experts(sought.expert_parallel)
    return _Wanted(sizes=asked, sought=sought, where=where, objective=objective, **others)


def _watch(bars: ExitStack, label: str) -> Watch:
    return bars.enter_context(ProgressBar(label)).show


def _command() -> str:
    """Return the command line without options that don't affect the result."""
    return shlex.join(["simaccel", *sys.argv[1:]])


def _exit_code(found: ExploredDesigns) -> int:
    """Return 0 if a design has figures and no process died."""
    if any(one.lost for one in found.points):
        return WorkerDiedError.exit_code
    return 0 if any(one.figures is not None for one in found.points) else InputError.exit_code
