"""The tokens of a run."""

from __future__ import annotations

from simaccel.workload import Workload


def tokens_of(workload: Workload) -> int | None:
    """Return the tokens that a run makes or takes in: of a decode step one a sequence.

    Of a network without tokens the images of its batch; None where neither is known, and of a part
    of a model.
    """
    parameters = workload.parameters
    batch = parameters.get("batch")
    whole = parameters.get("scope", "model") in {"model", "layers"} and "layer" not in parameters
    if batch is None or not whole:
        return None
    if parameters.get("kind") == "transformer":
        each = 1 if parameters.get("phase") == "decode" else parameters.get("prompt")
    else:
        each = parameters.get("seq_len", 1)
    return None if each is None else int(batch) * int(each)


def phase_of(workload: Workload) -> str | None:
    """Return the phase of a whole transformer, ``prefill`` or ``decode``; None of all else."""
    parameters = workload.parameters
    if (parameters.get("kind"), parameters.get("scope")) != ("transformer", "model"):
        return None
    return str(parameters["phase"])
