"""The kernels that a chip's compiler makes of a graph, as data of the chip's description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from simaccel.hardware.memory import MemorySpec
from simaccel.hardware.quantity import Bytes, Count, Cycles
from simaccel.hardware.spec import Spec
from simaccel.numbers import SHARED

ON_CHIP: Final = MemorySpec.model_validate({"bandwidth_bytes_per_second": "unlimited"})
"""Where tensors lie that are on the chip before a kernel and stay there: bringing them is free."""


WEIGHTS: Final = "weights"
"""Of `CompilerSpec.overlap`."""
_KERNELS: Final = ("overlap", "resident", "epilogues", "kernel_start_cycles")
"""What the section says of kernels whatever makes them, a search or ``deployed``."""


REPLACED_GROUPS: Final = {
    "groups": "compiler, with overlap, resident, epilogues, kernel_start_cycles",
    "groups.overlap": "compiler.overlap",
    "groups.resident": "compiler.resident",
    "groups.epilogues": "compiler.epilogues",
    "groups.start_cycles": "compiler.kernel_start_cycles",
}
"""Fields of before, when two sections spoke of kernels, and what stands in their place."""


class LayoutSpec(Spec):
    """Arrays lie in memory in tiles of ``sublanes`` x ``lanes`` numbers, filled up with zeros.

    ``pads``: whose work that makes longer. ``convolutions``: channels and filters are whole lanes;
    ``vectors``: of vector operators the dimensions that fill up least are.
    """

    sublanes: Count = 1
    lanes: Count = 1
    pads: tuple[Literal["convolutions", "vectors"], ...] = ()


class AttentionSpec(Spec):
    """A kernel of attention: scores, softmax and product with the values of some heads at once.

    Meanwhile keys and values of the next come, values where a row has at least
    ``values_ahead_from`` keys. ``query_rows``: rows of queries in a block of a
    prefill, each of which has the keys that its last row sees. ``repeats_keys``: keys and values
    are repeated for the query heads that share them. ``reserved_bytes`` of the buffer
    are not for what is repeated; a row of a head takes the room of ``row_tile``.
    ``divides_results``: a row is divided by its sum behind the product with the values, so that the
    exponentials of two pieces of the keys follow one another.
    """

    OMITTED: ClassVar = (
        *("values_ahead_from", "query_rows", "repeats_keys", "reserved_bytes", "row_tile"),
        "divides_results",
    )

    heads_at_once: Count = 4
    values_ahead_from: Count = 1
    query_rows: Count | None = None
    repeats_keys: bool = False
    reserved_bytes: Bytes | None = None
    row_tile: Count = 1
    divides_results: bool = False


class ConvertedBlocksSpec(Spec):
    """Blocks of a product whose operands the vector unit converts.

    One with sums of more than ``depth`` numbers goes through so many of them at once, for ``rows``
    x ``columns`` results, and each block is converted when it is needed. Where operands and result
    take more than ``ahead_above_bytes`` in all, products go through blocks of which the next is
    converted while one is worked on.
    """

    rows: Count
    columns: Count
    depth: Count
    ahead_above_bytes: Bytes


class MeasuredRowsSpec(Spec):
    """Measured operators of a kind, ``rows`` of them, and how far runs of ``deployed`` are.

    ``median_percent``, ``within_90_percent``: the median of the errors, and what nine of ten are
    below. ``of``: what was measured.
    """

    OMITTED: ClassVar = ("of",)

    operators: Literal["GEMM", "convolution", "attention", "elementwise", "row-wise"]
    rows: Count
    median_percent: Annotated[float, Field(ge=0, le=1000)]
    within_90_percent: Annotated[float, Field(ge=0, le=1000)]
    of: str = ""


class CompilerSpec(Spec):
    """The kernels that a compiler makes, which the dataflow ``deployed`` writes as a mapping.

    Four fields hold for every dataflow. ``overlap``: tiles of the next kernel may come while one
    drains, or those of ``weights`` alone. ``resident``: dataflows hold what goes from one kernel to
    a later one in the buffer, where that is worth it (``best`` does anyhow). ``epilogues``: biases,
    activations and residuals follow the einsum before them tile by tile, in its kernel, where that
    is worth it (``best`` does anyhow). ``kernel_start_cycles``: from the end of a kernel to the
    first load of the next, and before the first: its dispatch, descriptors and set-up.

    ``products``: ``whole`` brings the operands, works, takes the result away; ``streamed`` goes
    through columns as wide as all arrays, of which the next come while it works. What doesn't fit
    is halved along its longest side. ``held``: what stays while a convolution streams, its
    ``inputs``, or its weights where these are ``smaller`` and have room.
    ``vector_block_elements``: vector operators go through blocks
    of so many elements, of which the next comes while one is worked on; ``elementwise``: those all
    of whose arrays are of one shape (copies apart) do so, too (``blocks``), or come, are worked on,
    and go as a ``whole``. ``converts``: numbers that
    the array doesn't multiply; the vector unit turns them into others of as many bits and back,
    each operand whole, or a product in ``converted_blocks``.
    ``merged_taps``: taps of a convolution along its width lie beside the channels where the array
    has rows for both. ``in_turn``: the array waits while the vector unit works on its results.
    ``norms``: a layer norm is one kernel (``whole``), or mean, mean square, root and rows are
    kernels of their own (``apart``), in which a row's number lies in lanes of its own.
    ``stays``: what lies on the chip before a kernel and after it. ``operands``: of a program that
    fits it whole, what its products are given; ``rows``: what operators along an axis (norms,
    rotations) read and make of other operators, up to a quarter of the buffer each; ``copies``:
    what a copy makes, up to half of it; ``activations``: what all operators but the first read and
    all but the last make, of those that have room for both; ``weights``: from one run to the next,
    of operators in their order, in the room beside the largest activations.
    ``program_start_cycles``: what a host takes to start a program, once a run and beside it.
    ``measured``: what the runs that this gives were held against.
    """

    OMITTED: ClassVar = (
        *("epilogues", "kernel_start_cycles", "products", "held", "vector_block_elements"),
        *("elementwise", "converts", "converted_blocks", "merged_taps", "in_turn", "norms"),
        *("layout", "attention", "stays", "program_start_cycles", "measured"),
    )

    overlap: bool | Literal["weights"] = True
    resident: bool = False
    epilogues: bool = False
    kernel_start_cycles: Cycles = 0
    products: Literal["whole", "streamed"] | None = None
    held: Literal["inputs", "smaller"] = "inputs"
    vector_block_elements: Count = 2**18
    elementwise: Literal["blocks", "whole"] = "blocks"
    converts: tuple[Literal["fp16"], ...] = ()
    converted_blocks: ConvertedBlocksSpec | None = None
    merged_taps: bool = False
    in_turn: bool = False
    norms: Literal["whole", "apart"] = "whole"
    layout: LayoutSpec = Field(default_factory=LayoutSpec)
    attention: AttentionSpec = Field(default_factory=AttentionSpec)
    stays: tuple[Literal["operands", "rows", "copies", "activations", "weights"], ...] = ()
    program_start_cycles: Cycles = 0
    measured: tuple[MeasuredRowsSpec, ...] = ()

    @property
    def described(self) -> bool:
        """Whether a file says what the compiler makes."""
        return self.products is not None

    @property
    def memories(self) -> dict[str, MemorySpec]:
        """Memories of tensors that are on the chip, by the class of these."""
        return {SHARED: ON_CHIP} if self.described else {}

    def _impossible(self) -> Iterator[tuple[str, str]]:
        own = set(type(self).model_fields) - {"source", *_KERNELS}
        if not self.described and own - self.absent:
            kernels = ", ".join(_KERNELS)
            yield "products", f"whole or streamed, where the section says more than {kernels}"
        if self.kernel_start_cycles and self.overlap:
            allowed = "0, or overlap: false (kernels that overlap start one after another)"
            yield "kernel_start_cycles", allowed


class MeasuringSpec(Spec):
    """Costs that are part of published times, but not of the accelerator or of any run.

    ``start_cycles``: time of the host per timed call, in cycles of the accelerator.
    """

    start_cycles: Cycles = 0
