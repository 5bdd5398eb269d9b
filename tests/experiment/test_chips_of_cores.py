"""Chips on links whose parts are cut over cores: the values of all of them, and the bound."""

from simaccel.experiment.check_chips import check_chips
from simaccel.experiment.run import simulate
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.cores import core_spreads
from simaccel.workload import build


def test_two_chips_of_two_cores_make_what_numpy_makes() -> None:
    fields = {
        "chips": "2",
        "links.bytes_per_second": "70 GB/s",
        "links.pj_per_bit": "1",
        "cores.count": "2",
    }
    on = load_accelerator("mxu_128", [f"{name}={value}" for name, value in fields.items()])
    whole = build("bert", seq_len=4)
    result = simulate(whole, on, "naive-m")
    assert all(core_spreads(group) for group in result.mapping.groups if group.name != "softmax")
    assert {one.tensor for one in result.pod.exchanges} == {"Y", "U"}
    assert result.run.cycles >= result.prediction.bound_cycles
    assert all(check.deviation < 1e-12 for check in check_chips(whole, result.pod))
