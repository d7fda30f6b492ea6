"""Pages made of the code: one for each rule, and the reference of the Python API."""

from __future__ import annotations

import inspect

import mkdocs_gen_files

import lakeevolve as le
from lakeevolve.rules.catalogue import RULES

with mkdocs_gen_files.open("reference/rules/index.md", "w") as page:
    print("# A page for each rule\n\n| rule | severity | |\n|---|---|---|", file=page)
    for rule in RULES.values():
        print(f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.title} |", file=page)

for rule in RULES.values():
    with mkdocs_gen_files.open(f"reference/rules/{rule.id}.md", "w") as page:
        print(
            f"# {rule.id}\n\n{rule.title}. *{rule.severity.capitalize()}.*\n\n{rule.rationale}\n\n"
            f"## Example\n\n{rule.example}\n\n## Fix\n\n{rule.fix}\n\n## Another severity\n\n"
            f"```yaml\npolicy:\n  severity:\n    {rule.id}: info\n```\n\n"
            f"`lakeevolve explain {rule.id}` prints this page at a terminal.",
            file=page,
        )

with mkdocs_gen_files.open("reference/api.md", "w") as page:
    print("# Python\n\nEverything that is public by name: `import lakeevolve as le`.\n", file=page)
    for name in sorted(le.__all__, key=str.lower):
        value = getattr(le, name)
        if inspect.isfunction(value):
            print(f"::: lakeevolve.{name}\n", file=page)
    print("# Values\n", file=page)
    for name in sorted(le.__all__):
        value = getattr(le, name)
        if inspect.isclass(value):
            print(f"::: {value.__module__}.{value.__qualname__}\n", file=page)
    print("# Errors\n\n::: lakeevolve.errors\n", file=page)
