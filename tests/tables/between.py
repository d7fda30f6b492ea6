"""A server that stands between a client and a server and passes on what it is told to.

Run in a process of its own (``python between.py http://127.0.0.1:8333``): some clients hold the interpreter while they
wait. It prints its port. ``PUT /_rule`` with ``{"method", "ends", "action", "after"}`` makes the first request of that
method, whose path ends so (or holds what follows a ``*``), meet the action, and whatever comes later ``after``; with
``again`` for that, all such requests meet it and no other. ``GET /_met`` says how many met the rule. Actions are
``pass``, ``lose the answer``, ``refuse``, ``deny``, ``answer late`` and ``carry out late``.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

#: What this server answers itself; the words must not reach a user.
STATUS = {"lose the answer": 504, "refuse": 503, "deny": 401}
#: So many seconds.
LATE = 4.5
BODY = b'{"error":{"message":"hush-hush","type":"X","code":1}}'
OWN = ("content-length", "connection", "transfer-encoding", "date", "server")


class Rule:
    """What is to be done with which request."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.met = 0
        self.lock = threading.Lock()

    def action(self, method: str, path: str) -> str:
        with self.lock:
            if not self.told:
                return "pass"
            if self.met and self.told["after"] != "again":
                return self.told["after"]
            ends = self.told["ends"]
            if method == self.told["method"] and (ends[1:] in path if ends[:1] == "*" else path.endswith(ends)):
                self.met += 1
                return self.told["action"]
            return "pass"


def handler(target: str, rule: Rule) -> type[BaseHTTPRequestHandler]:
    place = urlparse(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/_rule":
                rule.told, rule.met = json.loads(body), 0
                self.answer(200, b"", [])
                return
            if self.path == "/_met":
                self.answer(200, str(rule.met).encode(), [])
                return
            action = rule.action(self.command, self.path)
            if action in ("refuse", "deny"):
                self.answer(STATUS[action], BODY, [("Content-Type", "application/json")])
                return
            if action == "carry out late":
                time.sleep(LATE)
            # The host's name is signed by clients of S3, so it stays what they wrote.
            with closing(http.client.HTTPConnection(place.hostname or "", place.port)) as connection:
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() != "connection":
                        connection.putheader(name, value)
                connection.endheaders(body)
                found = connection.getresponse()
                content = found.read()
            if action == "answer late":
                time.sleep(LATE)
            if action == "lose the answer":
                self.answer(STATUS[action], b"", [])
            else:
                self.answer(found.status, content, found.getheaders())

        def answer(self, status: int, content: bytes, headers: list[tuple[str, str]]) -> None:
            self.send_response(status)
            length = str(len(content))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in OWN:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing: a test's output is its own."""

    return Handler


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(sys.argv[1], Rule()))
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
