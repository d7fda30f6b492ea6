"""Registries to ask: ours over a folder, and one that answers what a test tells it to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lakeevolve.registry.server import Server
from lakeevolve.registry.store import Store
from lakeevolve.sources.registry import client
from lakeevolve.sources.registry.settings import CA, CERTIFICATE, CLUSTER, KEY, PASSWORD, TOKEN, URL, USER

ADDRESS = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "zip", "type": "int"}]}


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    """A record of the namespace shop; a field without default, or with one as third element."""
    return {
        "type": "record",
        "name": name,
        "namespace": "shop",
        "fields": [
            {"name": each[0], "type": each[1], **({"default": each[2]} if len(each) > 2 else {})}  # type: ignore[misc]
            for each in fields
        ],
    }


@pytest.fixture(scope="session")
def usual_authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of one authority in place of the hundreds that every client would read anew."""
    file = tmp_path_factory.mktemp("authorities") / "usual.pem"
    pytest.importorskip("trustme").CA().cert_pem.write_to_path(str(file))
    return file


@pytest.fixture(autouse=True)
def no_registry_in_the_environment(monkeypatch: pytest.MonkeyPatch, usual_authorities: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(usual_authorities))
    for variable in (URL, USER, PASSWORD, TOKEN, CLUSTER, CA, CERTIFICATE, KEY):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.005)


def running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Ours:
    """Our own registry, and what a test asks of it without a client."""

    folder: Path
    url: str
    server: Server

    def put(self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "references": references or []}
        return int(self.server.api.answer("POST", f"/subjects/{subject}/versions", {}, body)["id"])

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        return self.server.api.answer(method, path, query, body)


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ours]:
    server = Server(Store(tmp_path / "registry"), port=0)
    monkeypatch.setenv(URL, server.url)
    for _ in running(server):
        yield Ours(tmp_path / "registry", server.url, server)


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Told:
    """A server that answers what it is told, and what it was asked: method, path with query, headers, body."""

    url: str
    answer: Callable[[str, str], Answer]
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


class _Told(BaseHTTPRequestHandler):
    wbufsize = -1
    told: Told

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.told.asked.append((self.command, self.path, dict(self.headers), body))
        answer = self.told.answer(self.command, self.path)
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(data)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    yield from _serving(monkeypatch, None)


@pytest.fixture
def told_by_tls(monkeypatch: pytest.MonkeyPatch, authority: Any) -> Iterator[Told]:
    """As ``told``, with a certificate of an authority that nobody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    yield from _serving(monkeypatch, context)


@pytest.fixture(scope="session")
def authority() -> Any:
    return pytest.importorskip("trustme").CA()


def _serving(monkeypatch: pytest.MonkeyPatch, context: ssl.SSLContext | None) -> Iterator[Told]:
    found = Told("", lambda method, path: Answer(500))
    handler = type("Handler", (_Told,), {"told": found})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # A client that does not trust us hangs up, which is no news.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    found.url = f"http{'' if context is None else 's'}://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv(URL, found.url)
    for _ in running(server):
        yield found
