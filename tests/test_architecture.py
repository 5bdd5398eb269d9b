"""The conventions that a reader may rely on: import layers, docstrings and sizes."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
MAX_FUNCTION_LINES = 60
RUNNING = {"Machine", "simulate", "record", "attribute", "what_if", "speedups_of"}
RUNNING |= {"speedup_without", "run_mapping", "run_legal"}
MAX_FILE_LINES = 400

# Data flows one way: each package may import itself and the packages named here.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "lazy": set(),
    "dataflows": set(),
    "numbers": set(),
    "pareto": set(),
    "units": set(),
    "plugins": {"errors"},
    "files": {"errors"},
    "workload": {"errors", "lazy", "numbers", "files", "plugins"},
    "hardware": {"units", "errors", "lazy", "numbers", "files", "plugins"},
    "mapping": {"units", "errors", "numbers", "files", "workload", "hardware"},
    "program": {"units", "errors", "numbers", "workload", "hardware", "mapping"},
    "analytic": {"units", "errors", "numbers", "pareto", "workload", "hardware", "mapping"},
    "importers": {
        *("units", "errors", "lazy", "numbers", "files", "workload", "hardware"),
        *("mapping", "plugins"),
    },
    "search": {
        *("units", "errors", "numbers", "pareto", "workload", "hardware", "mapping", "analytic"),
        *("program", "machine"),
    },
    "schedulers": {
        *("units", "dataflows", "errors", "numbers", "pareto", "plugins", "workload", "hardware"),
        *("mapping", "analytic", "search", "program", "machine"),
    },
    "machine": {"units", "errors", "numbers", "workload", "hardware", "program"},
    "trace": {
        *("units", "errors", "lazy", "numbers", "files", "workload", "hardware", "mapping"),
        *("program", "machine"),
    },
}
BASE = {"errors", "lazy", "numbers", "pareto", "units", "version", "plugins", "files"}
CORE = {*BASE, "workload", "hardware", "mapping", "analytic", "program", "machine", "trace", "run"}
"""What answers how many cycles a mapping takes, and why; all else uses it."""
LAYERS |= {"run": CORE - {"run", "trace"}}
LAYERS |= {"diagnosis": {*CORE}}
LAYERS |= {"study": {*LAYERS}}
LAYERS |= {"report": {*LAYERS}}
LAYERS |= {"verbs": {*LAYERS}}
LAYERS |= {"cli": {*LAYERS}}
# Guests: entry points name what they add, and nothing else imports them.
LAYERS |= {"papers": {*BASE, "workload", "hardware", "mapping", "analytic"}}
LAYERS |= {"papers.commands": {*LAYERS}}
LAYERS |= {"__init__": {*LAYERS} - {"cli", "papers", "papers.commands"}, "__main__": {"cli"}}

# Formulas and the machine, with its programs, know nothing of each other, so that what they agree
# in means something. Whole packages, so that a new module is hidden the day it is written.
HIDDEN: dict[str, tuple[str, ...]] = {
    "analytic": ("program", "machine"),
    "papers": ("program", "machine"),
    "program": ("analytic",),
    "machine": ("analytic",),
}

# Third-party packages with a single home.
HOMES = {"simpy": {"machine"}, "click": {"cli", "papers.commands"}, "h5py": {"trace"}}
HOMES |= {"distributed": {"study"}}
MAY_PRINT = {"cli", "report"}
# Rows of a study and diagnoses are data: whoever shows them makes text of them.
WITHOUT_TEXT = {"study", "diagnosis"}
TEXT = {"click", "rich", "matplotlib", "IPython"}
NOT_IN_CORE = {"onnx", "distributed", "lark"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


@dataclass(frozen=True)
class Import:
    """One imported module, with the place that imports it."""

    target: str
    line: int
    in_function: bool


def layer_of(name: str) -> str:
    """The layer of a module: its package, and apart from it the commands of guests."""
    layer, *inner = name.split(".")[1:]
    return f"{layer}.commands" if layer == "papers" and "commands" in inner else layer


class Module:
    """A source file of the package, parsed."""

    def __init__(self, root: Path, path: Path) -> None:
        parts = path.relative_to(root).with_suffix("").parts
        self.where = path.relative_to(root).as_posix()
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.layer = layer_of(".".join(parts))
        self.lines = path.read_text().splitlines()
        self.tree = ast.parse("\n".join(self.lines))
        self.nodes = tuple(ast.walk(self.tree))
        self.written_imports = tuple(self._written_imports())

    def _written_imports(self) -> Iterator[tuple[str, str | None, ast.stmt]]:
        """Each import as written, absolute: (module, imported name if any, statement)."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, None, node
            elif isinstance(node, ast.ImportFrom):
                base = self.name.split(".") + ["__init__"] * self.is_package
                above = base[: -node.level] if node.level else []
                module = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield module, alias.name, node


