"""What a user of the repository relies on: a wheel that is complete, links, targets, the lock."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

import conftest
from validation.__main__ import PARTS, TARGET, main

REPOSITORY = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
TARGETS = ("help", "setup", "run", "test", "check", "golden", "validate", "bench", "site")
DOCUMENTS = sorted(
    path
    for path in REPOSITORY.rglob("*.md")
    if not any(part.startswith(".") for part in path.relative_to(REPOSITORY).parts)
)


def _text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_the_package_and_the_hwconfigs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    shipped = {f"simaccel/hwconfigs/{path.name}" for path in REPOSITORY.glob("hwconfigs/*.yaml")}
    modules = {
        path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.rglob("simaccel/**/*.py")
    }
    page = {
        path.relative_to(REPOSITORY).as_posix()
        for path in REPOSITORY.glob("simaccel/report/page/*.[!p]*")
        if path.is_file()
    }
    assert {path.rpartition(".")[2] for path in page} == {"html", "css", "js"}
    assert shipped | modules | page | {"simaccel/py.typed"} <= inside
    assert {name.partition("/")[0].partition("-")[0] for name in inside} == {"simaccel"}


def test_the_wheel_runs_from_any_directory(wheel: Path, tmp_path: Path) -> None:
    """Unpacked as an installer would, first on the path, far from the repository."""
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    arguments = "run --hw toy --workload gemm --shape M=9,K=7,N=5 --json"
    code = "import simaccel, sys; print(simaccel.__file__, file=sys.stderr); "
    code += "from simaccel.cli import main; main()"
    ran = subprocess.run(
        (sys.executable, "-c", code, *arguments.split()),
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert str(site) in ran.stderr
    assert '"macs": 315' in ran.stdout


def test_what_ci_runs_is_refused_where_tests_would_write_what_they_compare_with() -> None:
    """Without a path: where it isn't refused, there is no `make` that it could run."""
    ran = subprocess.run(
        ("/bin/bash", str(REPOSITORY / ".ci" / "run")),
        env={"PATH": "", "SIMACCEL_UPDATE_GOLDEN": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("SIMACCEL_UPDATE_GOLDEN is set")


@pytest.mark.parametrize(
    ("user", "installed", "said"),
    [
        (0, "exit 0", ""),
        (0, "echo no network; exit 100", "not installed: iverilog chromium-driver: no network\n"),
        (
            1000,
            "exit 100",
            "not installed: iverilog chromium-driver: only root installs them, by apt-get\n",
        ),
    ],
)
def test_ci_goes_on_and_says_so_where_programs_of_tests_cannot_be_installed(
    user: int, installed: str, said: str, tmp_path: Path
) -> None:
    programs = {"make": 'echo "make $*"', "id": f"echo {user}", "apt-get": installed}
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    for name in ("date", "dirname", "mktemp", "rm", "tail", "timeout"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    ran = subprocess.run(
        ("/bin/bash", str(REPOSITORY / ".ci" / "run")),
        env={"PATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (0, "make setup\nmake check\n")
    assert ran.stderr == said


def test_make_lists_its_targets() -> None:
    listed = re.findall(r"^([a-z]+):.*## ", _text("Makefile"), re.MULTILINE)
    assert set(TARGETS) <= set(listed)
    phony = re.search(r"^\.PHONY: (.*)$", _text("Makefile"), re.MULTILINE)
    assert phony
    assert set(listed) == set(phony[1].split())


def test_make_names_files_that_exist() -> None:
    modules = re.findall(r"python -m ((?:benchmarks|examples)[.][\w.]*)", _text("Makefile"))
    parts = [part.split()[0] for part in PARTS[1:] if not part.startswith(TARGET)]
    for module in (*modules, *(f"validation.{part}" for part in parts)):
        assert (REPOSITORY / module.replace(".", "/")).with_suffix(".py").is_file(), module


def test_each_target_is_run_by_something() -> None:
    """By CI, by `make validate`, or here; `golden` is the tests that it runs, and pages' blocks."""
    by_ci = set(re.findall(r"^make (\w+)$", _text(".ci/run"), re.MULTILINE))
    by_validation = {part.removeprefix(TARGET) for part in PARTS if part.startswith(TARGET)}
    here = {"help", "clean", "test", "golden", "validate"}
    assert by_ci == {"setup", "check"}
    assert by_ci | by_validation | here == {*TARGETS, "clean"}
    assert _text("Makefile").count("pytest -n 2 --dist worksteal") == 2  # test and check
    ran = subprocess.run(
        ("make", "help"), cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    assert set(re.findall(r"^  (\w+) ", ran.stdout, re.MULTILINE)) == {*TARGETS, "clean"}


def test_validation_goes_on_after_a_failure_and_says_what_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no module of the first part; the second one's has nothing to run, and no fault."""
    parts = ("nothing.here --at all", "silicon.columns")
    monkeypatch.setattr("validation.__main__.PARTS", parts)
    ran = CliRunner().invoke(main)
    assert ran.exit_code == 1
    said = [re.sub("[0-9]+ s", "0 s", line) for line in ran.output.splitlines()]
    assert said == [
        "== nothing.here --at all",
        "== nothing.here --at all: 0 s, exit code 1",
        "== silicon.columns",
        "== silicon.columns: 0 s, exit code 0",
        "1 of 2 parts passed",
        "failed: nothing.here --at all",
    ]


def test_make_shows_what_a_step_prints_if_it_fails() -> None:
    for command, shown in (("echo said", ""), ("echo said; false", "said\n")):
        target = f"step: ; $(call quietly,{command})"
        ran = subprocess.run(
            ("make", "--no-print-directory", f"--eval={target}", "step"),
            cwd=REPOSITORY,
            check=False,
            capture_output=True,
            text=True,
        )
        assert ran.stderr.startswith(shown)
        assert (ran.returncode, ran.stdout) == (2 * bool(shown), "")


def test_ci_runs_the_check() -> None:
    lines = _text(".ci/run").splitlines()
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make check"
    assert os.access(REPOSITORY / ".ci" / "run", os.X_OK)


def test_the_lock_pins_every_requirement() -> None:
    pins = dict(line.lower().split("==") for line in _text("requirements.lock").split())
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["dev"],
        *PROJECT["build-system"]["requires"],
    ]
    names = {re.split(r"[^\w-]", one, maxsplit=1)[0].lower() for one in wanted}
    assert names <= pins.keys()


def test_the_changelog_tells_of_this_version() -> None:
    assert f"\n## [{PROJECT['project']['version']}]" in _text("CHANGELOG.md")
    assert "\n### Numbers change\n" in _text("CHANGELOG.md")


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(REPOSITORY).as_posix()
)
def test_links_lead_somewhere(document: Path) -> None:
    """To a file, as the site has no folders; and to a heading, in this file or another one."""
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(document)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = document.parent / path if path else document
        assert found.is_file(), target
        if anchor:
            assert anchor in _anchors(found), target


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if "out" not in path.parts])
def test_no_document_names_a_folder_of_its_writer(document: Path) -> None:
    """As a traceback that was printed on one does."""
    text = document.read_text(encoding="utf-8")
    assert not re.findall(r"(?<![\w.~])/(?:root|home|tmp|Users|work)/\S*", text)


def _prose(document: Path) -> str:
    fences = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    return fences.sub("", document.read_text(encoding="utf-8"))


def _anchors(document: Path) -> set[str]:
    """Name the headings of a document as links do; equal ones are told apart by numbers."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", _prose(document), re.MULTILINE):
        text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading)
        slug = re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
        again = sum(1 for one in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", one))
        found.add(f"{slug}-{again}" if again else slug)
    return found


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/images/packages.svg"])
def test_the_picture_of_the_packages_has_them_all(name: str) -> None:
    packages = {path.parent.name for path in REPOSITORY.glob("simaccel/*/__init__.py")}
    text = _text(name)
    assert {one for one in packages if not re.search(rf"\b{one}\b", text)} == set()


def test_the_site_shows_every_page_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its navigation names pages and patterns, below the page that they stand on."""
    monkeypatch.setitem(sys.modules, "sphinx.application", Mock())  # only who builds it has Sphinx
    site = runpy.run_path(str(REPOSITORY / "docs" / "conf.py"))
    shown = Counter(
        page
        for above in site["TREES"]
        for entry in re.findall(r"^/(.*)$", site["navigation"](above), re.MULTILINE)
        for page in REPOSITORY.glob(entry.replace("**", "**/*") + ".md")
        if page != REPOSITORY / f"{above}.md"
    )
    pages = {page for one in site["include_patterns"] for page in REPOSITORY.glob(one)}
    expected = {page for page in pages if page.suffix == ".md"} - {REPOSITORY / "README.md"}
    assert shown == Counter(expected)
    assert expected <= set(DOCUMENTS)


DECISIONS = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))


