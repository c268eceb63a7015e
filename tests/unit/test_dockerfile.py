"""Instructions with their lines, and where builders say that a build failed."""

from __future__ import annotations

import pytest

from orchestrator.container.image.dockerfile import failure, instructions, wrong_from
from orchestrator.container.image.steps import Steps

TEXT = """\
# escape=\\
ARG BASE=debian:12
FROM $BASE AS made

RUN echo one \\
    # a comment

 && echo two
RUN <<EOF
FROM nowhere
EOF
FROM reg.lab/tf:1
COPY --from=made /x /x
RUN  pip install   nothing
"""


def test_instructions_have_the_lines_that_they_begin_on() -> None:
    assert [(i.line, i.keyword) for i in instructions(TEXT)] == [
        (2, "ARG"), (3, "FROM"), (5, "RUN"), (9, "RUN"), (12, "FROM"), (13, "COPY"), (14, "RUN"),
    ]  # fmt: skip
    assert instructions(TEXT)[2].shown == "RUN echo one && echo two"
    assert [i.line for i in instructions("# escape=`\nFROM x\nRUN a `\n b\nRUN c \\\n")] == [2, 3, 5]
    assert [i.line for i in instructions("FROM x\nRUN a \\")] == [1, 2]


CLASSIC = "Step 1/7 : ARG BASE\n ---> 1\nStep {n}/7 : x\n{last}\n"
BUILDKIT = (
    "#1 [internal] load remote build context\n#9 ERROR: x\n------\n > [{stage}] {text}:\n------\n{last}\n"
)
DAEMON = "Error response from daemon: "
EXECUTOR = "executor failed running [/bin/sh -c pip]: exit code: 2"
COMPUTE = 'failed to compute cache key: "/x" not found: not found'
SOLVE = "failed to solve with frontend dockerfile.v0: failed to create LLB definition: "


@pytest.mark.parametrize(
    ("log", "line", "why", "image"),
    [
        (
            CLASSIC.format(n=7, last="The command '/bin/sh -c pip' returned a non-zero code: 1"),
            14, "RUN pip install nothing ended with status 1", None,
        ),
        (
            BUILDKIT.format(stage="stage-1 3/3", text="RUN  pip install   nothing", last=EXECUTOR),
            14, "RUN pip install nothing ended with status 2", None,
        ),
        (  # BuildKit from 0.9 on, with the source
            "------\n > [made 2/3] RUN echo one     && echo two:\n------\nDockerfile:5\n-----\n"
            'ERROR: failed to solve: process "/bin/sh -c x" did not complete successfully: exit code: 127\n',
            5, "RUN echo one && echo two ended with status 127", None,
        ),
        (
            "[2/2] STEP 3/3: RUN  pip install   nothing\nError: building at STEP "
            '"RUN pip install nothing": while running runtime: exit status 1\n',
            14, "RUN pip install nothing ended with status 1", None,
        ),
        (f"{DAEMON}dockerfile parse error line 3: unknown instruction: F", 3, "unknown instruction: F", None),
        (f"{SOLVE}dockerfile parse error on line 3: Unknown flag: bogus", 3, "Unknown flag: bogus", None),
        (
            CLASSIC.format(n=6, last="COPY failed: stat x: file does not exist"),
            13, "COPY failed: stat x: file does not exist", None,
        ),
        (
            BUILDKIT.format(stage="stage-1 2/3", text="COPY --from=made /x /x", last=COMPUTE),
            13, 'COPY --from=made /x /x: "/x" not found: not found', None,
        ),
        (
            CLASSIC.format(n=5, last="manifest for reg.lab/tf:1 not found: manifest unknown"),
            12, "FROM reg.lab/tf:1: manifest for reg.lab/tf:1 not found: manifest unknown", "reg.lab/tf:1",
        ),
        (
            f"------\n > [internal] load metadata for reg.lab/tf:1:\n------\n{SOLVE}reg.lab/tf:1: not found",
            12, "FROM reg.lab/tf:1: reg.lab/tf:1: not found", "reg.lab/tf:1",
        ),
        (
            'STEP 6/7: COPY x\nError: building at STEP "COPY $X /x": copier: stat: "/x": no such file\n',
            13, 'COPY --from=made /x /x: copier: stat: "/x": no such file', None,
        ),
        (
            "STEP 7/7: RAN\nError: building at STEP \"RAN \": Build error: Unknown instruction: \"RAN\" "
            "&imagebuilder.Step{Env:[]string{\"PATH=x\"}}\n",
            14, 'RUN pip install nothing: Unknown instruction: "RAN"', None,
        ),
        ("the moon is full\n", None, "the moon is full", None),
        ("", None, "the build gave no reason", None),
    ],
)  # fmt: skip
def test_a_failure_is_found_in_the_file(log: str, line: int | None, why: str, image: str | None) -> None:
    found = failure(TEXT, "Dockerfile", log)
    assert (found.line, found.why, found.image) == (line, why, image)


