"""The registry's HTTP: Python's own server, for laptops and tests.

There is no password, so it listens on this machine alone unless told otherwise. Pages in a browser must not reach it
either: a body has to be declared as JSON, which no page may send elsewhere unasked, and the ``Host`` has to be ours.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from lakeevolve.errors import ConfigError
from lakeevolve.registry.api import Api
from lakeevolve.registry.faults import Refused, bad_request
from lakeevolve.registry.store import Store
from lakeevolve.sources.size import MAX_BYTES

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
LOOPBACK: Final = "127.0.0.1"
_OURS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
#: Seconds without a word after which a connection is closed.
_IDLE: Final = 30


class Server(ThreadingHTTPServer):
    """A registry over a folder; ``serve_forever`` runs it, ``server_close`` lets go of the folder.

    Raises ``ConfigError`` where the address cannot be listened on.
    """

    daemon_threads = True

    def __init__(self, store: Store, host: str = LOOPBACK, port: int = 8081) -> None:
        self.store = store
        self.api = Api(store)
        self.guarded = host in (LOOPBACK, "localhost")
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            store.close()
            raise ConfigError(
                f"nothing can listen there: {getattr(error, 'strerror', None) or error}",
                where=f"{host}:{port}",
                hint="choose another --port; 0 takes a free one",
            ) from error

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def server_close(self) -> None:
        super().server_close()
        self.store.close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = _IDLE
    # Head and body in one piece: apart, each answer waits for the client's delayed acknowledgement of the head.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the names that http.server calls

    def _answer(self) -> None:
        try:
            body = self._body()
            self._guard()
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            path = parts.path.rstrip("/") or "/"
            self._send(200, self.server.api.answer(self.command, path, query, body))
        except Refused as refused:
            self._send(refused.status, {"error_code": refused.code, "message": refused.message})
        except Exception as error:
            # A fault of ours must not look like a verdict.
            self._send(500, {"error_code": 500, "message": f"an unexpected {type(error).__name__}"})

    def _guard(self) -> None:
        host = self.headers.get("Host", "")
        name = host[: host.rindex(":")] if host.rpartition(":")[2].isdigit() and ":" in host else host
        if self.server.guarded and name not in _OURS:
            raise Refused(403, 403, "this registry answers this machine alone")

    def _body(self) -> Any:
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise Refused(411, 411, "a body has to come with its Content-Length")
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > 2 * MAX_BYTES:
            self.close_connection = True
            raise Refused(413, 413, "the body is too large")
        data = self.rfile.read(int(length))
        if self.command not in ("POST", "PUT"):
            return None
        if "json" not in self.headers.get("Content-Type", ""):
            raise Refused(415, 415, f"the body has to be {CONTENT_TYPE}")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise bad_request("the body is not JSON") from error

    def _send(self, status: int, answer: Any) -> None:
        data = json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who wants a log asks for one in front of it."""
