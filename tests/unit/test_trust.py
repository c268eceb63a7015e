"""Which host keys are taken, and what is said of those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import NotPermitted
from orchestrator.hosts.known_hosts import PublicKey, parse
from orchestrator.hosts.ssh_config import Route
from orchestrator.hosts.trust import KnownHosts, Pinned, Prompt, policy_of
from tests.unit.test_known_hosts import A, B, key

ECDSA = key(3, "ecdsa-sha2-nistp256")


class Asked:
    """A person who gives one answer, and what was asked."""

    def __init__(self, answer: bool) -> None:
        self.answer, self.questions = answer, list[str]()

    def __call__(self, question: str) -> bool:
        self.questions.append(question)
        return self.answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def check(
    file: Path,
    key: PublicKey,
    *,
    policy: str = "ask",
    prompt: Prompt | None = None,
    port: int = 22,
    alias: str | None = None,
    hash_names: bool = False,
) -> None:
    trust = KnownHosts("gpu01", route(file, port, alias, hash_names), policy, prompt)
    trust.check(key)


def route(file: Path, port: int = 22, alias: str | None = None, hash_names: bool = False) -> Route:
    return Route(
        "gpu01",
        "gpu01.lab",
        port,
        "ana",
        key_alias=alias,
        user_known_hosts=(str(file),),
        hash_names=hash_names,
    )


def test_a_known_key_is_taken(file: Path) -> None:
    file.write_text(f"gpu01.lab {A.text}\n")
    check(file, A, policy="strict")
    assert file.read_text() == f"gpu01.lab {A.text}\n"


def test_one_of_several_known_keys_is_enough(file: Path) -> None:
    file.write_text(f"gpu01.lab {ECDSA.text}\ngpu01.lab {A.text}\ngpu01.lab {B.text}\n")
    check(file, A, policy="strict")
    trust = KnownHosts("gpu01", route(file), "strict", None)
    assert trust.kinds() == ["ecdsa-sha2-nistp256", "ssh-ed25519", "ssh-ed25519"]


@pytest.mark.parametrize("policy", ["ask", "strict"])
def test_an_unknown_key_is_refused_where_nobody_can_be_asked(file: Path, policy: str) -> None:
    with pytest.raises(NotPermitted) as caught:
        check(file, A, policy=policy, port=2222)
    assert caught.value.exit_code == 77
    assert str(caught.value) == (
        f"gpu01: its host key is unknown (ed25519 {A.fingerprint}). Compare it and log in once with: "
        "ssh -p 2222 ana@gpu01, or set host_key_policy = accept-new"
    )
    assert not file.exists()


def test_strict_asks_nobody(file: Path) -> None:
    person = Asked(True)
    with pytest.raises(NotPermitted):
        check(file, A, policy="strict", prompt=person)
    assert person.questions == []


def test_a_person_says_yes_and_is_asked_once(file: Path) -> None:
    person = Asked(True)
    check(file, A, prompt=person, port=2222)
    check(file, A, prompt=person, port=2222)
    assert len(person.questions) == 1
    assert A.fingerprint in person.questions[0]
    assert file.read_text() == f"[gpu01.lab]:2222 {A.text}\n"


def test_a_person_says_no(file: Path) -> None:
    with pytest.raises(NotPermitted, match="unknown"):
        check(file, A, prompt=Asked(False))
    assert not file.exists()


def test_accept_new_adds_it_as_ssh_would(file: Path) -> None:
    check(file, A, policy="accept-new", hash_names=True)
    assert file.read_text().startswith("|1|")
    check(file, A, policy="strict")


@pytest.mark.parametrize("policy", ["ask", "strict", "accept-new"])
@pytest.mark.parametrize("shown", [B, ECDSA], ids=["same type", "another type"])
def test_a_changed_key_is_always_refused(file: Path, policy: str, shown: PublicKey) -> None:
    file.write_text(f"# lab\ngpu01.lab {A.text}\n")
    person = Asked(True)
    with pytest.raises(NotPermitted) as caught:
        check(file, shown, policy=policy, prompt=person)
    said = str(caught.value)
    assert f"{file}:2 has ed25519 {A.fingerprint}" in said
    assert shown.fingerprint in said
    assert f"ssh-keygen -R 'gpu01.lab' -f {file}" in said
    assert person.questions == []
    assert len(parse(file.read_text(), "")) == 1


def test_a_key_known_without_the_port_is_taken_and_another_is_new(file: Path) -> None:
    file.write_text(f"gpu01.lab {A.text}\n")
    check(file, A, policy="strict", port=2222)
    with pytest.raises(NotPermitted, match="unknown"):
        check(file, B, policy="strict", port=2222)


def test_an_alias_is_the_only_name(file: Path) -> None:
    file.write_text(f"gpu01.lab {A.text}\nthe-gpu {B.text}\n")
    check(file, B, policy="strict", alias="the-gpu", port=2222)
    with pytest.raises(NotPermitted, match="CHANGED"):
        check(file, A, policy="strict", alias="the-gpu")


def test_a_revoked_key_is_refused_although_it_is_known(file: Path) -> None:
    file.write_text(f"gpu01.lab {A.text}\n@revoked * {A.text}\n")
    with pytest.raises(NotPermitted, match=f"its host key is revoked \\({file}:2\\)"):
        check(file, A, policy="accept-new")


def test_trust_by_certificate_is_named_as_what_fabric_cant_check(file: Path) -> None:
    file.write_text(f"@cert-authority *.lab {B.text}\n")
    with pytest.raises(
        NotPermitted, match=f"{file}:1 trusts it by a certificate, which transport = fabric can't check"
    ):
        check(file, A, policy="accept-new")
    file.write_text(f"@cert-authority *.lab {B.text}\ngpu01.lab {A.text}\n")
    check(file, A)


def test_a_pinned_key_is_the_only_one() -> None:
    pinned = Pinned("gpu01", (f"{A.text} orch", B.text, "no key", "ssh-rsa ????"))
    pinned.check(A)
    pinned.check(B)
    assert pinned.kinds() == ["ssh-ed25519", "ssh-ed25519"]
    with pytest.raises(NotPermitted, match="not the one that orch made"):
        pinned.check(ECDSA)


@pytest.mark.parametrize(
    ("is_set", "strict", "policy"),
    [
        (True, "no", "ask"),
        (False, "yes", "strict"),
        (False, "accept-new", "accept-new"),
        (False, "no", "accept-new"),
        (False, "ask", "ask"),
    ],
)
def test_the_inventory_wins_over_ssh_config(is_set: bool, strict: str, policy: str) -> None:
    assert policy_of("ask", is_set, Route("x", "x", 22, "ana", strict=strict)) == policy