def test_steps_are_heard_from_all_engines() -> None:
    heard = [
        ("Step 2/9 : RUN  sh   apt", "step 2/9  RUN sh apt"),
        (" ---> Using cache", None),
        ("STEP 3/9: COPY a b", "step 3/9  COPY a b"),
        ("[2/2] STEP 1/1: COPY c d", "step 1/1  COPY c d"),
        ("#5 [internal] load metadata for x", None),
        ("#5 [2/3] RUN echo", "step 2/3  RUN echo"),
        ("#5 [2/3] RUN echo", None),
        ("#6 [stage-1 3/3] RUN " + "x" * 200, "step 3/3  RUN " + "x" * 73 + "..."),
        ("#6 0.3 Step 1 of many", None),
        ("0123456789ab: Pulling fs layer", "layer 0 of 1"),
        ("1123456789ab: Already exists", "layer 1 of 2"),
        ("0123456789ab: Pull complete", "layer 2 of 2"),
        ("sending the build context: 1 MB of 2 MB", "sending the build context: 1 MB of 2 MB"),
    ]
    steps = Steps()
    assert [steps.hear(f"  {line}") for line, _ in heard] == [said for _, said in heard]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("FROM\n", 1, "FROM takes an image, or an image AS a name"),
        ("FROM a\nRUN x\nFROM a b\n", 3, "FROM takes an image, or an image AS a name"),
        ("FROM a AS\n", 1, "FROM takes an image, or an image AS a name"),
        ("FROM a IN b\n", 1, "FROM takes an image, or an image AS a name"),
        ("ARG X\nFROM --platform=linux/amd64 Ubuntu:20.04\n", 2, "Ubuntu:20.04 is no image's name"),
        ("FROM a:1:2\n", 1, "a:1:2 is no image's name"),
        ("# nothing\n", 1, "it has no FROM"),
        ("RUN x\nFROM a\n", 1, "FROM has to come before RUN"),
    ],
)
def test_a_from_that_no_builder_takes_is_told_before_anything_is_sent(text: str, line: int, why: str) -> None:
    found = wrong_from(text)
    assert found
    assert found[0] == line
    assert why in found[1]


@pytest.mark.parametrize(
    "image",
    [
        "a", "scratch", "a/b-c__d.e:1.0-X_y", "Reg.lab:5000/tf", "localhost/tf:1",
        "nvcr.io/nvidia/tf:22.04-tf2-py3",
        f"reg.lab/tf:1@sha256:{'ab' * 32}", "${BASE}:1", "$BASE",
    ],
)  # fmt: skip
def test_a_from_that_builders_take_is_none_of_ours(image: str) -> None:
    assert wrong_from(f"ARG BASE=x\nFROM --platform=$P {image} AS Made\nFROM MADE\nfrom made as x\n") is None
