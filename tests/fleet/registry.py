"""A registry on a host that has no image: docker pull gets the real protocol's "manifest unknown"."""

from collections.abc import Iterator
from contextlib import contextmanager

from .lab import Host
from .lab.shell import wait_until

PORT = 5000
SERVER = f"""\
import http.server, json

class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path == "/v2/"
        error = {{"errors": [{{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}}]}}
        body = json.dumps({{}} if known else error).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
    do_HEAD = do_GET

http.server.HTTPServer(("127.0.0.1", {PORT}), Registry).serve_forever()
"""


@contextmanager
def registry(host: Host) -> Iterator[str]:
    """Run it on the host's loopback for the length of a ``with``; yields its name for images."""
    host.run("cat > /tmp/registry.py", input=SERVER)
    pid = host.run("setsid python3 /tmp/registry.py >/dev/null 2>&1 </dev/null & echo $!").stdout.strip()
    url = f"http://127.0.0.1:{PORT}/v2/"
    ask = f"python3 -c 'import urllib.request as r; r.urlopen(\"{url}\")'"
    wait_until("the registry", lambda: host.run(ask, check=False).returncode == 0)
    try:
        yield f"127.0.0.1:{PORT}"
    finally:
        host.run(f"kill {pid}")
