"""A generation: a prefill makes the first token, and decode steps make the others.

A step's cache is one token longer than that of the step before. Steps of some lengths run on the
machine, the first and the last among them; between two of them cycles, energy and bytes are
interpolated linearly (the trapezoidal rule). For bytes of weights and caches this is exact where
the mapping stays the same; for cycles also, but for remainders of tiles. ``spread`` estimates the
error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from simaccel.analytic.memories import dram_by_class
from simaccel.analytic.native import roofline_cycles
from simaccel.errors import Fault, InputError, require_none
from simaccel.hardware import Accelerator
from simaccel.schedulers import Options, default_dataflow
from simaccel.schedulers.chip_share import settle_loads
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.study.figure_table import combine_tables
from simaccel.study.pipeline import PipelineRun, pipeline_row, run_pipeline
from simaccel.study.pipeline_plan import PipelinePlan, plan_pipeline
from simaccel.study.points import Point, Record, WeightedWorkload, base_point
from simaccel.workload import Workload, build, find_transformer
from simaccel.workload.language.model import Transformer
from simaccel.workload.names import size_faults

LENGTHS = 5
"""Default of the most decode steps that are simulated."""
MOST_TOKENS = 2**20
Progress = Callable[[float, str], None]


def _run_figures(result: ExperimentResult) -> Record:
    """Return the cost of a phase as JSON, with a lower bound of its cycles by a roofline.

    On several chips: bytes (by class of tensor) and MACs of one of them, energy of all.
    """
    return {
        "cycles": result.run.cycles,
        "energy_pj": result.energy_pj,
        "dram_bytes": dram_by_class(result.workload, result.run.moved),
        "roofline_cycles": roofline_cycles(result.workload, result.accelerator),
        "macs": result.run.macs,
        "bubble_cycles": 0,
    }


def _pipeline_figures(run: PipelineRun) -> Record:
    """Return the cost of a phase in a pipeline; its roofline is that of stages at their rooflines.

    Bytes and MACs are means over all chips, ``bubble_cycles`` mean cycles without micro-batch.
    """
    mean = pipeline_row(run)
    rooflines = run.stage_figures(lambda run: roofline_cycles(run.workload, run.accelerator))
    return {
        "cycles": run.cycles,
        "energy_pj": run.energy_pj,
        "dram_bytes": mean["dram_by_class"],
        "roofline_cycles": run.cycles_of(rooflines),
        "macs": mean["macs"],
        "bubble_cycles": round(run.bubbles * run.cycles),
    }


@dataclass(frozen=True, kw_only=True)
class Generation:
    """``tokens`` tokens of each of ``batch`` sequences after a prompt.

    ``workload``: the prefill of the whole model. ``prefill``, ``steps``, ``decode``: figures of the
    prefill, of the decode steps that ran, by the tokens in the cache before, and of all steps
    together. ``plan``: the stages of a pipeline. ``options``: with the degrees of
    parallelism of all phases. ``spread``: relative change of the cycles of all steps when every
    other simulated length is left out; None where there is none to leave out, 0 where all were
    simulated.
    """

    tokens: int
    batch: int
    prompt: int
    workload: Workload
    accelerator: Accelerator
    dataflow: str
    prefill: Record
    steps: Mapping[int, Record]
    decode: Record
    spread: float | None
    plan: PipelinePlan | None = None
    options: Options | None = None

    @property
    def first_token_seconds(self) -> float:
        """Time to the first token."""
        return self.accelerator.seconds(self.prefill["cycles"])

    @property
    def decode_seconds(self) -> float:
        """Time of all tokens but the first."""
        return self.accelerator.seconds(self.decode["cycles"])

    @property
    def token_seconds(self) -> float:
        """Mean time between two tokens of a sequence."""
        return self.decode_seconds / max(1, self.tokens - 1)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all sequences a second, while decoding."""
        return self.batch * (self.tokens - 1) / self.decode_seconds if self.steps else 0.0

    @property
    def tokens_per_second_with_prefill(self) -> float:
        """Tokens of all sequences a second, the prefill counted in."""
        return self.batch * self.tokens / (self.first_token_seconds + self.decode_seconds)

    @property
    def energy_per_token_pj(self) -> float:
        """Mean energy of a decoded token in pJ."""
        energy_pj: float = self.decode["energy_pj"]
        return energy_pj / max(1, self.batch * (self.tokens - 1))


