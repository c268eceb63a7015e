"""A host's power: the namespaces it consists of, and commands run inside them without SSH."""

import shlex
import uuid
from functools import partial
from pathlib import Path

from .shell import PATH, Done, LabError, run, wait_until

HERE = Path(__file__).parent
NAMESPACES = Path("/var/run/netns")
CGROUPS = Path("/sys/fs/cgroup")


class Power:
    """A folder with the host's disk, a network namespace, and what ``boot.sh`` builds over them.

    ``disk`` is the host's root as the machine sees it; only to be read while the host is on.
    """

    def __init__(self, name: str, folder: Path, namespace: str, shared: Path, cgroup: str) -> None:
        self.name = name
        self.folder = folder
        self.disk = folder / "disk"
        self.namespace = namespace
        self.cgroup = cgroup
        self._shared = shared

    def power_on(self) -> None:
        """Boot, with a new boot id. Nothing runs yet but the first process."""
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        enter = ["nsenter", f"--net={NAMESPACES / self.namespace}"]
        unshare = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        boot = ["/bin/sh", HERE / "boot.sh", self.folder, self.name, self._shared]
        words = shlex.join(str(word) for word in [*enter, *unshare, *boot])
        run("setsid", "--fork", "sh", "-c", f"cd /; exec {words} >{shlex.quote(str(self._console))} 2>&1")
        wait_until(f"{self.name} boots ({self._console})", self._booted)

    def power_off(self) -> None:
        """Cut the power: everything on the host dies at once. The disk stays."""
        for pid in self._pids():
            run("kill", "-KILL", pid, check=False)
        wait_until(f"{self.name} is off", lambda: not self._pids())
        remove_cgroup(self.cgroup)

    def is_on(self) -> bool:
        """Whether the host has power."""
        return self._init() is not None

    @property
    def boot_id(self) -> str:
        return (self.folder / "boot_id").read_text().strip()

    @property
    def _console(self) -> Path:
        return self.folder / "console.log"

    def _pids(self) -> list[int]:
        if not (NAMESPACES / self.namespace).exists():
            return []
        return [int(pid) for pid in run("ip", "netns", "pids", self.namespace, check=False).stdout.split()]

    def _init(self) -> int | None:
        for pid in self._pids():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            if f"\nNSpid:\t{pid}\t1\n" in status:
                return pid
        return None

    def _booted(self) -> bool:
        pid = self._init()
        return pid is not None and Path(f"/proc/{pid}/comm").read_text() == "tini\n"

    def run(
        self,
        text: str,
        *,
        user: str = "root",
        check: bool = True,
        input: str | None = None,
        timeout: float = 300,
    ) -> Done[str]:
        """Run shell text in the home of ``user`` on the host, whatever sshd and the network do."""
        init = self._init()
        if init is None:
            raise LabError(f"{self.name} is off")
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--root"]
        enter = ["nsenter", f"--target={init}", *spaces]
        home = "/root" if user == "root" else f"/home/{user}"
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        clean = [
            "env",
            "-i",
            f"HOME={home}",
            f"USER={user}",
            f"LOGNAME={user}",
            f"PATH={PATH}",
            "LANG=C.UTF-8",
        ]
        return run(
            *enter, *become, *clean, "sh", "-c", f"cd\n{text}", check=check, input=input, timeout=timeout
        )


def remove_cgroup(path: str) -> None:
    """Remove a control group and those in it from every hierarchy."""
    name = path.strip("/")
    for top in {*CGROUPS.glob(f"*/{name}"), *CGROUPS.glob(name)}:
        wait_until(f"{top} is empty", partial(_remove_tree, top))


def _remove_tree(top: Path) -> bool:
    """Whether all of it could be removed; not while the kernel still holds a process in it."""
    folders = sorted((path for path in [top, *top.rglob("*")] if path.is_dir()), reverse=True)
    try:
        for folder in folders:
            folder.rmdir()
    except OSError:
        return False
    return True
