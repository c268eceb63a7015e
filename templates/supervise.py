"""Runs one training command and records on the host, truthfully, how it goes and how it ended.

Started by a launch as

    nohup setsid flock -w 10 LOCK python3 supervise.py --person P --run ID -- CMD >> LOG 2>&1 < /dev/null

in the worker's `work/` folder or below. Python 3.6, standard library only. The worker's folder
(ORCH_WORKER_DIR) holds:

    launch.json   env values, boot id, container id, grace in seconds; 0600, removed as soon as it is read
    state.json    what is true now, one line, replaced atomically
    stop.json     who asked for the end, and why; written by `orch stop` before it signals
    sizes         how large the log was when, a line `SECONDS BYTES` for each heartbeat at which it had grown
    training.log  where stdout and stderr go

The command inherits the lock, so that the lock is held for as long as anything of the run lives.
"""

import errno
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

HEARTBEAT = 10.0  # seconds between two heartbeats in state.json
GRACE = 30.0  # seconds from SIGTERM to SIGKILL, where launch.json names none
SIZES = 4096  # lines of `sizes`; then the older half keeps every other one
SPARE = 16384  # bytes kept for the last word about a run on a full disk
IMAGE_PACKAGES = "/usr/local/lib/orch/packages.txt"  # what the image has, as name==version
ENDING = "/run/orch/ending"  # made by the container's entrypoint when the container is told to stop
OOM_COUNTERS = (
    ("memory", "memory.oom_control"),  # cgroup v1: `oom_kill N`, since Linux 4.13
    ("", "memory.events"),  # cgroup v2: `oom_kill N`
)


