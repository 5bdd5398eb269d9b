"""Figures that no run may have: the cheap part of `python -m validation.bound.figures`."""

from typing import Any

import pytest

from simaccel import build, load_accelerator
from validation.bound.figures import impossible, ran_on


@pytest.mark.parametrize(
    ("on", "name", "sizes"),
    [
        ("toy", "bert", {"seq_len": 8, "scope": "la"}),
        ("toy_linear", "bert", {"seq_len": 4, "scope": "la"}),
        ("mxu_128", "gpt2", {"phase": "decode", "kv_len": 4}),
    ],
)
def test_no_figure_is_impossible(on: str, name: str, sizes: dict[str, Any]) -> None:
    of, accelerator = build(name, **sizes), load_accelerator(on)
    ran = ran_on(of, accelerator)
    result = ran.rows[0].result
    assert result is not None, ran.rows[0].problem
    assert not list(impossible(of, accelerator, ran))
    # and what is impossible is seen
    result["bound"]["cycles"] = result["cycles"] + 1
    first = next(row for row in result["operators"] if row["macs"])
    first["busy_cycles"], first["utilisation"] = 1, 2.0
    seen = " ".join(impossible(of, accelerator, ran))
    for part in ("the run below", "utilisation 2.0 of", "1 cycles of", "above roof", "above array"):
        assert part in seen
