"""One experiment: a workload on an accelerator, scheduled, predicted, run, side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from simaccel.analytic.floor.floor import ByteBound
from simaccel.analytic.memories import dram_by_class, share_buffer
from simaccel.analytic.prediction import GroupPrediction, Prediction
from simaccel.dataflows import DEPLOYED
from simaccel.diagnosis.limits import Row, RunLimit, rows_of, run_limit, waiting_by_cause
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_and_power
from simaccel.hardware.cores import CHIP, core_of_name
from simaccel.machine.machine import OperatorRun, Run
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.files import require_same
from simaccel.mapping.tree import Mapping
from simaccel.run.run import MakeListener, Progress, RunResult, run_legal
from simaccel.schedulers import MAPSPACES, Options, settle_options
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.effort import Objective
from simaccel.study.capacity import require_room
from simaccel.study.placement import compile_for, place_on
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Workload

Moved = dict[tuple[str, str], int]


@dataclass(frozen=True)
class ExperimentResult(RunResult):
    """The outcome of one experiment: a run, with the search for its mapping before it.

    ``given_up``: what its choice among near-ties gave up, as JSON; empty without any.
    ``tolerance``: of such choices, relative to the best.
    """

    search_seconds: float = 0.0
    given_up: Map[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0

    @property
    def program_start_cycles(self) -> int:
        """Cycles of a host that starts the program, once; no part of the run's cycles."""
        is_deployed = self.mapping.dataflow == DEPLOYED
        return self.accelerator.compiler.program_start_cycles if is_deployed else 0

    @property
    def energy_pj(self) -> float:
        """Energy of all chips that do what this one does; NaN if it isn't known."""
        return total_energy_pj(self.run, self.accelerator) * len(self.pod.places[0])

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The operators and fused groups, each with its figures and its limit."""
        return rows_of(self)

    @cached_property
    def limit(self) -> RunLimit:
        """The limit of the run."""
        return run_limit(self, self.rows)


def simulate(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping = "flat",
    *,
    options: Options | None = None,
    beside: Sequence[Exchange] = (),
    listener: MakeListener | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
) -> ExperimentResult:
    """Schedule a workload (or take a mapping) and run it (`simaccel.run.run`).

    What doesn't fit the memories is refused, unless ``options.allow_overflow``. ``beside``: as of
    `simaccel.run.run.run_legal`.

    ``listener`` is called with mapping, program and its walks before the run, and returns the
    machine's listener, e.g. a trace writer.

    Raises:
        SimaccelError: nothing fits, the mapping is for another workload, a deadlock.
        ConservationError: the run would do something else than the workload.
    """
    started, losses = time.perf_counter(), list[ObjectiveLosses]()
    given_up: dict[str, Any] = {}
    options = options or Options()
    if isinstance(dataflow, Mapping):
        workload = compile_for(workload, accelerator, dataflow)
        require_same(workload, dataflow)
        workload = share_buffer(workload, accelerator)
        require_mapping(workload, dataflow, accelerator)
    else:
        workload = place_on(workload, accelerator, dataflow, options)
    if not options.allow_overflow:
        require_room(workload, accelerator, dataflow, options)
    if isinstance(dataflow, Mapping):
        mapping = dataflow
    else:
        noting = replace(options, on_losses=losses.append)
        mapping = schedule_workload(workload, accelerator, dataflow, noting)
        for loss in losses:
            options.on_losses(loss)
        aim = settle_options(options, accelerator).effort.aim
        given_up = given_up_json(losses, aim if dataflow in MAPSPACES else options.objective)
    searched = time.perf_counter() - started
    done = run_legal(
        workload,
        accelerator,
        mapping,
        beside,
        listener=listener,
        progress=progress,
        fast_forward=fast_forward,
        allow_overflow=options.allow_overflow,
    )
    return ExperimentResult(
        **vars(done), search_seconds=searched, given_up=given_up, tolerance=options.tolerance
    )


def moved_tree(moved: Moved) -> dict[str, Any]:
    """Return bytes as ``{dram: {read: {tensor: n}, write: ...}, buffer: ..., noc: ...}``.

    A spatial array adds the memories of its PEs, such as ``pe.input``.

    >>> moved_tree({("dram_read", "Q"): 8})
    {'dram': {'read': {'Q': 8}, 'write': {}}, 'buffer': {'read': {}, 'write': {}}, \
'noc': {'distribution': {}, 'collection': {}}}
    """
    tree: dict[str, Any] = {
        "dram": {"read": {}, "write": {}},
        "buffer": {"read": {}, "write": {}},
        "noc": {"distribution": {}, "collection": {}},
    }
    for (level, tensor), n_bytes in moved.items():
        where, direction = level.split("_")
        place = tree.setdefault(where, {"read": {}, "write": {}})
        place[direction][tensor] = n_bytes
    return tree


def energy_pj(run: Run | OperatorRun, accelerator: Accelerator) -> dict[str, float]:
    """Return the energy of a run by level in pJ; NaN if the accelerator gives no energies."""
    cycles = run.cycles * simulated_chips(run.engines)
    found = accelerator.energy_by_level(run.native_macs, run.elements, run.moved, cycles)
    return known_energies(found, accelerator)


def simulated_chips(engines: Iterable[str]) -> int:
    """Return how many chips a run simulates, by the names of its engines."""
    return len({core_of_name(name) // CHIP for name in engines}) or 1


def total_energy_pj(run: Run | OperatorRun, accelerator: Accelerator) -> float:
    """Return the energy of what the machine did on one chip, of all levels together."""
    return sum(energy_pj(run, accelerator).values())


def known_energies(found: Map[str, float], accelerator: Accelerator) -> dict[str, float]:
    """Return energies by level for reports: NaN where the accelerator gives none."""
    return dict.fromkeys(found, math.nan) if accelerator.unknown_energies else dict(found)


def bound_json(
    predicted: Prediction | GroupPrediction,
    run: Run | OperatorRun | None = None,
    terms: Map[str, int] | None = None,
) -> dict[str, Any]:
    """Return the bound in cycles by term, the work of each resource, and a run's other cycles.

    ``terms``: those of a row (`row_terms`), which has no other cycles where rows overlap.
    """
    terms = dict(predicted.bound_terms if terms is None else terms)
    bound: dict[str, Any] = {
        "cycles": sum(terms.values()),
        "terms": terms,
        "by": predicted.bound_by,
    }
    if run is not None:
        bound["waiting_cycles"] = run.cycles - predicted.bound_cycles
        bound["waiting_by_cause"] = waiting_by_cause(run, predicted.bound_terms)
    return {"bound": bound, "work_cycles": predicted.resources}


def floor_json(floor: ByteBound) -> dict[str, int | None]:
    """Return the lower bounds of DRAM bytes: with the given on-chip memory, and without a limit."""
    return {
        "bound_bytes": floor.least_bytes,
        "compulsory_bytes": floor.distinct_bytes,
        "on_chip_bytes": floor.room_bytes,
    }


def result_json(result: ExperimentResult) -> dict[str, Any]:
    """Return a result as one JSON object (the format of ``simaccel run --json``)."""
    run, predicted = result.run, result.prediction
    energy = energy_pj(run, result.accelerator)
    accounts = (result.accelerator.account, result.workload.account)
    left = [entry for account in accounts for entry in account.entries_of("not taken")]
    return {
        "workload": result.workload.name,
        "accelerator": result.accelerator.name,
        "dataflow": result.mapping.dataflow,
        "cycles": run.cycles,
        "seconds": result.accelerator.seconds(run.cycles),
        **({"program_start_cycles": start} if (start := result.program_start_cycles) else {}),
        "macs": run.macs,
        "native_macs": run.native_macs,
        "ideal_cycles": result.ideal_cycles,
        "utilisation": result.utilisation,
        **bound_json(predicted, run),
        "bytes": moved_tree(run.moved),
        "dram_by_class": dram_by_class(result.workload, run.moved),
        "dram_bound": floor_json(result.floor),
        "engines": {name: vars(account) for name, account in run.engines.items()},
        "served_cycles": run.served_cycles,
        "energy_pj": energy,
        "energy_by_tensor_pj": result.accelerator.energy_by_tensor(run.moved),
        **area_and_power(result.accelerator, energy, run.cycles),
        "peak_buffer_bytes": run.peak_buffer_bytes,
        "footprint_bytes": result.footprint_bytes,
        "limit": {
            "name": result.limit.name,
            "share": result.limit.share,
            "fields": list(result.limit.fields),
        },
        "operators": [_row_json(result, row) for row in result.rows],
        "memories": [vars(demand) for demand in result.memories],
        **({"chip_count": chips} if (chips := result.accelerator.pod.count) > 1 else {}),
        **({"cut": False} if chips > 1 and not result.pod.cuts else {}),
        **({"chips_alike": alike} if (alike := len(result.pod.places[0])) != chips else {}),
        "events": run.events,
        "wall_seconds": result.wall_seconds,
        **({"not_taken": [vars(entry) for entry in left]} if left else {}),
    }


def row_terms(row: Row) -> dict[str, int]:
    """Return the bound of a row by term; where others overlap it, the work of one resource."""
    predicted = row.predicted
    if predicted.overlaps:
        return {predicted.bound_by: predicted.resource_bound_cycles}
    return dict(predicted.bound_terms)


def _row_json(result: ExperimentResult, row: Row) -> dict[str, Any]:
    run, predicted = row.run, row.predicted
    return {
        "name": run.name,
        "cycles": run.cycles,
        "busy_cycles": row.busy_cycles,
        "macs": run.macs,
        "native_macs": run.native_macs,
        "utilisation": row.utilisation(result.accelerator),
        "limit": {"name": row.limit.name, "share": row.limit.share},
        **bound_json(predicted, None if predicted.overlaps else run, row_terms(row)),
        "bytes": moved_tree(run.moved),
        "engines": {name: vars(account) for name, account in run.engines.items()},
        "energy_pj": energy_pj(run, result.accelerator),
        "energy_by_tensor_pj": result.accelerator.energy_by_tensor(run.moved),
    }


_BEST: Final[dict[Objective, str]] = {
    "cycles": "the fastest",
    "energy": "the least energy",
    "edp": "the least product",
    "dram-bytes": "the fewest bytes",
    "footprint": "the smallest",
}


def given_up_json(losses: Sequence[ObjectiveLosses], objective: Objective) -> dict[str, Any]:
    """Return the differences to the best mapping in cycles, bytes and energy; empty without any.

    The best is the sum over the groups' searches, each alone.
    """
    total = sum(losses, start=ObjectiveLosses())
    different = total != ObjectiveLosses()
    return {"given_up": {"against": _BEST[objective], **vars(total)}} if different else {}
