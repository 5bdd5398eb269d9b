"""Searches that other processes make: the same mapping and accounts as in this one."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, group_search, make_mapping
from simaccel.search.accounts import SearchAccount
from simaccel.workload import Workload
from tests.trees import einsum, workload

_CHAIN = workload(
    einsum("one", "T m n", "X m k", "A k n", m=64, k=61, n=64),
    einsum("two", "Y m p", "T m n", "B n p", m=64, n=64, p=53),
    einsum("three", "Z m q", "Y m p", "C p q", m=64, p=53, q=128),
)


class _Apart:
    """Runs each task as another process would: on copies, of which a copy comes back."""

    def __init__(self) -> None:
        self.tasks = 0

    def __call__(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        self.tasks += len(tasks)
        copies = (pickle.loads(pickle.dumps(task)) for task in tasks)  # noqa: S301 - made here
        return [pickle.loads(pickle.dumps(work(copy))) for copy in copies]  # noqa: S301


def _made(made: Workload, dataflow: str, **options: Any) -> tuple[Mapping, list[SearchAccount]]:  # noqa: ANN401
    accounts: list[SearchAccount] = []
    own = Options(on_account=accounts.append, **options)
    return make_mapping(made, load_accelerator("edge"), dataflow, own), accounts


@pytest.mark.parametrize(
    ("made", "dataflow", "options"),
    [
        (_CHAIN, "flex", {"objective": "edp"}),
        (_CHAIN, "best", {"constraints": ("dram.m=8",), "patience": 5}),
    ],
)
def test_other_processes_find_the_same(
    made: Workload, dataflow: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_search, "_WORTH", 1)
    apart = _Apart()
    assert _made(made, dataflow, **options) == _made(made, dataflow, each=apart, **options)
    assert apart.tasks >= 3
