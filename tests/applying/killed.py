"""A server that forks a process for each apply that is to be killed: libraries are loaded once.

Reads one JSON object a line: {"plan", "state", "allow", "resume", and "at" (which progress call kills) or "after"
(how many seconds)}. Answers {"killed": bool, "calls": progress calls so far, "error": name or null} a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import lakeevolve as le
import lakeevolve.applying.apply
import lakeevolve.replaying.verify
import lakeevolve.tables.delta.table
import lakeevolve.tables.iceberg.table


def run(job: dict[str, Any], out: int) -> None:
    os.environ["LAKEEVOLVE_STATE"] = job["state"]
    calls = [0]

    def progress(*_: Any) -> None:
        calls[0] += 1
        if calls[0] == job.get("at"):
            os.kill(os.getpid(), signal.SIGKILL)

    if "after" in job:
        # Nothing handles it, so it ends the process on the spot, as SIGKILL does.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, job["after"])
    error = None
    try:
        le.apply(job["plan"], allow=job["allow"], resume=job.get("resume", False), progress=progress)
    except le.LakeEvolveError as raised:
        error = f"{type(raised).__name__}: {raised}"
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.write(out, json.dumps({"killed": False, "calls": calls[0], "error": error}).encode())


for text in sys.stdin:
    job = json.loads(text)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            run(job, write)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    print(said if said and not killed else json.dumps({"killed": killed, "calls": None, "error": None}), flush=True)