def generate(  # noqa: PLR0913 - options of a generation
    model: str | Transformer,
    accelerator: Accelerator,
    dataflow: str | None = None,
    *,
    tokens: int,
    prompt: int = 512,
    lengths: int = LENGTHS,
    stages: int | None = None,
    micro_batches: int | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
    **sizes: Any,  # noqa: ANN401 - what `build` takes of a transformer
) -> Generation:
    """Run a prefill and the decode steps of some lengths, and sum up a generation.

    ``tokens``: how many each sequence generates after ``prompt`` tokens. ``dataflow``: None for
    `default_dataflow`. ``stages``: of a pipeline (``run_pipeline``), which is full in decode steps.
    ``lengths``: the most decode steps that are simulated. ``sizes``: of the workload, as of
    ``build``.

    Raises:
        InputError: wrong sizes, or a model that doesn't decode.
        SimaccelError: as of `simulate`.
    """
    prefill, decodes = planned_phases(model, tokens=tokens, prompt=prompt, lengths=lengths, **sizes)
    point = replace(
        base_point(prefill, accelerator),
        dataflow=dataflow or default_dataflow(accelerator, prefill),
        stages=stages,
        micro_batches=micro_batches,
        options=options or Options(),
        fast_forward=fast_forward,
    )
    return run_phases(point, decodes, tokens, progress)


def run_phases(
    point: Point, decodes: Mapping[int, Workload], tokens: int, progress: Progress | None = None
) -> Generation:
    """Run the prefill of a point and decode steps, and sum up a generation of ``tokens`` tokens.

    ``decodes``: by the tokens in the cache before (`planned_phases`). Raises what `simulate` does.
    """
    base, plan = settle_phases(point, [*decodes.values()], tokens)

    def run(at: int, workload: Workload) -> Record:
        what = f"decode after {[*decodes][at - 1]}" if at else "prefill"

        def tell(_: int, done: float) -> None:
            if progress:
                progress((at + done) / (1 + len(decodes)), what)

        tell(0, 0.0)
        if base.stages is not None:
            part = replace(base, loads=(WeightedWorkload(workload),))
            return _pipeline_figures(run_pipeline(part, tell))
        how: dict[str, Any] = {"progress": tell, "fast_forward": base.fast_forward}
        return _run_figures(
            simulate(workload, base.accelerator, base.dataflow, options=base.options, **how)
        )

    prefill = base.workload
    first, *others = (run(at, workload) for at, workload in enumerate((prefill, *decodes.values())))
    steps = dict(zip(decodes, others, strict=True))
    return Generation(
        tokens=tokens,
        batch=prefill.parameters["batch"],
        prompt=prefill.parameters["prompt"],
        workload=prefill,
        accelerator=base.accelerator,
        dataflow=base.name,
        prefill=first,
        steps=steps,
        decode=_sum_steps(steps, tokens - 1, first),
        spread=_spread_of_steps(steps, tokens - 1),
        plan=plan,
        options=base.options,
    )


def planned_phases(
    model: str | Transformer,
    *,
    tokens: int,
    prompt: int = 512,
    lengths: int = LENGTHS,
    **sizes: Any,  # noqa: ANN401 - what `build` takes of a transformer
) -> tuple[Workload, dict[int, Workload]]:
    """Return what a generation simulates: the prefill, and decode steps by the tokens before them.

    Raises:
        InputError: wrong sizes, or a model that doesn't decode.
    """
    faults = size_faults("generation", {"generate": tokens, "lengths": lengths}, MOST_TOKENS)
    if isinstance(model, Transformer) and model.decoder_layers:
        allowed = "a decoder alone: for an encoder with a decoder run --phase prefill and decode"
        faults.append(Fault("generation", "model", model.name, allowed))
    if "phase" in sizes:
        faults.append(Fault("generation", "phase", sizes["phase"], "nothing: it has both"))
    whole = {"scope": "model", **sizes, "phase": "prefill"}
    try:
        prefill = build(model, prompt=prompt, **whole)
    except InputError as error:
        raise InputError([*faults, *error.faults]) from None
    of = model if isinstance(model, Transformer) else find_transformer(model)
    if of.is_encoder and not of.decoder_layers:
        faults.append(Fault("generation", "model", of.name, "a decoder, as tokens are generated"))
    past = prompt + (whole.pop("kv_len", None) or 0)
    if of.positions and tokens > (most := of.positions - past + 1):
        allowed = f"at most {most} after {past} tokens: {of.name} has {of.positions} positions"
        faults.append(Fault("generation", "generate", tokens, allowed))
    require_none(faults)
    places = chosen_lengths(past, tokens - 1, lengths)
    whole["phase"] = "decode"
    return prefill, {kv_len: build(model, kv_len=kv_len, **whole) for kv_len in places}