class Package:
    """All modules of the package, with their imports resolved to modules."""

    def __init__(self, root: Path) -> None:
        files = sorted((root / "simaccel").rglob("*.py"))
        self.modules = {module.name: module for module in (Module(root, path) for path in files)}
        self.known: dict[str, tuple[Import, ...]] = {}

    def imports(self, module: Module) -> tuple[Import, ...]:
        """What a module imports, also inside functions and through a package's re-exports."""
        if module.name not in self.known:
            self.known[module.name] = tuple(self._imports(module))
        return self.known[module.name]

    def _imports(self, module: Module) -> Iterator[Import]:
        functions = [node for node in module.nodes if isinstance(node, Function)]
        inside = {id(node) for function in functions for node in ast.walk(function)}
        for target, name, node in module.written_imports:
            for resolved in self._resolve(target, name):
                yield Import(resolved, node.lineno, id(node) in inside)

    def reached(self, target: str) -> Iterator[str]:
        """A module and all that it imports, and they import, within the package."""
        found, waiting = {target}, [target]
        while waiting:
            one = waiting.pop()
            yield one
            if one in self.modules:
                new = {imported.target for imported in self.imports(self.modules[one])} - found
                found |= new
                waiting += sorted(new)

    def _resolve(self, target: str, name: str | None) -> Iterator[str]:
        if name is not None and f"{target}.{name}" in self.modules:
            yield f"{target}.{name}"
            return
        yield target
        if name is None or target not in self.modules or not self.modules[target].is_package:
            return
        for source, exported, node in self.modules[target].written_imports:
            renamed = {a.asname for a in getattr(node, "names", []) if a.name == exported}
            if source != target and (exported == name or name in renamed):
                yield from self._resolve(source, exported)


