"""One host of the fleet: its services, its link, its disks, and stand-ins for what the machine lacks."""

import json
import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import gpus
from .counts import Counter
from .disk import ACCOUNTS
from .network import Network
from .power import CGROUPS, NAMESPACES, Power
from .shell import LabError, run, wait_until

_DATE = """\
#!/bin/sh
exec /usr/bin/date -d "@$(($(/usr/bin/date +%s) - {}))" "$@"
"""


class Host(Power):
    """A host of the fleet, with verbs for what happens to hosts."""

    def __init__(self, name: str, folder: Path, namespace: str, shared: Path, cgroup: str) -> None:
        super().__init__(name, folder, namespace, shared, cgroup)
        self._link: tuple[Network, int] | None = None

    def reboot(self) -> None:
        """Power off and on again, with all services."""
        self.power_off()
        self.power_on()
        self.start_services()

    def docker(self, *words: str, check: bool = True) -> str:
        """What ``docker WORDS`` prints on this host, as root."""
        return self.run(shlex.join(["docker", *words]), check=check).stdout

    def containers(self, *, all: bool = False) -> list[str]:
        """Names of the containers that run (``all``: that exist)."""
        return self.docker("ps", *(["-a"] if all else []), "--format", "{{.Names}}").split()

    def images(self) -> list[str]:
        """Images as NAME:TAG, sorted: docker has no order for the names of one image."""
        return sorted(self.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split())

    # Services

    def start_services(self) -> None:
        """Start dockerd and sshd and wait until both answer."""
        self.launch_docker()
        self.start_sshd()
        wait_until(f"{self.name}: docker starts (see {self.disk}/var/log/dockerd.log)", self._docker_answers)

    def start_sshd(self, *options: str) -> None:
        """Start sshd, with options as its `-o` takes them; /var/log/sshd.log is read for counts."""
        self.run(f"/usr/sbin/sshd -E /var/log/sshd.log {' '.join(f'-o {o}' for o in options)}")
        wait_until(f"{self.name}: sshd listens", self._sshd_runs)

    def stop_sshd(self) -> None:
        """Stop sshd and every session: new connections are refused, open ones break."""
        self.run("pkill -KILL -x sshd --ns 1 --nslist pid", check=False)  # not those in containers

    def start_docker(self) -> None:
        """Start dockerd and wait for it."""
        self.launch_docker()
        wait_until(f"{self.name}: docker starts", self._docker_answers)

    def stop_docker(self) -> None:
        """Stop dockerd as a service manager does; its containers end."""
        self.run("pkill -TERM -x dockerd", check=False)
        wait_until(f"{self.name}: docker stops", lambda: not self._docker_runs())

    def restart_docker(self) -> None:
        """Stop dockerd and start it again; containers with a restart policy come back."""
        self.stop_docker()
        self.start_docker()

    @contextmanager
    def docker_with(self, **settings: object) -> Iterator[None]:
        """dockerd with other settings, for the length of a ``with``; ``_`` in a name stands for ``-``."""
        path = "/etc/docker/daemon.json"
        before = self.run(f"cat {path}").stdout
        changed = json.loads(before) | {name.replace("_", "-"): value for name, value in settings.items()}
        self.stop_docker()
        self.run(f"cat >{path}", input=json.dumps(changed))
        try:
            self.start_docker()
            yield
        finally:
            self.stop_docker()
            self.run(f"cat >{path}", input=before)
            self.start_docker()

    def start_cron(self) -> None:
        """Start Debian's cron daemon on the host."""
        self.run("cron")

    def launch_docker(self) -> None:
        """Start dockerd, if it does not run, and don't wait for it."""
        if not self._docker_runs():
            self.run(
                "PATH=/usr/local/lib/orch-fleet:$PATH setsid dockerd >>/var/log/dockerd.log 2>&1 </dev/null &"
            )

    def _sshd_runs(self) -> bool:
        return ":22 " in self.run("ss -Hltn").stdout

    def _docker_runs(self) -> bool:
        return self.run("pgrep -x dockerd", check=False).returncode == 0

    def _docker_answers(self) -> bool:
        return self.run("docker version", check=False).returncode == 0

    # Network

    def plug(self, network: Network, index: int) -> None:
        """Join the host to the fleet's network; it must have a namespace by then."""
        self._link = network, index

    @property
    def address(self) -> str:
        network, index = self._plugged()
        return network.address(index)

    def cut(self) -> None:
        """Take the cable out: packets are lost, nobody is told."""
        network, index = self._plugged()
        network.link(index, "down")

    def join(self) -> None:
        """Put the cable back."""
        network, index = self._plugged()
        network.link(index, "up")

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """The host with its cable out, for the length of a ``with``."""
        self.cut()
        try:
            yield
        finally:
            self.join()

    def _plugged(self) -> tuple[Network, int]:
        if self._link is None:
            raise LabError(f"{self.name} has no link")
        return self._link

    def counter(self) -> Counter:
        """Counts SSH connections and execs from now on."""
        return Counter(self.disk / "var/log/sshd.log")

    # Memory and time

    @contextmanager
    def memory_of(self, size: int) -> Iterator[None]:
        """A host whose containers have so many bytes among them more than they use now."""
        (group,) = (g for g in CGROUPS.glob(f"*{self.cgroup}") if (g / "memory.failcnt").exists())
        limit, used = group / "memory.limit_in_bytes", int((group / "memory.usage_in_bytes").read_text())
        limit.write_text(str(used + size))
        try:
            yield
        finally:
            limit.write_text("-1")

    @contextmanager
    def clock_set_back(self, seconds: int) -> Iterator[None]:
        """A host whose `date` is behind: the machine has one clock for all, so that it is stood in for."""
        there = "/usr/local/bin/date"
        self.run(f"cat >{there} && chmod 755 {there}", input=_DATE.format(seconds))
        try:
            yield
        finally:
            self.run(f"rm {there}")

    # Disks

    @contextmanager
    def small_disk(self, path: str, size: str = "8m", *, full: bool = False) -> Iterator[None]:
        """A disk of ``size`` mounted at ``path`` (made if missing); ``full``: with no byte left."""
        where = shlex.quote(path)
        self.run(f"mkdir -p {where} && mount -t tmpfs -o mode=1777,size={size} tmpfs {where}")
        if full:
            self.fill(path)
        try:
            yield
        finally:
            self.run(f"umount -l {where}")

    @contextmanager
    def private_disk(self, path: str, account: str) -> Iterator[None]:
        """A FUSE disk at ``path`` (made if missing) that ``account`` alone may look into, not even root."""
        where = shlex.quote(path)
        self.run(f"mkdir -p {where} {where}.back && chown {account} {where} {where}.back")
        self.run("mknod -m 666 /srv/fuse-device c 10 229 && mount --bind /srv/fuse-device /dev/fuse")
        try:
            self.run(f"bindfs -n {where}.back {where}", user=account)
            yield
        finally:
            # Debian has bindfs with either fuse.
            self.run(f"fusermount3 -u {where} || fusermount -u {where}", user=account, check=False)
            self.run(f"umount /dev/fuse; rm -rf /srv/fuse-device {where}.back; rmdir {where}")

    def fill(self, path: str) -> None:
        """Write into a small disk until nothing more goes in."""
        where = shlex.quote(path)
        self.run(f"mountpoint -q {where}")  # never fill the machine's own disk
        self.run(f"cat /dev/zero >{where}/filler", check=False)

    def free(self, path: str) -> None:
        """Undo ``fill``."""
        self.run(f"rm -f {shlex.quote(path)}/filler")

    # Stand-ins for what the machine does not have

    def set_gpus(self, answers: Iterable[gpus.Answer]) -> None:
        """Install an ``nvidia-smi`` that gives the first answer whose pattern matches its arguments."""
        gpus.install(self, list(answers))

    def no_gpus(self) -> None:
        """Take ``nvidia-smi`` away."""
        gpus.uninstall(self)

    def install_toolkit(self) -> None:
        """Let Docker take ``--gpus``, as NVIDIA's toolkit does; no device comes of it. Restarts Docker."""
        gpus.install_toolkit(self)

    # Made, mended and destroyed

    def restore(self) -> None:
        """Power, link and services as after ``up``, no stand-ins. Containers and files stay as they are."""
        if not self.is_on():
            self.power_on()
        self.join()
        self.no_gpus()
        if not self._sshd_runs():
            self.start_sshd()
        if not self._docker_runs():
            self.start_docker()
        gpus.uninstall_toolkit(self)
        # Each test has a project folder of its own, of the same name: what is left there is nobody's now.
        self.run("rm -f /root/.orch/*/*/owner.json /home/*/.orch/*/*/owner.json")

    def wipe(self) -> None:
        """No container, and no ``~/.orch`` of any account."""
        self.run("docker ps -aq | xargs -r docker rm -f; rm -rf /root/.orch /home/*/.orch")

    def add_accounts(self, public_key: str) -> None:
        """Make the accounts and let ``public_key`` log in as each of them and as root."""
        for account, uid in ACCOUNTS.items():
            self.run(f"useradd -m -s /bin/bash -u {uid} -p '*' {account}")
        self.run("usermod -aG docker ana; cp -rT /etc/skel /root")
        for home, account in [("/root", "root"), *((f"/home/{name}", name) for name in ACCOUNTS)]:
            there = f"{home}/.ssh"
            self.run(f"install -d -m 700 -o {account} -g {account} {there} && cat >{there}/authorized_keys"
                     f" && chown {account}: {there}/authorized_keys", input=public_key)  # fmt: skip

    def destroy(self, *, keep_logs: bool = False) -> None:
        """Leave nothing: processes, namespace, control groups, disk (``keep_logs``: but that)."""
        self.power_off()
        if (NAMESPACES / self.namespace).exists():
            run("ip", "netns", "del", self.namespace)
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)
