"""An object store as a pyarrow file system, through the store that delta-rs itself uses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler


class ObjectStore(DeltaStorageHandler):
    """delta-rs's own handler, whose streams take what pyarrow 26 writes: buffers, where delta-rs 1.6 wants bytes."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Sink(self._handler.open_output_stream(path, metadata)), mode="w")


class _Sink:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        text = bytes(data)
        self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Nothing: the store makes an object whole when it is closed."""

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)
