"""What ssh says, in the words of several versions and systems, and the error that it amounts to."""

from __future__ import annotations

import pytest

from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_said import Said, explain, explain_login, is_dropped, is_host_key, is_login
from orchestrator.hosts.ssh_config import Route

ROUTE = Route("gpu01", "10.0.0.12", 22, "ana")
UP = "debug1: Connection established.\n"
GREETED = UP + "debug1: Remote protocol version 2.0, remote software version OpenSSH_5.3\n"
ASKED = GREETED + "debug1: Authentications that can continue: {}\n"
ED25519 = "/home/ana/.ssh/id_ed25519 ED25519 SHA256:abc explicit"
OFFERED = f"debug1: Offering public key: {ED25519}\n"
TAKEN = f"{OFFERED}debug1: Server accepts key: {ED25519}\n"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("ssh: connect to host 10.0.0.12 port 22: No route to host", "no route to host (port 22)"),
        ("ssh: connect to host 10.0.0.12 port 22: Connection refused\r", "connection refused (port 22)"),
        (
            "ssh: Could not resolve hostname gpu01: nodename nor servname provided, or not known",
            "no such host name: gpu01",
        ),
        (
            "ssh: Could not resolve hostname gpu01: Temporary failure in name resolution",
            "no such host name: gpu01",
        ),
        (
            GREETED + "Unable to negotiate with 10.0.0.12 port 22: no matching host key type found. "
            "Their offer: ssh-rsa,ssh-dss",
            "its sshd (OpenSSH_5.3) and ssh have no algorithm in common: no matching host key type found. "
            "Their offer: ssh-rsa,ssh-dss. See KexAlgorithms, HostKeyAlgorithms, Ciphers and MACs in "
            "ssh_config(5)",
        ),
        (
            GREETED + "Connection closed by 10.0.0.12 port 22",
            "the connection went while it was opened (Connection closed by 10.0.0.12 port 22)",
        ),
        (
            "command-line: line 0: Bad configuration option: x",
            "ssh: command-line: line 0: Bad configuration option: x",
        ),
        ("", "ssh: it said nothing"),
    ],
)
def test_a_connection_that_does_not_come_about(log: str, said: str) -> None:
    assert str(explain(Said(log), "gpu01", ROUTE, Limit(10), proxied=False)) == f"gpu01: {said}"


@pytest.mark.parametrize(
    "end",
    [
        "kex_exchange_identification: Connection closed by remote host",
        "banner exchange: Connection to UNKNOWN port 65535: Broken pipe",
    ],
)
def test_what_a_proxy_command_said_and_not_what_ssh_says_of_its_end(end: str) -> None:
    log = f"sh: 1: exec: no-such-program: not found\n{end}\r\nConnection closed by UNKNOWN port 65535\r\n"
    told = str(explain(Said(log), "gpu01", ROUTE, Limit(10), proxied=True))
    assert told == "gpu01: its ProxyCommand ended: sh: 1: exec: no-such-program: not found"


@pytest.mark.parametrize(
    ("log", "proxied", "said"),
    [
        ("", False, "connection timed out after 0 s"),
        (UP, False, "no SSH answer within 0 s (port 22 takes the connection)"),
        ("", True, "no SSH answer within 0 s (its ProxyCommand runs)"),
        (ASKED.format("publickey"), False, "no answer to the login within 0 s"),
    ],
)
def test_a_deadline_is_told_by_how_far_it_came(log: str, proxied: bool, said: str) -> None:
    assert str(explain(Said(log), "gpu01", ROUTE, Limit(0), proxied=proxied)) == f"gpu01: {said}"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            ASKED.format("publickey") + OFFERED,
            " (tried keys: /home/ana/.ssh/id_ed25519). Put the public key into ~/.ssh/authorized_keys there",
        ),
        (
            ASKED.format("publickey") + OFFERED.replace("explicit", "agent"),
            " (tried keys: /home/ana/.ssh/id_ed25519 (agent)). Put the public key into "
            "~/.ssh/authorized_keys there",
        ),
        (ASKED.format("publickey"), " (tried keys: none)"),
        (
            ASKED.format("publickey,keyboard-interactive"),
            " (tried keys: none). Log in once by hand, and orch goes on with that: orch login gpu01",
        ),
        (
            ASKED.format("publickey") + TAKEN + 'Authenticated using "publickey" with partial success.\n'
            "debug1: Authentications that can continue: keyboard-interactive\n",
            ": the key is right, but it also wants keyboard-interactive (tried keys: "
            "/home/ana/.ssh/id_ed25519). Log in once by hand, and orch goes on with that: orch login gpu01",
        ),
        (
            ASKED.format("password,gssapi-with-mic"),
            ": it takes no keys, only password, gssapi-with-mic (tried keys: none). Log in once by hand, and "
            "orch goes on with that: orch login gpu01",
        ),
        (
            ASKED.format("publickey") + TAKEN,
            " (tried keys: none; /home/ana/.ssh/id_ed25519 needs a passphrase and no agent has it)",
        ),
        (
            ASKED.format("publickey") + TAKEN + 'Load key "/home/ana/.ssh/id_ed25519": error in libcrypto\n',
            " (tried keys: none; /home/ana/.ssh/id_ed25519 can't be used (error in libcrypto))",
        ),
        (
            ASKED.format("publickey")
            + OFFERED * 2
            + "Received disconnect from 10.0.0.12 port 22:2: Too many authentication failures\n",
            ": the host hung up after 2 keys (MaxAuthTries); name the right one with "
            "ansible_ssh_private_key_file, or IdentityFile and IdentitiesOnly yes (tried keys: "
            "/home/ana/.ssh/id_ed25519, /home/ana/.ssh/id_ed25519)",
        ),
    ],
)
def test_a_login_that_is_refused(log: str, said: str) -> None:
    assert is_login(Said(log))
    assert str(explain_login(Said(log), "gpu01", "ana")) == f"gpu01: login refused for ana@gpu01{said}"


def test_a_jump_that_is_named_with_its_user_is_not_given_two() -> None:
    refused = str(explain_login(Said(ASKED.format("publickey")), "ana@bastion", "ana"))
    assert refused.startswith("ana@bastion: login refused for ana@bastion")


@pytest.mark.parametrize(
    "line",
    [
        "kex_exchange_identification: Connection closed by remote host",
        "kex_exchange_identification: read: Connection reset by peer",
        "ssh_exchange_identification: Connection closed by remote host",  # before OpenSSH 8.2
    ],
)
def test_a_server_that_drops_us_before_it_greets_may_be_full(line: str) -> None:
    assert is_dropped(Said(UP + line))
    assert not is_dropped(Said(GREETED + line))


def test_the_key_that_logged_in() -> None:
    log = (
        ASKED.format("publickey") + TAKEN + 'Authenticated to 10.0.0.12 ([10.0.0.12]:22) using "publickey".\n'
    )
    key = Said(log).accepted
    assert key
    assert (key.path, key.fingerprint, key.agent) == ("/home/ana/.ssh/id_ed25519", "SHA256:abc", False)
    assert Said(log.replace('"publickey"', '"keyboard-interactive"')).accepted is None
    assert Said(ASKED.format("publickey") + TAKEN).accepted is None


def test_the_key_that_a_host_showed() -> None:
    said = Said("debug1: Server host key: ssh-ed25519 SHA256:xyz\nHost key verification failed.\n")
    assert is_host_key(said)
    assert said.host_key
    assert (said.host_key.name, said.host_key.fingerprint) == ("ed25519", "SHA256:xyz")
