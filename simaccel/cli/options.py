"""The click options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.choices import BATCH, CAUSAL_BLOCKS, DIRECTIVES, PHASES, SCOPE, SCOPES, SEQ_LEN
from simaccel.cli.experiment_options import DATAFLOW, ExperimentOptions
from simaccel.cli.search_options import SEARCH_OPTIONS, SearchOptions
from simaccel.cli.settings import (
    OF_RUNS,
    OF_SEARCH,
    OF_WORKLOAD,
    FormatOption,
    fault,
    option,
    take_fields,
    unknown_setting,
)
from simaccel.cli.workload_options import WorkloadOptions, number
from simaccel.dataflows import DATAFLOWS
from simaccel.errors import require_none, with_digits
from simaccel.numbers import BITS, SUMS

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.cli.output import OutputFiles
    from simaccel.hardware import Accelerator
    from simaccel.search.accounts import ObjectiveLosses, SearchAccount
    from simaccel.search.effort import Objective
    from simaccel.study.parallel import TaskWorkers


Command = Callable[..., None]
Decorator = Callable[[Command], Command]

_overrides_option = option(
    "--set NAME=VALUE",
    "A field of the accelerator (dram.channels=2), or a setting.",
    to="overrides",
    multiple=True,
)
_chips_option = option(
    "--chips SHAPE", "So many chips, linked as the accelerator says: 16 or 4x4x4."
)


def json_option(command: Command) -> Command:
    """Add ``--format`` and its short form ``--json``; the command gets ``as_json``."""
    formats = click.option("--format", cls=FormatOption, expose_value=False)
    return formats(click.option("--json", "as_json", is_flag=True, hidden=True)(command))


force_option = option("--force", "Replace the output file if it exists.")
fast_forward_option = option(
    "--fast-forward/--no-fast-forward",
    "Skip periods that repeat, with exact results (default), or simulate all of them.",
    OF_RUNS,
    default=True,
)
dry_run_option = option("--dry-run", "Estimate what the command costs; run and store nothing.")
mapping_option = option(
    "--mapping FILE", "The mapping in this file (see `simaccel map`) instead of a dataflow."
)

overflow_option = option(
    "--allow-overflow", "Also run what needs more memory than the accelerator has.", OF_RUNS
)

_SIZES = (
    option("--seq-len N", f"Of models: tokens of a sequence (default {SEQ_LEN})."),
    option("--batch N", f"Sequences or images (default {BATCH})."),
    option(
        "--scope SCOPE",
        f"Of models: {', '.join(SCOPES)} (default {SCOPE}). Of networks: model, linked or layers.",
    ),
    option("--phase PHASE", f"Of transformers: {' or '.join(PHASES)} (default {PHASES[0]})."),
    option("--prompt N", f"Of transformers: new tokens of a prefill (default {SEQ_LEN})."),
    option(
        "--kv-len N", "Of transformers: tokens in the cache (default 0; of a decode the prompt)."
    ),
    option(
        "--experts HOW",
        "Tokens of each expert: expected (default; as many experts as random choices use "
        "on average), uniform (few tokens use as many experts as possible), drawn:SEED, a list "
        "of counts, or grouped (the same number for each; default with expert-parallel).",
        OF_WORKLOAD,
    ),
    option(
        "--causal-blocks N",
        "Of causal attention: blocks of rows, each with its own keys (default "
        f"{CAUSAL_BLOCKS}, or those of a chip's compiler).",
        OF_WORKLOAD,
    ),
    option(
        "--dim NAME=N",
        "Of ONNX models: size of a dynamic dimension; can be repeated.",
        OF_WORKLOAD,
        to="dims",
        multiple=True,
    ),
    option(
        "--transposed HOW",
        "Of ONNX models: transposed convolutions are dense (default), or exact, in pieces without "
        "products with zeros at the edges.",
        OF_WORKLOAD,
    ),
    option("--layer NAME", "Only this layer of a network or topology.", OF_WORKLOAD),
    option(
        "--shape M=..,...",
        "Sizes of gemm, bmm, gbmm and conv. Of gemm: M, K, N, B; bmm: H, M, K, N; gbmm: G, "
        "too; conv: M, C, P, Q, R, S, G, N, stride, dilation.",
    ),
    option(
        "--bytes-per-element N|TENSOR=N",
        "Bytes of an element of all tensors (default 2), or of one tensor; for "
        "transformers also of weights, activations or cache. Can be repeated.",
        OF_WORKLOAD,
        multiple=True,
    ),
    option(
        "--precision [CLASS=]NUMBER,...",
        f"Of all tensors, or of weights, activations, cache, sums: {', '.join(BITS)}.",
        multiple=True,
    ),
    option(
        "--allow-unmodelled",
        "Run a file without the parts that are not modelled, even if they are more than"
        " 1% of the MACs or can't be counted.",
        OF_WORKLOAD,
    ),
)


def option_group(
    name: str, take: Callable[[dict[str, Any]], object], *options: Decorator
) -> Decorator:
    """Return a decorator that adds options to a command, in order, as one argument ``name``.

    ``take``: removes the options' values from click's dictionary and returns that argument.
    """

    def add(command: Command) -> Command:
        @wraps(command)
        def with_group(**values: Any) -> None:  # noqa: ANN401 - what click passes
            values[name] = take(values)
            command(**values)

        grouped: Command = with_group
        for add_option in reversed(options):
            grouped = add_option(grouped)
        return grouped

    return add


def _take_workload(given: dict[str, Any]) -> WorkloadOptions:
    if "overrides" in given:  # the format of sums is the accelerator's
        words = [word.strip() for text in given["precision"] for word in text.split(",")]
        is_sums = [word.partition("=")[0].strip() == SUMS for word in words]
        sums = [f"precision.{word}" for word, is_sum in zip(words, is_sums, strict=True) if is_sum]
        given["overrides"] = (*given["overrides"], *sums)
        given["precision"] = tuple(
            word for word, is_sum in zip(words, is_sums, strict=True) if not is_sum
        )
    return take_fields(WorkloadOptions, given)


workload_options = option_group("options", _take_workload, *_SIZES)
"""Options for the sizes of a workload; the command has its ``name`` as an argument or option."""


def settings_option(command: Command) -> Command:
    """Add ``--set`` to a command that has settings and no accelerator."""

    def refuse(ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> None:
        require_none(unknown_setting(ctx.command.params, text) for text in texts)

    return option(
        "--set NAME=VALUE",
        "Change a setting of the workload; can be repeated.",
        multiple=True,
        callback=refuse,
        expose_value=False,
    )(command)


def _take_overrides(given: dict[str, Any]) -> tuple[str, ...]:
    overrides, chips = given.pop("overrides"), given.pop("chips")
    return (*overrides, *(() if chips is None else (f"chips={chips}",)))


set_option = option_group("overrides", _take_overrides, _overrides_option, _chips_option)
"""Options that override fields of the accelerator."""
pipeline_option = option(
    "--pipeline", "Overlap softmax of one row block with L of the next; best always may.", OF_SEARCH
)
_PLAIN = [name for name in DATAFLOWS if "-" not in name]


def _take_experiment(given: dict[str, Any]) -> ExperimentOptions:
    names = ("hw", "overrides", "dataflow", "pipeline", "mapping", "allow_overflow")
    chosen = {name: given.pop(name) for name in names if name in given}
    search = take_fields(SearchOptions, given)
    workload = given.pop("options").for_experts(search.expert_parallel)
    return ExperimentOptions(workload=workload, search=search, **chosen)


experiment_options = option_group(
    "experiment",
    _take_experiment,
    option(
        "--hw NAME|FILE", "Accelerator: a name (`simaccel hw list`) or a YAML file.", required=True
    ),
    set_option,
    option(
        "--workload NAME|FILE",
        "A name (`simaccel workload list`), gemm, conv, or a file. Files: YAML, CSV, "
        "ONNX, .m, config.json.",
        to="name",
        required=True,
    ),
    workload_options,
    option(
        "--dataflow NAME",
        f"{', '.join(_PLAIN[:-1])} or {_PLAIN[-1]}. For systolic arrays; naive, flex and "
        "flat also with a suffix, -m, -b, -h or -r; or a plug-in. Default: deployed on chips "
        f"whose compiler is known, else {DATAFLOW}, flex without attention. For spatial "
        f"arrays: {DIRECTIVES}, of a .m file.",
    ),
    pipeline_option,
    *SEARCH_OPTIONS,
)
"""Options that choose an experiment."""


estimate_option = option(
    "--estimate [NAME=]CYCLES",
    "Your own number, of the run or a row: which terms of the bound, which waits it lacks.",
    to="estimates",
    multiple=True,
)

_ALLOWED = "a whole number of cycles from 1 on, or NAME=CYCLES of an operator or fused group"


def read_estimates(entries: Sequence[str]) -> dict[str, int]:
    """Return the user's estimates in cycles by row; InputError: not NAME=CYCLES, or repeated."""
    outcome: dict[str, int] = {}
    faults = []
    for text in entries:
        name, is_named, cycles = text.rpartition("=")
        name = name.strip() if is_named else "total"
        read = number(cycles)
        if not isinstance(read, int) or read < 1 or not name:
            faults.append(fault("--estimate", text, with_digits(cycles, _ALLOWED)))
        elif name in outcome:
            faults.append(fault("--estimate", text, f"one number for {name}"))
        else:
            outcome[name] = read
    require_none(faults)
    return outcome


