"""Recording a run: an experiment whose trace goes to a file that can reproduce it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from simaccel.files.documents import document_text
from simaccel.hardware import Accelerator
from simaccel.machine.accounts import Listener
from simaccel.machine.walks import InstructionStreams
from simaccel.mapping.files import mapping_text
from simaccel.mapping.tree import Mapping
from simaccel.program.program import Program
from simaccel.program.text import program_text
from simaccel.run.run import Progress
from simaccel.schedulers import Options
from simaccel.study.documents import accelerator_document, recorded_workload
from simaccel.study.experiment import ExperimentResult, result_json, simulate
from simaccel.study.placement import compile_for, place_on
from simaccel.study.store import code_digest
from simaccel.trace import TraceHeader, TraceWriter, program_sites
from simaccel.version import version
from simaccel.workload import Workload


def trace_header(
    workload: Workload,
    accelerator: Accelerator,
    mapping: Mapping,
    program: Program,
    walks: InstructionStreams | None = None,
) -> TraceHeader:
    """Return a trace's header, which reproduces the run: each of its texts is an input file.

    ``walks``: the program's instruction streams, if they were made before.
    """
    return TraceHeader(
        accelerator=document_text(accelerator_document(accelerator)),
        workload=document_text(recorded_workload(workload)),
        mapping=mapping_text(mapping),
        program=program_text(program),
        version=version(),
        code=code_digest(),
        sites=program_sites(program, accelerator, walks),
    )


def record(
    path: str | Path,
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping = "flat",
    *,
    force: bool = False,
    options: Options | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
) -> ExperimentResult:
    """Do what ``simulate`` does and write the trace to ``path``.

    Raises:
        SimaccelError: as for ``simulate``.
        InputError: the file exists and ``force`` is not given, or it can't be written.
    """
    if isinstance(dataflow, Mapping):
        workload = compile_for(workload, accelerator, dataflow)
    else:
        workload = place_on(workload, accelerator, dataflow, options)
    writers: list[TraceWriter] = []
    with ExitStack() as stack:

        def listen(mapping: Mapping, program: Program, walks: InstructionStreams) -> Listener:
            header = trace_header(workload, accelerator, mapping, program, walks)
            writer = TraceWriter(path, header, force=force)
            stack.push(writer)  # before it makes a file, so that Ctrl-C never leaves one
            writers.append(writer.__enter__())
            return writer

        result = simulate(
            workload,
            accelerator,
            dataflow,
            options=options,
            listener=listen,
            progress=progress,
            fast_forward=fast_forward,
        )
        figures = result_json(result)
        del figures["wall_seconds"]
        run = result.run
        writers[0].finish(run.cycles, run.engines, figures, run.served_cycles)
    return result
