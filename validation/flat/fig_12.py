"""Figure 12: energy of figure 10's points. `python -m validation.flat.fig_12`."""

from __future__ import annotations

from validation.flat.lengths import EXHIBITS

EXHIBIT = EXHIBITS["fig_12"]

if __name__ == "__main__":
    EXHIBIT.make()
