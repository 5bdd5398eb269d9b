"""All validation: ``python -m validation [PART...]`` runs each part, and then says what failed.

A part is a module of this folder by its name (``silicon.run``), ``tests``: all of them, with as
many draws as there is time for, or a target of the Makefile (``make-site``). Without parts it runs
all: hours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

import click

TESTS: Final = "tests"
TARGET: Final = "make-"
PARTS: Final = (
    TESTS,
    "bound.proved",
    "bound.run",
    "bound.figures",
    "graphs.run",
    "graphs.catalogue",
    "search.run",
    "search.brute",
    "search.monotone",
    "search.supersets",
    "frozen.run --processes 2",
    "ruby.run",
    "ruby.run_networks",
    "orojenesis.run",
    "orojenesis.attained",
    "flat.run",
    "fast_forward.run",
    "silicon.run",
    "silicon.gemmini.run",
    "blame.run",
    "robust.run",
    "mutation.run --again",
    "explore.run",
    "maestro.run",
    "language_models.run",
    "residency.run",
    "onnx.run",
    "onnx.values",
    "dram.run",
    "rtl.run",
    "rtl.sequences",
    "tpu_v1.run",
    "pods.run",
    "make-run",
    "make-bench",
    "make-site",
)
_DRAWS: Final = {"SIMACCEL_DRAWS": "114"}


def run_parts(parts: Sequence[str]) -> list[str]:
    """Run parts, one after the other whatever they end with; return those that failed."""
    failed = []
    for part in parts:
        name, *arguments = part.split()
        command = [sys.executable, "-m", f"validation.{name}", *arguments]
        if part == TESTS:
            command[2:] = ["pytest", "-n", "2", "--dist", "worksteal"]
        elif name.startswith(TARGET):
            command = ["make", name.removeprefix(TARGET)]
        click.echo(f"== {part}")
        begin = time.monotonic()
        draws = _DRAWS if part == TESTS else {}
        code = subprocess.run(command, env=os.environ | draws, check=False).returncode
        click.echo(f"== {part}: {time.monotonic() - begin:.0f} s, exit code {code}")
        if code:
            failed.append(part)
    return failed


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice([part.split()[0] for part in PARTS]))
def main(parts: Sequence[str]) -> None:
    """Run the parts that are named, or all."""
    chosen = [part for part in PARTS if part.split()[0] in parts or not parts]
    failed = run_parts(chosen)
    click.echo(f"{len(chosen) - len(failed)} of {len(chosen)} parts passed")
    for part in failed:
        click.echo(f"failed: {part}")
    sys.exit(len(failed) > 0)


if __name__ == "__main__":
    main()
