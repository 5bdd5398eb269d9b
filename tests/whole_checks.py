"""Imported once a session: each run of the tests is held to more than a user's.

Its program goes over all points of its tree, and stores all that leaves a group. A user has that
with ``--check``.
"""

from simaccel.hardware import Accelerator
from simaccel.mapping.chips.sharding import Pod
from simaccel.program.exchanges import lower_pod
from simaccel.program.program import Program
from simaccel.run import run
from simaccel.run.conservation import require_program


def lower_checked(pod: Pod, accelerator: Accelerator) -> Program:
    """Lower what a chip does, and require that the program does all of it."""
    program = lower_pod(pod, accelerator)
    require_program(pod.workload, pod.mapping, program, pod.exchanges)
    return program


run.lower_pod = lower_checked  # type: ignore[attr-defined]
