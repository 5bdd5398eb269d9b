"""Figure 11: utilisation over buffer and length, XLM, cloud. `python -m validation.flat.fig_11`."""

from __future__ import annotations

from validation.flat.lengths import EXHIBITS

EXHIBIT = EXHIBITS["fig_11"]

if __name__ == "__main__":
    EXHIBIT.make()
