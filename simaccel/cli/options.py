"""The click options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.choices import (
    BATCH,
    CAUSAL_BLOCKS,
    DIRECTIVES,
    PHASES,
    SCOPE,
    SCOPES,
    SEQ_LEN,
)
from simaccel.cli.experiment_options import DATAFLOW, ExperimentOptions
from simaccel.cli.faults import fault, require_none
from simaccel.cli.search_options import SEARCH_OPTIONS, take_search_options
from simaccel.cli.settings import (
    OF_RUNS,
    OF_SEARCH,
    OF_WORKLOAD,
    FormatOption,
    option,
    unknown_setting,
)
from simaccel.cli.workload_options import WorkloadOptions, number
from simaccel.dataflows import DATAFLOWS
from simaccel.numbers import BITS, SUMS

if TYPE_CHECKING:
    from simaccel.study.workers import TaskWorkers

Command = Callable[..., None]

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
    short = click.option("--json", "as_json", is_flag=True, hidden=True)
    return formats(short(command))


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


def add_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    """Add options to a command, in their order."""
    for add in reversed(options):
        command = add(command)
    return command


def workload_options(command: Command) -> Command:
    """Add the options for the sizes of a workload; the command gets them as ``options``.

    The command itself has ``name``, the workload's name, as an argument or option.
    """

    @wraps(command)
    def with_workload(**options: Any) -> None:  # noqa: ANN401 - what click passes
        _take_sums(options)
        names = [field.name for field in fields(WorkloadOptions)]
        command(options=WorkloadOptions(**{name: options.pop(name) for name in names}), **options)

    return add_options(with_workload, _SIZES)


def _take_sums(given: dict[str, Any]) -> None:
    """Set the accelerator's format of sums by --precision, if the command has an accelerator."""
    if "overrides" not in given:
        return
    words = [word.strip() for text in given["precision"] for word in text.split(",")]
    is_sums = [word.partition("=")[0].strip() == SUMS for word in words]
    sums = [f"precision.{word}" for word, mine in zip(words, is_sums, strict=True) if mine]
    given["overrides"] = (*given["overrides"], *sums)
    given["precision"] = tuple(word for word, mine in zip(words, is_sums, strict=True) if not mine)


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


def set_option(command: Command) -> Command:
    """Add the options that override fields of the accelerator; the command gets ``overrides``."""

    @wraps(command)
    def with_fields(**options: Any) -> None:  # noqa: ANN401 - what click passes
        chips = options.pop("chips")
        options["overrides"] += () if chips is None else (f"chips={chips}",)
        command(**options)

    return add_options(with_fields, (_overrides_option, _chips_option))


def experiment_options(command: Command) -> Command:
    """Add the options that choose an experiment; the command gets ``experiment``."""

    @wraps(command)
    def with_experiment(**options: Any) -> None:  # noqa: ANN401 - what click passes
        names = ("hw", "overrides", "dataflow", "pipeline", "mapping", "allow_overflow")
        chosen = {name: options.pop(name) for name in names if name in options}
        search = take_search_options(options)
        workload = options.pop("options").for_experts(search.expert_parallel)
        command(experiment=ExperimentOptions(workload=workload, search=search, **chosen), **options)

    plain = [name for name in DATAFLOWS if "-" not in name]
    options = (
        option(
            "--hw NAME|FILE",
            "Accelerator: a name (`simaccel hw list`) or a YAML file.",
            required=True,
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
            f"{', '.join(plain[:-1])} or {plain[-1]}. For systolic arrays; naive, flex and "
            "flat also with a suffix, -m, -b, -h or -r; or a plug-in. Default: deployed on chips "
            f"whose compiler is known, else {DATAFLOW}, flex without attention. For spatial "
            f"arrays: {DIRECTIVES}, of a .m file.",
        ),
        option(
            "--pipeline",
            "Overlap softmax of one row block with L of the next; best always may.",
            OF_SEARCH,
        ),
        *SEARCH_OPTIONS,
    )
    return add_options(with_experiment, options)


estimate_option = option(
    "--estimate [NAME=]CYCLES",
    "Your own number, of the run or a row: which terms of the bound, which waits it lacks.",
    to="estimates",
    multiple=True,
)

_ALLOWED = "a whole number of cycles from 1 on, or NAME=CYCLES of an operator or fused group"


def read_estimates(entries: Sequence[str]) -> dict[str, int]:
    """Return the user's estimates in cycles, by the row that each is for."""
    outcome: dict[str, int] = {}
    faults = []
    for text in entries:
        name, is_named, cycles = text.rpartition("=")
        name = name.strip() if is_named else "total"
        read = number(cycles)
        if not isinstance(read, int) or read < 1 or not name:
            faults.append(fault("--estimate", text, _ALLOWED))
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

    def given_options(self) -> dict[str, object]:
        """Return the options that the user gave."""
        every = {"--jobs": self.count, "--dask": self.dask}
        return {name: value for name, value in every.items() if value is not None}

    def working(self, default: int = 1) -> AbstractContextManager[TaskWorkers]:
        """Open the workers; ``default``: their number if the user gives none."""
        from simaccel.study.parallel import open_workers

        return open_workers(self.count or default, self.dask)


def jobs_options(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--jobs`` and ``--dask``; the command gets ``jobs``."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_jobs(*, jobs: int | None, dask: str | None, **options: Any) -> None:  # noqa: ANN401 - what click passes
            _require_few(jobs)
            if dask is not None and ":" not in dask:
                allowed = "the address of a Dask scheduler, as in tcp://127.0.0.1:8786"
                require_none([fault("--dask", dask, allowed)])
            command(jobs=Jobs(jobs, dask), **options)

        dask_option = option(
            "--dask ADDRESS", "Use the processes of this Dask scheduler (tcp://HOST:PORT).", OF_RUNS
        )
        jobs_option = option("--jobs N", text, OF_RUNS, type=click.IntRange(min=1))
        return jobs_option(dask_option(with_jobs))

    return add


def _require_few(jobs: int | None) -> None:
    """Refuse processes that this computer can't run side by side in any sense."""
    most = _MOST_A_PROCESSOR * (os.cpu_count() or 1)
    if jobs is not None and jobs > most:
        allowed = f"at most {most}, which is {_MOST_A_PROCESSOR} a processor; --dask for more"
        require_none([fault("--jobs", jobs, allowed)])


SEARCH_JOBS_HELP = "Processes of a search; same result: operators are searched side by side."
JOBS_HELP = "Processes at a time (default: one for each processor)."
