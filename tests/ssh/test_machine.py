"""What every machine must do, on a real sshd and on this machine: the same tests for all."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts import trace
from orchestrator.hosts.base import Machine, Terminal
from orchestrator.hosts.command import Command, Script, Secret
from orchestrator.hosts.connect import connect
from orchestrator.inventory import Host, Settings
from tests.ssh.conftest import TRANSPORTS
from tests.ssh.server import Server, free_port
from tests.until import until

MB = 1_000_000


pytestmark = pytest.mark.transport(*TRANSPORTS, "local", reason="this machine is a Machine too")


@pytest.fixture
def machine(transport: str, sshd: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A connected machine whose home is `sshd.home`."""
    if transport != "local":
        host = sshd.host(remote_path=("~/tools",))
    else:
        monkeypatch.setenv("HOME", str(sshd.home))
        host = Host("gpu01", "x", connection="local", settings=Settings(remote_path=("~/tools",)))
    with connect(host) as machine:
        yield machine


def read_all(stream: object) -> bytes:
    return b"".join(iter(stream.read, b""))  # type: ignore[attr-defined]


def read_line(stream: object) -> bytes:
    """Read up to a line end, which a terminal may send in a piece of its own."""
    line = b""
    while not line.endswith(b"\n"):
        line += stream.read(timeout=60)  # type: ignore[attr-defined]
    return line


def test_a_script_says_its_status_and_both_streams(machine: Machine) -> None:
    result = machine.run(Script("x", "echo out; echo err >&2; exit 3"))
    assert (result.status, result.out, result.err) == (3, b"out\n", b"err\n")
    assert 0 < result.seconds < 60
    with pytest.raises(HostError, match="gpu01: ps: err"):
        machine.ask(Script("ps", "echo err >&2; exit 3"))


def test_bytes_that_are_no_text_arrive(machine: Machine) -> None:
    result = machine.run(Script("x", "printf 'caf\\351\\n'"))
    assert result.out == b"caf\xe9\n"
    assert result.text == "caf\ufffd\n"


def test_a_script_has_no_stdin_to_eat(machine: Machine) -> None:
    assert machine.run(Script("x", "cat; ssh -V 2>/dev/null; read a || echo none")).out == b"none\n"


def test_a_process_left_behind_does_not_hold_the_answer(machine: Machine) -> None:
    """Without redirections it keeps the streams open for as long as it lives."""
    result = machine.run(Script("x", "sleep 30 & echo $!"), deadline=60)
    os.kill(int(result.out), 9)
    assert result.seconds < 28  # it would hold it for 30


def test_a_lot_on_both_streams_at_once(machine: Machine) -> None:
    text = f"head -c {30 * MB} /dev/zero & head -c {5 * MB} /dev/zero >&2; wait"
    result = machine.run(Script("x", text))
    assert (len(result.out), len(result.err)) == (30 * MB, 5 * MB)


def test_a_script_of_a_megabyte(machine: Machine) -> None:
    text = f": '{'x' * MB}'\necho done"
    assert machine.run(Script("x", text)).out == b"done\n"


def test_a_script_that_hangs_ends_at_its_deadline_and_the_machine_goes_on(machine: Machine) -> None:
    began = time.monotonic()
    with pytest.raises(HostError) as caught:
        machine.run(Script("smi", "echo first; sleep 30"), deadline=0.5)
    assert str(caught.value) == "gpu01: smi: no answer within 0.5 s"
    assert caught.value.exit_code == 1
    assert time.monotonic() - began < 28
    assert machine.run(Script("x", "echo on")).out == b"on\n"


def test_a_shell_that_is_killed_is_no_answer(machine: Machine) -> None:
    with pytest.raises(LostConnection, match="x: the connection went before the answer was whole"):
        machine.run(Script("x", "kill -9 $$"))


def test_folders_of_the_settings_come_first_in_path(machine: Machine, sshd: Server) -> None:
    tools = sshd.home / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho mine\n")
    (tools / "nvidia-smi").chmod(0o755)
    assert machine.run(Script("x", "nvidia-smi")).out == b"mine\n"
    with machine.stream(Command.of("nvidia-smi")) as stream:
        assert read_all(stream) == b"mine\n"


