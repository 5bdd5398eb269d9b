"""Titles of tables, pictures and pages: the workload and the accelerator in one line."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simaccel.hardware import Accelerator
from simaccel.study.placement import place_on
from simaccel.workload import CLASSES, Workload
from simaccel.workload.precision import NATIVE
from simaccel.workload.tensors import class_of

if TYPE_CHECKING:
    from simaccel.trace import TraceReader


def experiment_title(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | None = None,
    *,
    varied: Container[str] = (),
    also: Sequence[str] = (),
) -> str:
    """Return the title of an experiment, without the parameters in ``varied``.

    ``also``: texts to append after the names.
    """
    last = [] if dataflow is None else [f"dataflow {dataflow}"]
    workload = place_on(workload, accelerator)
    name, *sizes = _workload_words(workload, varied)
    sizes += ["elements of 2 bytes"] * any(tensor.assumed for tensor in workload.tensors.values())
    return ", ".join([f"{name} on {accelerator.name}", *also, *sizes, *last])


def trace_title(trace: TraceReader) -> str:
    """Return the title of a recorded run; the path of a trace that lacks the texts for it."""
    header = trace.header
    if not (header.workload and header.accelerator and header.mapping):
        return str(trace.path)
    return experiment_title(trace.workload(), trace.accelerator(), trace.dataflow())


def wrap_title(title: str, width: int) -> str:
    """Break a title into lines of at most ``width`` characters, between its parts.

    >>> wrap_title("bert on edge, scope block, batch 1", 20).splitlines()
    ['bert on edge,', 'scope block, batch 1']
    """
    lines = [""]
    for part in title.split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(longer) > width and lines[-1]:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def phase_words(workloads: Iterable[Workload], varied: Container[str]) -> list[str]:
    """Return descriptions of phases whose token counts are in no column.

    >>> from simaccel.workload import transformer
    >>> sizes = {"prompt": 9, "kv_len": 64}
    >>> steps = [transformer("gpt2", phase=phase, **sizes) for phase in ("prefill", "decode")]
    >>> phase_words(steps, varied=("phase",))
    ['prefill of 9 tokens after 64', 'decode after 64']
    """
    return list(dict.fromkeys(_phase_text(workload.parameters, varied) for workload in workloads))


def _phase_text(parameters: Mapping[str, Any], varied: Container[str]) -> str:
    phase, prompt = parameters["phase"], parameters.get("prompt")
    past = parameters.get("kv_len", prompt if phase == "decode" else None)
    taken = phase == "prefill" and prompt is not None and "prompt" not in varied
    after = past and "kv-len" not in varied and ("kv_len" in parameters or "prompt" not in varied)
    tokens = f" of {prompt} tokens" if taken else ""
    return f"{phase}{tokens}{f' after {past}' if after else ''}"


def workload_title(workload: Workload) -> str:
    """Return the name of a workload with its sizes.

    >>> from simaccel.workload import transformer
    >>> workload_title(transformer("gpt2", phase="decode", prompt=9))
    'gpt2, phase decode, kv-len 9, scope block, batch 1'
    """
    return ", ".join(_workload_words(workload, ()))


def _workload_words(workload: Workload, varied: Container[str]) -> list[str]:
    parameters = workload.parameters
    names = {"layer": "layer", "phase": "phase", "prompt": "prompt", "kv-len": "kv_len"}
    names |= {"scope": "scope", "batch": "batch", "seq-len": "seq_len"}
    if parameters.get("phase") == "decode":
        del names["prompt"]
        if "kv_len" not in parameters and "prompt" not in varied:
            names["kv-len"] = "prompt"
    shown = {name: key for name, key in names.items() if key in parameters and name not in varied}
    sizes = [f"{name} {parameters[key]}" for name, key in shown.items()]
    ranks = parameters.get("shape", {}).items()
    sizes += [f"{rank}={size}" for rank, size in ranks if rank not in varied]
    for step in ("stride", "dilation"):
        height, width = parameters.get(step, (1, 1))
        sizes += [f"{step} {height}x{width}"] if (height, width) != (1, 1) else []
    return [workload.name, *sizes, *([] if "precision" in varied else number_words(workload))]


def number_words(workload: Workload) -> list[str]:
    """Return the number formats of a workload's tensors: one if all are equal, else by class."""
    given = {**workload.parameters.get(NATIVE, {}), **workload.parameters.get("precision", {})}
    used = {class_of(one.kind): given.get(class_of(one.kind)) for one in workload.tensors.values()}
    every = set(used.values())
    if NATIVE in workload.parameters and len(every) == 1 and None not in every:
        return [str(number) for number in every]
    if not given and workload.parameters.get("typed"):
        return [_size_text({one.bits for one in workload.tensors.values()})]
    names = sorted(given, key=lambda name: [*CLASSES, name].index(name))
    return [f"{name} {given[name]}" for name in names]


def _size_text(bits: Collection[int]) -> str:
    """Write the sizes of elements, which a file said.

    >>> _size_text({32}), _size_text({8, 32, 4})
    ('elements of 4 bytes', 'elements of 0.5 to 4 bytes')
    """
    texts = [f"{number / 8:g}" for number in sorted({min(bits), max(bits)})]
    return f"elements of {' to '.join(texts)} byte{'s' * (texts != ['1'])}"