class State:
    """state.json: replaced as a whole, fsynced, and still writable when the disk is full."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "state.json")
        self.spares = [os.path.join(folder, ".state.spare{}".format(n)) for n in (1, 2)]
        self.fields = {}
        self._keep_spares()

    def _keep_spares(self):
        for spare in self.spares:
            if os.path.exists(spare):
                continue
            try:
                self._fill(spare, "wb", b" " * SPARE)
            except OSError:
                _remove(spare)  # half a spare is none; the next write says it louder

    def write(self, leave=1, **fields):
        """Write the fields; on a full disk into a spare, of which at least `leave` must be left after it."""
        self.fields.update(fields)
        line = (json.dumps(self.fields) + "\n").encode("utf-8")
        part = self.path + ".part"
        try:
            self._fill(part, "wb", line)
        except OSError as error:
            _remove(part)
            there = [spare for spare in self.spares if os.path.exists(spare)]
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or len(there) <= leave:
                raise
            # The spare's blocks are ours already: written in place, and JSON does not mind the blanks.
            part = there[0]
            self._fill(part, "r+b", line.rstrip(b"\n").ljust(SPARE - 1) + b"\n")
        os.rename(part, self.path)
        self._keep_spares()

    @staticmethod
    def _fill(path, mode, data):
        with open(path, mode) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


class Sizes:
    """How large the log was when: it has no times in it, and somebody may ask for its last ten minutes."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "sizes")
        self.lines = []
        self.last = -1

    def note(self):
        """Write down the size of what stdout is, if that is another than before. Never raises."""
        try:
            size = os.fstat(1).st_size
            if size != self.last:
                self._add("{} {}\n".format(int(time.time()), size))
                self.last = size
        except OSError:
            pass  # a full disk: fewer notes, and so more of the log is shown than was asked for

    def _add(self, line):
        if len(self.lines) < SIZES:
            with open(self.path, "a") as file:
                file.write(line)
            self.lines.append(line)
            return
        lines = self.lines[: SIZES // 2 : 2] + self.lines[SIZES // 2 :] + [line]
        with open(self.path + ".part", "w") as file:
            file.writelines(lines)
        os.rename(self.path + ".part", self.path)
        self.lines = lines


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def _read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def start_time(pid):
    """Clock ticks from boot to the start (field 22 of /proc/PID/stat): with the pid, an identity."""
    try:
        with open("/proc/{}/stat".format(pid)) as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def oom_kills():
    """How often the kernel has killed for memory in this control group, or None where it doesn't say."""
    try:
        with open("/proc/self/cgroup") as file:
            groups = [line.strip().split(":", 2) for line in file]
    except OSError:
        return None
    for controller, name in OOM_COUNTERS:
        for _, controllers, path in groups:
            if controller not in controllers.split(","):
                continue
            for folder in (path, ""):  # in a container the group is often mounted as the root
                count = _counter("/sys/fs/cgroup/{}{}/{}".format(controller, folder, name))
                if count is not None:
                    return count
    return None


def _counter(path):
    try:
        with open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def other_supervisors():
    """Whether another run shares this /proc, and so the counter of OOM kills."""
    for pid in _processes():
        if pid != os.getpid():
            words = _bytes("/proc/{}/cmdline".format(pid)).split(b"\0")
            # `flock` and `sh` stand before supervise.py on its parents' command lines
            if words[0].rpartition(b"/")[2].startswith(b"python") and any(
                w.endswith(b"supervise.py") for w in words[1:3]
            ):
                return True
    return False


def _processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def added_packages(search, known):
    """Return `name==version` of what is installed and is not in the lists of the deploy (files `known`)."""
    before = set()
    for path in known:
        before.update(
            _package(line.strip(), "==") for line in _bytes(path).decode("utf-8", "replace").splitlines()
        )
    found = set()
    for folder in search:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        stems = [os.path.splitext(name)[0] for name in names if name.endswith((".dist-info", ".egg-info"))]
        found.update(_package(re.sub(r"-py[0-9.]+$", "", stem), "-") for stem in stems if "-" in stem)
    return sorted(found - before) if before else []


def _package(text, sign):
    name, _, version = text.rpartition(sign)
    return "{}=={}".format(re.sub("[-_.]+", "-", name).lower(), version)


def note_packages(path):
    """Add to spec.json what was installed since the deploy. One that can't be written stays as it is."""
    known = [IMAGE_PACKAGES, os.path.join(os.environ.get("VIRTUAL_ENV", "/nowhere"), "packages.txt")]
    added, spec = added_packages(sys.path[1:], known), _read_json(path)
    if not added or not spec:
        return
    part = "{}.part{}".format(path, os.getpid())
    try:
        with open(part, "w") as file:
            file.write(json.dumps(dict(spec, packages=added)) + "\n")
        os.rename(part, path)
    except OSError:
        _remove(part)


class Supervisor:
    def __init__(self, person, run, command, folder):
        self.person, self.run, self.command, self.folder = person, run, command, folder
        launch = os.path.join(folder, "launch.json")
        self.launch = _read_json(launch)
        _remove(launch)
        self.state = State(folder)
        self.sizes = Sizes(folder)
        self.child = None
        self.asked = None  # the signal that asked for the end
        self.kill_at = None
        self.readable, self.writable = os.pipe()
        os.set_blocking(self.writable, False)

    def watch_signals(self):
        """Wake the loop for every signal; SIGHUP is for terminals, and a run has none."""
        signal.set_wakeup_fd(self.writable)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, self.end)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, _: self.tell_group(number))

    def end(self, number, _frame=None):
        self.asked = number
        grace = _read_json(os.path.join(self.folder, "stop.json")).get("grace")
        if grace is None:
            grace = self.launch.get("grace", GRACE)
        self.kill_at = min(self.kill_at or float("inf"), time.monotonic() + grace)
        self.ask_group()

    def ask_group(self):
        """SIGTERM, and SIGCONT for a command that was halted: it hears nothing else."""
        self.tell_group(signal.SIGTERM)
        self.tell_group(signal.SIGCONT)

    def tell_group(self, number):
        if self.child is not None:
            try:
                os.killpg(self.child.pid, number)
            except OSError:
                pass

    def start(self):
        """Start the command in a session of its own, or raise OSError."""
        env = dict(os.environ)
        env["ORCH_PROGRESS"] = os.path.join(self.folder, "progress.jsonl")
        env.update(self.launch.get("env", {}))

        def own_signals():  # what we ignore or handle must not be the command's default
            os.setsid()
            for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)

        # close_fds=False hands on the lock; Python's own descriptors are not inheritable
        return subprocess.Popen(
            self.command, env=env, stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=own_signals
        )

    def supervise(self):
        self.watch_signals()
        kills = oom_kills()
        note_packages(os.path.join(os.path.dirname(self.folder), "spec.json"))
        self.state.write(
            run=self.run,
            person=self.person,
            host=self.launch.get("host"),
            state="starting",
            pid=os.getpid(),
            pid_start=start_time(os.getpid()),
            boot_id=self.launch.get("boot_id"),
            container=self.launch.get("container"),
            started=time.time(),
            heartbeat=time.time(),
        )
        self.sizes.note()
        if self.asked is not None:  # asked to stop before there was anything to stop
            return self.ended(None, signal.SIGTERM, kills)
        try:
            self.child = self.start()
        except OSError as error:
            return self.not_started(error)
        self.state.write(state="running", child=self.child.pid, child_start=start_time(self.child.pid))
        if self.asked is not None:
            self.ask_group()
        status = self.wait()
        return self.ended(status if status >= 0 else None, -status if status < 0 else None, kills)

    def not_started(self, error):
        code = 126 if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR) else 127
        words = "orch: cannot run '{}': {}".format(self.command[0], error.strerror)
        print(words, file=sys.stderr, flush=True)
        self.state.write(
            leave=0,
            state="failed",
            ended=time.time(),
            exit_code=code,
            cause={"kind": "not started", "message": words[len("orch: ") :]},
        )
        return code

    def wait(self):
        beat = time.monotonic() + HEARTBEAT
        while True:
            status = self.child.poll()
            if status is not None:
                return status
            now = time.monotonic()
            if self.kill_at is not None and now >= self.kill_at:
                self.tell_group(signal.SIGKILL)
                self.kill_at = None if self.asked is None else now + 1.0
            if now >= beat:
                beat = now + HEARTBEAT
                self.beat()
            until = min(beat, self.kill_at) if self.kill_at is not None else beat
            ready, _, _ = select.select([self.readable], [], [], max(0.0, until - time.monotonic()))
            if ready:
                os.read(self.readable, 4096)

    def beat(self):
        self.sizes.note()
        try:
            self.state.write(leave=2, heartbeat=time.time())
        except OSError:
            pass  # a heartbeat may be missed; the end may not

    def ended(self, code, number, kills):
        stop = _read_json(os.path.join(self.folder, "stop.json"))
        stopped = bool(stop) or self.asked is not None
        if stopped:
            self.sweep()
            state, cause = "stopped", dict(stop, kind="stopped")
            ending = os.path.exists(ENDING)
            cause.setdefault(
                "by",
                "the stop of its container" if ending else "signal {} to the supervisor".format(self.asked),
            )
        elif code == 0:
            state, cause = "succeeded", {"kind": "exit", "code": 0}
        else:
            state, cause = "failed", self.cause(code, number, kills)
        self.state.write(leave=0, state=state, ended=time.time(), exit_code=code, signal=number, cause=cause)
        return code if code is not None else 128 + number

    @staticmethod
    def cause(code, number, kills):
        now = oom_kills()
        if number == signal.SIGKILL and None not in (kills, now) and now > kills:
            return {"kind": "oom", "probable": other_supervisors()}
        if number is not None:
            return {"kind": "signal", "signal": number}
        return {"kind": "exit", "code": code}

    def sweep(self):
        """End what is left of the run: its process group, then whoever carries its id in the environment."""
        self.tell_group(signal.SIGKILL)
        token = b"ORCH_RUN_ID=" + self.run.encode()
        for pid in _processes():
            if pid != os.getpid() and token in _bytes("/proc/{}/environ".format(pid)).split(b"\0"):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass


def main(words):
    split = words.index("--")
    options, command = words[:split], words[split + 1 :]
    named = dict(zip(options[::2], options[1::2]))
    folder = os.environ.pop("ORCH_WORKER_DIR")
    if not os.path.exists(os.path.join(folder, "launch.json")):
        sys.exit("orch: this launch was given up")
    supervisor = Supervisor(named["--person"], named["--run"], command, folder)
    sys.exit(supervisor.supervise())


if __name__ == "__main__":
    main(sys.argv[1:])