_MOST_A_PROCESSOR: Final = 4
"""Most processes per processor; each takes tens of MB and a second to start."""


@dataclass(frozen=True)
class Jobs:
    """The processes for parallel work: some of this computer, or those of a Dask scheduler."""

    count: int | None = None
    dask: str | None = None

    def working(self, default: int = 1) -> AbstractContextManager[TaskWorkers]:
        """Open the workers; ``default``: their number if the user gives none."""
        if self.dask is not None:  # which takes half a second to load
            from simaccel.study.cluster import connect_cluster

            return connect_cluster(self.dask)
        from simaccel.study.parallel import open_workers

        return open_workers(self.count or default)


def jobs_options(text: str) -> Decorator:
    """Return the options ``--jobs`` and ``--dask``; the command gets ``jobs``."""
    return option_group(
        "jobs",
        _take_jobs,
        option("--jobs N", text, OF_RUNS, type=click.IntRange(min=1)),
        option(
            "--dask ADDRESS", "Use the processes of this Dask scheduler (tcp://HOST:PORT).", OF_RUNS
        ),
    )


def _take_jobs(given: dict[str, Any]) -> Jobs:
    jobs, dask = given.pop("jobs"), given.pop("dask")
    most = _MOST_A_PROCESSOR * (os.cpu_count() or 1)
    if jobs is not None and jobs > most:
        allowed = f"at most {most}, which is {_MOST_A_PROCESSOR} a processor; --dask for more"
        require_none([fault("--jobs", jobs, allowed)])
    if dask is not None and ":" not in dask:
        allowed = "the address of a Dask scheduler, as in tcp://127.0.0.1:8786"
        require_none([fault("--dask", dask, allowed)])
    return Jobs(jobs, dask)


