"""What a user gets: the README's commands, the files of the wheel, and that they agree with each other."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

checkout = pytest.mark.skipif(not (ROOT / ".ci" / "run").exists(), reason="not a checkout: .ci/run is not here")


def commands() -> list[str]:
    """The README's set-up commands: the lines of its shell blocks that make an environment."""
    blocks = re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if "venv" in line]


def test_the_readme_has_a_command_for_the_demo_and_one_for_the_tests() -> None:
    demo, tests = commands()
    assert demo.endswith(".venv/bin/lakeevolve demo")
    assert ".venv/bin/python -m pytest" in tests


@pytest.mark.parametrize("at", [0, 1])
def test_each_command_does_its_own_set_up_and_needs_no_activated_environment(at: int) -> None:
    words = shlex.split(commands()[at])
    programs = [words[0], *(after for word, after in itertools.pairwise(words) if word == "&&")]
    assert programs[0] == "python3"
    assert all(program.startswith(".venv/bin/") for program in programs[1:])
    assert words[:4] == ["python3", "-m", "venv", ".venv"]
    assert "install" in words


@checkout
@pytest.mark.parametrize("at", [0, 1])
def test_ci_runs_exactly_the_commands_of_the_readme(at: int) -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert commands()[at] in lines


@checkout
def test_ci_is_an_executable_script_that_stops_at_the_first_fault() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in text
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_the_changelog_has_an_entry_for_this_version() -> None:
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "lakeevolve" / "_version.py").read_text(encoding="utf-8"))
    assert version is not None
    assert f"## [{version.group(1)}]" in (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")


def test_the_licence_is_apache_2_and_declared_so() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_links_in_the_readme_and_docs_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "sample_tables" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed; .ci/run builds the wheel")
def test_the_wheel_holds_the_package_with_types_and_sample_tables_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    samples = {
        f"lakeevolve/sample_tables/{path.relative_to(ROOT / 'sample_tables').as_posix()}"
        for path in (ROOT / "sample_tables").rglob("*")
        if path.is_file()
    }
    assert samples <= names
    assert "lakeevolve/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert [name for name in names if not name.startswith(("lakeevolve/", "lakeevolve-"))] == []
