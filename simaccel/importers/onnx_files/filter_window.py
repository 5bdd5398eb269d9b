"""A filter or window over one dimension of a tensor."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FilterWindow:
    """A filter or window over one dimension: ``made`` positions, zeros ``before`` the first."""

    made: int
    reach: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    @property
    def length(self) -> int:
        """Positions of the input that all windows together reach."""
        return (self.made - 1) * self.stride + (self.reach - 1) * self.dilation + 1

    def count_inside(self, size: int) -> int:
        """Return the pairs of a position and a tap that read one of ``size`` elements, not zeros.

        >>> FilterWindow(4, 3, before=1).count_inside(4)  # 2, 3, 3 and 2 taps
        10
        """
        firsts = (tap * self.dilation - self.before for tap in range(self.reach))
        return sum(
            max(
                0,
                min(self.made, -(-(size - first) // self.stride)) - max(0, -(first // self.stride)),
            )
            for first in firsts
        )
