"""A hidden value is in no text for people, however a script quotes it."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.hosts import masking
from orchestrator.hosts.command import Command, Secret
from orchestrator.hosts.masking import hide, hide_environment, masked, without_tokens
from orchestrator.render import render


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_hidden", set())


@given(st.text(min_size=4).filter(lambda t: t.strip() and set(t) - set("*'\"\\ ")))
def test_no_way_of_quoting_shows_it(value: str) -> None:
    masking._hidden.clear()
    hide(value)
    quoted = shlex.quote(value)
    for text in (
        value,
        json.dumps({"k": value}),
        json.dumps({"k": value}, ensure_ascii=False),
        quoted,
        shlex.quote(json.dumps({"k": value})),
        shlex.quote(f"sh -c {quoted}"),
        shlex.quote(shlex.quote(f"sh -c {quoted}")),
        Command.of("sh", "-c", Secret(value)).shell(),
        render("container/keys.sh.j2", place=value, keys=value, user={"uid": 1, "gid": 1, "name": value}),
    ):
        shown = masked(f"before {text} after")
        assert "***" in shown
        assert value.strip() not in shown.replace("***", "")


def test_what_is_hidden_of_an_environment() -> None:
    hide_environment({"EPOCHS": "100", "PIN_TOKEN": "42", "URL": "postgres://u:p@h", "API_KEY": ""})
    assert masked("100 42 postgres://u:p@h/x") == "100 *** ***/x"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("login with ghp_0123456789abcdefABCD done", "login with *** done"),
        ("hf_0123456789abcdefABCD", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_d", "jwt ***"),
        ("Authorization: Bearer abcdefgh12345678==", "Authorization: Bearer ***"),
        ("https://ana:hunter2@wandb.example/x", "https://ana:***@wandb.example/x"),
        ("WANDB_API_KEY=0123456789", "WANDB_API_KEY=***"),
        ('{"WANDB_API_KEY": "0123456789", "lr": 0.1}', '{"WANDB_API_KEY": "***", "lr": 0.1}'),
        ('"{\\"token\\": \\"0123456789\\"}"', '"{\\"token\\": \\"***\\"}"'),
        ("db_password: hunter22", "db_password: ***"),
        ("PASSPHRASE='two words'", "PASSPHRASE='***'"),
        ('{"n": {"token": 123456}}', '{"n": {"token": ***}}'),
        ("train.py --api-key 0123456789 --lr 0.1", "train.py --api-key *** --lr 0.1"),
        ('["train.py", "--password", "hunter22", "--lr"]', '["train.py", "--password", "***", "--lr"]'),
        ("--token=0123456789", "--token=***"),
        ("a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----\nz", "a\n***\nz"),
        ("-----BEGIN RSA PRIVATE KEY-----\nand cut off", "***"),
    ],
)
def test_what_looks_like_a_secret(text: str, left: str) -> None:
    assert without_tokens(text) == left


@pytest.mark.timeout(100)
@pytest.mark.parametrize("piece", ["x", "-", "key", "a-", "--", "://", "key='", '"token": ', "eyJ-", "\\"])
def test_a_long_line_costs_no_more_than_its_length(piece: str) -> None:
    without_tokens(piece * (500_000 // len(piece)))


@pytest.mark.parametrize(
    "text",
    [
        "Epoch 3/9 - loss: 0.3 - 512 tokens/s",
        "python3 train.py --tokenizer bert-base --keep 5",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "KeyError: 'label'",
        '{"token": null, "key": true}',
        "ssh://gpu01:22/path",
        '{"env": ["WANDB_API_KEY", "TOKEN"], "name": "nightly"}',
    ],
)
def test_what_only_sounds_like_one(text: str) -> None:
    assert without_tokens(text) == text
