"""Tables by pattern, of formats that can be looked for and of one that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeevolve.__main__ import main
from lakeevolve.errors import ConfigError, UnknownScheme
from lakeevolve.tables.listing import list_tables


def test_folders_of_parquet_files_are_named_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_tables(f"parquet:{tmp_path}") == (f"parquet:{tmp_path}",)
    with pytest.raises(ConfigError, match="not looked for by a pattern") as caught:
        list_tables(f"parquet:{tmp_path}/*")
    assert "iceberg:... and delta:..." in (caught.value.hint or "")
    schema = tmp_path / "s.avsc"
    schema.write_text('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}')
    assert main(["adopt", f"parquet:{tmp_path}/*", "--against", str(schema)]) == 2
    said = capsys.readouterr().err.rstrip("\n").split("\n")
    assert len(said) <= 3
    assert "not looked for by a pattern" in said[0]


def test_a_pattern_of_no_format_is_refused() -> None:
    with pytest.raises(UnknownScheme, match="begins with the format's name"):
        list_tables("lake/*")
