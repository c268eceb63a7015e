"""The account's own environment: what the setting `activate` does, its Python, and its apptainer."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section


@dataclass(frozen=True)
class OwnReport:
    """What commands of the account find. The question takes `activate`, `own_python` and `engine`."""

    bash: bool = True
    status: int = 0  # of `activate`
    said: str = ""  # by `activate`, where it failed
    python: str | None = None  # path of python3, or of the one that was asked for
    version: tuple[int, ...] = ()  # () where it does not run
    packages: tuple[str, ...] = ()  # name-version of what that Python has; asked for engine host only
    program: str | None = None  # apptainer, or singularity
    release: str = ""  # what its --version prints
    image: str | None = None  # size and time of the image's file; None where there is none


def parse(section: Section) -> OwnReport:
    """Read the answer of `facts/own.sh.j2`."""
    lines = Lines(section.text)
    numbers = lines.text("version").split(".")
    said = [text for text in lines.texts("said") if text.strip()]
    return OwnReport(
        bash=bool(lines.text("bash")),
        status=lines.number("status") or 0,
        said=said[-1].strip() if said else "",
        python=lines.text("python") or None,
        version=tuple(map(int, numbers)) if all(n.isdecimal() for n in numbers) else (),
        packages=tuple(lines.texts("package")),
        program=lines.text("program") or None,
        release=lines.text("release"),
        image=lines.text("image") or None,
    )


OWN: Fact[OwnReport] = Fact("own", "facts/own.sh.j2", parse)
