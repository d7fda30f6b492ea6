"""``python -m tests.benchmarks [NAME ...]``: run benchmarks and print one table."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import pkgutil
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

import tests.benchmarks
from tests.benchmarks import Figure

LIBRARIES = ("avro", "fastavro", "polars-avro", "pyarrow", "pyiceberg", "deltalake", "duckdb", "polars")


def names() -> list[str]:
    """The benchmarks there are."""
    return sorted(module.name for module in pkgutil.iter_modules(tests.benchmarks.__path__) if module.name[0] != "_")


def run(name: str) -> list[Figure] | None:
    """The figures of one benchmark, from a process of its own: no other one has warmed anything for it.

    None where it failed; what went wrong has been on stderr then.
    """
    command = [sys.executable, "-m", "tests.benchmarks", "--json", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return [Figure(**each) for each in json.loads(done.stdout.splitlines()[-1])] if done.returncode == 0 else None


def machine() -> Iterator[str]:
    """What the figures were measured on and with."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.partition(": ")[2].strip() for line in file if line.startswith("model name")), model)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    yield f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}"
    yield f"{model}, {os.cpu_count()} cores, load {load}"
    yield ", ".join(f"{name} {version}" for name in LIBRARIES if (version := _version(name)))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def table(figures: Sequence[Figure]) -> Iterator[str]:
    """The figures as a Markdown table."""
    rows = [("what", "measured", "unit", "target", "met", "from")]
    for each in figures:
        met = {None: "", True: "yes", False: "no"}[each.met]
        rows.append(
            (
                each.name,
                f"{each.measured:,.0f}" if each.measured >= 1000 else f"{each.measured:.3g}",
                each.unit,
                each.target,
                met,
                each.detail,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        if not number:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=tests.benchmarks.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones; default all: {', '.join(names())}")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--json", action="store_true", help="run in this process and print the figures as JSON")
    options = parser.parse_args(arguments)
    wanted = options.names or names()
    if unknown := sorted(set(wanted).difference(names())):
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    if options.json:
        figures = [each for name in wanted for each in importlib.import_module(f"tests.benchmarks.{name}").measure()]
        print(json.dumps([dataclasses.asdict(each) for each in figures]))
        return 0
    print(*machine(), "", sep="\n", flush=True)
    done = {name: run(name) for name in wanted}
    figures = [each for found in done.values() for each in found or ()]
    print(*table(figures), sep="\n")
    if failed := [name for name, found in done.items() if found is None]:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed) or (options.strict and any(each.met is False for each in figures)))


if __name__ == "__main__":
    sys.exit(main())