SEARCH_JOBS_HELP = "Processes of a search; same result: operators are searched side by side."
JOBS_HELP = "Processes at a time (default: one for each processor)."


@dataclass(frozen=True)
class SearchReport:
    """The report on the searches: a table or JSON, and a figure."""

    explain: bool
    plot: str | None
    accounts: list[SearchAccount] = field(default_factory=list)
    losses: list[ObjectiveLosses] = field(default_factory=list)

    def given_options(self) -> dict[str, object]:
        """Return the options that the user gave."""
        every = {"--explain": "given" if self.explain else None, "--plot": self.plot}
        return {name: value for name, value in every.items() if value is not None}

    def draw(self, objective: Objective, title: str, files: OutputFiles) -> None:
        """Draw the searches' progress, if a file is given; refuse one if nothing is searched."""
        if self.plot is None:
            return
        if not any(account.curve for account in self.accounts):
            require_none([fault("--plot", self.plot, "nothing if there is no search")])
        from simaccel.report.figures.pareto import draw_convergence

        shown = [account for account in self.accounts if not account.unfused_reason]
        curves = [("+".join(account.operators), account.curve, account.ran) for account in shown]
        files.write("--plot", lambda: draw_convergence(curves, objective, title))

    def table(self, experiment: ExperimentOptions, accelerator: Accelerator) -> Table:
        """Return the searches as a table."""
        from simaccel.report.accounts import accounts_table

        return accounts_table(self.accounts, experiment.objective, accelerator)

    def json(self, experiment: ExperimentOptions, accelerator: Accelerator) -> dict[str, Any]:
        """Return the searches as JSON, if they are wanted."""
        if not self.explain:
            return {}
        from simaccel.report.accounts import account_json, objective_scale

        scale = objective_scale(experiment.objective, accelerator)
        return {"searches": [account_json(account, scale) for account in self.accounts]}


def report_options(text: str, *, draws: bool = True) -> Decorator:
    """Return ``--explain`` with the help ``text`` and, if ``draws``, ``--plot``.

    The command gets both as ``report``, a `SearchReport`.
    """
    draw = option("--plot FILE", "Draw the progress of the search (.png, .svg or .pdf).")

    def take(given: dict[str, Any]) -> SearchReport:
        return SearchReport(given.pop("explain"), given.pop("plot") if draws else None)

    return option_group("report", take, option("--explain", text, OF_SEARCH), *[draw] * draws)
