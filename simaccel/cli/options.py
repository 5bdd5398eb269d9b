"""The click options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any

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
from simaccel.cli.search_options import SEARCH_OPTIONS, take_sought
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.dataflows import DATAFLOWS
from simaccel.numbers import BITS, SUMS

Command = Callable[..., None]

_overrides_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Override a field of the accelerator, e.g. 'buffer.capacity_bytes=64 KiB'; "
    "can be repeated.",
)
_chips_option = click.option(
    "--chips",
    metavar="SHAPE",
    help="Run on so many chips of an accelerator that has links, e.g. 16 or 4x4x4.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
force_option = click.option("--force", is_flag=True, help="Replace the output file if it exists.")
fast_forward_option = click.option(
    "--fast-forward/--no-fast-forward",
    default=True,
    help="Skip periods that repeat, with exact results (default), or simulate all of them.",
)
dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Estimate the cost of the command, without running or storing anything.",
)
mapping_option = click.option(
    "--mapping",
    metavar="FILE",
    help="Use the mapping in this file (see `simaccel map`) instead of a dataflow.",
)

overflow_option = click.option(
    "--allow-overflow",
    is_flag=True,
    help="Also run what needs more memory than the accelerator has.",
)

_SIZES = (
    click.option(
        "--seq-len", metavar="N", help=f"For models: tokens of a sequence (default {SEQ_LEN})."
    ),
    click.option(
        "--batch",
        metavar="N",
        help=f"For models and networks: sequences or images of the batch (default {BATCH}).",
    ),
    click.option(
        "--scope",
        metavar="SCOPE",
        help=f"For models: the part {', '.join(SCOPES)} (default {SCOPE}). For networks: "
        "model (default), linked, or layers, which are separate.",
    ),
    click.option(
        "--phase",
        metavar="PHASE",
        help=f"For transformers: {' or '.join(PHASES)} (default {PHASES[0]}).",
    ),
    click.option(
        "--prompt",
        metavar="N",
        help=f"For transformers: new tokens of a prefill (default {SEQ_LEN}).",
    ),
    click.option(
        "--kv-len",
        metavar="N",
        help="For transformers: tokens that are already in the cache (default: 0 for a "
        "prefill, the prompt for a decode step).",
    ),
    click.option(
        "--experts",
        metavar="HOW",
        help="For mixtures of experts, the tokens of each expert: expected (default; as many "
        "experts as random choices use on average), uniform (few tokens use as many experts "
        "as possible), drawn:SEED, a list of counts, or grouped (the same number for each; "
        "default with --expert-parallel).",
    ),
    click.option(
        "--causal-blocks",
        metavar="N",
        help="For causal attention: blocks of rows, each with its own keys (default "
        f"{CAUSAL_BLOCKS}).",
    ),
    click.option(
        "--dim",
        "dims",
        multiple=True,
        metavar="NAME=N",
        help="For ONNX models: size of a dynamic dimension; can be repeated.",
    ),
    click.option("--layer", metavar="NAME", help="Only this layer of a network or topology."),
    click.option(
        "--shape",
        metavar="M=..,...",
        help="Sizes of gemm (M, K, N, B), bmm (H, M, K, N), gbmm (and G) or conv (M, C, P, "
        "Q, R, S, G, N, stride, dilation).",
    ),
    click.option(
        "--bytes-per-element",
        multiple=True,
        metavar="N|TENSOR=N",
        help="Bytes of an element of all tensors (default 2), or of one tensor; for "
        "transformers also of weights, activations or cache. Can be repeated.",
    ),
    click.option(
        "--precision",
        multiple=True,
        metavar="NUMBER|CLASS=NUMBER,...",
        help="Number format of all tensors, or of weights, activations, cache, and the sums of an"
        f" accumulator: {', '.join(BITS)}. Has priority over --bytes-per-element.",
    ),
    click.option(
        "--allow-unmodelled",
        is_flag=True,
        help="Run a file without the parts that are not modelled, even if they are more than"
        " 1% of the MACs or can't be counted.",
    ),
)


def _add_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def workload_options(command: Command) -> Command:
    """Add the options that give a workload its sizes; the command gets ``asked``.

    The command has ``name``, the workload's name, as an argument or option of its own.
    """

    @wraps(command)
    def with_workload(**options: Any) -> None:  # noqa: ANN401 - what click passes
        _take_sums(options)
        names = [field.name for field in fields(WorkloadOptions)]
        command(asked=WorkloadOptions(**{name: options.pop(name) for name in names}), **options)

    return _add_options(with_workload, _SIZES)


def _take_sums(given: dict[str, Any]) -> None:
    """Set the accelerator's format of sums by --precision, if the command has an accelerator."""
    if "overrides" not in given:
        return
    words = [word.strip() for text in given["precision"] for word in text.split(",")]
    is_sums = [word.partition("=")[0].strip() == SUMS for word in words]
    sums = [f"precision.{word}" for word, mine in zip(words, is_sums, strict=True) if mine]
    given["overrides"] = (*given["overrides"], *sums)
    given["precision"] = tuple(word for word, mine in zip(words, is_sums, strict=True) if not mine)


def set_option(command: Command) -> Command:
    """Add the options that change fields of the accelerator; the command gets ``overrides``."""

    @wraps(command)
    def with_fields(**options: Any) -> None:  # noqa: ANN401 - what click passes
        chips = options.pop("chips")
        options["overrides"] += () if chips is None else (f"chips={chips}",)
        command(**options)

    return _add_options(with_fields, (_overrides_option, _chips_option))


def experiment_options(command: Command) -> Command:
    """Add the options that choose an experiment; the command gets ``asked``."""

    @wraps(command)
    def with_experiment(**options: Any) -> None:  # noqa: ANN401 - what click passes
        names = ("hw", "overrides", "dataflow", "pipeline", "mapping", "allow_overflow")
        chosen = {name: options.pop(name) for name in names if name in options}
        sought = take_sought(options)
        workload = options.pop("asked").for_experts(sought.expert_parallel)
        command(asked=ExperimentOptions(workload=workload, sought=sought, **chosen), **options)

    options = (
        click.option(
            "--hw", required=True, metavar="NAME|FILE", help="Accelerator: a name or a YAML file."
        ),
        set_option,
        click.option(
            "--workload",
            "name",
            required=True,
            metavar="NAME|FILE",
            help="A model or network (see `simaccel workload list`), gemm, conv, or a file: "
            "YAML, CSV, ONNX, .m, config.json.",
        ),
        workload_options,
        click.option(
            "--dataflow",
            metavar="NAME",
            help=f"For systolic arrays: {', '.join(DATAFLOWS)} (default {DATAFLOW}, flex without "
            f"attention), or a plug-in. For spatial arrays: {DIRECTIVES}, the dataflow of a "
            "MAESTRO description.",
        ),
        click.option(
            "--pipeline",
            is_flag=True,
            help="Overlap softmax of one row block with L of the next.",
        ),
        *SEARCH_OPTIONS,
    )
    return _add_options(with_experiment, options)
