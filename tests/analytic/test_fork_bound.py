"""The bound of a fork whose operators take turns, by hand."""

import pytest

from simaccel.analytic.prediction import predict
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from tests.machine.accelerators import accelerator, gigabytes
from tests.trees import einsum, mapping, vector, workload


@pytest.mark.parametrize(("slots", "rounds"), [(1, 2 * (10 + 10 + 16)), (2, 4 * 10 + 16)])
def test_products_wait_for_a_vector_operator_behind_them(slots: int, rounds: int) -> None:
    """Blocks of 10 cycles, and 16 of the SFU, twice; 64 B in before them, and 32 B out, 8 a cycle.

    With a single slot the next gate waits until the product has read this one.
    """
    of = workload(
        einsum("gate", "G m f", "X m k", "Wg k f", m=8, k=4, f=4),
        einsum("up", "U m f", "X m k", "Wu k f", m=8, k=4, f=4),
        vector("product", "product", "P m f", "G m f", "U m f", m=8, f=4),
    )
    text = f"""
    group gate+up+product
      keep Wg buffer, Wu buffer
      loop m 4
      keep X buffer x2, G buffer x{slots}, U buffer x{slots}, P buffer x2
      fork
        | do gate array os
        | do up array os
        | do product sfu
    """
    dram = {"bandwidth_bytes_per_second": gigabytes(8), "latency_cycles": 7}
    on = accelerator(sfu={"lanes": 1, "passes": 3, "latency_cycles": 0}, dram=dram)
    one = mapping(of, text)
    least = predict(of, one, on).bound_cycles
    assert least == 7 + 8 + rounds + 4
    assert least <= Machine(on, lower(of, one)).run().cycles
