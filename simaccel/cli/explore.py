"""`simaccel explore`: design spaces, whose designs are run and stored."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.choices import EXPLORED, MOST_SHOWN, PRICES, NamedValues, RowCount
from simaccel.cli.command import Command
from simaccel.cli.exploration_inputs import MOST_DESIGNS, WantedSpace, read_accelerators, whole_load
from simaccel.cli.faults import fault, gather, require_none
from simaccel.cli.jobs import JOBS_HELP, Jobs, jobs_options
from simaccel.cli.options import (
    dry_run_option,
    force_option,
    json_option,
    set_option,
    workload_options,
)
from simaccel.cli.output import command_line
from simaccel.cli.progress import ProgressBar
from simaccel.cli.search_options import FIELDS, SEARCH_OPTIONS
from simaccel.cli.settings import OF_RUNS, OF_SEARCH, SettingOption
from simaccel.cli.several_runs import pipeline_options
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.errors import InputError, WorkerDiedError

if TYPE_CHECKING:
    from simaccel.experiment.parallel import Watch
    from simaccel.study.explore import ExploredDesigns

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


@click.command(
    "explore",
    cls=Command,
    shown=("jobs",),
    examples=(
        "explore --hw edge --workload bert --axis array=16x16,32x32 --axis buffer=64KiB:4MiB:x2",
        "explore --hw edge --workload resnet50 --axis array=8:64:x2 --sample 20 'area_mm2<=16'",
    ),
)
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
    metavar="'NAME OPTION=..'",
    help="Workload, with options: 'bert seq-len=512 weight=3'. A name or file, with its own "
    "options and weight; can be repeated.",
)
@_sizes_options
@click.option(
    "--axis",
    "axes",
    multiple=True,
    metavar="NAME=VALUES",
    help="Vary array=8x8,16x16, buffer=64KiB:4MiB:x2 or any field. A field of the accelerator, "
    "workload.FIELD, dataflow, stationarity, pipeline, patience or a degree "
    "(tensor-parallel=1,2,4, pipeline-parallel=1,2,4); with --dataflow directives also pes, "
    "noc-bandwidth, l1, l2. Can be repeated.",
)
@click.option(
    "--dataflow",
    metavar="NAMES",
    help="List of dataflows: flex,flat. For spatial arrays directives (that of the .m file).",
)
@click.option(
    "--pipeline",
    is_flag=True,
    help="Overlap softmax of one row block with L of the next; best always may.",
    cls=SettingOption,
    topic=OF_SEARCH,
)
@_search_options
@pipeline_options
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Explore N drawn designs.")
@click.option(
    "--draw",
    "how",
    type=NamedValues(("latin", "random")),
    default="latin",
    help="Draw the sample as a Latin hypercube or at random.",
    cls=SettingOption,
    topic=OF_RUNS,
)
@click.option(
    "--objective",
    type=NamedValues(EXPLORED),
    metavar="FIGURE",
    default="edp",
    help=f"The figure to minimise, by default edp. One of {', '.join(EXPLORED)}.",
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
    type=NamedValues(PRICES),
    default=PRICES[0],
    help="For --axis pes, noc-bandwidth, l1, l2: prices of MAESTRO's tool or of its paper.",
    cls=SettingOption,
    topic=OF_RUNS,
)
@click.option(
    "--store", metavar="DIR", help="Keep results in this folder, and do not run them again."
)
@jobs_options(JOBS_HELP)
@dry_run_option
@click.option("--csv", "table", metavar="FILE", help="Write all designs as CSV; - prints it.")
@click.option(
    "--parquet",
    metavar="FILE",
    help="Write all designs as Parquet.",
    cls=SettingOption,
    topic=OF_RUNS,
)
@click.option(
    "--plot-frontier",
    metavar="FILE",
    help="Draw the frontier (.png, .svg or .pdf).",
    cls=SettingOption,
    topic=OF_RUNS,
)
@click.option(
    "--plot-pairs",
    metavar="FILE",
    help="Draw each pair of figures against each other.",
    cls=SettingOption,
    topic=OF_RUNS,
)
@click.option(
    "--plot-sensitivity",
    metavar="FILE",
    help="Draw the effect of each axis.",
    cls=SettingOption,
    topic=OF_RUNS,
)
@click.option("-o", "--output", metavar="FILE", help="Write one HTML page with all results.")
@click.option(
    "--top",
    type=RowCount(),
    metavar="N|all",
    default=MOST_SHOWN,
    help=f"Print this many designs, the best first (default {MOST_SHOWN}).",
)
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
    from simaccel.study.manifest import open_store, store_in

    del options["prices"]  # of a description's own space alone
    objective = options.pop("objective")  # of the designs; a search gets it, too, if it can
    wanted = WantedSpace.take_options(options, asked, objective)
    outputs = ExplorationFiles.take_options(options, wanted.inputs())
    if directed.is_directed_space(wanted.axes):
        hardware = partial(read_accelerators, wanted.hw, wanted.overrides)
        loads = [partial(whole_load, text, asked) for text in wanted.workloads]
        directed.explore_directed(
            ctx, directed.InputReaders(hardware, loads, wanted.limits), outputs
        )
        return
    read, limits, kept, _ = gather(
        wanted.read,
        wanted.limits,
        partial(store_in, store),
        outputs.require,
    )
    space = wanted.space(*read)
    space.require_energies(objective)
    from simaccel.study.explore import ExplorationObjective, explore
    from simaccel.study.space import draw

    seed = wanted.sought.seed or 0
    designs = draw(space, sample, how, seed)
    require_none(
        fault("--axis", f"{len(designs):,} designs", f"at most {MOST_DESIGNS:,}, or --sample N")
        for _ in range(len(designs) > MOST_DESIGNS)
    )
    plan = ExplorationObjective(limits, wanted.objective)
    if dry_run:
        show_cost(space.designs(designs), plan, kept, as_json=as_json)
        return
    open_store(kept, command_line(), seed)
    with ExitStack() as bars, jobs.working(min(os.cpu_count() or 1, len(designs))) as team:
        watch = partial(_watch, bars)
        drawn = space.designs(designs)
        exploration = explore(space.dimensions, drawn, plan, team, store=kept, watch=watch)
    outputs.show(exploration, space, as_json=as_json)
    ctx.exit(_exit_code(exploration))


def _watch(bars: ExitStack, label: str) -> Watch:
    return bars.enter_context(ProgressBar(label)).show


def _exit_code(found: ExploredDesigns) -> int:
    """Return 0 if a design has figures and no process died."""
    if any(one.lost for one in found.rows):
        return WorkerDiedError.exit_code
    return 0 if any(one.figures is not None for one in found.rows) else InputError.exit_code
