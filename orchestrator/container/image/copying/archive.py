"""An image in a .tar, as `docker save` and `podman save` write it: what is in it, without an engine."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

from orchestrator.container.image.copying.cargo import Cargo, plain, processor
from orchestrator.errors import UsageError, reason
from orchestrator.facts.images import LAYER_DIGITS, config_text
from orchestrator.units import how_many

_MANIFEST = "manifest.json"

_LARGEST = 64 << 20
"""Bytes of a manifest or a configuration; what is larger is none."""


def read_archive(file: Path) -> Cargo:
    """Return what a .tar holds. Raises UsageError where that is no image, or more than one."""
    try:
        with tarfile.open(file, "r:") as archive:
            return _read(archive, file)
    except OSError as error:
        raise UsageError(f"{file}: {reason(error)}") from error
    except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "It is to be what docker save or orch image copy wrote."
        raise UsageError(f"{file} holds no whole image", hint=hint) from error


def _read(archive: tarfile.TarFile, file: Path) -> Cargo:
    manifest = _json(archive, _MANIFEST)
    if len(manifest) != 1:
        raise UsageError(
            f"{file} holds {how_many(len(manifest), 'image')}, and one is copied at a time",
            hint=f"All of them: docker load -i {file.name}",
        )
    (image,) = manifest
    found = _json(archive, image["Config"])
    runs = found.get("config") or {}
    return Cargo(
        id=os.path.basename(image["Config"]).removesuffix(".json"),
        names=tuple(map(plain, image.get("RepoTags") or ())),
        layers=tuple(str(d)[:LAYER_DIGITS] for d in found["rootfs"]["diff_ids"]),
        config=config_text(*(runs.get(k) for k in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User"))),
        arch=processor(found.get("architecture") or ""),
        size=sum(archive.getmember(layer).size for layer in image["Layers"]),
    )


def _json(archive: tarfile.TarFile, name: str) -> Any:
    member = archive.getmember(name)
    content = archive.extractfile(member)
    if content is None or member.size > _LARGEST:
        raise ValueError(name)
    return json.loads(content.read())


def check_named(word: str | None, found: Cargo, file: Path) -> None:
    """Raise UsageError where an archive holds another image than the one that was named."""
    by_id = word is not None and found.id.startswith(word.removeprefix("sha256:"))
    if word is not None and not by_id and plain(word) not in found.names:
        raise UsageError(f"{file} holds {found.title}, not {word}")
