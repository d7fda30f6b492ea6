"""What pages are run in."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest


@pytest.fixture
def committed() -> Callable[..., None]:
    """Make a repository of the working directory: a commit of one path on main, and a remote that has it, if asked."""

    def commit(path: str, *, remote: bool = False) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        commands = [["init", "-q", "-b", "main"], ["add", path], [*who, "commit", "-qm", "first"]]
        if remote:
            commands += [["clone", "-q", "--bare", ".", "remote.git"], ["remote", "add", "origin", "remote.git"]]
            commands += [["fetch", "-q"]]
        for command in commands:
            subprocess.run(["git", *command], check=True)

    return commit
