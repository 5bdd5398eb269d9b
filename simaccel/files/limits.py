"""Limits of the objects that files expand to, for all readers.

Memory and time depend on what a file expands to, not on its length: a line may repeat a layer, an
alias a list, a concatenation its input. So each reader counts values of a document, operators and
numbers in shapes before it makes them. Sizes (of a rank, a batch) expand to nothing; their limits
are in ``simaccel.workload.names``.
"""

from typing import Final

from simaccel.errors import Fault, InputError

MAX_BYTES: Final = 4 * 2**20
"""The largest input file: some 20,000 operators."""
MAX_ONNX_BYTES: Final = 2**30
"""The largest ONNX model; larger weights are in external files, which are never read."""
MAX_NODES: Final = 500_000
"""The most values of a document, with repetitions by aliases."""
MAX_DEPTH: Final = 100
"""The deepest nesting of lists and mappings."""
MAX_OPERATORS: Final = 10_000
"""The most operators of a workload, layers of a network or a transformer, experts, micro-batches.

20 times the longest list of published layers (DeepBench).
"""
MAX_GRAPH_NODES: Final = 10 * MAX_OPERATORS
"""The most nodes of an ONNX graph with those of its functions, branches and constants."""
MAX_DRAWN: Final = 2**24
"""The most random numbers of a drawn spread over experts: 131,072 tokens over 128 experts."""
MAX_WINDOW: Final = 2**20
"""The largest filter or window, stride and dilation of an ONNX node, whose taps are counted."""
MAX_LAYERS: Final = 2_000
"""The most layers of a MAESTRO description: 20 times the longest that MAESTRO ships."""
MAX_SHAPE_NUMBERS: Final = 2**22
"""The most numbers in shapes, and in tensors that have sizes as values, of a graph."""


def require_at_most(file: str, field: str, count: int, most: int, of: str) -> None:
    """Refuse a file with a ``count`` of more than ``most``; ``of``: what is counted.

    >>> require_at_most("net.csv", "layers", 3, 2, "layers")
    Traceback (most recent call last):
    simaccel.errors.InputError: net.csv: layers: got 3; allowed: at most 2 layers

    Raises:
        InputError: the count is larger.
    """
    if count > most:
        raise InputError([Fault(file, field, count, f"at most {most} {of}")])
