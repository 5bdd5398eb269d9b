"""Traces to draw: the reference traces, which are small and known."""

from collections.abc import Iterator

import pytest

from examples.make_traces import REFERENCES
from simaccel.trace import TraceReader

NAMES = [reference.name for reference in REFERENCES]
PATHS = {reference.name: reference.path for reference in REFERENCES}


@pytest.fixture(params=NAMES)
def trace(request: pytest.FixtureRequest) -> Iterator[TraceReader]:
    """Each of the reference traces."""
    with TraceReader.open(PATHS[request.param]) as opened:
        yield opened


@pytest.fixture
def toy() -> Iterator[TraceReader]:
    """Fused attention on the toy accelerator: a short run in which nothing repeats."""
    with TraceReader.open(PATHS["toy_attention_flat"]) as opened:
        yield opened


@pytest.fixture
def edge() -> Iterator[TraceReader]:
    """Fused attention on the edge accelerator: 33,266 cycles happen 763 times."""
    with TraceReader.open(PATHS["edge_bert_flat"]) as opened:
        yield opened
