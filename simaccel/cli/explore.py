"""`simaccel explore`: design spaces, whose designs are run and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.choices import EXPLORED, MOST_SHOWN, PRICES
from simaccel.cli.command import Command, name_failures
from simaccel.cli.exploration_inputs import MOST_DESIGNS, WantedSpace
from simaccel.cli.options import (
    JOBS_HELP,
    Jobs,
    dry_run_option,
    force_option,
    jobs_options,
    json_option,
    option_group,
    pipeline_option,
    set_option,
    workload_options,
)
from simaccel.cli.output import OutputFiles, command_line, exit_code_of, show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.cli.search_options import FIELDS, SEARCH_OPTIONS
from simaccel.cli.settings import OF_RUNS, NamedValues, RowCount, fault, option
from simaccel.cli.several_runs import PIPELINE_OPTIONS
from simaccel.errors import gather, require_none

if TYPE_CHECKING:
    from simaccel.study.explore import ExplorationObjective
    from simaccel.study.points import Point
    from simaccel.study.store import ResultStore
    from simaccel.verbs.exploring import Exploration

_SEARCH = [add for add, name in zip(SEARCH_OPTIONS, FIELDS, strict=True) if name != "objective"]
"""The search options without the objective, which the exploration has itself."""


_PLOTS: Final = ("--plot-frontier", "--plot-pairs", "--plot-sensitivity")


def _take_files(given: dict[str, Any]) -> OutputFiles:
    files = {"--csv": given.pop("table"), "--parquet": given.pop("parquet")}
    files |= {name: given.pop(name[2:].replace("-", "_")) for name in _PLOTS}
    files["-o"] = given.pop("output")
    return OutputFiles(files, given.pop("force"), given["wanted"].inputs())


def _show(files: OutputFiles, exploration: Exploration, *, as_json: bool) -> None:
    """Write the files, and print the result; the effort on standard error beside other formats."""
    from simaccel.report import exploration as report
    from simaccel.report.figures import exploration as figures

    explored, title, outputs = exploration.points, exploration.title, exploration.outputs()
    outputs["files"] |= {"--parquet": partial(report.write_parquet, explored)}
    for name in _PLOTS:
        draw = getattr(figures, name[2:].replace("plot-", "draw_"))
        outputs["files"][name] = partial(draw, explored, title)
    outputs["files"]["-o"] = partial(report.exploration_page, explored, title)
    parts, effort = outputs.pop("parts"), report.effort_lines(explored)
    files.show_rows(title, lambda: [*parts(), *effort], **outputs, as_json=as_json)
    for line in effort if as_json or files.prints else ():
        click.echo(line, err=True)


@click.command(
    "explore",
    cls=Command,
    shown=("jobs",),
    examples=(
        "explore --hw edge --workload bert --axis array=16x16,32x32 --axis buffer=64KiB:4MiB:x2",
        "explore --hw edge --workload resnet50 --axis array=8:64:x2 --sample 20 'area_mm2<=16'",
    ),
)
@option_group(
    "wanted",
    WantedSpace.take_options,
    option(
        "--hw NAME|FILE",
        "Accelerator: a name or a YAML file; can be repeated.",
        required=True,
        multiple=True,
    ),
    set_option,
    option(
        "--workload 'NAME OPTION=..'",
        "Workload, with options: 'bert seq-len=512 weight=3'. A name or file, with its own "
        "options and weight; can be repeated.",
        to="workloads",
        required=True,
        multiple=True,
    ),
    workload_options,
    option(
        "--axis NAME=VALUES",
        "Vary array=8x8,16x16, buffer=64KiB:4MiB:x2 or any field. A field of the accelerator, "
        "workload.FIELD, dataflow, stationarity, pipeline, patience or a degree "
        "(tensor-parallel=1,2,4, pipeline-parallel=1,2,4); with --dataflow directives also pes, "
        "noc-bandwidth, l1, l2. Can be repeated.",
        to="axes",
        multiple=True,
    ),
    option(
        "--dataflow NAMES",
        "List of dataflows: flex,flat. By default deployed on chips whose compiler is described, "
        "else flat; on spatial arrays ruby-s, or directives (that of the .m file).",
    ),
    pipeline_option,
    *_SEARCH,
    *PIPELINE_OPTIONS,
)
@option("--sample N", "Explore N drawn designs.", type=click.IntRange(1))
@option(
    "--draw",
    "Draw the sample as a Latin hypercube or at random.",
    OF_RUNS,
    to="how",
    type=NamedValues(("latin", "random")),
    default="latin",
)
@option(
    "--objective FIGURE",
    f"The figure to minimise, by default edp. One of {', '.join(EXPLORED)}.",
    type=NamedValues(EXPLORED),
    default="edp",
)
@option("--where LIMIT ...", "Limits: 'area_mm2<=16' 'power_mw<=450'.", multiple=True)
@click.argument("limits", nargs=-1, metavar="[LIMIT]...")
@option(
    "--prices",
    "For --axis pes, noc-bandwidth, l1, l2: prices of MAESTRO's tool or of its paper.",
    OF_RUNS,
    type=NamedValues(PRICES),
    default=PRICES[0],
)
@option("--store DIR", "Keep results in this folder, and do not run them again.")
@jobs_options(JOBS_HELP)
@dry_run_option
@option_group(
    "outputs",
    _take_files,
    option("--csv FILE", "Write all designs as CSV; - prints it.", to="table"),
    option("--parquet FILE", "Write all designs as Parquet.", OF_RUNS),
    option("--plot-frontier FILE", "Draw the frontier (.png, .svg or .pdf).", OF_RUNS),
    option("--plot-pairs FILE", "Draw each pair of figures against each other.", OF_RUNS),
    option("--plot-sensitivity FILE", "Draw the effect of each axis.", OF_RUNS),
    option("-o --output FILE", "Write one HTML page with all results."),
    force_option,
)
@option(
    "--top N|all",
    f"Print this many designs, the best first (default {MOST_SHOWN}).",
    type=RowCount(),
    default=MOST_SHOWN,
)
@json_option
@click.pass_context
def explore_command(
    ctx: click.Context,
    /,
    *,
    wanted: WantedSpace,
    prices: str,
    store: str | None,
    sample: int | None,
    how: Any,  # noqa: ANN401 - one of the choices
    jobs: Jobs,
    dry_run: bool,
    outputs: OutputFiles,
    top: int | None,
    as_json: bool,
) -> None:
    """Explore a design space: map each design and run it on the machine.

    The space is the product of --hw, --dataflow and every --axis, or a --sample of it. With axes
    for PEs, NoC bandwidth, L1 or L2, MAESTRO's analysis evaluates the designs of a description.
    """
    from simaccel.study.store import open_store, store_in

    if explore_own := _own_space(wanted.axes):
        explore_own(ctx, wanted, prices, outputs, as_json=as_json)
        return
    read, limits, kept, _ = gather(
        wanted.read, wanted.limits, partial(store_in, store), outputs.require
    )
    space = wanted.space(*read)
    space.require_energies(wanted.objective)
    from simaccel.study.explore import ExplorationObjective, explore
    from simaccel.study.space import draw

    seed = wanted.search.seed or 0
    numbers = draw(space, sample, how, seed)
    require_none(
        fault("--axis", f"{len(numbers):,} designs", f"at most {MOST_DESIGNS:,}, or --sample N")
        for _ in range(len(numbers) > MOST_DESIGNS)
    )
    plan = ExplorationObjective(limits, wanted.objective)
    designs = [*space.designs(numbers)]
    if dry_run:
        show_cost(designs, plan, kept, as_json=as_json)
        return
    open_store(kept, command_line(), seed)
    from simaccel.cli.forecast import processes_of
    from simaccel.verbs.exploring import Exploration

    with ProgressBar("exploring") as bar, jobs.working(processes_of(designs)) as team:
        explored = explore(space.dimensions, designs, plan, team, store=kept, watch=bar.show)
    _show(outputs, Exploration(space, explored, top), as_json=as_json)
    ctx.exit(exit_code_of(explored.rows))


def _own_space(axes: Sequence[str]) -> Callable[..., None] | None:
    """Return the plug-in's function that explores the space of one of these axes, if any."""
    from simaccel.plugins import plugin
    from simaccel.study.parameters import parameter_of

    for name in (text.partition("=")[0].strip() for text in axes):
        if parameter_of(name) is None and (axis_plugin := plugin("simaccel.axes", name)):
            with axis_plugin.running("loading"):
                explore_own = axis_plugin.load()
            if not callable(explore_own):
                raise axis_plugin.error(f"is a {type(explore_own).__name__}, not a function")
            return name_failures(axis_plugin, explore_own)
    return None


def show_cost(
    designs: Sequence[Point], plan: ExplorationObjective, store: ResultStore, *, as_json: bool
) -> None:
    """Show the estimated cost of an exploration; nothing runs or is stored."""
    from simaccel.report.units import seconds_text
    from simaccel.study.explore import cost_of

    cost = cost_of(designs, plan, store)
    outside = f"{cost['outside']:,} of them impossible or outside the limits"
    if as_json:
        show_json(cost)
        return
    show(
        f"{cost['designs']:,} designs, {outside}",
        f"{cost['runs']:,} runs to make, {cost['stored']:,} in the store",
        f"CPU time of these: about {seconds_text(cost['cpu_seconds'])}",
    )