@pytest.mark.parametrize(
    "asked",
    [Command.of("sh", "-c", "cat; echo err >&2; exit 5"), Script("x", "# it's !\ncat\necho err >&2; exit 5")],
)
def test_a_stream_has_stdin_stdout_stderr_and_a_status(machine: Machine, asked: Command | Script) -> None:
    with machine.stream(asked) as stream:
        assert stream.read(timeout=0.05) is None
        assert stream.status() is None
        stream.write(b"one\n")
        assert stream.read() == b"one\n"
        stream.close_stdin()
        assert read_all(stream) == b""
        assert stream.status() == 5
        assert stream.read_error() == b"err\n"
        assert stream.read_error() == b""


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30))
def test_any_word_arrives(machine: Machine, word: str) -> None:
    with machine.stream(Command.of("printf", "%s", word)) as stream:
        assert read_all(stream) == word.encode()


def test_a_stream_is_binary_clean_and_loses_nothing(machine: Machine) -> None:
    data = bytes(range(256)) * 40_000  # 10 MB, both ways at once

    def send() -> None:
        for at in range(0, len(data), 100_000):
            stream.write(data[at : at + 100_000])
        stream.close_stdin()

    with machine.stream(Command.of("cat")) as stream:
        sender = threading.Thread(target=send)
        sender.start()
        assert read_all(stream) == data
        sender.join()


def test_a_long_stream(machine: Machine) -> None:
    with machine.stream(Command.of("head", "-c", str(50 * MB), "/dev/zero")) as stream:
        total = sum(len(piece) for piece in iter(stream.read, b""))
        assert (total, stream.status()) == (50 * MB, 0)


def test_stderr_of_a_stream_is_kept_to_its_end_only(machine: Machine) -> None:
    with machine.stream(Script("x", f"head -c {MB} /dev/zero >&2; echo the end >&2")) as stream:
        assert read_all(stream) == b""
        assert stream.status() == 0
        said = stream.read_error()
    assert said.endswith(b"\0the end\n")
    assert len(said) == 65536


def test_who_polls_both_streams_loses_nothing(machine: Machine) -> None:
    text = f"head -c {3 * MB} /dev/zero >&2 & head -c {3 * MB} /dev/zero; wait"
    out = err = 0
    with machine.stream(Script("x", text)) as stream:
        while (piece := stream.read(timeout=0.05)) != b"":
            out += len(piece or b"")
            err += len(stream.read_error())
        assert stream.status() == 0
        while said := stream.read_error():
            err += len(said)
    assert (out, err) == (3 * MB, 3 * MB)


def test_the_signal_that_ended_a_command_is_told(machine: Machine) -> None:
    with machine.stream(Command.of("sh", "-c", "kill -TERM $$")) as stream:
        assert read_all(stream) == b""
        assert stream.status() == 128 + 15


def test_a_terminal_has_kind_size_and_ctrl_c(machine: Machine) -> None:
    script = Script(
        "x", "trap 'echo caught; exit 9' INT; tty >/dev/null && echo $TERM $(stty size); read a; echo $a"
    )
    with machine.stream(script, terminal=Terminal("vt100", 100, 30)) as stream:
        assert read_line(stream) == b"vt100 30 100\r\n"
        stream.write(b"\x03")
        assert b"caught" in read_all(stream)
        assert stream.status() == 9


def test_the_size_of_a_terminal_changes(machine: Machine) -> None:
    with machine.stream(Script("x", "stty -echo; echo go; read a; stty size"), terminal=Terminal()) as stream:
        assert read_line(stream) == b"go\r\n"
        stream.resize(132, 50)
        stream.write(b"\n")
        assert read_all(stream) == b"50 132\r\n"