def settle_phases(
    point: Point, steps: Sequence[Workload], tokens: int
) -> tuple[Point, PipelinePlan | None]:
    """Return the point with the fastest degrees of parallelism over all phases, and its plan.

    ``point``: of the prefill. The plan is that of its pipeline, None without stages. The first and
    the last of ``steps`` stand for half of the decode steps each. All phases have the same degrees,
    as decode steps read the caches where the prefill has left them.
    """
    ends = [*steps[:1], *steps[1:][-1:]]
    loads = (*point.loads, *(WeightedWorkload(step, (tokens - 1) / len(ends)) for step in ends))
    if point.stages is not None:
        plan = plan_pipeline(replace(point, loads=loads))
        return replace(point, options=plan.options), plan
    works = ((load.workload, Fraction(load.weight)) for load in loads)
    options = settle_loads(point.options, point.accelerator, works, point.name)
    return replace(point, options=options), None


def chosen_lengths(first: int, count: int, most: int) -> list[int]:
    """Return at most ``most`` of the lengths first, first + 1, ..., evenly spaced, with both ends.

    >>> chosen_lengths(512, 128, 5)
    [512, 544, 576, 607, 639]
    >>> chosen_lengths(7, 3, 5)
    [7, 8, 9]
    """
    if count <= most:
        return [first + at for at in range(count)]
    if most == 1:
        return [first + (count - 1) // 2]
    return sorted({first + round(at * (count - 1) / (most - 1)) for at in range(most)})


def sum_between(places: Sequence[int], values: Sequence[Fraction]) -> Fraction:
    """Return the sum of linearly interpolated values at all integers from first to last place.

    >>> sum_between([1, 3, 4], [Fraction(1), Fraction(5), Fraction(6)])
    Fraction(15, 1)
    """
    total = values[-1]
    ends = zip(places, places[1:], values, values[1:], strict=False)
    for low, high, one, other in ends:
        count = high - low
        total += count * one + (other - one) * Fraction(count - 1, 2)
    return total


def _sum_steps(steps: Mapping[int, Record], count: int, prefill: Record) -> Record:
    """Return the figures of all ``count`` steps; a single simulated one stands for each of them."""

    def whole(values: Sequence[float]) -> float:
        if any(map(math.isnan, values)):
            return math.nan
        exact = [Fraction(value) for value in values]
        total = count * exact[0] if len(exact) == 1 else sum_between([*steps], exact)
        return round(total) if isinstance(values[0], int) else float(total)

    figures: Record = combine_tables(
        [*steps.values()] or [prefill], whole if steps else lambda _: 0
    )
    return figures


def _spread_of_steps(steps: Mapping[int, Record], count: int) -> float | None:
    """Return the relative change of the sum of cycles with every other length (`Generation`)."""
    places = [*steps]
    if len(places) == count:
        return 0.0
    if len(places) < 3:  # noqa: PLR2004 - both ends and one between
        return None
    cycles = [Fraction(figures["cycles"]) for figures in steps.values()]
    fewer = [at for at in range(len(places)) if at % 2 == 0 or at == len(places) - 1]
    fine = sum_between(places, cycles)
    coarse = sum_between([places[at] for at in fewer], [cycles[at] for at in fewer])
    return float(abs(coarse - fine) / fine)
