"""A host of the inventory as a frozen value, and the settings that it can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

CONTAINER_ENGINES = ("docker", "podman")
"""Engines that keep a container running, with an sshd in it; the others run commands on the host itself."""


@dataclass(frozen=True)
class Volume:
    """A folder of the host mounted into the container: `source:target[:ro]`."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Settings:
    """Every setting of orch, typed, with its default. `hosts.example.ini` documents each of them."""

    project: str | None = None
    person: str | None = None
    root: str = "~/.orch"
    engine: str = "docker"  # docker | podman | venv | host | apptainer | auto
    engine_command: tuple[str, ...] = ()  # of a container engine; empty: its name
    activate: str | None = None  # a shell line before every command; not where a container keeps running
    python: str | None = None
    image: str | None = None  # None: tensorflow/tensorflow:<tensorflow>, -gpu where there is an NVIDIA GPU
    dockerfile: str | None = None  # a local file; None with a build_context: its Dockerfile
    build_context: str | None = None  # a local folder; None: the Dockerfile's
    tensorflow: str | None = None  # None: 2.9.3 where it can run, on the venv engine else the newest
    requirements: tuple[str, ...] = ()  # pip requirement specifiers, or a path ending in .txt
    apt_packages: tuple[str, ...] = ()
    startup: str | None = None  # a local file, run in the container at each start
    jupyter: bool = False
    gpus: str = "auto"  # what the container gets: auto | all | none | a count | indices or UUIDs by comma
    network: str = "bridge"  # bridge | host
    cluster_address: str | None = None
    cluster_ports: str | None = None
    ssh_port: int | None = None  # None: auto
    publish: tuple[str, ...] = ()
    volumes: tuple[Volume, ...] = ()
    shm_size: str = "8g"
    memory: str | None = None
    cpus: str | None = None
    container_user: str | None = None  # None: the account's own name and uid, `orch` for root's
    authorized_keys: tuple[str, ...] = ()  # local files or key lines
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    env_file: str | None = None
    secret: tuple[str, ...] = ()  # names taken from the caller's environment
    host_key_policy: str = "ask"  # ask (refuses without a terminal) | accept-new | strict
    transport: str = "auto"  # auto | fabric | openssh
    remote_path: tuple[str, ...] = ()  # folders put in front of PATH on the host
    parallel: int = 32
    timeout: float = 10.0  # seconds to connect
    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: str | None = None
    ca_bundle: str | None = None  # a local file
    pip_index: str | None = None
    apt_mirror: str | None = None

    @property
    def in_container(self) -> bool:
        """Whether the engine keeps a container running that commands enter."""
        return self.engine in CONTAINER_ENGINES

    @property
    def container_command(self) -> tuple[str, ...]:
        """How the container engine is called; Docker where the environment is in no container."""
        return self.engine_command or (self.engine if self.in_container else "docker",)


@dataclass(frozen=True)
class Host:
    """One machine of the inventory.

    `sources` maps a setting's name to where its value came from: "hosts.ini:12", "ORCH_ROOT", "--engine".
    A setting that is not in it has its default. Relative paths in settings are already absolute.
    """

    name: str
    address: str  # ansible_host, else the name
    user: str | None = None  # None: ~/.ssh/config, else the local user
    port: int | None = None  # None: ~/.ssh/config, else 22
    key: str | None = None  # ansible_ssh_private_key_file, `~` expanded
    common_args: tuple[str, ...] = ()  # ansible_ssh_common_args, split as a shell does
    extra_args: tuple[str, ...] = ()  # ansible_ssh_extra_args
    connection: str = "ssh"  # ssh | local
    groups: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    picked: str | None = (
        None  # engine = auto: which engine it is, and why; `settings.engine` is then that one
    )
    where: str | None = None  # file:line where the host is first named; None: in no inventory

    def came_from(self, setting: str) -> str:
        """Return where a setting's value came from: file:line, ORCH_<KEY>, --flag, or "default"."""
        return self.sources.get(setting, "default")