@pytest.mark.parametrize("terminal", [None, Terminal()])
def test_closing_a_stream_early_ends_what_reads_it(machine: Machine, terminal: Terminal | None) -> None:
    with machine.stream(Script("x", "echo $$; cat"), terminal=terminal) as stream:
        pid = int(read_line(stream))
        os.kill(pid, 0)
    until(lambda: not alive(pid), "the end of what reads it")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_file_is_put_whole_with_its_mode(machine: Machine, sshd: Server) -> None:
    machine.put(b"hello", "~/it's a file", mode=0o640)
    path = sshd.home / "it's a file"
    assert path.read_bytes() == b"hello"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    machine.put(io.BytesIO(bytes(range(256)) * 4000), str(path))
    assert path.read_bytes() == bytes(range(256)) * 4000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    into = io.BytesIO()
    machine.get("~/it's a file", into)
    assert into.getvalue() == path.read_bytes()
    assert [p.name for p in sshd.home.iterdir() if "part" in p.name] == []


def test_a_pipe_and_the_rest_of_a_file_are_put(machine: Machine, sshd: Server) -> None:
    with subprocess.Popen(["echo", "from a pipe"], stdout=subprocess.PIPE) as process:
        assert process.stdout
        machine.put(process.stdout, "~/p")  # type: ignore[arg-type]
    assert (sshd.home / "p").read_bytes() == b"from a pipe\n"
    source = io.BytesIO(b"skip,rest")
    source.seek(5)
    machine.put(source, "~/p")
    assert (sshd.home / "p").read_bytes() == b"rest"


def test_a_file_that_becomes_shorter_while_it_is_sent_is_not_put(machine: Machine, sshd: Server) -> None:
    class Shrinking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(size)[:3]

        def seek(self, offset: int, whence: int = 0) -> int:
            return super().seek(offset, whence) + (5 if whence else 0)

    (sshd.home / "f").write_text("old")
    with pytest.raises(HostError, match=r"gpu01: ~/f can't be written: the copy is not whole"):
        machine.put(Shrinking(b"new text"), "~/f")
    assert (sshd.home / "f").read_text() == "old"
    assert [p.name for p in sshd.home.iterdir() if "part" in p.name] == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/proc/nope/x", "/proc/nope/x can't be written: .*"),
        ("~", "~ can't be written: is a folder"),
    ],
)
def test_a_place_where_nothing_can_be_written(machine: Machine, path: str, said: str) -> None:
    with pytest.raises(HostError, match=f"gpu01: {said}"):
        machine.put(b"x" * 3 * MB, path)


def test_a_file_that_is_not_there(machine: Machine) -> None:
    with pytest.raises(HostError, match="gpu01: /nope can't be read: no such file"):
        machine.get("/nope", io.BytesIO())


def test_a_tunnel_is_a_socket_on_the_host(machine: Machine, sshd: Server) -> None:
    tunnel = machine.tunnel(sshd.port)
    tunnel.settimeout(60)
    assert tunnel.recv(8).startswith(b"SSH-2.0")
    tunnel.send(b"bye\r\n")
    tunnel.close()
    port = free_port()
    with pytest.raises(HostError, match=f"gpu01: nothing answers at 127.0.0.1:{port}"):
        machine.tunnel(port)


def test_each_command_is_told_with_its_end(machine: Machine) -> None:
    heard: list[tuple[object, ...]] = []

    class Listener:
        def sending(self, host: str, name: str, text: str) -> None:
            heard.append(("sending", host, name, text))

        def ended(self, host: str, name: str, seconds: float, status: int | None) -> None:
            assert 0 <= seconds < 60
            heard.append(("ended", host, name, status))

    stop = trace.listen(Listener())
    try:
        machine.run(Script("one", "exit 3"))
        with machine.stream(Command.of("echo", Secret("hush-hush"))) as stream:
            read_all(stream)
            stream.status()
        with contextlib.suppress(HostError):
            machine.run(Script("slow", "sleep 30"), deadline=0.2)
    finally:
        stop()
    machine.run(Script("unheard", "true"))
    assert heard == [
        ("sending", "gpu01", "one", "exit 3"),
        ("ended", "gpu01", "one", 3),
        ("sending", "gpu01", "echo ***", "echo ***"),
        ("ended", "gpu01", "echo ***", 0),
        ("sending", "gpu01", "slow", "sleep 30"),
        ("ended", "gpu01", "slow", None),
    ]
