"""Names of types and variables: words of the glossary, one meaning each, nothing vague."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "simaccel"
GLOSSARY = REPOSITORY / "docs" / "glossary.md"

VAGUE = {"one", "found", "some", "here", "mine", "given"}
"""What a variable of a longer function is not called: say what it holds."""
SHORT_LINES = 12
WITHOUT_VERB = """
about above across after against ahead alike all alone along among another any anywhere
apart around as at away back because before begun behind below beside between beyond both
broken brought built by chosen come done down drawn each either elsewhere every everywhere
few fewer first for foreseen forgotten found from given gone held here hidden in inside
instead kept known lacked laid last later least left less like likely lost made mine more
most much near next no not of on once one only other others out outside over own ran
remade said same seen sent several shown some sought still taken that there to together
told under undone until up what where who why with within without written
"""
"""Words that don't say what a function does: prepositions, adverbs, determiners, participles."""
NOT_PARTICIPLES = {"embed", "feed", "need", "seed", "speed"}
UNIT_NAMES = {"array", "sfu", "link"}
SECTIONS = {
    "papers/maestro/commands/attribution.py",
    "diagnosis/limits.py",
    "importers/accelerators.py",
    "importers/scalesim/configuration.py",
    "importers/timeloop/architecture.py",
    "papers/maestro/analysis/dimensions.py",
    "study/parameters.py",
    "files/documents.py",
}
"""Modules in which these words are sections of a file."""
SPELLED = {"cli", "commands", "hardware", "units.py"}
"""Packages that read such words, or have the units."""
Place = tuple[int, int]
_QUESTION = re.compile(r"(What|Who|Whom|Where|Which|How|Gives?|Says?|Tells?)\b(?!-)")


@cache
def _modules() -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


@cache
def _nodes() -> list[tuple[str, list[ast.AST]]]:
    return [(path, [*ast.walk(module)]) for path, module in _modules()]


def _vague(module: ast.Module) -> set[Place]:
    """Return where functions of more than `SHORT_LINES` lines store under a vague name."""
    places: set[Place] = set()
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (function.end_lineno or 0) - function.lineno < SHORT_LINES:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE:
                places.add((node.lineno, node.col_offset))
            if isinstance(node, ast.arg) and node.arg in VAGUE:
                places.add((node.lineno, node.col_offset))
    return places


def _types() -> Iterator[tuple[str, str]]:
    """Go over the public types: their names, and their modules."""
    for path, module in _modules():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def test_names_of_units_stand_in_their_table() -> None:
    """Where a unit is meant, and not the section of a file, a constant of the table names it."""
    faults = [
        f"{path}:{node.lineno}"
        for path, nodes in _nodes()
        for node in nodes
        if isinstance(node, ast.Constant) and node.value in UNIT_NAMES
        if path not in SECTIONS and not SPELLED & {*path.split("/")}
    ]
    assert faults == []


def _rows() -> list[list[str]]:
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:2] == "| "]
    return [row for row in rows if row[0] != "word"]


def _glossary() -> set[str]:
    """Return the words of the glossary without spaces, in lower case."""
    words = {word for row in _rows() for word in row[0].split(", ")}
    return {word.lower().replace(" ", "").replace("-", "") for word in words}


def _is_named(name: str, words: set[str]) -> bool:
    """Return whether a type is a word of the glossary, or a compound that ends in one."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)
    ends = {"".join(parts[at:]).lower() for at in range(len(parts))}
    singular = {end.removesuffix(suffix) for end in ends for suffix in ("s", "es")}
    singular |= {f"{end.removesuffix('ies')}y" for end in ends}
    return not words.isdisjoint(ends | singular)


def test_variables_of_long_functions_say_what_they_hold() -> None:
    scripts = [
        (path.relative_to(REPOSITORY).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for folder in ("validation", "benchmarks", "examples")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if not path.name.startswith("test_")
    ]
    assert len(scripts) > 100
    modules = [*_modules(), *scripts]
    faults = [f"{path}:{line}" for path, module in modules for line, _ in sorted(_vague(module))]
    assert faults == []


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """Go over functions and methods, also inside of others, but not over properties."""
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef) and not _is_property(child):
            yield child


def _lacks_verb(name: str) -> bool:
    words, without_verb = name.strip("_").split("_"), WITHOUT_VERB.split()
    return all(
        word in without_verb or (word.endswith("ed") and word not in NOT_PARTICIPLES)
        for word in words
    )


def test_functions_are_not_named_by_participles_and_adverbs_alone() -> None:
    """A function is a verb with its object, or the noun of what it returns."""
    assert _lacks_verb("_behind")
    assert _lacks_verb("left_out")
    assert not _lacks_verb("embed")
    faults = [
        f"{path}:{function.lineno}: {function.name}"
        for path, module in _modules()
        for function in _functions(module)
        if _lacks_verb(function.name)
    ]
    assert faults == []


def _without_noun(module: ast.Module) -> set[int]:
    """Return the lines of docstrings that ask or say, or begin unlike others of their kind."""
    faults = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            returns = isinstance(node, ast.FunctionDef) and not _is_property(node)
            unlike = "Whether" if returns else ("Return", "Yield")
            if _QUESTION.match(text) or text.startswith(unlike):
                faults.add(getattr(node, "lineno", 1))
    return faults


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    assert _without_noun(ast.parse("def f():\n 'Say it.'\ndef g():\n 'Whether it is.'")) == {1, 3}
    assert _without_noun(ast.parse("@property\ndef f():\n 'Return it.'\n")) == {2}
    faults = [
        f"{path}:{line}" for path, module in _modules() for line in sorted(_without_noun(module))
    ]
    assert faults == []


def test_public_types_are_words_of_the_glossary() -> None:
    words = _glossary()
    assert [f"{path}: {name}" for name, path in _types() if not _is_named(name, words)] == []


def _words(name: str) -> set[str]:
    """Return the words of a name, in lower case and in the singular."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    return {re.sub(r"ies$", "y", part.lower()).removesuffix("s") for part in parts}


def _defined_name(node: ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return node.name
    return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def test_a_module_of_one_type_has_its_name() -> None:
    faults = []
    for path, module in _modules():
        public = [
            node
            for node in module.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign)
            if not _defined_name(node).startswith("_")
        ]
        if len(public) == 1 and isinstance(public[0], ast.ClassDef):
            stem = path.removesuffix(".py").split("/")[-1]
            if _words(stem).isdisjoint(_words(public[0].name)):
                faults.append(f"{path}: {public[0].name}")
    assert faults == []


def test_a_type_name_stands_once() -> None:
    """Private types count, too: a reader of two modules takes equal names for one type."""
    places = defaultdict(list)
    for path, nodes in _nodes():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_glossary_names_modules_that_are_there() -> None:
    modules = [
        name for row in _rows() if len(row) > 2 for name in re.findall(r"`([\w/]+\.py)`", row[2])
    ]
    assert len(modules) > 60
    assert [name for name in modules if not (PACKAGE / name).exists()] == []


def test_words_stand_once_and_in_order() -> None:
    for width in (2, 4):
        words = [row[0].split(",")[0] for row in _rows() if len(row) == width]
        assert len(words) == len(set(words))
    code = [row[0].lower() for row in _rows() if len(row) == 4]
    assert code == sorted(code)
