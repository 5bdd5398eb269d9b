"""Scheduling, with the mappings that were searched before and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from simaccel.hardware import Accelerator
from simaccel.mapping.documents import mapping_document, parse_mapping
from simaccel.mapping.files import require_same
from simaccel.mapping.space import NotThisWorkloadError
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import (
    DATAFLOWS,
    MAPSPACES,
    Options,
    canonical_dataflow,
    make_mapping,
    settle_options,
)
from simaccel.schedulers.chip_share import chip_share
from simaccel.schedulers.parallel import whole_mapping
from simaccel.search.accounts import ObjectiveLosses, OnAccount, SearchAccount, ignore
from simaccel.study.placement import compile_for
from simaccel.study.store import ResultStore, cache, result_key
from simaccel.workload import VECTORS, Vector, Workload


def schedule_workload(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options | None = None,
    *,
    record: OnAccount = ignore,
) -> Mapping:
    """Schedule a workload.

    A mapping that an earlier call stored is read from disk (``recall_or_search``). ``record`` is
    called with the account of each search, whether this call or an earlier one did it. For several
    chips, one chip's share of the workload is searched, as if links took no time; where a dataflow
    takes no share and no degrees are given, every chip does the whole workload.

    Raises:
        SimaccelError: as of ``make_mapping``.
    """
    options = options or Options()
    workload = compile_for(workload, accelerator, dataflow, options)
    share = chip_share(workload, accelerator, options, dataflow)
    part, chip, is_cut = workload, accelerator, options.has_degrees
    if share is not None:
        part, chip, options = share.pod.workload, share.accelerator, share.options
    try:
        mapping = recall_or_search(
            part,
            chip,
            dataflow,
            settle_options(options, chip),
            lambda settled: make_mapping(part, chip, dataflow, settled),
            record=record,
        )
    except NotThisWorkloadError:
        if share is None or is_cut:
            raise
        return make_mapping(workload, chip, dataflow, options)
    if share is None:
        return mapping
    cuts = share.spreads, share.pod, mapping, accelerator.pod
    return whole_mapping(workload, *cuts, share.once)


def recall_or_search(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    search: Callable[[Options], Mapping],
    *,
    record: OnAccount = ignore,
) -> Mapping:
    """Return the stored mapping of an equal search, or search and store the result.

    ``record`` is called with the account of each search, also stored ones; ``options.on_account``
    only with those of this call. Dataflows that map a workload alike share one entry.
    """
    accounts: list[SearchAccount] = []
    losses: list[ObjectiveLosses] = []

    def note(account: SearchAccount) -> None:
        options.on_account(account)
        accounts.append(account)

    plain = canonical_dataflow(dataflow, workload)
    known = recall(workload, accelerator, plain, options)
    if known is None:
        mapping = search(replace(options, on_account=note, on_losses=losses.append))
        known = RememberedMapping(mapping, accounts, losses)
        remember(workload, accelerator, plain, options, known)
    for account in known.accounts:
        record(account)
    for loss in known.losses:
        options.on_losses(loss)
    return replace(known.mapping, dataflow=dataflow)


@dataclass(frozen=True)
class RememberedMapping:
    """A mapping, how it was searched, and what it gives up."""

    mapping: Mapping
    accounts: Sequence[SearchAccount] = ()
    losses: Sequence[ObjectiveLosses] = ()


def remember(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    known: RememberedMapping,
) -> None:
    """Keep a mapping, and how it was searched, on disk."""
    store = _store_of(workload, dataflow, options)
    if store is not None:
        kept = {
            "mapping": mapping_document(known.mapping),
            "searches": [asdict(account) for account in known.accounts],
            "gave": [asdict(loss) for loss in known.losses],
        }
        key = result_key("mapping", accelerator, workload, options, dataflow=dataflow)
        store.remember(key, kept)


def recall(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options
) -> RememberedMapping | None:
    """Return a mapping that is on disk, and how it was searched; None if it is not, or damaged.

    It was legal when this code stored it, as its key and digest say, and is not checked again.
    """

    def read(document: dict[str, Any]) -> RememberedMapping:
        mapping = parse_mapping(document["mapping"], "a remembered mapping")
        require_same(workload, mapping)
        accounts = [
            SearchAccount(**{**account, "operators": tuple(account["operators"]), "curve": curve})
            for account in document["searches"]
            for curve in [tuple((int(at), float(value)) for at, value in account["curve"])]
        ]
        losses = [ObjectiveLosses(**loss) for loss in document["gave"]]
        return RememberedMapping(mapping, accounts, losses)

    store = _store_of(workload, dataflow, options)
    if store is None:
        return None
    key = result_key("mapping", accelerator, workload, options, dataflow=dataflow)
    return store.recall(key, read)


def _store_of(workload: Workload, dataflow: str, options: Options) -> ResultStore | None:
    """Return the store that keeps a mapping; None if none is kept, or this one may not be.

    A search that ends after a time depends on the machine's speed: it is never remembered. Nor is
    one with a plug-in that schedules or is an operator, whose code the key doesn't have.
    """
    store = cache()
    ours = dataflow in DATAFLOWS.own or dataflow in MAPSPACES
    kinds = (one.kind for one in workload.operators if isinstance(one, Vector))
    if store.folder is None or options.effort.budget_seconds is not None or not ours:
        return None
    return store if all(kind in VECTORS.own for kind in kinds) else None
