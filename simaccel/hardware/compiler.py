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
_KERNELS: Final = ("overlap", "resident", "epilogues", "kernel_start_cycles", "measured")
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
    """Layout of arrays in memory: tiles of ``sublanes`` x ``lanes`` numbers, padded with zeros.

    ``pads``: whose work that makes longer. ``convolutions``: channels and filters are whole lanes;
    ``vectors``: of vector operators the dimensions that fill up least are.
    """

    sublanes: Count = 1
    lanes: Count = 1
    pads: tuple[Literal["convolutions", "vectors"], ...] = ()


class AttentionSpec(Spec):
    """A kernel of attention: scores, softmax and product with the values of some heads at once.

    Meanwhile the keys of the next heads are loaded, and their values if a row has at least
    ``values_ahead_from`` keys. ``query_rows``: rows of queries in a block of a prefill, whose keys
    are those that its last row sees. ``repeats_keys``: keys and values are loaded again for each
    query head that shares them. ``reserved_bytes``: of the buffer, which repeated keys and values
    can't use; a row of a head takes the room of ``row_tile`` rows. ``divides_results``: the softmax
    divides after the product with the values instead of before it, in two pieces of the keys.
    """

    OMITTED: ClassVar = ("values_ahead_from", "repeats_keys", "row_tile", "divides_results")

    heads_at_once: Count = 4
    values_ahead_from: Count = 1
    query_rows: Count | None = None
    repeats_keys: bool = False
    reserved_bytes: Bytes | None = None
    row_tile: Count = 1
    divides_results: bool = False


class ConvertedBlocksSpec(Spec):
    """Blocks of a product whose operands the vector unit converts.

    A product whose sums have more than ``depth`` terms is cut into blocks of ``rows`` x ``columns``
    results and ``depth`` terms, each converted when it is needed. If operands and result have more
    than ``ahead_above_bytes`` in all, the next block is converted while one is computed.
    """

    rows: Count
    columns: Count
    depth: Count
    ahead_above_bytes: Bytes


class MeasuredRowsSpec(Spec):
    """The error on measured operators of a kind; ``rows``: how many.

    A ``network`` is several kernels, measured as a whole. ``median_percent``,
    ``within_90_percent``: the median and the 90th percentile of the absolute errors in percent.
    ``of``: the quantity that was measured. ``dataflow``: that of the mappings that ran.
    """

    OMITTED: ClassVar = ("of", "dataflow")

    operators: Literal[
        "GEMM", "convolution", "attention", "elementwise", "row-wise", "copy", "network"
    ]
    rows: Count
    median_percent: Annotated[float, Field(ge=0, le=1000)]
    within_90_percent: Annotated[float, Field(ge=0, le=1000)]
    of: str = ""
    dataflow: str = "deployed"


class CompilerSpec(Spec):
    """The kernels that a compiler makes, which the dataflow ``deployed`` writes as a mapping.

    These hold for every dataflow:

    - ``overlap``: tiles of the next kernel are loaded while one drains; ``weights``: only those.
    - ``resident``: tensors between kernels stay in the buffer where that is faster, and
      ``epilogues``: biases, activations and residuals are fused with the einsum before them where
      that is faster. (``best`` does both anyhow.)
    - ``kernel_start_cycles``: dispatch, descriptors and set-up before the first load of a kernel,
      counted from the end of the kernel before.

    The other fields are those of ``deployed``.

    - ``products``: ``whole``: a kernel loads its operands, computes, and stores its result;
      ``streamed``: it goes through blocks of columns as wide as all arrays together, and loads the
      next block while it computes. A tile that doesn't fit is halved along its longest side.
    - ``held``: the operand that stays in the buffer while a convolution streams the other one: its
      ``inputs``, or the ``smaller`` one, so weights if they are smaller and fit.
    - ``vector_block_elements``: elements of a block of a vector operator; the next block is loaded
      while one is computed. ``elementwise``: operators whose arrays all have one shape (except
      copies) go in such ``blocks`` too, or are loaded, computed and stored as a ``whole``.
    - ``converts``: number formats that the array can't multiply. The vector unit converts operands
      to a format of the same width, and results back: each tensor whole, or in
      ``converted_blocks``.
    - ``merged_taps``: taps of a convolution along its width share the array's rows with the
      channels, if there are rows for both.
    - ``in_turn``: the array waits while the vector unit works on its results.
    - ``norms``: a layer norm is one kernel (``whole``), or mean, mean square, root and scaling are
      kernels of their own (``apart``), with the number of each row in its own lanes.
    - ``stays``: tensors that are on chip before and after a kernel: ``operands`` of products, if
      the whole program fits; ``rows``: inputs and outputs of operators with an axis (norms,
      rotations) that other operators make or read, each up to a quarter of the buffer; ``copies``:
      outputs of copies, up to half of the buffer; ``activations``: all inputs of operators but the
      first's and all outputs but the last's, of operators for which both fit, no caches;
      ``weights``: from one run to the next, in the order of operators, in the room beside the
      largest activations. Of repeated layers all have to fit, of a part of a model none stay.
    - ``program_start_cycles``: a host's start of a program; once a run, not part of its cycles.
    - ``measured``: measurements with which runs were compared, of these kernels or of others'.
    """

    OMITTED: ClassVar = (
        *("epilogues", "kernel_start_cycles", "held", "vector_block_elements", "elementwise"),
        *("converts", "merged_taps", "in_turn", "norms", "layout", "attention", "stays"),
        *("program_start_cycles", "measured"),
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
