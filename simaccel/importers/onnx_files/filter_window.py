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
