"""Lines on a chip's compiler: why its kernels run, and how far they are from measurements."""

from __future__ import annotations

from simaccel.dataflows import DEPLOYED
from simaccel.report.units import count_text, cycles_text, seconds_text
from simaccel.run.limits import kind_of
from simaccel.study.experiment import ExperimentResult
from simaccel.workload import Workload


def start_lines(result: ExperimentResult) -> list[str]:
    """Return a line on the time a host takes to start the program, if the compiler states it."""
    cycles, seconds = result.program_start_cycles, result.accelerator.seconds
    whole = seconds_text(seconds(cycles + result.run.cycles))
    text = f"start of the program: {seconds_text(seconds(cycles))} ({cycles_text(cycles)} cycles)"
    return [f"{text} of the host, once a run and beside it: {whole} in all"] if cycles else []


def measured_lines(result: ExperimentResult) -> list[str]:
    """Return the deviation from measured operators on this chip, for the kinds that a run has."""
    compiler = result.accelerator.compiler
    if not compiler.measured or result.mapping.dataflow != DEPLOYED:
        return []
    kinds = _kinds(result)
    rows = [row for row in compiler.measured if row.operators in kinds]
    parts = [
        f"{count_text(row.rows, row.operators)} (median {row.median_percent:.1f}%, 90% within "
        f"{row.within_90_percent:.1f}%{row.of and f'; {row.of}'})"
        for row in rows
    ]
    lacking = sorted(kinds - {row.operators for row in rows})
    parts += [f"no {kind} operator" for kind in lacking]
    return [f"measured on this chip: {'; '.join(parts)}"]


def _kinds(result: ExperimentResult) -> set[str]:
    """Return the kinds of a run's rows as measured rows name them."""
    workload = result.workload
    attention = _attention(workload)
    kinds = set[str]()
    for row in result.rows:
        names = {name for name in row.run.name.split("+") if name in workload.by_name}
        if names & attention:
            kinds.add("attention")
        elif names:
            kinds.add(kind_of(workload, row.run.name).removeprefix("fused "))
    return kinds


def _attention(workload: Workload) -> set[str]:
    """Return operators of attentions: softmaxes, what makes their scores, what reads them."""
    softmaxes = [one for one in workload.operators if getattr(one, "kind", "") == "softmax"]
    scores = {operand.tensor for softmax in softmaxes for operand in softmax.inputs}
    makers = {one.name for one in workload.operators if one.output.tensor in scores}
    readers = {name for one in softmaxes for name in workload.readers.get(one.output.tensor, ())}
    return {softmax.name for softmax in softmaxes} | makers | readers


def dataflow_reason(result: ExperimentResult) -> str:
    """Return why a dataflow is the default, and what it leaves to the DRAM."""
    if result.mapping.dataflow == DEPLOYED:
        return " (default: the kernels of the chip's compiler; best is what the hardware could do)"
    why = "fuses attention" if result.mapping.dataflow == "flat" else "no attention to fuse"
    if len(result.mapping.groups) > 1 and not result.accelerator.compiler.resident:
        why += "; tensors between groups go through DRAM"
    return f" (default: {why})"
