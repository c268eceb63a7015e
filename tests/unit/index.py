"""A package index on this machine's loopback for a real pip: small wheels, one of which can be held back."""

from __future__ import annotations

import http.server
import io
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

# What a proof asks of TensorFlow; the real one is 2 GB.
TENSORFLOW = """\
__version__ = "2.21.0"
class test: is_built_with_cuda = staticmethod(lambda: False)
class config: list_physical_devices = staticmethod(lambda kind: [])
"""


def wheel(name: str, version: str, module: str = "", text: str = "") -> tuple[str, bytes]:
    """Return a wheel's file name and its bytes."""
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{module or plain}/__init__.py", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{plain}-{version}-py3-none-any.whl", out.getvalue()


@dataclass
class Index:
    """The index: its address, and the wheel that is held back until `release` is set."""

    url: str = ""
    held: str = ""
    asked: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(wheels: Mapping[str, tuple[str, bytes]]) -> Iterator[Index]:
    """Serve wheels by their projects' names for the length of a `with`."""
    index = Index()
    files = dict(wheels.values())

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            last = self.path.rstrip("/").rpartition("/")[2]
            if last in wheels:
                body = f'<a href="/files/{wheels[last][0]}">{wheels[last][0]}</a>'.encode()
            elif last in files:
                if index.held and last.startswith(index.held):
                    index.asked.set()
                    index.release.wait(120)
                body = files[last]
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/zip" if last in files else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
        try:
            yield index
        finally:
            index.release.set()
            server.shutdown()
            thread.join()
