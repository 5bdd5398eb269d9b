"""Kills explorations at 50 random moments: `python -m validation.explore.run [--seed N]`.

Parents, workers and schedulers are killed; each exploration is then started again, and has to give
the same bytes, its store included, as one that was left alone. Prints the line of README.md.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.robust.explorations import Victim, kill_and_go_on
from tests.robust.processes import serving

TIMES: dict[Victim, int] = {"parent": 34, "worker": 8, "scheduler": 8}


def main() -> None:
    """Kill, start again, compare, and print how the first runs ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    seed = parser.parse_args().seed
    with TemporaryDirectory() as own, TemporaryDirectory() as folder, serving(Path(own)) as server:
        ends = kill_and_go_on(server, Path(folder), TIMES, seed)
    kills = ", ".join(f"{count} of the {victim}" for victim, count in TIMES.items())
    counted = ", ".join(f"{count} {what}" for what, count in ends.items())
    print(f"{sum(TIMES.values())} kills ({kills}): {counted}; all gave the same bytes")


if __name__ == "__main__":
    main()
