"""The shape of the package: who may import whom, what an import may cost, how long a module may get."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lakeevolve"

#: From the lowest room to the highest: a module imports from its own room and from those before it.
ORDER = (
    "_version",
    "redaction",
    "errors",
    "engines",
    "model",
    "avro",
    "config",
    "sources",
    "rules",
    "tables",
    "planning",
    "replaying",
    "applying",
    "registry",
    "report",
    "_api",
    "__init__",
    "testing",
    "demo",
    "airflow",
    "cli",
    "__main__",
)

#: Rooms that may import fewer rooms than their place in the order gives them.
ONLY: Mapping[str, frozenset[str]] = {"engines": frozenset({"errors"})}

#: Third-party libraries and the modules (with everything beneath them) that may import each.
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "pyarrow": (
        "lakeevolve.avro.arrow",
        "lakeevolve.avro.container",
        "lakeevolve.avro.defaults",
        "lakeevolve.avro.resolution",
        "lakeevolve.sources",
        "lakeevolve.tables",
        "lakeevolve.planning",
        "lakeevolve.replaying",
        "lakeevolve.applying",
        "lakeevolve.engines",
        "lakeevolve._api",
        "lakeevolve.demo",
        "lakeevolve.testing",
    ),
    "pyiceberg": ("lakeevolve.tables.iceberg",),
    "sqlalchemy": ("lakeevolve.tables.iceberg",),
    "deltalake": ("lakeevolve.tables.delta",),
    "fastavro": ("lakeevolve.avro.container",),
    "pydantic": ("lakeevolve.config",),
    "yaml": ("lakeevolve.config",),
    "obstore": ("lakeevolve.config",),
    "confluent_kafka": ("lakeevolve.sources.registry",),
    "polars_avro": ("lakeevolve.avro.container.fast",),
    "zlib_ng": ("lakeevolve.avro.container.blocks",),
    "typer": ("lakeevolve.cli", "lakeevolve.__main__"),
    "click": ("lakeevolve.cli", "lakeevolve.__main__"),
    "rich": ("lakeevolve.cli", "lakeevolve.report", "lakeevolve.demo"),
    "duckdb": ("lakeevolve.replaying",),
    "duckdb_extensions": ("lakeevolve.replaying",),
    "polars": ("lakeevolve.replaying", "lakeevolve.avro.container"),
    "polars_deltalake": ("lakeevolve.replaying",),
    "polars_iceberg": ("lakeevolve.replaying",),
    "hypothesis": ("lakeevolve.testing",),
    "airflow": ("lakeevolve.airflow",),
    "distributed": ("lakeevolve.engines.executor",),
    "pyspark": ("lakeevolve.engines.spark",),
}

#: What must not be loaded by ``import lakeevolve`` or ``lakeevolve --help``.
HEAVY = (
    "pyarrow",
    "pyiceberg",
    "deltalake",
    "fastavro",
    "duckdb",
    "polars",
    "polars_avro",
    "pydantic",
    "sqlalchemy",
    "yaml",
    "obstore",
    "confluent_kafka",
    "distributed",
    "pyspark",
)

LONGEST = 500


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement: who imports what, on which line, and whether it runs when the module is loaded."""

    by: str
    line: int
    target: str
    eager: bool


def modules(package: Path) -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[Import]:
    """The imports of one module. ``from a import b`` is an import of ``a.b`` where that is a module."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]

    def walk(node: ast.AST, eager: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(name, child.lineno, alias.name, eager)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    above = package.split(".")[: len(package.split(".")) - child.level + 1]
                    base = ".".join([*above, *([child.module] if child.module else [])])
                for alias in child.names:
                    inner = f"{base}.{alias.name}"
                    yield Import(name, child.lineno, inner if inner in known else base, eager)
            else:
                yield from _by_name(name, child, eager)
                function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from walk(child, eager and not function and not _is_type_checking(child))

    yield from walk(ast.parse(path.read_text(encoding="utf-8"), str(path)), True)


def _by_name(name: str, node: ast.AST, eager: bool) -> Iterator[Import]:
    """A library loaded by ``import_module("name")``. Our own modules may be named so: that is how a lower room holds
    the dotted name of a higher one."""
    match node:
        case ast.Call(
            func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(target)), *_],
        ) if target.split(".")[0] != "lakeevolve":
            yield Import(name, node.lineno, target, eager)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def room(module: str) -> str:
    """The part of the package that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def faults(package: Path) -> list[str]:
    """Imports that go up, come from a room that is not in the order, or name a library outside its rooms."""
    known = modules(package)
    root = package.name
    found = []
    for name, path in known.items():
        own = room(name)
        if own not in ORDER:
            found.append(f"{name}: the room {own!r} has no place in the order")
            continue
        for each in imports(name, path, known):
            top = each.target.split(".")[0]
            where = f"{path.relative_to(package.parent)}:{each.line}"
            if top == root:
                other = room(each.target)
                if other not in ORDER:
                    found.append(f"{where}: imports {each.target}, which has no place in the order")
                elif ORDER.index(other) > ORDER.index(own):
                    found.append(f"{where}: {own} imports {each.target}, which lies above it")
                elif own in ONLY and other != own and other not in ONLY[own]:
                    found.append(f"{where}: {own} imports {each.target} and may import {sorted(ONLY[own])} only")
            elif top not in sys.stdlib_module_names:
                rooms = LIBRARIES.get(top)
                if rooms is None:
                    found.append(f"{where}: imports {top}, which no room is declared for")
                elif not any(name == allowed or name.startswith(allowed + ".") for allowed in rooms):
                    found.append(f"{where}: imports {top}, which belongs in {', '.join(rooms)}")
    return found


