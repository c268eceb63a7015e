"""The known keys of hosts.ini: how each is read, and what is done about one that isn't known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.inventory.grammar import Value
from orchestrator.inventory.lists import environment
from orchestrator.inventory.names import address, port
from orchestrator.inventory.nearest import nearest
from orchestrator.inventory.own_names import PREFIX
from orchestrator.inventory.values import (
    Converter,
    arguments,
    authorized_keys,
    auto_port,
    boolean,
    choice,
    count,
    gpus,
    host_folder,
    host_folders,
    image,
    list_of,
    local_path,
    matching,
    port_span,
    ports,
    positive,
    requirement_list,
    seconds,
    simply,
    size,
    volumes,
    word,
)

_name = matching(r"[A-Za-z_][A-Za-z0-9_]*", "names of environment variables by comma")
_package = matching(r"[a-z0-9][a-z0-9+.-]*(=\S+)?", "names of Debian packages by comma")
_url = matching(r"https?://[^\s]+", "an address that begins with http:// or https://")
_version = matching(r"\d+(\.\d+)*\S*", "a version such as 2.9.3")
_account = matching(r"[a-z_][a-z0-9_-]{0,31}", "the name of an account")

SETTINGS: Mapping[str, Converter] = {
    "project": simply(str),
    "person": simply(str),
    "root": simply(host_folder),
    "engine": simply(choice("docker", "podman", "venv", "host", "apptainer", "auto")),
    "engine_command": simply(arguments),
    "activate": simply(str),
    "python": simply(word),
    "image": simply(image),
    "dockerfile": local_path,
    "build_context": local_path,
    "tensorflow": simply(_version),
    "requirements": requirement_list,
    "apt_packages": simply(list_of(_package)),
    "startup": local_path,
    "jupyter": simply(boolean),
    "gpus": simply(gpus),
    "network": simply(choice("bridge", "host")),
    "cluster_address": simply(address),
    "cluster_ports": simply(port_span),
    "ssh_port": simply(auto_port),
    "publish": simply(ports),
    "volumes": simply(volumes),
    "shm_size": simply(size),
    "memory": simply(size),
    "cpus": simply(positive),
    "container_user": simply(_account),
    "authorized_keys": authorized_keys,
    "env": simply(environment),
    "env_file": local_path,
    "secret": simply(list_of(_name)),
    "host_key_policy": simply(choice("ask", "accept-new", "strict")),
    "transport": simply(choice("auto", "fabric", "openssh")),
    "remote_path": simply(host_folders),
    "parallel": simply(count),
    "timeout": simply(seconds),
    "http_proxy": simply(word),
    "https_proxy": simply(word),
    "no_proxy": simply(word),
    "ca_bundle": local_path,
    "pip_index": simply(_url),
    "apt_mirror": simply(_url),
}
"""orch's own keys. Each is a field of `Settings` and stands in hosts.example.ini."""

RESERVED = ("notify",)
"""Keys that are kept for later versions, and that this one refuses."""

CONNECTION: Mapping[str, tuple[str, Converter]] = {
    "ansible_host": ("address", simply(address)),
    "ansible_ssh_host": ("address", simply(address)),
    "ansible_user": ("user", simply(word)),
    "ansible_ssh_user": ("user", simply(word)),
    "ansible_port": ("port", simply(port)),
    "ansible_ssh_port": ("port", simply(port)),
    "ansible_ssh_private_key_file": ("key", local_path),
    "ansible_private_key_file": ("key", local_path),
    "ansible_ssh_common_args": ("common_args", simply(arguments)),
    "ansible_ssh_extra_args": ("extra_args", simply(arguments)),
    "ansible_connection": ("connection", simply(word)),
}
"""Ansible's names for reaching a host, and the field of `Host` that each fills."""

_PLAIN_WORDS = (
    "cpus", "engine", "env", "gpus", "image", "memory", "network", "parallel", "publish", "python", "root",
    "secret", "timeout", "transport", "volumes",
)  # fmt: skip
"""Keys that a team's inventory may use for something else."""

_ANSIBLES_OWN = ("ansible_scp_extra_args", "ansible_sftp_extra_args", "ansible_hostname", "ansible_users")


def slip(key: str) -> str | None:
    """Return the known key that an unknown one was meant to be, or None: then it is a team's own variable.

    Measured on pairs: 0.8 takes `shmsize`, `volume`, `egnine`, `imgae`, and leaves `http_port` and `room`
    alone. Ansible's long prefix makes any two of its names alike, so those must be nearer.
    """
    plain = key.lower().replace("-", "_")
    if plain.startswith(PREFIX):
        near = nearest(plain.removeprefix(PREFIX), SETTINGS, 0.8)
        return f"{PREFIX}{near}" if near else None
    if plain.startswith("ansible_"):
        return None if plain in _ANSIBLES_OWN else nearest(plain, CONNECTION, 0.9)
    return nearest(plain, [*SETTINGS, *RESERVED], 0.8)


def check_key(key: str, value: Value) -> None:
    """Raise ConfigError when a key is nearly a known one, or one that this version can't take."""
    if key in RESERVED:
        raise value.place.error(f"{key} is not supported by this version of orch")
    if key in SETTINGS or key in CONNECTION:
        return
    meant = slip(key)
    if meant:
        raise value.place.error(f"unknown key '{key}'. Did you mean {meant}?")


def convert(key: str, value: Value) -> Any:
    """Return the typed value of a known key. Raises ConfigError with file:line and key when it is wrong."""
    converter = SETTINGS[key] if key in SETTINGS else CONNECTION[key][1]
    _refuse_traps(key, value)
    try:
        return converter(value.text, value.place.folder)
    except ValueError as error:
        shared = key in _PLAIN_WORDS and ":" in value.place.name  # of a file
        hint = f"If {key} is a variable of your own, orch_{key} = (maybe empty) is orch's" if shared else None
        raise value.place.error(f"{key}: {error}", hint) from None


def _refuse_traps(key: str, value: Value) -> None:
    """Refuse what Ansible would take literally, or evaluate, and what was surely not meant so."""
    text, place = value.text, value.place
    place.refuse_odd(text)
    if text.startswith(("$ANSIBLE_VAULT;", "!vault")):
        raise place.error(
            f"{key}: encrypted by ansible-vault, which orch can't read", "Write the value itself"
        )
    if "{{" in text or "{%" in text:
        raise place.error(f"{key}: templates ({{{{ }}}}) are not evaluated here", "Write the value itself")
    if value.commented:
        raise place.error(f"{key}: a comment can't stand behind a value here", "Give it a line of its own")
    if key == "ansible_host" and re.search(r"\[\w+:\w+(:\d+)?\]", text):
        raise place.error(f"{key}: a range in a value is not expanded", "Give each host a line of its own")
