"""Runs with a trace, for tests of what reads it."""

from pathlib import Path

import yaml

from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.text import program_text
from simaccel.study.documents import accelerator_document
from simaccel.trace import TraceHeader, TraceWriter, program_sites
from tests.program.programs import Case


def write_trace(path: Path, on: Accelerator, one: Case, workload: str = "") -> Run:
    """Run a case and write its trace to ``path``, without figures."""
    header = TraceHeader(
        accelerator=yaml.safe_dump(accelerator_document(on)),
        workload=workload,
        program=program_text(one.program),
        version="1",
        sites=program_sites(one.program, on),
    )
    with TraceWriter(path, header, force=True) as writer:
        run = Machine(on, one.program, writer).run()
        writer.finish(run.cycles, run.engines, {}, run.served_cycles)
    return run
