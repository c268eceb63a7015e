"""What orch must know of a team's Dockerfile: its instructions with their lines, and where a build failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    """One instruction: the line that it begins on, and its text with continued lines joined."""

    line: int
    text: str

    @property
    def keyword(self) -> str:
        """`FROM`, `RUN`, ..., in capitals."""
        return self.text.split(None, 1)[0].upper()

    @property
    def shown(self) -> str:
        """The text in one short line."""
        plain = " ".join(self.text.split())
        return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 3] + "..."


_SHOWN = 80


def instructions(text: str) -> tuple[Instruction, ...]:
    """Part a Dockerfile into its instructions; what a here-document holds belongs to its instruction."""
    return tuple(_instructions(text.removeprefix("\ufeff").splitlines()))


def _instructions(lines: Sequence[str]) -> Iterator[Instruction]:
    escape, at = _escape(lines), 0
    while at < len(lines):
        begin, text, going_on = at, "", True
        while going_on and at < len(lines):
            line, at = lines[at], at + 1
            if not line.strip() or line.lstrip().startswith("#"):  # these end no instruction
                begin = begin if text else at
                continue
            piece, going_on = _joined(line, escape)
            text += piece
        if text.strip():
            at = _behind_documents(text, lines, at)
            yield Instruction(begin + 1, text.strip())


def _escape(lines: Sequence[str]) -> str:
    """Return the character that joins lines: the directives at the top may set another."""
    for line in lines:
        directive = re.match(r"#\s*(\w+)\s*=\s*(\S+)\s*\Z", line.strip())
        if not directive:
            break
        if directive.group(1).lower() == "escape":
            return directive.group(2)
    return "\\"


def _joined(line: str, escape: str) -> tuple[str, bool]:
    bare = line.rstrip()
    return (bare[: -len(escape)], True) if bare.endswith(escape) else (line, False)


def _behind_documents(text: str, lines: Sequence[str], at: int) -> int:
    """Return the line behind the here-documents that an instruction names."""
    if text.split(None, 1)[0].upper() not in ("RUN", "COPY", "ADD"):
        return at
    for end in re.findall(r"(?<!<)<<-?[\"']?([A-Za-z_]\w*)[\"']?", text):
        ends = (n for n, line in enumerate(lines[at:], at + 1) if line.strip() == end)
        at = next(ends, at)
    return at


_NAME = re.compile(
    r"([a-zA-Z0-9][a-zA-Z0-9.-]*(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]{0,127})?(@\w+:[0-9a-fA-F]{32,})?"
)
"""An image's name (https://pkg.go.dev/github.com/distribution/reference), a little more freely."""


def wrong_from(text: str) -> tuple[int, str] | None:
    """Return line and reason where a Dockerfile has no FROM at its begin, or one that no builder takes."""
    wrong = _wrong_start(text)
    stages: set[str] = set()
    for line in instructions(text) if not wrong else ():
        if line.keyword == "FROM":
            words = [word for word in line.text.split()[1:] if not word.startswith("--")]
            named = words[2:] if [word.upper() for word in words[1:2]] == ["AS"] else []
            why = _why_wrong(words, named, stages)
            if why:
                return line.line, f"{line.shown}: {why}"
            stages.update(name.lower() for name in named)
    return wrong


def _why_wrong(words: Sequence[str], named: Sequence[str], stages: set[str]) -> str:
    if len(words) != 1 and not (len(words) == 3 and named):
        return "FROM takes an image, or an image AS a name"
    free = "$" in words[0] or words[0].lower() in stages  # what a variable holds, the builder knows
    return "" if free or _NAME.fullmatch(words[0]) else f"{words[0]} is no image's name"


def _wrong_start(text: str) -> tuple[int, str] | None:
    found = [i for i in instructions(text) if i.keyword != "ARG"]
    if not found:
        return 1, "it has no FROM: it names no image to build on"
    first = found[0]
    if first.keyword != "FROM":
        return first.line, f"FROM has to come before {first.keyword}"
    return None


@dataclass(frozen=True)
class Failure:
    """Where a build failed (None: the engine does not say), and why in few words."""

    line: int | None
    why: str
    image: str | None = None  # that could not be had: FROM failed


_STATUS = re.compile(r"returned a non-zero code: (\d+)|exit (?:code|status):? (\d+)", re.IGNORECASE)
_PARSE = re.compile(r"dockerfile parse error (?:on )?line (\d+): (.+)", re.IGNORECASE)
_STEP = re.compile(r"^step (\d+)/\d+ ?: ", re.IGNORECASE | re.MULTILINE)  # classic builder, podman
_AT = re.compile(r'building at STEP "(.+?)": ')  # podman
_STAGE = re.compile(r"^ > \[[^\]]*\d+/\d+\] (.+):$", re.MULTILINE)  # BuildKit
_METADATA = re.compile(r"^ > \[internal\] load metadata for (\S+):$", re.MULTILINE)
_PREFIX = re.compile(
    r"\A(ERROR: |Error response from daemon: |Error: building at STEP \".+?\": |Build error: |"
    r"(failed to|executor failed) [^:]*: )+"
)


def failure(text: str, name: str, log: str) -> Failure:
    """Find a failed build's place in the Dockerfile `name` by what the builder said.

    The classic builder counts all instructions; podman names the instruction, and BuildKit too, from 0.9 on
    with its line.
    """
    parse = _PARSE.search(log)
    if parse:
        return Failure(int(parse.group(1)), parse.group(2).strip())
    failed = _failed(text, name, log)
    status = _STATUS.findall(log)
    if failed and status:
        return Failure(failed.line, f"{failed.shown} ended with status {''.join(status[-1])}")
    lines = [line for line in log.splitlines() if line.strip()] or ["the build gave no reason"]
    why = _PREFIX.sub("", lines[-1]).partition(" &imagebuilder.Step{")[0]  # podman shows its own inside
    if not failed:
        return Failure(None, why)
    image = _image(failed) if failed.keyword == "FROM" else None
    return Failure(failed.line, why if why.startswith(failed.keyword) else f"{failed.shown}: {why}", image)


def _failed(text: str, name: str, log: str) -> Instruction | None:
    known = instructions(text)
    told = re.findall(rf"^{re.escape(name)}:(\d+)$", log, re.MULTILINE)
    steps, stages = _STEP.findall(log), [*_AT.findall(log), *_STAGE.findall(log)]
    if told:
        return next((i for i in reversed(known) if i.line <= int(told[-1])), None)
    named = next((i for i in known if stages and i.text.split() == stages[-1].split()), None)
    if named or (stages and not steps):
        return named
    if steps:
        return known[int(steps[-1]) - 1] if int(steps[-1]) <= len(known) else None
    asked = _METADATA.findall(log)
    froms = [i for i in known if i.keyword == "FROM"]
    return next((i for i in froms if asked and f"/{asked[-1]}".endswith(f"/{_image(i)}")), None)


def _image(instruction: Instruction) -> str:
    """Return what a FROM names, behind its options."""
    words = [word for word in instruction.text.split()[1:] if not word.startswith("--")]
    return words[0] if words else ""
