"""A package index on a host: the same package on two days, with and without its newest version."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from .lab import Host
from .lab.shell import wait_until

PORT = 8000


def wheel(name: str, version: str) -> tuple[str, bytes]:
    """A wheel with nothing in it: its file's name and bytes."""
    out, info = io.BytesIO(), f"{name}-{version}.dist-info"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}-{version}-py3-none-any.whl", out.getvalue()


def fill(host: Host, day: str, withdrawn: str = "") -> None:
    """Offer package `demo` 1.0 and 2.0; a version that is withdrawn comes only when it is asked for."""
    versions = ("1.0", "2.0")
    offer(host, day, "demo", {v: wheel("demo", v) for v in versions}, withdrawn)


def offer(
    host: Host, day: str, project: str, wheels: dict[str, tuple[str, bytes]], without: str = ""
) -> None:
    """Offer wheels of a project by their versions; `without` is the one that is withdrawn."""
    folder, links = host.disk / f"srv/index/{day}/{project}", ""
    folder.mkdir(parents=True)
    for version, (name, data) in wheels.items():
        (folder / name).write_bytes(data)
        links += f'<a href="{name}"{" data-yanked" * (version == without)}>{name}</a>\n'
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n")


@contextmanager
def package_index(host: Host) -> Iterator[str]:
    """Serve two days from a host, `one` and `two`, for the length of a ``with``; yields its address."""
    fill(host, "one", withdrawn="2.0")
    fill(host, "two")
    serve = f"python3 -m http.server -d /srv/index {PORT}"
    pid = host.run(f"setsid {serve} >/dev/null 2>&1 </dev/null & echo $!").stdout.strip()
    wait_until("the index", lambda: f":{PORT} " in host.run("ss -Hltn").stdout)
    try:
        yield f"http://{host.address}:{PORT}"
    finally:
        host.run(f"kill {pid}; rm -rf /srv/index")
