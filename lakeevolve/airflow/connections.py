"""Airflow's connections as the options that a table is opened with. What they hold stays in the table's handle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeevolve.errors import ConfigError
from lakeevolve.redaction import public_uri, secrets_in, secrets_of
from lakeevolve.tables import open_table
from lakeevolve.tables.base import Table

#: What of an ``aws`` connection is what delta-rs calls so.
_AWS: Final[Mapping[str, str]] = {
    "aws_session_token": "AWS_SESSION_TOKEN",
    "region_name": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}
#: Ways to sign in that an ``aws`` connection knows and delta-rs does not take from it.
_ELSEWHERE: Final = ("role_arn", "profile_name", "session_kwargs", "assume_role_method")


def open_with(uri: str, conn_id: str | None) -> Table:
    """Open a table with what an Airflow connection holds; without one, with what the environment says.

    Parameters
    ----------
    uri:
        The table's URI. It holds no credentials: it is shown with the task, and saved in the plan.
    conn_id:
        For an Iceberg table, a connection of the type ``iceberg``; for a Delta table, one of any type whose extra holds
        ``storage_options``, or one of the type ``aws`` with a key and a secret.

    Raises
    ------
    ConfigError
        The URI holds credentials, or the connection does not hold what such a table needs.
    """
    refuse_credentials(uri)
    if conn_id is None:
        return open_table(uri)
    if uri.startswith("iceberg:"):
        return open_table(uri, catalog=_catalog(uri, conn_id))
    return open_table(uri, storage_options=_storage_options(conn_id))


def refuse_credentials(uri: str) -> None:
    """Raise ``ConfigError`` where a table's URI holds credentials.

    >>> refuse_credentials("delta:s3://bucket/orders")
    """
    if secrets_in([uri]) or public_uri(uri).partition("@v")[0] != uri.partition("@v")[0]:
        raise ConfigError(
            "the table's URI holds credentials, and Airflow shows it",
            where=public_uri(uri),
            hint="put them into a connection, and name it with conn_id",
        )


def _catalog(uri: str, conn_id: str) -> Any:
    try:
        from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook
    except ImportError as error:
        raise ConfigError(
            "an Iceberg connection needs Airflow's provider for Iceberg, which is not installed",
            where=f"connection {conn_id}",
            hint="pip install 'lakeevolve[airflow]'",
        ) from error
    from lakeevolve.tables.iceberg.catalog import translated

    hook = IcebergHook(conn_id)
    connection = hook.get_connection(conn_id)
    _mask({"password": connection.password, **connection.extra_dejson})
    with translated(uri):
        return hook.catalog


def _storage_options(conn_id: str) -> dict[str, str]:
    from airflow.providers.common.compat.sdk import BaseHook

    connection = BaseHook.get_connection(conn_id)
    where, extra = f"connection {conn_id}", connection.extra_dejson
    said = extra.get("storage_options", {})
    if not (isinstance(said, Mapping) and all(isinstance(value, str) for value in said.values())):
        raise ConfigError(
            "storage_options is no object of texts",
            where=where,
            hint='write {"storage_options": {"AWS_REGION": "..."}}',
        )
    options = dict(said)
    if connection.conn_type == "aws":
        other = next((key for key in _ELSEWHERE if extra.get(key)), None)
        if other is not None and not options:
            raise ConfigError(
                f"delta-rs does not sign in by {other}", where=where, hint="say in storage_options how it does"
            )
        keys = {"AWS_ACCESS_KEY_ID": connection.login, "AWS_SECRET_ACCESS_KEY": connection.password}
        options = {**keys, **{name: extra.get(key) for key, name in _AWS.items()}, **options}
        options = {name: value for name, value in options.items() if value}
    if not options:
        raise ConfigError(
            "the connection holds no storage_options",
            where=where,
            hint='write into its extra {"storage_options": {...}}, as delta-rs takes them',
        )
    _mask(options)
    return options


def _mask(options: Mapping[str, Any]) -> None:
    """Let Airflow take the credentials out of every log line of the task, whoever writes it."""
    from airflow.providers.common.compat.sdk import mask_secret

    for secret in secrets_of(options):
        mask_secret(secret)
