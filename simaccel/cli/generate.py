"""`simaccel run --generate N`: a prefill and the decode steps after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simaccel.cli.faults import fault, gather, require_none
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.experiment.generation import Generation
    from simaccel.hardware import Accelerator


def generates(
    asked: ExperimentOptions,
    tokens: int | None,
    lengths: int | None,
    others: Mapping[str, object],
    *,
    dry_run: bool,
    fast_forward: bool,
    as_json: bool,
    quiet: bool,
) -> bool:
    """Run a generation and show it, if ``--generate`` is given; return whether it was.

    ``dry_run``: estimate what is to be searched and run instead.

    ``others`` are options that have no meaning beside it.

    Raises:
        InputError: an option that doesn't go with it, or what `generate` refuses.

    """
    if tokens is None:
        require_none(
            [fault("--lengths", lengths, "nothing without --generate")]
            if lengths is not None
            else []
        )
        return False
    taken = "nothing with --generate, which runs several workloads"
    faults = [
        fault(option, "given" if value is True else value, taken)
        for option, value in others.items()
        if value
    ]
    faults += [fault("--mapping", asked.mapping, taken)] if asked.mapping else []
    if asked.workload.phase is not None:
        faults.append(fault("--phase", asked.workload.phase, "nothing: a generation has both"))
    require_none(faults)
    accelerator, (dataflow,), _ = gather(
        asked.accelerator, lambda: asked.names(several=False), asked.workload.require_transformer
    )
    sizes: dict[str, Any] = {"tokens": tokens, **({} if lengths is None else {"lengths": lengths})}
    if dry_run:
        _forecast(asked, accelerator, dataflow, sizes, as_json=as_json)
        return True
    from simaccel.experiment.generation import generate

    with ProgressBar("simulating", quiet=quiet) as bar:
        generation = asked.workload.generation(
            lambda model, figures: generate(
                model,
                accelerator,
                dataflow,
                options=asked.options,
                progress=bar.show,
                fast_forward=fast_forward,
                **sizes,
                **figures,
            )
        )
    _show(generation, as_json=as_json, quiet=quiet)
    return True


def _forecast(
    asked: ExperimentOptions,
    accelerator: Accelerator,
    dataflow: str,
    sizes: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Estimate the searches of the prefill and of the decode steps."""
    from simaccel.cli.outlook import show_outlook
    from simaccel.experiment.generation import planned_phases
    from simaccel.experiment.outlook import outlook
    from simaccel.experiment.precision import place_on
    from simaccel.report.titles import experiment_title

    prefill, decodes = asked.workload.generation(
        lambda model, figures: planned_phases(model, **sizes, **figures)
    )
    phases = {"prefill": prefill, **{f"decode after {n}": step for n, step in decodes.items()}}
    searches = [
        (name, outlook(place_on(phase, accelerator), accelerator, dataflow, asked.options))
        for name, phase in phases.items()
    ]
    title = experiment_title(prefill, accelerator, dataflow, varied=("phase",))
    shown = f"{title}, {sizes['tokens']} tokens"
    show_outlook(shown, searches, {}, runs=True, as_json=as_json)


def _show(generation: Generation, *, as_json: bool, quiet: bool) -> None:
    from simaccel.report.generation import generation_json, generation_lines, phases_table
    from simaccel.report.titles import experiment_title

    if as_json:
        show_json(generation_json(generation))
        return
    run = generation.prefill
    title = experiment_title(
        run.workload, generation.accelerator, run.mapping.dataflow, varied=("phase",)
    )
    if not quiet:
        show(f"{title}, {generation.tokens} tokens", phases_table(generation))
    show(*generation_lines(generation))
