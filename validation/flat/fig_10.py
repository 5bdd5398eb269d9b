"""Figure 10: utilisation over buffer and length, BERT, edge. `python -m validation.flat.fig_10`."""

from __future__ import annotations

from validation.flat.lengths import EXHIBITS

EXHIBIT = EXHIBITS["fig_10"]

if __name__ == "__main__":
    EXHIBIT.make()
