"""Deployed: the kernels that a chip's compiler makes of a workload, by rules and without a search.

`CompilerSpec` explains the rules. A product has a kernel with the elementwise operators after it;
other vector operators are cut into blocks; scores, softmax and the product with the values are one
kernel of several heads. Tiles that don't fit the buffer are halved until they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from simaccel.errors import Fault, SimaccelError, require_none
from simaccel.hardware import Accelerator
from simaccel.mapping.space import BoundOperator, IterationSpace, mergeable, space_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Node, Tree
from simaccel.mapping.tree import Mapping as Tiles
from simaccel.schedulers.chains import epilogue
from simaccel.schedulers.einsums import RankRoles, roles
from simaccel.schedulers.kernel_trees import (
    ProductTrees,
    Sizes,
    converted_blocks_tree,
    converted_tree,
    cut_loops,
    fits,
    halve_side,
    is_convolution,
    is_plain,
    shrink_sizes,
    sliding_ranks,
    tilings,
    vector_tree,
)
from simaccel.schedulers.kernels import CONVERTED, ROOT_KIND, is_elementwise, is_same_product
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.goal import Goal
from simaccel.search.judge import mapping_of
from simaccel.search.problems import (
    NothingFitsError,
    NotMappableError,
    Options,
    attention_of,
)
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector, Workload
from simaccel.workload.roles import window_ranks

_LONGEST = 12
"""Most operators of a kernel."""
Make = Callable[[Sizes], Tree]


def make_kernels(workload: Workload, accelerator: Accelerator, options: Options) -> Tiles:
    """Return the kernels of a compiled workload (`compile_graph`) as a mapping.

    Raises:
        NotMappableError: the accelerator has no description of its compiler, or its array can't
            execute an operator.
        InputError: options that only a search can follow.
        NothingFitsError: an operator does not fit, however small it is cut.
    """
    if not accelerator.compiler.described:
        raise NotMappableError(
            f"dataflow deployed: {accelerator.name} has no section compiler; best is what the "
            f"hardware could do"
        )
    _refuse_options(options, accelerator)
    compiler = _Compiler(workload, accelerator, options)
    parts, groups = list(compiler.parts()), list[Group]()
    for before, names in zip([(), *parts], parts, strict=False):
        joined = bool(before) and is_same_product(workload, before[0], names[0])
        groups.append(replace(compiler.kernel(names), joined=joined))
    return mapping_of(workload, "deployed", groups)


def _refuse_options(options: Options, accelerator: Accelerator) -> None:
    """Refuse options that need a search."""
    allowed = "nothing with deployed, whose kernels are the compiler's; --dataflow best searches"
    held = options.stationarity
    texts = {
        "--stationarity": held if held not in (None, accelerator.systolic.stationarity) else "",
        "--constrain": ", ".join(options.constraints),
        "--pipeline": "yes" * options.pipeline,
        "--objective": options.objective if options.objective != "cycles" else "",
    }
    require_none(
        [Fault(option, "dataflow", value, allowed) for option, value in texts.items() if value]
    )


@dataclass(frozen=True)
class _Compiler:
    """The kernels of a workload's operators, by the rules of `CompilerSpec`."""

    workload: Workload
    accelerator: Accelerator
    options: Options

    def parts(self) -> Iterator[tuple[str, ...]]:
        """Yield the operators of each kernel, in order."""
        left = [*self.workload.by_name]
        while left:
            yield (names := self._first_kernel(left))
            left = [name for name in left if name not in names]

    def _first_kernel(self, left: Sequence[str]) -> tuple[str, ...]:
        """Return the operators of the next kernel, the longest that the rules allow."""
        for count in range(min(_LONGEST, len(left)), 1, -1):
            if attention_of(self.workload, left[:count]) or self.is_converted(left[:count]):
                return tuple(left[:count])
        names, unwritten = [left[0]], {self.workload.operator(name).output.tensor for name in left}
        while len(names) < _LONGEST and (after := self._follower(names, left, unwritten)):
            names.append(after)
        return tuple(names)

    def _follower(
        self, names: Sequence[str], left: Sequence[str], unwritten: set[str]
    ) -> str | None:
        """Return the next operator of an epilogue of ``names``; None if there is none.

        It reads the last output, and no tensor that neither ``names`` nor earlier kernels write.
        """
        own = {self.workload.operator(name).output.tensor for name in names}
        last = self.workload.operator(names[-1]).output.tensor
        for name in left:
            if name not in names and name in self.workload.readers.get(last, ()):
                read = {operand.tensor for operand in self.workload.operator(name).inputs}
                if not (read & unwritten) - own and epilogue(self.workload, [*names, name]):
                    return name
        return None

    def is_converted(self, names: Sequence[str]) -> bool:
        """Return whether these are an operator with all conversions of its operands and result."""
        plain = [name for name in names if f".{CONVERTED}." not in name]
        if len(plain) != 1 or len(names) == 1:
            return False
        converted = self.workload.operator(plain[0])
        made, reads = converted.output.tensor, {operand.tensor for operand in converted.inputs}
        around = {  # where chips add their parts of a sum, the sum is converted behind that
            name
            for name, operator in self.workload.by_name.items()
            if name.startswith(f"{plain[0]}.{CONVERTED}.")
            and (operator.output.tensor in reads or operator.inputs[0].tensor == made)
        }
        return {*names} == {plain[0], *around}

    def kernel(self, names: tuple[str, ...]) -> Group:
        """Return the group of a kernel."""
        if attention_of(self.workload, names):
            return self._attention(names)
        first, is_converted = names[0], self.is_converted(names)
        if is_converted:
            first = next(name for name in names if f".{CONVERTED}." not in name)
        if isinstance(self.workload.operator(first), Vector):
            return self._vector(names)
        return self._conversion(names, first) if is_converted else self._product(names)

    # --- products

    def _product(self, names: tuple[str, ...]) -> Group:
        chain = epilogue(self.workload, names)
        group = chain.group if chain else self._group(names)
        space = space_of(self.workload, group)
        op = space.operators[0]
        parts = roles(space, op)
        if padded := self._channels(group, op, parts):
            group = replace(group, padded=padded)
            space = space_of(self.workload, group)
            op, parts = space.operators[0], roles(space, space.operators[0])
        sizes = {rank: space.sizes[rank] for rank in (*parts.m, *parts.k, *parts.n)}
        kernels = ProductTrees(space, parts, chain, self.accelerator)
        sizes |= shrink_sizes(space, parts.g, self._groups_at_once(kernels))
        if self.accelerator.compiler.products == "streamed":
            return self._stream_product(group, kernels, sizes)
        windows = sliding_ranks(op)
        cut = tuple(rank for rank in parts.m if rank in windows)
        images = tuple(rank for rank in parts.m if rank not in windows)
        plain, sliding = ([parts.g], [parts.m, parts.n]), ([images], [parts.n], [cut], [parts.g])
        return self._first_fitting(group, kernels.load_whole, sizes, *(sliding if cut else plain))

    def _stream_product(self, group: Group, kernels: ProductTrees, sizes: Sizes) -> Group:
        """Return a kernel that streams rows of a product's inputs, or columns of its weights."""
        parts, array = kernels.parts, self.accelerator.systolic
        if (rows := kernels.hold_weights()) and self._fits(placed := replace(group, tree=rows)):
            return placed
        sizes = sizes | shrink_sizes(kernels.space, parts.n, array.cols * array.count)
        if is_convolution(kernels.product):  # its filters are few, its rows cheap to cut
            stages = [[parts.m], [parts.k], [parts.n], [parts.g]]
        else:
            stages = [[parts.g], [parts.m, parts.k, parts.n]]
        return self._first_fitting(group, kernels.stream, sizes, *stages)

    def _groups_at_once(self, kernels: ProductTrees) -> int:
        """Return the number of products at once in a kernel: heads, or enough to fill columns."""
        array, heads = self.accelerator.systolic, self.accelerator.compiler.attention.heads_at_once
        if not kernels.shares_diagonal:
            return heads
        filling = array.cols // math.prod(kernels.space.sizes[rank] for rank in kernels.parts.n)
        return max(heads, array.count * filling)

    def _channels(self, group: Group, op: BoundOperator, parts: RankRoles) -> Sizes:
        """Return sizes of a convolution's channels and filters, padded to whole lanes of memory.

        Of several ranks, as the filters and phases of a transposed one, all lie in the same lanes.
        """
        layout, windows = self.accelerator.compiler.layout, window_ranks(op.operator)
        if "convolutions" not in layout.pads or not windows:
            return {}
        padded: dict[str, int] = {}
        for part in (parts.k, parts.n):
            plain = (own for rank in part for own in group.merged.get(rank, (rank,)))
            sizes = {rank: op.operator.ranks[rank] for rank in plain if rank not in windows}
            if sizes:
                largest, whole = max(sizes, key=lambda rank: sizes[rank]), math.prod(sizes.values())
                lying = -(-whole // layout.lanes) * layout.lanes
                padded[largest] = -(-lying * sizes[largest] // whole)
        return padded

    def _conversion(self, names: tuple[str, ...], product: str) -> Group:
        """Return a product with the conversions of its operands and of its result."""
        group = self._group(names)
        space = space_of(self.workload, group)
        op = space.bound_operator(product)
        parts = roles(space, op)
        sizes = {rank: space.sizes[rank] for rank in (*parts.m, *parts.n)}
        blocks = self.accelerator.compiler.converted_blocks
        tensors = {view.tensor for view in (*op.operator.inputs, op.operator.output)}
        if blocks:
            ahead = sum(map(self.workload.tensor_bytes, tensors)) > blocks.ahead_above_bytes
            cut = converted_blocks_tree(space, op, parts, blocks, int(ahead))
            if cut and self._fits(placed := replace(group, tree=cut)):
                return placed
        tree = partial(converted_tree, space, op, parts)
        return self._first_fitting(group, tree, sizes, [parts.m, parts.n])

    # --- attention

    def _attention(self, names: tuple[str, ...]) -> Group:
        group = self._group(names)
        space = space_of(self.workload, group)
        scores, softmax, attend = space.operators
        spec = self.accelerator.compiler.attention
        axis, keys = space.axes[softmax.name], scores.inputs[1].names
        common = [
            rank for rank in scores.ranks if all(rank in item.ranks for item in space.operators)
        ]
        shared = [rank for rank in common if rank in keys and rank != axis]
        of_queries = [rank for rank in common if rank not in keys]
        # query heads for which shared keys are loaded again; and rows of queries
        has_cache = self.workload.tensors[scores.operator.inputs[1].tensor].kind == "cache"
        masked = space.rows.get(softmax.name)
        repeated = [
            rank for rank in of_queries if spec.repeats_keys and has_cache and rank != masked
        ]
        rows = [rank for rank in of_queries if rank not in repeated]
        n_keys = space.sizes[axis]  # in two pieces, if softmax divides after the last product
        pieces = [Loop(axis, -(-n_keys // 2))] if spec.divides_results and n_keys > 1 else []

        def tree(tiles: Sizes, slots: int) -> Tree:
            loops = [Loop(rank, 1) for rank in repeated] + cut_loops(space, [*shared, *rows], tiles)
            own = {scores.output.name, softmax.output.name}
            names = dict.fromkeys(name for item in space.operators for name, _ in item.uses)
            values = slots if n_keys >= spec.values_ahead_from else 1
            moving = {scores.names[1]: slots, attend.names[1]: values}
            keeps = [Keep(name, slots=moving.get(name, 2)) for name in names if name not in own]
            inside = [Keep(name) for name in names if name in own]
            around: list[Node] = [keep for keep in keeps if pieces and keep.tensor not in moving]
            streamed = [keep for keep in keeps if keep not in around]
            leaves = (
                (Do(scores.name, ARRAY, "is"),),
                (Do(softmax.name, SFU),),
                (Do(attend.name, ARRAY, "ws"),),
            )
            return (*loops, *around, *pieces, *streamed, *inside, Fork(leaves))

        return self._attention_fitting(group, tree, space, shared, rows)

    def _attention_fitting(
        self,
        group: Group,
        tree: Callable[[Sizes, int], Tree],
        space: IterationSpace,
        shared: Sequence[str],
        rows: Sequence[str],
    ) -> Group:
        heads = self.accelerator.compiler.attention.heads_at_once
        whole = {rank: space.sizes[rank] for rank in rows}
        while heads:
            tiles = whole | shrink_sizes(space, shared, heads)
            for slots in (2, 1) if heads == 1 else (2,):
                placed = replace(group, tree=tree(tiles, slots))
                if self._fits(placed):
                    return placed
            heads //= 2
        tiles = shrink_sizes(space, shared, 1)
        return self._first_fitting(group, lambda cut: tree(tiles | cut, 1), whole, [tuple(rows)])

    # --- vector operators

    def _vector(self, names: tuple[str, ...]) -> Group:
        group = self._group(names)
        group = replace(group, padded=self._layout(space_of(self.workload, group)))
        space = space_of(self.workload, group)
        last = space.operators[-1]
        axes = set(space.axes.values())
        ranks = [rank for rank in last.output.ranks if rank not in axes]
        whole = math.prod(size for rank, size in space.sizes.items() if rank not in ranks)
        spec = self.accelerator.compiler
        block = spec.vector_block_elements
        if not all(map(is_plain, space.operators)) or (whole > block and not axes):
            # no rule for such an operator, as for pooling
            goal = Goal.from_options(self.accelerator, self.options, self.workload)
            return TreeSearch(goal).group(self.workload, names[0])
        most, slots = max(1, block // whole), 2
        alike = not axes and all(is_elementwise(item.operator) for item in space.operators)
        if spec.elementwise == "whole" and alike:
            most, slots = math.prod(space.sizes.values()), 1

        def tree(tiles: Sizes) -> Tree:
            return vector_tree(space, cut_loops(space, ranks, tiles), slots)

        return self._first_fitting(group, tree, shrink_sizes(space, ranks, most), [tuple(ranks)])

    def _layout(self, space: IterationSpace) -> Sizes:
        """Return sizes of a vector operator's dimensions, padded to whole tiles of memory."""
        layout, ranks = self.accelerator.compiler.layout, dict(space.operators[-1].operator.ranks)
        last = space.operators[-1].operator
        sums = set(last.output.ranks) < set(last.ranks)
        if "vectors" not in layout.pads or space.axes or sums:
            return {}
        if isinstance(last, Vector) and last.kind == ROOT_KIND:
            rows = last.output.ranks[-1:]  # a number of a row has lanes of its own
            return {rank: ranks[rank] * layout.lanes for rank in rows}
        choices = tilings(ranks, layout.sublanes, layout.lanes)
        return min(choices, key=lambda sizes: math.prod((ranks | sizes).values()))

    # --- sizes

    def _group(self, names: tuple[str, ...]) -> Group:
        return Group(operators=names, tree=(), merged=mergeable(self.workload, names))

    def _fits(self, group: Group) -> bool:
        with suppress(SimaccelError):
            return fits(space_of(self.workload, group), group, self.accelerator)
        return False

    def _first_fitting(
        self,
        group: Group,
        tree: Make,
        sizes: Sizes,
        *halved: Sequence[tuple[str, ...]],
    ) -> Group:
        """Return the first tree that fits, halving the longest side until one does.

        ``halved``: stages of sides (ranks that are cut together); a stage is used once no side of
        the stage before can be halved.

        Raises:
            NothingFitsError: no side can be halved any more.
        """
        for sides in halved:
            while True:
                placed = replace(group, tree=tree(sizes))
                if self._fits(placed):
                    return placed
                longest = max(sides, key=lambda ranks: math.prod(sizes[rank] for rank in ranks))
                if math.prod(sizes[rank] for rank in longest) == 1:
                    break
                sizes = halve_side(sizes, longest)
        raise NothingFitsError(f"{group.name}: nothing of it fits the buffer")


SCHEDULERS = {"deployed": make_kernels}
