"""``orch`` as a person runs it: the program, a home of its own, and a project of theirs."""

import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .lab import Fleet

TRAIN = Path(__file__).with_name("train.py")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def make_project(folder: Path) -> Path:
    """A project with nothing of orch in it; see ``train.py`` for its options."""
    folder.mkdir(parents=True)
    shutil.copyfile(TRAIN, folder / "train.py")
    return folder


@dataclasses.dataclass(frozen=True)
class Orch:
    """Call it with the words of a command line; the result has returncode, stdout and stderr."""

    fleet: Fleet
    home: Path
    cwd: Path
    account: str
    person: str = "ana"
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    laptop: str | None = None  # its host name; None: this machine's own

    def using(self, account: str) -> "Orch":
        """The same person, logging in as another account."""
        return dataclasses.replace(self, account=account)

    def by(self, person: str) -> "Orch":
        """Another person, with a home of their own."""
        return dataclasses.replace(self, person=person, home=self.home.parent / f"home-{person}")

    def on(self, laptop: str) -> "Orch":
        """The same on a machine of another name."""
        return dataclasses.replace(self, laptop=laptop)

    def within(self, folder: Path) -> "Orch":
        """The same in another folder."""
        return dataclasses.replace(self, cwd=folder)

    def having(self, **env: str) -> "Orch":
        """The same with more in its environment."""
        return dataclasses.replace(self, env={**self.env, **env})

    def environment(self) -> dict[str, str]:
        """All of the command's environment; the home has an .ssh with the fleet's known_hosts."""
        ssh = self.home / ".ssh"
        if not ssh.exists():
            ssh.mkdir(parents=True, mode=0o700)
            shutil.copyfile(self.fleet.client.known_hosts, ssh / "known_hosts")
        inventory = str(self.fleet.client.inventory(self.account))
        given = {
            "HOME": str(self.home),
            "USER": self.person,
            "LOGNAME": self.person,
            "ORCH_INVENTORY": inventory,
        }
        return {"PATH": PATH, "LANG": "C.UTF-8", **given, **self.env}

    def argv(self, *words: object) -> list[str]:
        """The command line, for tests that start it themselves."""
        own = (
            ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.laptop] if self.laptop else []
        )
        return [*own, str(Path(sys.executable).with_name("orch")), *(str(word) for word in words)]

    def start(self, *words: object) -> "subprocess.Popen[str]":
        """Start it and don't wait; the test reads what it says with ``communicate``."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.argv(*words), cwd=self.cwd, env=self.environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        )  # fmt: skip

    def __call__(
        self, *words: object, code: int | None = 0, input: str = "", timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; an exit code other than ``code`` (None: any) fails the test with all it said."""
        done = subprocess.run(
            self.argv(*words),
            cwd=self.cwd,
            env=self.environment(),
            input=input,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        if code is not None and done.returncode != code:
            said = f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
            raise AssertionError(
                f"orch {' '.join(map(str, words))}: exit {done.returncode}, not {code}\n{said}"
            )
        return done
