"""Run fused fronts of GPT-3-6.7b on the machine, at full size: they move exactly those bytes.

`python -m validation.orojenesis.attained` writes attained.csv, a row for each chain, and fails
where a point doesn't fit its buffer or moves another byte. The array has 4 x 4 PEs, as points of
some hundred bytes have no room for the operands of a larger one; bytes don't depend on it.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from simaccel import load_accelerator, simulate
from simaccel.mapping.tree import Mapping, WorkloadReference
from simaccel.papers.orojenesis.fused import fused_segment
from simaccel.papers.orojenesis.fusion import TEMPLATES
from simaccel.papers.orojenesis.segment import Segment
from simaccel.workload import Workload, attention
from validation.orojenesis.exhibits import BATCH, GPT3, ROWS, SIX, block, ffn, with_softmax

HERE = Path(__file__).parent
LEAST_BYTES = 256
"""The least that the array and the DRAM need: points below run with so much."""
ATTENTION = ("L", "softmax", "A")


def chains() -> Iterator[tuple[str, Workload, tuple[str, ...], str]]:
    """Yield the chains of figures 18, 20 and 21: name, workload, operators, template."""
    pair = ffn()
    for template in ("untiled", "full", "tiled-kn"):
        yield f"ffn {template}", pair, ("mm0", "mm1"), template
    la = attention(GPT3, batch=BATCH, seq_len=ROWS // BATCH, scope="la")
    for template in ("flat", "flash"):
        yield f"mha {template}", la, ATTENTION, template
    names = with_softmax(SIX)
    yield "six in one best", block().select_operators(names), names, "best"


def is_attained(workload: Workload, segment: Segment, number: int) -> bool:
    """Run a point: it has that buffer, never holds more, and moves those bytes."""
    group = segment.group(number)
    if group is None:
        return False
    room, least = int(segment.front.buffer[number]), int(segment.front.accesses[number])
    size = f"buffer.capacity_bytes={max(LEAST_BYTES, room)}"
    hw = load_accelerator("toy", [size, "compiler.overlap=false", "dram.capacity_bytes=unlimited"])
    reference = WorkloadReference(workload.name, workload.fingerprint)
    mapping = Mapping(workload=reference, dataflow="bound", body=(group,))
    result = simulate(workload, hw, mapping)
    moved = sum(n for (level, _), n in result.run.moved.items() if level.startswith("dram"))
    fits = result.run.peak_buffer_bytes <= room == result.footprint_bytes
    return moved == least and fits


def main() -> int:
    """Run all points; return 1 if one isn't attained."""
    rows = []
    for name, workload, operators, template in chains():
        segment = fused_segment(workload, operators, TEMPLATES[template], imperfect=False)
        assert segment is not None
        started = time.process_time()
        every = range(len(segment.front))
        attained = sum(is_attained(workload, segment, number) for number in every)
        seconds = time.process_time() - started
        rows.append({"chain": name, "points": len(every), "attained": attained})
        print(
            f"{name}: {attained} of {len(every)} points attained, {seconds:.0f} CPU s", flush=True
        )
    with (HERE / "attained.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return int(any(row["attained"] != row["points"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
