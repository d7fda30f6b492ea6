"""Where the schema registry is and how to be let in.

The environment comes before ``lakeevolve.yaml`` here: credentials come from the environment alone, and whoever can
change a file in the repository must not choose where they are sent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakeevolve.errors import ConfigError
from lakeevolve.redaction import public_uri

URL: Final = "LAKEEVOLVE_REGISTRY_URL"
USER: Final = "LAKEEVOLVE_REGISTRY_USER"
PASSWORD: Final = "LAKEEVOLVE_REGISTRY_PASSWORD"
TOKEN: Final = "LAKEEVOLVE_REGISTRY_TOKEN"
CLUSTER: Final = "LAKEEVOLVE_REGISTRY_CLUSTER"
CA: Final = "LAKEEVOLVE_REGISTRY_CA"
CERTIFICATE: Final = "LAKEEVOLVE_REGISTRY_CERTIFICATE"
KEY: Final = "LAKEEVOLVE_REGISTRY_KEY"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a registry is reached.

    Parameters
    ----------
    url:
        Its address. User and password may stand in it; they are never shown.
    user, password:
        For basic authentication.
    token:
        For bearer authentication; not together with *user*.
    cluster:
        Goes with a token in Confluent Cloud, which has many registries behind one address: the registry's ``lsrc-...``.
    ca:
        The file of the authority that signed the registry's certificate; None for the usual ones.
    certificate, key:
        The files that this client shows itself with, where the registry asks for it.
    timeout:
        Seconds for one request.
    patience:
        Seconds after which a request is not tried again.
    """

    url: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    cluster: str = ""
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    timeout: float = 10.0
    patience: float = 30.0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                "the registry's address is no http or https URL",
                where=public_uri(self.url),
                hint="write https://registry.example.com",
            )
        if self.token and (self.user or self.password or "@" in self.url):
            raise ConfigError(
                "the registry is given both a token and a user", where=self.shown, hint=f"unset {TOKEN} or {USER}"
            )
        for file, variable in ((self.ca, CA), (self.certificate, CERTIFICATE), (self.key, KEY)):
            if file is not None and not Path(file).exists():
                raise ConfigError(
                    "there is no such file, which the registry's TLS needs", where=file, hint=f"check {variable}"
                )

    @property
    def shown(self) -> str:
        """The address as it may be shown."""
        return public_uri(self.url)


def settings(url: str | None = None) -> Settings:
    """What the environment says of the registry, and for the rest the project's file.

    Parameters
    ----------
    url:
        The address, where the caller knows it.

    Raises
    ------
    ConfigError
        Nobody says where the registry is, or what is said cannot be used.
    """
    from lakeevolve.config.state import current_project

    said = os.environ.get
    url, ca = url or said(URL), said(CA) or None
    if not url or ca is None:
        project = current_project()
        entry = None if project is None else project.entry.registry
        if project is not None and entry is not None:
            url = url or entry.url
            ca = ca or (project.located(entry.ca) if entry.ca and entry.url == url else None)
    if not url:
        raise ConfigError(
            "nothing says where the schema registry is",
            hint=f"set {URL}, or write registry: {{url: https://...}} into lakeevolve.yaml",
        )
    return Settings(
        url,
        said(USER, ""),
        said(PASSWORD, ""),
        said(TOKEN, ""),
        said(CLUSTER, ""),
        ca,
        said(CERTIFICATE) or None,
        said(KEY) or None,
    )
