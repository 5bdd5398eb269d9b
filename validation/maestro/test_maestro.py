"""As released: the figures of the public tool, from runs that it made (validation/maestro/data)."""

from itertools import islice

import pytest

from simaccel.errors import InputError
from simaccel.papers.maestro.analysis.analysis import NothingComputedError
from validation.maestro.reference import all_runs, differences, tables
from validation.maestro.released import analyse_released

EVERY = 9
"""All rows are compared in `make validate`; here each ninth group of them."""


@pytest.mark.parametrize("table", tables())
def test_it_prints_what_the_tool_prints(table: str) -> None:
    ran = [runs for runs in all_runs([table]) if runs.rows[0]["status"] == "ok"]
    chosen = ran[:: EVERY if len(ran) > 60 else 2]
    assert chosen
    wrong = [one for runs in chosen for one in differences(runs)]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize(
    ("status", "refusal"),
    [("crash_sigfpe", NothingComputedError), ("ok_but_zero", NothingComputedError)],
)
def test_what_the_tool_cannot_run_is_refused(status: str, refusal: type[Exception]) -> None:
    """But for maps that cover their dimension, at whose offsets it ends (``error_exit``)."""
    failed = (runs for runs in all_runs() if runs.rows[0]["status"] == status)
    some = list(islice(failed, 12))
    assert some
    for runs in some:
        with pytest.raises((refusal, InputError)):
            analyse_released([runs.directed()], runs.hardware)


def test_every_column_of_a_run_has_a_figure() -> None:
    runs = next(all_runs(["table3_vgg16"]))
    (found,) = analyse_released([runs.directed()], runs.hardware)
    inputs = {"network", "layer", "layer_type", "mapping_name", "mapping_origin", "directives"}
    inputs |= {*"NGMKCRSYX", "stride_y", "stride_x", "num_pes", "noc_bw", "noc_hop_latency"}
    inputs |= {"offchip_bw", "simd_lanes", "status"}
    assert {*runs.rows[0]} - inputs == {*found.columns}
