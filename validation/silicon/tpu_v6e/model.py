"""Attention of Llama-3.1-8B on a TPU v6e chip, as ``simaccel run --scope la`` has it.

What a host takes to start a program is in the measured times (``compiler.program_start_cycles``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.workload import build
from validation.silicon.booked import START, book
from validation.silicon.runs import loaded, run

MODEL = "llama3-8b"


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the nanoseconds of attention of each row: columns phase, chunk, kv, batch.

    Raises:
        InputError: a prefill of no token, a decode of no key.
    """
    on = loaded("tpu_v6e")
    start = on.compiler.program_start_cycles
    predicted = []
    for row in rows:
        chunk, keys, batch = (int(row[name]) for name in ("chunk", "kv", "batch"))
        prompt = None if row["phase"] == "decode" else chunk
        attention = build(
            MODEL, phase=row["phase"], prompt=prompt, kv_len=keys, batch=batch, scope="la"
        )
        book(START, start)
        predicted.append(1e9 * on.seconds(start + run(attention, on)))
    return predicted
