"""Simulate the GEMM that the files of a folder describe, in a Python that has SCALE-Sim.

The folder is the argument; the last line printed is what the tool reports and its CPU seconds.
"""

import csv
import json
import sys
import time
from pathlib import Path

from scalesim.scale_sim import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    scalesim,
)


def main() -> None:
    folder = Path(sys.argv[1])
    started = time.process_time()
    simulator = scalesim(
        save_disk_space=True,
        verbose=False,
        config=str(folder / "scale.cfg"),
        topology=str(folder / "topology.csv"),
        layout=str(folder / "layout.csv"),
        input_type_gemm=True,
    )
    simulator.run_scale(top_path=str(folder))
    seconds = time.process_time() - started
    # get_total_cycles() of 3.0.0 fails, so the report is read
    with (folder / "run" / "COMPUTE_REPORT.csv").open(newline="") as file:
        (layer,) = csv.DictReader(file, skipinitialspace=True)
    print(json.dumps({"reported_cycles": int(layer["Total Cycles"]), "cpu_seconds": seconds}))


if __name__ == "__main__":
    main()
