import pickle
from typing import Any, cast

import pytest

from simaccel.workload import FrozenDict


def test_frozen_dict_keeps_order_and_compares_without_it() -> None:
    one, other = FrozenDict({"b": 1, "a": 2}), FrozenDict({"a": 2, "b": 1})
    assert list(one) == ["b", "a"]
    assert one == other == {"a": 2, "b": 1}
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - its own data


def test_frozen_dict_cannot_change() -> None:
    with pytest.raises(TypeError):
        cast("Any", FrozenDict({"a": 1}))["a"] = 2
