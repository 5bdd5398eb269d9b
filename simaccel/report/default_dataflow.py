"""Lines on a chip's compiler: why its kernels run, and the start of a program by a host."""

from __future__ import annotations

from simaccel.dataflows import DEPLOYED
from simaccel.experiment.run import ExperimentResult
from simaccel.report.units import cycles_text, seconds_text


def start_lines(result: ExperimentResult) -> list[str]:
    """Return a line on what a host takes to start the program, if the chip's compiler has it."""
    cycles, seconds = result.program_start_cycles, result.accelerator.seconds
    whole = seconds_text(seconds(cycles + result.run.cycles))
    text = f"start of the program: {seconds_text(seconds(cycles))} ({cycles_text(cycles)} cycles)"
    return [f"{text} of the host, once a run and beside it: {whole} in all"] if cycles else []


def dataflow_reason(result: ExperimentResult) -> str:
    """Return why a dataflow was chosen by default, and what it leaves to the DRAM."""
    if result.mapping.dataflow == DEPLOYED:
        return " (default: the kernels of the chip's compiler; best is what the hardware could do)"
    why = "fuses attention" if result.mapping.dataflow == "flat" else "no attention to fuse"
    if len(result.mapping.groups) > 1 and not result.accelerator.groups.resident:
        why += "; tensors between groups go through DRAM"
    return f" (default: {why})"
