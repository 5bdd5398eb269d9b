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

set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Override a field of the accelerator, e.g. 'buffer.capacity_bytes=64 KiB'.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
force_option = click.option("--force", is_flag=True, help="Replace the output file if it exists.")
fast_forward_option = click.option(
    "--fast-forward/--no-fast-forward",
    default=True,
    help="Skip repetitions (exact; on) or simulate each of them.",
)
dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Say what there is to do, and about what it costs; do and keep nothing.",
)
mapping_option = click.option(
    "--mapping", metavar="FILE", help="Take this mapping (see `simaccel map`); no scheduler."
)

_SIZES = (
    click.option(
        "--seq-len", metavar="N", help=f"Tokens of a sequence (of a model; default {SEQ_LEN})."
    ),
    click.option(
        "--batch",
        metavar="N",
        help=f"Sequences, or images, of the batch (of a model or network; default {BATCH}).",
    ),
    click.option(
        "--scope",
        metavar="SCOPE",
        help=f"Part of a model: {', '.join(SCOPES)} (default {SCOPE}); of a network: model, "
        "linked, or layers, each alone (default model).",
    ),
    click.option(
        "--phase",
        metavar="PHASE",
        help=f"Of a transformer: {' or '.join(PHASES)} (default {PHASES[0]}).",
    ),
    click.option("--prompt", metavar="N", help=f"New tokens of a prefill (default {SEQ_LEN})."),
    click.option(
        "--kv-len", metavar="N", help="Tokens in the cache before (prefill: 0; decode: the prompt)."
    ),
    click.option(
        "--experts",
        metavar="HOW",
        help="Tokens over experts: uniform (default; of few tokens the worst case: each needs "
        "experts of its own), expected (as many experts as they need on average), drawn:SEED, "
        "counts with commas, or grouped (as many each; with --expert-parallel the default).",
    ),
    click.option(
        "--causal-blocks",
        metavar="N",
        help=f"Blocks of rows under a causal mask, each with its keys (default {CAUSAL_BLOCKS}).",
    ),
    click.option(
        "--dim",
        "dims",
        multiple=True,
        metavar="NAME=N",
        help="Size of a dynamic dimension of an ONNX model; can be repeated.",
    ),
    click.option("--layer", metavar="NAME", help="One layer of a network or topology."),
    click.option(
        "--shape",
        metavar="M=..,...",
        help="Sizes of the workload gemm (M, K, N, B), bmm (H, M, K, N), gbmm (and G) or conv "
        "(M, C, P, Q, R, S, G, N, stride, dilation).",
    ),
    click.option(
        "--bytes-per-element",
        multiple=True,
        metavar="N|TENSOR=N",
        help="Element size of all tensors (default 2) or of one (of a transformer also weights, "
        "activations, cache); can be repeated.",
    ),
    click.option(
        "--precision",
        multiple=True,
        metavar="CLASS=NUMBER,...",
        help="Numbers of weights, activations and cache, and of the sums of an accumulator: "
        f"{', '.join(BITS)}; goes before --bytes-per-element.",
    ),
    click.option(
        "--allow-unmodelled",
        is_flag=True,
        help="Of a file: leave out what is not modelled, also where that is more than 1% of the "
        "MACs or can't be counted.",
    ),
)


def _with(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
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

    return _with(with_workload, _SIZES)


def _take_sums(given: dict[str, Any]) -> None:
    """Set the accelerator's sums where --precision says them, if the command has an accelerator."""
    if "overrides" not in given:
        return
    words = [word.strip() for text in given["precision"] for word in text.split(",")]
    is_sums = [word.partition("=")[0].strip() == SUMS for word in words]
    sums = [f"precision.{word}" for word, mine in zip(words, is_sums, strict=True) if mine]
    given["overrides"] = (*given["overrides"], *sums)
    given["precision"] = tuple(word for word, mine in zip(words, is_sums, strict=True) if not mine)


def experiment_options(command: Command) -> Command:
    """Add the options that choose an experiment; the command gets ``asked``."""

    @wraps(command)
    def with_experiment(**options: Any) -> None:  # noqa: ANN401 - what click passes
        names = ("hw", "overrides", "dataflow", "pipeline", "mapping")
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
            help="A model or network (`simaccel workload list`), gemm, conv, or a file: YAML, CSV, "
            "ONNX, .m, config.json.",
        ),
        workload_options,
        click.option(
            "--dataflow",
            metavar="NAME",
            help=f"Systolic arrays: {', '.join(DATAFLOWS)} (default {DATAFLOW}, "
            "flex where there is no attention), or a plug-in's. Spatial arrays: "
            f"{DIRECTIVES}, as a MAESTRO description says.",
        ),
        click.option(
            "--pipeline",
            is_flag=True,
            help="Overlap softmax of one row block with L of the next.",
        ),
        *SEARCH_OPTIONS,
    )
    return _with(with_experiment, options)
