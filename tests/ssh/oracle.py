"""What the ssh program does with the same configuration: orch must do the same."""

from __future__ import annotations

import subprocess

from orchestrator.errors import OrchError
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.inventory import Host, Settings
from tests.ssh.server import Server


def configure(sshd: Server, text: str, *, key: object = None) -> None:
    """Write ~/.ssh/config: `text` first, then how `gpu` is reached."""
    login = f" IdentityFile {key or sshd.login}\n IdentitiesOnly yes\n"
    way = f"Host gpu*\n HostName 127.0.0.1\n Port {sshd.port}\n{login}"
    files = f"Match all\n UserKnownHostsFile {sshd.known_hosts}\n GlobalKnownHostsFile {sshd.folder}/global\n"
    (sshd.client / ".ssh" / "config").write_text(f"{text}\n{way}{files} StrictHostKeyChecking yes\n")


def judged_before() -> bool:
    """Whether the same test has been judged with another transport: ssh would say the same again."""
    return Settings().transport == "openssh"


def ssh_arrives(sshd: Server, name: str = "gpu") -> bool:
    """Whether `ssh NAME` runs a command there."""
    words = ["ssh", "-F", sshd.client / ".ssh" / "config", "-o", "BatchMode=yes", name, "echo hi"]
    done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert done.returncode in (0, 255), done.stderr
    return done.stdout == b"hi\n"


def orch_says(name: str = "gpu") -> str:
    """Return "hi" where orch arrives, else its error."""
    try:
        with connect(Host("gpu01", name)) as machine:
            return machine.run(Script("x", "echo hi")).text.strip()
    except OrchError as error:
        return repr(str(error))[1:-1]  # a line end would not be found as one


def both_arrive(sshd: Server, text: str = "", *, key: object = None) -> None:
    """Both ssh and orch reach the host under this configuration."""
    configure(sshd, text, key=key)
    assert judged_before() or ssh_arrives(sshd)
    assert orch_says() == "hi"


def both_refuse(sshd: Server, said: str, text: str = "", *, key: object = None) -> None:
    """Neither ssh nor orch takes the host, and orch says why."""
    configure(sshd, text, key=key)
    assert judged_before() or not ssh_arrives(sshd)
    told = orch_says()
    assert said in told