def test_decisions_are_listed_once() -> None:
    listed = re.findall(
        r"^\| \[[^]]*\]\(([\w-]+\.md)\)", _text("docs/decisions/README.md"), re.MULTILINE
    )
    assert sorted([*listed, "README.md"]) == [page.name for page in DECISIONS]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_decisions_name_files_that_are_there(page: Path) -> None:
    """Paths in backticks, from the repository on or from the package on."""
    names = re.findall(r"`([\w.-]+/[\w./-]+)`", page.read_text(encoding="utf-8"))
    roots = (REPOSITORY, REPOSITORY / "simaccel")
    assert [name for name in names if not any((root / name).exists() for root in roots)] == []


@pytest.mark.parametrize(
    ("reasons", "lines"),
    [
        ([], []),
        (["sends signals"], []),
        (
            ["needs a browser (apt-get install b)", "forks", "needs icarus", "needs icarus"],
            ["to run what was skipped: 1 x needs a browser (apt-get install b); 2 x needs icarus"],
        ),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_what_was_drawn_and_what_was_skipped_for_want_of_a_program_is_said_once(
    reasons: list[str], lines: list[str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "SEED", seed)
    lines = [*["random tests drew with SIMACCEL_SEED=7"][: seed > 0], *lines]
    said: list[str] = []
    reports = [SimpleNamespace(longrepr=("a.py", 1, f"Skipped: {reason}")) for reason in reasons]
    reporter: Any = SimpleNamespace(stats={"skipped": reports}, write_line=said.append)
    conftest.pytest_terminal_summary(reporter)
    assert said == lines
