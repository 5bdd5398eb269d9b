"""Kills commands at 200 moments all over their runs: `python -m validation.robust.run`."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.robust.kills import COMMANDS, kill_some
from tests.robust.processes import serving

TIMES = 50
"""Kills of each command."""


def main() -> None:
    """Kill, check what is left, and print how the commands ended."""
    with TemporaryDirectory() as own, TemporaryDirectory() as folder, serving(Path(own)) as server:
        ends = kill_some(server, Path(folder), TIMES)
    print(f"{TIMES * len(COMMANDS)} kills of {len(COMMANDS)} commands: {ends}; all sound")


if __name__ == "__main__":
    main()
