"""A Kerberos realm on loopback: a real KDC, a person's ticket, and an sshd that takes it instead of a key."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ssh.server import Server, free_port, program

_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "klist", "unshare")


def needs_kerberos() -> None:
    """Skip where there can be no realm; in CI that is a failure."""
    missing = [tool for tool in _TOOLS if not program(tool)]
    here = os.getuid() == 0 and not missing and Path("/etc/krb5.conf").exists()
    if not here and os.environ.get("CI") == "true":
        pytest.fail("no root, krb5-kdc or krb5-user: Kerberos was not tested")
    if not here:
        pytest.skip("no root, krb5-kdc or krb5-user: Kerberos is not tested here")


class Realm:
    """The realm LAB, in which localhost is a host. `environ` is for whoever uses it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, port = folder, free_port()
        self.config, self.ticket = folder / "krb5.conf", folder / "ticket"
        self.environ = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": str(self.ticket),
        }
        self.config.write_text(
            "[libdefaults]\n default_realm = LAB\n dns_lookup_kdc = false\n rdns = false\n"
            " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f" default_keytab_name = FILE:{folder}/keytab\n"
            f"[realms]\n LAB = {{\n  kdc = 127.0.0.1:{port}\n }}\n[domain_realm]\n localhost = LAB\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n LAB = {{\n  database_name = {folder}/principal\n"
            f"  key_stash_file = {folder}/stash\n }}\n"
            f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
        )

    def tool(self, *words: str, typed: str = "") -> None:
        """Run one of Kerberos' programs."""
        path = program(words[0])
        assert path
        environ = {**os.environ, **self.environ}
        subprocess.run(
            [path, *words[1:]], check=True, capture_output=True, input=typed, text=True, env=environ
        )

    def get_ticket(self, user: str) -> None:
        """Do what the user does with kinit."""
        self.tool("kinit", user, typed="secret\n")

    @contextmanager
    def running(self, user: str) -> Iterator[None]:
        """Fill the realm, and run its KDC."""
        self.tool("kdb5_util", "create", "-s", "-r", "LAB", "-P", "master", "-W")
        for question in (
            f"addprinc -pw secret {user}",
            "addprinc -randkey host/localhost",
            f"ktadd -k {self.folder}/keytab host/localhost",
        ):
            self.tool("kadmin.local", "-r", "LAB", "-q", question)
        kdc = program("krb5kdc")
        assert kdc
        with subprocess.Popen(
            [kdc, "-n", "-r", "LAB"], env={**os.environ, **self.environ}, stdout=subprocess.DEVNULL
        ) as process:
            until = time.monotonic() + 60
            while "commencing operation" not in self._said():
                assert time.monotonic() < until
                assert process.poll() is None
                time.sleep(0.02)
            yield
            process.terminate()

    def _said(self) -> str:
        log = self.folder / "kdc.log"
        return log.read_text() if log.exists() else ""

    def admits_to(self, server: Server) -> None:
        """Start a server anew, as a host of the realm (in its own /etc/krb5.conf) that takes no keys."""
        bind = f'mount --bind {self.config} /etc/krb5.conf && exec "$@"'
        server.stop()
        server.start(
            "GSSAPIAuthentication yes",
            "GSSAPIStrictAcceptorCheck no",
            "AuthenticationMethods gssapi-with-mic",
            "PermitRootLogin yes",
            within=("unshare", "--mount", "sh", "-c", bind, "sh"),
        )
