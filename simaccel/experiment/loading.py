"""The cost of loading an array: the cycles in which its folds do nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simaccel.hardware import Accelerator, ArraySpec, FoldGrid, Stationarity
from simaccel.hardware.quantity import Amount
from simaccel.machine.folds import Fold, FoldLoop, folds_of
from simaccel.program.program import Compute, Folds, Node, Operator, Program, ProgramLoop


class LoadedArray(ArraySpec):
    """An array whose stationary operands, and sums that leave, shift in no time."""

    def lead_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:  # noqa: ARG002
        """Nothing before the first fold."""
        return grid.high * 0

    def fold_cycles(
        self,
        rows: Amount,
        cols: Amount,
        stream: Amount,
        stationarity: Stationarity,  # noqa: ARG002 - as ArraySpec has it
        first_rows: Amount | None = None,  # noqa: ARG002
        row_rate: int = 1,  # noqa: ARG002
    ) -> Amount:
        """The stream of a fold, and its skew where the next does not enter directly after."""
        high, wide = self._sides(rows, cols)
        return stream + (high + wide - 2) * int(self.overlap != "stream")


def without_loading(accelerator: Accelerator) -> Accelerator:
    """Return an accelerator whose array is loaded in no time.

    A spatial array, or one that is free of more, stays as it is.
    """
    if type(accelerator.array) is not ArraySpec:
        return accelerator
    fields = {
        name: getattr(accelerator.array, name) for name in type(accelerator.array).model_fields
    }
    sections = {name: getattr(accelerator, name) for name in type(accelerator).model_fields}
    sections["array"] = LoadedArray.model_validate(fields)
    return Accelerator.model_validate(sections)


def loading_cycles(program: Program, accelerator: Accelerator) -> Counter[str]:
    """Count the cycles by operator in which the array of core 0 does nothing but load, or unload.

    What folds take beyond an array that is loaded in no time; none in a spatial array.
    """
    found: Counter[str] = Counter()
    if isinstance(accelerator.array, ArraySpec):
        _add_loading(program.body, "", 1, (accelerator, without_loading(accelerator)), found)
    return found


def _add_loading(
    body: Sequence[Node],
    operator: str,
    times: int,
    both: tuple[Accelerator, Accelerator],
    loading: Counter[str],
) -> None:
    for node in body:
        if isinstance(node, Operator):
            _add_loading(node.body, node.name, times, both, loading)
        elif isinstance(node, ProgramLoop):
            trips = node.trips if node.core is None else int(node.core == 0)
            _add_loading(node.body, operator, times * trips, both, loading)
        elif isinstance(node, Compute) and isinstance(node.on, Folds):
            slow, fast = (_cycles(folds_of(node, node.on, machine).folds) for machine in both)
            loading[operator] += times * (slow - fast)


def _cycles(node: Fold | FoldLoop) -> int:
    if isinstance(node, Fold):
        return node.cycles
    return node.trips * sum(map(_cycles, node.body))
