"""Figure 13: energy of figure 11's points. `python -m validation.flat.fig_13`."""

from __future__ import annotations

from validation.flat.lengths import EXHIBITS

EXHIBIT = EXHIBITS["fig_13"]

if __name__ == "__main__":
    EXHIBIT.make()