def cycle(package: Path) -> list[str]:
    """A circle of modules that import each other while they are loaded, or an empty list."""
    known = modules(package)
    edges = {
        name: sorted({i.target for i in imports(name, path, known) if i.eager} & known.keys() - {name})
        for name, path in known.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for target in edges[name]:
            if circle := visit(target, [*trail, name]):
                return circle
        done.add(name)
        return []

    return next((circle for name in edges if (circle := visit(name, []))), [])


def plant(folder: Path, files: Mapping[str, str]) -> Path:
    """A package called lakeevolve with these modules."""
    package = folder / "lakeevolve"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for above in path.relative_to(package).parents:
            (package / above / "__init__.py").touch()
    return package


def test_imports_run_one_way_and_libraries_stay_in_their_rooms() -> None:
    assert faults(PACKAGE) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("model/types.py", "from lakeevolve.avro import parse\n", "model imports lakeevolve.avro.parse, which lies"),
        ("model/types.py", "from ..avro.parse import parse\n", "model imports lakeevolve.avro.parse, which lies"),
        ("model/types.py", "def f():\n    import lakeevolve.avro.parse\n", "which lies above it"),
        ("rules/modes.py", "from lakeevolve.tables import base\n", "which lies above it"),
        ("tables/base.py", "import lakeevolve\n", "which lies above it"),
        ("engines/local.py", "from lakeevolve.model import types\n", "which lies above it"),
        ("engines/local.py", "from lakeevolve import _version\n", "may import ['errors'] only"),
        ("engines/local.py", "from lakeevolve.tables import base\n", "which lies above it"),
        ("rules/modes.py", "import pyiceberg.schema\n", "imports pyiceberg, which belongs in"),
        ("tables/icebergs.py", "import pyiceberg\n", "imports pyiceberg, which belongs in"),
        ("rules/modes.py", "import_module('pyiceberg.table')\n", "imports pyiceberg, which belongs in"),
        ("rules/modes.py", "import requests\n", "imports requests, which no room is declared for"),
        ("attic/old.py", "", "the room 'attic' has no place in the order"),
    ],
)
def test_the_walker_finds_a_planted_fault(tmp_path: Path, file: str, text: str, fault: str) -> None:
    others = {"_version.py": "", "avro/parse.py": "", "tables/base.py": "", "model/types.py": "", file: text}
    found = faults(plant(tmp_path, others))
    assert found, "the planted fault was not found"
    assert all(fault in each for each in found)


def test_the_walker_accepts_what_is_allowed(tmp_path: Path) -> None:
    files = {
        "errors.py": "import json\n",
        "avro/parse.py": "from lakeevolve.errors import SchemaError\nfrom lakeevolve.model import types\n",
        "model/types.py": "from lakeevolve import errors\n",
        "tables/iceberg/open.py": "import pyiceberg.catalog\nfrom lakeevolve.avro.parse import parse\n",
    }
    assert faults(plant(tmp_path, files)) == []


def test_the_walker_finds_a_planted_circle_and_no_circle_in_a_lazy_import(tmp_path: Path) -> None:
    files = {"model/a.py": "from lakeevolve.model import b\n", "model/b.py": "from lakeevolve.model.a import x\n"}
    assert cycle(plant(tmp_path / "eager", files)) == ["lakeevolve.model.a", "lakeevolve.model.b", "lakeevolve.model.a"]
    files["model/b.py"] = "def f():\n    from lakeevolve.model.a import x\n"
    assert cycle(plant(tmp_path / "lazy", files)) == []


@pytest.mark.parametrize(
    "statement",
    [
        "import lakeevolve",
        "import lakeevolve; [getattr(lakeevolve, name) for name in ('errors', '__version__')]",
        "from lakeevolve.__main__ import main\nassert main(['--help']) == 0",
    ],
    ids=["import", "attributes", "help"],
)
def test_a_light_start_loads_no_heavy_library(statement: str) -> None:
    code = f"import json, sys\n{statement}\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))


def test_no_module_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: count for name, count in lengths.items() if count > LONGEST} == {}


def tracked() -> list[Path]:
    """The files of the project: what git tracks, or everything where there is no git."""
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode == 0 and done.stdout:
        return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    folders = ("lakeevolve", "tests", "docs", "sample_tables", ".ci", ".github")
    return [p for f in folders for p in (ROOT / f).rglob("*") if p.is_file() and "__pycache__" not in p.parts]


#: Absolute paths of one person's or one machine's file system. The character classes keep these lines from matching.
MACHINE_PATH = re.compile(
    rb"(?<![\w.:/-])/(?:[w]ork|[r]oot|[h]ome/\w|[o]pt|[U]sers/\w|[m]nt)/[\w.-]|\b[C]:\\\\?[U]sers"
)


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix not in {".parquet", ".avro"}
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []
