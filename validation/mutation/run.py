"""Would the tests notice a wrong figure? Random changes of the code, one at a time.

``python -m validation.mutation.run [--count N] [--seed S]`` copies the repository, changes one
figure of the copy (an operator, a constant, a comparison, a swapped argument), and runs the tests
that are nearest to it first: those that import the module and its docstrings, those of the folder
that mirrors its package, with ``--wide`` at last all. ``mutants.csv`` gets a line for each; the run
goes on where it was stopped. ``--again`` tries once more what was missed, as it stands in the
table. It fails if more than 4 of 70 were missed that change a figure: the table's last column says
of the others why they don't, by hand.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from validation.mutation.changes import Change, changes

REPOSITORY: Final = Path(__file__).parents[2]
TABLE: Final = Path(__file__).with_name("mutants.csv")
COUNT: Final = 70
MOST_MISSED: Final = 4
PACKAGES: Final = {
    "machine": 20, "program": 8, "analytic": 10, "mapping": 8, "hardware": 10, "search": 3,
    "schedulers": 3, "trace": 4, "importers": 4,
}  # fmt: skip
"""Of 70 changes how many are in which package."""
_WIDE: Final = (
    *("tests/properties", "tests/machine", "tests/analytic", "tests/study"),
    *("validation", "tests"),
)
"""Where those that nothing near has noticed are looked for, one after the other."""
_SECONDS: Final = 900
"""What takes longer is noticed: no test lasts so long."""
_LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".venv", "out", "__pycache__", ".*_cache", ".hypothesis"
)


@dataclass(frozen=True)
class Mutant:
    """A change of a module, and the test that noticed it, or none.

    ``equivalent``: why no figure changes with it, as somebody found who read the code.
    """

    seed: int
    module: str
    line: int
    change: str
    noticed: str = ""
    equivalent: str = ""


def draw(seed: int) -> tuple[Path, Change]:
    """Draw a change: a package as often as its share, then a place in it."""
    die = random.Random(f"mutant {seed}")  # noqa: S311 - reproducible, not secret
    (package,) = die.choices(list(PACKAGES), list(PACKAGES.values()))
    modules = sorted((REPOSITORY / "simaccel" / package).rglob("*.py"))
    places = [(path, change) for path in modules for change in changes(_text(path))]
    path, change = die.choice(places)
    return path.relative_to(REPOSITORY), change


def drawn_before(row: Mutant) -> tuple[Path, Change]:
    """Find a change of the table in the code as it is now: the draw, if it is still the same.

    Else the change of the same text that is nearest to where it was, in any module if its own is
    no more.

    Raises:
        LookupError: the line has changed.
    """
    module, change = draw(row.seed)
    if (module.as_posix(), _says(module, change)) == (row.module, row.change):
        return module, change
    own = REPOSITORY / row.module
    modules = [own] if own.exists() else sorted((REPOSITORY / "simaccel").rglob("*.py"))
    code = row.change.rpartition(" in ")[2]
    alike = [
        (path.relative_to(REPOSITORY), change)
        for path in modules
        if code in " ".join(_text(path).split())
        for change in changes(_text(path))
        if _says(path, change) == row.change
    ]
    if not alike:
        raise LookupError(f"{row.module} has no more: {row.change}")
    return min(alike, key=lambda place: abs(place[1].line - row.line))


def _says(module: Path, change: Change) -> str:
    line = _text(REPOSITORY / module).splitlines()[change.line - 1].strip()
    return " ".join(f"{change.old} -> {change.new} in {line}".split())


def stages(module: Path, *, wide: bool) -> Iterator[list[str]]:
    """Give the tests to run, the nearest ones first."""
    name = ".".join(module.with_suffix("").parts)
    imports = re.compile(
        rf"{re.escape(name)}\b|from {re.escape(name.rpartition('.')[0])} import .*\b{module.stem}\b"
    )
    roots = ("tests", "validation")
    tests = (path for root in roots for path in sorted((REPOSITORY / root).rglob("test_*.py")))
    near = [path for path in tests if imports.search(_text(path))]
    doctests = (
        f"tests/test_doctests.py::test_examples_of_docstrings_print_what_stands_there[{name}]"
    )
    if "\n    >>> " in _text(REPOSITORY / module):
        yield [doctests]
    if near:
        yield [path.relative_to(REPOSITORY).as_posix() for path in near]
    folder = Path("tests", *module.parts[1:-1])
    while folder != Path("tests"):
        if (REPOSITORY / folder).is_dir():
            yield [folder.as_posix()]
        folder = folder.parent
    if wide:
        yield from ([folder] for folder in _WIDE)


def noticed(copy: Path, module: Path, *, wide: bool) -> str:
    """Return the first test of the copy that fails; none if all pass."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    for tests in stages(module, wide=wide):
        command = (sys.executable, "-m", "pytest", "-n", "0", "-x", "-p", "no:cacheprovider")
        try:
            ran = subprocess.run(
                (*command, *tests),
                cwd=copy,
                env=environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"{' '.join(tests)}: no end"
        if ran.returncode not in {0, 5}:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
            return failed[1] if failed else f"{' '.join(tests)}: exit code {ran.returncode}"
    return ""


def tried(copy: Path, seed: int, before: Mutant | None, *, wide: bool) -> Mutant:
    """Make a change in the copy, run the tests, and take it back."""
    module, change = draw(seed) if before is None else drawn_before(before)
    original, target = _text(REPOSITORY / module), copy / module
    target.write_text(change.made(original), encoding="utf-8")
    # what was compiled is known by time in seconds and size, which may be the same
    for compiled in (target.parent / "__pycache__").glob(f"{module.stem}.*"):
        compiled.unlink()
    try:
        failed = noticed(copy, module, wide=wide)
    finally:
        target.write_text(original, encoding="utf-8")
    reason = "" if before is None or failed else before.equivalent
    return Mutant(seed, module.as_posix(), change.line, _says(module, change), failed, reason)


def read() -> dict[int, Mutant]:
    """Read what was tried."""
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = [Mutant(**(row | {"seed": int(row["seed"]), "line": int(row["line"])}))  # type: ignore[arg-type]
                for row in csv.DictReader(file)]  # fmt: skip
    return {row.seed: row for row in rows}


def main() -> int:
    """Try what has not been tried; return 1 if too much was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=0, help="of the first change")
    parser.add_argument(
        "--wide", action="store_true", help="look in all tests for what near ones miss"
    )
    parser.add_argument("--again", action="store_true", help="try what was missed once more")
    asked = parser.parse_args()
    done, gone = read(), set[int]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(REPOSITORY, copy, ignore=_LEFT_OUT)
        for seed in range(asked.seed, asked.seed + asked.count):
            before = done.get(seed)
            if before is None or (asked.again and not before.noticed):
                try:
                    done[seed] = tried(copy, seed, before, wide=asked.wide)
                except LookupError as missing:
                    print(f"{seed}: not counted: {missing}")
                    gone.add(seed)
                    continue
                _write(done)
            row = done[seed]
            print(
                f"{row.seed} {row.module}:{row.line} {row.change}: {row.noticed or 'MISSED'}",
                flush=True,
            )
    wanted = range(asked.seed, asked.seed + asked.count)
    rows = [done[seed] for seed in wanted if seed not in gone]
    missed = [row for row in rows if not row.noticed]
    alike = sum(bool(row.equivalent) for row in missed)
    print(
        f"{len(rows) - len(missed)} of {len(rows)} changes were noticed; {alike} change no figure"
    )
    return int((len(missed) - alike) * COUNT > MOST_MISSED * len(rows))


def _write(done: dict[int, Mutant]) -> None:
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Mutant.__annotations__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(done[seed]) for seed in sorted(done))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
