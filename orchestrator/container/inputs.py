"""What a deploy takes from this machine: values of `env`, the files that settings name, public keys."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.container.env_file import VARIABLE, NoVariable, env_lines
from orchestrator.container.image.source import Source
from orchestrator.errors import ConfigError
from orchestrator.hosts.masking import hide_environment
from orchestrator.inventory import Host

_LOCAL_PATH = re.compile(r"(-e|--editable|file:|\.{1,2}(/|\Z)|/)")


@dataclass(frozen=True)
class Inputs:
    """The contents behind a host's settings. `env` holds the values: never shown, never on a command line."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    requirements: tuple[str, ...] = ()
    startup: bytes | None = None
    ca_bundle: bytes | None = None
    keys: tuple[str, ...] = ()
    source: Source | None = None  # a team's own Dockerfile and build context

    def packages(self, *, jupyter: bool) -> tuple[str, ...]:
        """Return what pip is to install."""
        return (*self.requirements, *(["jupyterlab"] if jupyter else []))

    @property
    def env_digests(self) -> dict[str, str]:
        """What stands for the values of `env`: name -> digest."""
        return {name: short_digest(value) for name, value in sorted(self.env.items())}

    @property
    def ca_digest(self) -> str | None:
        """What stands for the authorities of `ca_bundle`."""
        return short_digest(self.ca_bundle) if self.ca_bundle else None


def read_inputs(host: Host, environ: Mapping[str, str]) -> Inputs:
    """Read what the settings name. Raises ConfigError naming the setting's place and the file."""
    settings = host.settings
    return Inputs(
        env=_environment(host, environ),
        requirements=tuple(_requirements(host)),
        startup=_read(host, "startup", settings.startup) if settings.startup else None,
        ca_bundle=_read(host, "ca_bundle", settings.ca_bundle) if settings.ca_bundle else None,
        keys=(*_keys(host), *(_own_keys() if host.connection == "local" else ())),
    )


def short_digest(data: str | bytes) -> str:
    """Return twelve hex digits that stand for a value or a file."""
    raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return hashlib.sha256(raw).hexdigest()[:12]


def _wrong(host: Host, setting: str, message: str) -> ConfigError:
    return ConfigError(f"{setting}: {message}", where=host.came_from(setting))


def _read(host: Host, setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _wrong(host, setting, f"{path}: {error.strerror or error}") from error


def _text(host: Host, setting: str, path: str) -> str:
    try:
        return _read(host, setting, path).decode()
    except UnicodeDecodeError as error:
        raise _wrong(host, setting, f"{path} is not UTF-8 text") from error


def _environment(host: Host, environ: Mapping[str, str]) -> dict[str, str]:
    settings = host.settings
    values: dict[str, str] = {}
    if settings.env_file:
        text = _text(host, "env_file", settings.env_file)
        values.update(_env_lines(host, settings.env_file, text, environ))
    values.update(settings.env)
    for name in values:
        if not VARIABLE.match(name):
            setting = "env" if name in settings.env else "env_file"
            raise _wrong(host, setting, f"{name!r} is no name for an environment variable")
    hide_environment(values)
    return values


def _env_lines(host: Host, path: str, text: str, environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    try:
        return env_lines(text, environ)
    except NoVariable as error:
        raise _wrong(host, "env_file", f"{path}:{error.line}: expected NAME=VALUE") from error


def _requirements(host: Host) -> Iterable[str]:
    for item in host.settings.requirements:
        if item.endswith(".txt"):
            yield from _requirement_lines(host, Path(item), ())
        else:
            yield item


def _requirement_lines(host: Host, path: Path, within: tuple[Path, ...]) -> Iterable[str]:
    """Yield a requirements file's lines, with the files that it includes by -r in their place."""
    if path in within:
        raise _wrong(host, "requirements", f"{path} includes itself")
    for line in _text(host, "requirements", str(path)).splitlines():
        word = line.split(" #")[0].strip()
        included = re.match(r"(?:-r|--requirement)[ =]?\s*(.+)", word)
        if included:
            yield from _requirement_lines(host, path.parent / included.group(1), (*within, path))
        elif _LOCAL_PATH.match(word):
            raise _wrong(
                host, "requirements", f"{path}: {word} is a local path, and only its name would be sent"
            )
        elif word and not word.startswith("#"):
            yield word


def _keys(host: Host) -> tuple[str, ...]:
    found: list[str] = []
    for item in host.settings.authorized_keys:
        text = item if " " in item and not Path(item).is_file() else _text(host, "authorized_keys", item)
        lines = [line.strip() for line in text.splitlines()]
        keys = [line for line in lines if line and not line.startswith("#")]
        if any("PRIVATE KEY" in line for line in keys):
            raise _wrong(host, "authorized_keys", f"{item} is a private key; name the .pub file")
        found += keys
    return tuple(dict.fromkeys(found))


def _own_keys() -> tuple[str, ...]:
    """Return this account's public keys: it is the account on the host, and no key has logged in."""
    files = sorted((Path.home() / ".ssh").glob("id_*.pub"))
    return tuple(line.strip() for file in files for line in file.read_text("utf-8", "replace").splitlines())
