"""Nests on systolic arrays against SCALE-Sim's closed form, and GEMM commands."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.choices import Mapping, NestGroup, NestLevel, NestMapping, WorkloadReference
from simaccel.mapping.nest import require_nests
from simaccel.mapping.systolic import STATIONARY
from simaccel.mapspace.search import Effort
from simaccel.program.lower import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.workload import Einsum, gemm

FREE = [
    "array.overlap=none",
    "buffer.capacity_bytes=unlimited",
    "buffer.read_bytes_per_second=unlimited",
    "buffer.write_bytes_per_second=unlimited",
    "noc.distribution.topology=unlimited",
    "noc.collection.topology=unlimited",
    "dram.bandwidth_bytes_per_second=unlimited",
    "dram.latency_cycles=0",
    "dram.turnaround_cycles=0",
]
SIZES = st.integers(1, 40)


def _nest(m: int, k: int, n: int, stationarity: Stationarity, rows: int, cols: int) -> Mapping:
    """Fold the stationary operand over the array, one fold after the other from the buffer."""
    workload = gemm(m=m, k=k, n=n)
    einsum = workload.operators[0]
    assert isinstance(einsum, Einsum)
    places = {"ws": ("k", "n", "m"), "os": ("m", "n", "k"), "is": ("k", "m", "n")}
    down, across, stream = places[stationarity]
    sizes = {"m": m, "k": k, "n": n}
    levels = (
        NestLevel(level="dram", keep=("input", "weight", "output")),
        NestLevel(
            level="buffer",
            factors={down: -(-sizes[down] // rows), across: -(-sizes[across] // cols)},
            order=(across, down),
            keep=("input", "weight", "output"),
        ),
        NestLevel(level="rows", factors={down: min(rows, sizes[down])}),
        NestLevel(level="cols", factors={across: min(cols, sizes[across])}),
        NestLevel(level="pe", factors={stream: sizes[stream]}, keep=(STATIONARY[stationarity],)),
    )
    group = NestGroup(operator=einsum.name, mapping=NestMapping(levels=levels))
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    return Mapping(workload=reference, dataflow="hand", groups=(group,))


@given(SIZES, SIZES, SIZES, st.sampled_from(STATIONARITIES))
def test_without_limits_folds_take_what_scale_sim_says(
    m: int, k: int, n: int, stationarity: Stationarity
) -> None:
    """Section III of SCALE-Sim: all sides are charged, also of folds that don't fill the array."""
    on = load_accelerator("toy", FREE)
    rows, cols = on.array.rows, on.array.cols
    folds = {
        "ws": (k, n, m + 2 * rows + cols - 2),
        "os": (m, n, k + rows + cols - 2),
        "is": (k, m, n + 2 * rows + cols - 2),
    }
    down, across, cycles = folds[stationarity]
    mapping = _nest(m, k, n, stationarity, rows, cols)
    require_nests(gemm(m=m, k=k, n=n), mapping, on, "here")
    run = Machine(on, lower(gemm(m=m, k=k, n=n), mapping)).run()
    assert run.cycles == math.ceil(down / rows) * math.ceil(across / cols) * cycles
    assert run.macs == m * k * n


@pytest.mark.parametrize(
    ("level", "change", "message"),
    [
        (2, {"factors": {"m": 2}}, "levels[2].factors.m: got 2; allowed: 1; ws has k there"),
        (4, {"keep": ("input", "weight")}, "levels[4].keep: got input, weight; allowed: one of"),
        (1, {"keep": ("input",)}, "levels[1].keep: got input; allowed: input, weight, output"),
    ],
)
def test_what_a_systolic_array_cannot_do_is_refused(
    level: int, change: dict[str, object], message: str
) -> None:
    workload, mapping = gemm(m=4, k=4, n=4), _nest(4, 4, 4, "ws", 4, 4)
    (group,) = mapping.groups
    assert isinstance(group, NestGroup)
    levels = list(group.mapping.levels)
    levels[level] = levels[level].model_copy(update=change)
    nest = group.mapping.model_copy(update={"levels": tuple(levels)})
    wrong = mapping.model_copy(update={"groups": (group.model_copy(update={"mapping": nest}),)})
    with pytest.raises(InputError) as refusal:
        require_nests(workload, wrong, load_accelerator("toy"), "m.yaml")
    assert f"m.yaml: groups[0].mapping.{message}" in str(refusal.value).replace("'", "")


def test_a_search_is_about_as_good_as_the_scheduler_of_gemms() -> None:
    """Two ways to map the same GEMM; what they find may differ by what they count."""
    workload, on = gemm(m=100, k=90, n=80), load_accelerator("toy")
    options = Options(effort=Effort(objective="cycles", patience=5000))
    cycles = {
        name: Machine(on, lower(workload, make_mapping(workload, on, name, options))).run().cycles
        for name in ("flex", "ruby")
    }
    assert cycles["ruby"] < 1.3 * cycles["flex"]
