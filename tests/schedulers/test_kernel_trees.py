"""Trees of kernels by hand: taps beside channels, units in turn, what is cut first."""

import pytest

from simaccel import gemm, load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Loop
from simaccel.schedulers import default_dataflow
from simaccel.workload import Conv, Workload, conv2d, layers_workload
from tests.small_pods import linked_layers


def toy(products: str, *settings: str) -> Accelerator:
    return load_accelerator("toy", [f"compiler.products={products}", *settings])


@pytest.mark.parametrize(("channels", "steps"), [(1, 3 * 20), (2, 9 * 20)])
def test_taps_along_the_width_lie_beside_channels_where_both_fit(channels: int, steps: int) -> None:
    """Four rows have room for 1 channel x 3 taps, not for 2 x 3: a fold a row of taps, or a tap."""
    for products in ("whole", "streamed"):
        on = toy(products, "compiler.merged_taps=true", "dram.bandwidth_bytes_per_second=unlimited")
        result = simulate(conv2d(m=2, c=channels, p=5, q=4, r=3, s=3), on, "deployed")
        check(result.workload, result.mapping, result.program)
        assert result.run.engines["array"].busy == steps
        tall = simulate(conv2d(m=2, c=1, p=5, q=4, r=3, s=1), on, "deployed")
        assert tall.run.engines["array"].busy == 3 * 20  # its only taps are no taps of the width


def relu_behind(**sizes: int) -> Workload:
    layers = {"a": {"kind": "conv", "shape": {"R": 1, "S": 1, **sizes}}, "b": {"kind": "relu"}}
    return linked_layers(**layers)


def test_array_and_vector_unit_work_in_turn() -> None:
    """Three pieces of columns, each 64 steps of the array and 64 cycles of the vector unit."""
    fast = ("dram.bandwidth_bytes_per_second=unlimited", "sfu.lanes=4", "sfu.latency_cycles=0")
    workload = relu_behind(M=12, C=4, P=8, Q=8)
    for in_turn in ("false", "true"):
        on = toy("streamed", *fast, f"compiler.in_turn={in_turn}")
        result = simulate(workload, on, "deployed")
        check(result.workload, result.mapping, result.program)
        busy = [result.run.engines[name].busy for name in ("array", "sfu")]
        assert busy == [3 * 64, 3 * 64]
        assert (result.run.cycles >= sum(busy)) == (in_turn == "true")


def test_a_streamed_convolution_is_cut_along_its_rows() -> None:
    """16 positions of 64 channels, 1 KiB, in 700 B: positions, though channels are more."""
    conv = Conv(m=4, c=64, p=4, q=4, r=1, s=1)
    workload = layers_workload("one", {"a": conv}, bytes_per_element=1)
    on = toy("streamed", "buffer.capacity_bytes=700 B")
    (group,) = simulate(workload, on, "deployed").mapping.groups
    assert [node.rank for node in group.tree if isinstance(node, Loop)] == ["npq"]


def test_cores_of_a_chip_run_its_compilers_kernels() -> None:
    """Two cores have half of the columns each, and share the DRAM."""
    alone, two = (load_accelerator("tpu_v3", [f"cores.count={n}"]) for n in (1, 2))
    workload = gemm(1024, 1024, 1024)
    assert default_dataflow(two, workload) == "deployed"
    whole, shared = simulate(workload, alone), simulate(workload, two)
    arrays = [name for name in shared.run.engines if name.endswith("array")]
    assert [shared.run.engines[name].busy for name in arrays] == [
        whole.run.engines["array"].busy // 2
    ] * 2
    assert shared.cycles < whole.cycles