def _public(body: list[ast.stmt]) -> Iterator[Definition]:
    """Public functions and classes of a module, and the public methods of those classes."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body)


def _repeats_documentation(node: Definition) -> bool:
    """Overloads and property setters are documented where they are defined first."""
    marks = {ast.unparse(mark).rpartition(".")[2] for mark in node.decorator_list}
    return bool(marks & {"overload", "setter", "deleter", "override"})


def _docstring_lines(node: Function) -> int:
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0


def layer_violations(package: Package) -> Iterator[str]:
    for module in package.modules.values():
        if module.layer not in LAYERS:
            yield f"{module.where}:1: no layer; give it one in LAYERS"
            continue
        allowed = LAYERS[module.layer] | {module.layer}
        for imported in package.imports(module):
            root, _, rest = imported.target.partition(".")
            if root == "simaccel" and rest and layer_of(imported.target) not in allowed:
                yield f"{module.where}:{imported.line}: must not import {imported.target}"


def hidden_violations(package: Package) -> Iterator[str]:
    """Also what a package between them imports: nothing reaches the other side on a detour."""
    for module in package.modules.values():
        hidden = tuple(f"simaccel.{one}." for one in HIDDEN.get(module.layer, ()))
        if not hidden:
            continue
        found: dict[int, str] = {}
        for imported in package.imports(module):
            for target in package.reached(imported.target):
                if f"{target}.".startswith(hidden):
                    found.setdefault(imported.line, target)
        yield from (f"{module.where}:{at}: must not see {target}" for at, target in found.items())


def third_party_violations(package: Package) -> Iterator[str]:
    for module in package.modules.values():
        plots = module.layer in ("report", "verbs", "papers.commands") or module.name.endswith(
            ".plots"
        )
        for imported in package.imports(module):
            library = imported.target.partition(".")[0]
            homes = HOMES.get(library, {module.layer})
            if module.layer not in homes:
                names = " and ".join(sorted(homes))
                yield f"{module.where}:{imported.line}: only {names} may import {library}"
            is_foreign = module.layer in CORE and library in {*TEXT, *NOT_IN_CORE}
            if (module.layer in WITHOUT_TEXT and library in TEXT) or is_foreign:
                yield f"{module.where}:{imported.line}: {module.layer} must not import {library}"
            elif library == "matplotlib" and not (imported.in_function or plots):
                yield f"{module.where}:{imported.line}: only plots import matplotlib at the top"


def cycle_violations(package: Package) -> Iterator[str]:
    graph = {
        name: {i.target for i in package.imports(module)} & package.modules.keys() - {name}
        for name, module in package.modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # The error lists each module before one that imports it, the first again as last.
        cycle: list[str] = error.args[1][::-1]
        module = package.modules[cycle[0]]
        line = next(i.line for i in package.imports(module) if i.target == cycle[1])
        yield f"{module.where}:{line}: import cycle {' -> '.join(cycle)}"


def docstring_violations(package: Package) -> Iterator[str]:
    for module in package.modules.values():
        if not ast.get_docstring(module.tree):
            yield f"{module.where}:1: module without a docstring"
        for node in _public(module.tree.body):
            if not ast.get_docstring(node) and not _repeats_documentation(node):
                yield f"{module.where}:{node.lineno}: {node.name} has no docstring"


def size_violations(package: Package) -> Iterator[str]:
    for module in package.modules.values():
        if len(module.lines) > MAX_FILE_LINES:
            yield f"{module.where}:1: {len(module.lines)} lines, at most {MAX_FILE_LINES}"
        for node in module.nodes:
            if not isinstance(node, Function):
                continue
            lines = (node.end_lineno or 0) - node.lineno + 1 - _docstring_lines(node)
            if lines > MAX_FUNCTION_LINES:
                limit = f"{lines} lines, at most {MAX_FUNCTION_LINES}"
                yield f"{module.where}:{node.lineno}: {node.name} has {limit}"


def print_violations(package: Package) -> Iterator[str]:
    for module in package.modules.values():
        for node in module.nodes:
            if not isinstance(node, ast.Call) or module.layer in MAY_PRINT:
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "print":
                yield f"{module.where}:{node.lineno}: print outside cli and report"


def run_violations(package: Package) -> Iterator[str]:
    """What is shown was run before: texts and figures import nothing that runs a machine."""
    for module in package.modules.values():
        for node in module.nodes:
            if module.layer == "report" and isinstance(node, ast.ImportFrom):
                for name in RUNNING & {alias.name for alias in node.names}:
                    yield f"{module.where}:{node.lineno}: report must not run: {name}"


Rule = Callable[[Package], Iterator[str]]
RULES: tuple[Rule, ...] = (
    *(layer_violations, hidden_violations, third_party_violations, cycle_violations),
    *(docstring_violations, size_violations, print_violations, run_violations),
)


def test_simaccel_keeps_the_rules() -> None:
    """All in one test: the package is read once."""
    package = Package(REPOSITORY)
    violations = [violation for rule in RULES for violation in rule(package)]
    assert not violations, "\n" + "\n".join(violations)


FAULTS: dict[str, tuple[str, Rule, int]] = {
    "hardware/a.py": ("import simaccel.machine", layer_violations, 2),
    "workload/a.py": ("def f():\n    'F'\n    from ..hardware import spec", layer_violations, 4),
    "mapping/a.py": ("from simaccel import cli", layer_violations, 2),
    "analytic/machine.py": ("import simaccel.machine.engine", layer_violations, 2),
    "mapping/d.py": ("from simaccel.papers import maestro", layer_violations, 2),
    "search/a.py": ("from simaccel.papers.orojenesis import whole", layer_violations, 2),
    "papers/a.py": ("import simaccel.machine", hidden_violations, 2),
    "cli/a.py": ("def f():\n    'F'\n    from simaccel.papers import a", layer_violations, 4),
    "study/c.py": ("from simaccel.papers.maestro.commands import a", layer_violations, 2),
    "__init__.py": ("from simaccel.papers.maestro import a", layer_violations, 2),
    "papers/maestro/a.py": ("import simaccel.papers.maestro.commands.a", layer_violations, 2),
    "papers/maestro/commands/a.py": ("import h5py", third_party_violations, 2),
    "schedulers/a.py": ("from simaccel.trace import run", layer_violations, 2),
    "helpers.py": ("", layer_violations, 1),
    "report/b.py": ("from simaccel.machine.machine import Machine, Run", run_violations, 2),
    "mapping/b.py": ("from simaccel.program import program", layer_violations, 2),
    "analytic/direct.py": ("from simaccel.program import program", hidden_violations, 2),
    "analytic/reexport.py": ("from simaccel.program import Loop", hidden_violations, 2),
    "analytic/new.py": ("import simaccel.program.lowering", hidden_violations, 2),
    "analytic/clock.py": ("def f():\n    'F'\n    import simaccel.machine", hidden_violations, 4),
    "analytic/detour.py": ("from simaccel.mapping import detour", hidden_violations, 2),
    "machine/e.py": (
        "from simaccel.analytic.counting.work_counts import count",
        hidden_violations,
        2,
    ),
    "program/a.py": ("\nfrom ..analytic import estimate", hidden_violations, 3),
    "trace/a.py": ("import simpy.events", third_party_violations, 2),
    "report/a.py": ("from click import echo", third_party_violations, 2),
    "study/a.py": ("from rich.table import Table", third_party_violations, 2),
    "mapping/c.py": ("def f():\n    'F'\n    import lark", third_party_violations, 4),
    "study/b.py": ("from simaccel.report import tables", layer_violations, 2),
    "machine/b.py": ("import h5py", third_party_violations, 2),
    "machine/c.py": ("try:\n    import matplotlib.pyplot\nfinally: ...", third_party_violations, 3),
    "trace/b.py": ("from simaccel.trace import c", cycle_violations, 2),
    "errors.py": ("class Fault: ...", docstring_violations, 2),
    "trace/d.py": (
        "class _F: ...\nclass G:\n    'G'\n    def g(self): ...",
        docstring_violations,
        5,
    ),
    "hardware/c.py": ("def f():\n    'F'" + "\n    f()" * 60, size_violations, 2),
    "hardware/d.py": ("\n" * MAX_FILE_LINES, size_violations, 1),
    "machine/d.py": ("print()", print_violations, 2),
}

FAULTLESS = {
    "__main__.py": "from simaccel.cli import main",
    "machine/clock.py": "import simpy\nfrom simaccel.program import program",
    "program/program.py": "import numpy",
    "papers/maestro/commands/b.py": "import click\nfrom simaccel.papers.maestro import c\n"
    "from simaccel.cli import main\nimport simaccel.machine",
    "report/plots.py": "import matplotlib.pyplot\nimport simaccel.trace",
    "analytic/cycles.py": "from simaccel.mapping.tree import Tree",
    "cli/__init__.py": "import click\ndef main():\n    'M'\n    import matplotlib\n    print()",
    "trace/writer.py": "import h5py\ndef _f(): ...\ndef g():\n    'G'\n    def inner(): ...",
    "hardware/c.py": "def f():\n    'F'" + "\n    f()" * (MAX_FUNCTION_LINES - 1),
}


def _write(root: Path, files: dict[str, str]) -> Package:
    for name, text in files.items():
        file = root / "simaccel" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'"""Doc."""\n{text}\n')
    return Package(root)


@pytest.mark.parametrize("path", FAULTS)
def test_a_fault_is_reported_with_its_place(path: str, tmp_path: Path) -> None:
    source, rule, line = FAULTS[path]
    others = {
        "program/__init__.py": "from simaccel.program.program import Loop",
        "program/program.py": "",
        "cli/__init__.py": "",
        "trace/c.py": "from . import b",
    }
    if path == "analytic/detour.py":
        others["mapping/detour.py"] = "from simaccel.program import program"
    violations = list(rule(_write(tmp_path, {**others, path: source})))
    assert len(violations) == 1
    assert violations[0].startswith(f"simaccel/{path}:{line}: ")


def test_what_is_allowed_is_not_reported(tmp_path: Path) -> None:
    package = _write(tmp_path, FAULTLESS)
    assert [violation for rule in RULES for violation in rule(package)] == []
