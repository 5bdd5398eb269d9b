"""What a run of a whole network says that it leaves out."""

import pytest

from simaccel.report.catalogues import whole_line
from simaccel.workload import network


@pytest.mark.parametrize(
    ("name", "biases", "share"),
    [
        ("alexnet", 96 + 256 + 384 + 384 + 256 + 4096 + 4096 + 1000, "0.0%"),
        ("mobilenet_v2", 17056 + 1000, "1.0%"),  # batch norms, classifier
        ("resnet50", 26560 + 1000, "0.2%"),
    ],
)
def test_biases_are_counted_by_outputs(name: str, biases: int, share: str) -> None:
    line = whole_line(network(name, scope="model"))
    assert line.startswith(
        f"left out: {biases:,} biases or shifts of batch norms (of 4 bytes {share}"
    )
