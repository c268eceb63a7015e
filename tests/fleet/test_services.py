"""The real TensorBoard and Jupyter in a real container, and requests through the forward."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.until import until

from .lab import Fleet, Host
from .orch import Orch, make_project
from .serving import way
from .test_gpu_status import show

PROJECT = "seen"
SCALARS = (
    "import tensorflow as tf; w = tf.summary.create_file_writer('logs'); w.set_as_default(); "
    "tf.summary.scalar('loss', {loss}, step=1); w.flush()"
)


@pytest.fixture(scope="module")
def there(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orch]:
    """Somebody whose project is deployed on gpu01, where two runs have written scalars."""
    top = tmp_path_factory.mktemp("seen")
    orch = Orch(fleet, home=top / "home", cwd=make_project(top / PROJECT), account="ana")
    orch("deploy", "--yes", "gpu01")
    for name, loss in (("first", 0.75), ("second", 0.25)):
        words = (
            "--wait",
            "--hosts",
            "gpu01",
            "--name",
            name,
            "--",
            "python3",
            "-c",
            SCALARS.format(loss=loss),
        )
        orch("train", *words)
    yield orch
    gpu01 = fleet["gpu01"]
    gpu01.run(f"docker rm -f orch-ana-{PROJECT}; rm -rf /home/ana/.orch/ana/{PROJECT}")


def scalars(text: str) -> dict[str, list[str]]:
    """The runs that TensorBoard tells of, and their tags; none of what is no answer yet."""
    return {run: sorted(tags) for run, tags in json.loads(text or "{}").items()}


def test_runs_side_by_side_in_the_real_tensorboard(there: Orch, gpu01: Host) -> None:
    with way(there, "tensorboard", "first", "second") as one:
        wanted = {"first/logs": ["loss"], "second/logs": ["loss"]}
        until(lambda: scalars(one.get("data/plugin/scalars/tags")[1]) == wanted, seconds=60)
        run = one.run
        # it is a run as any, which takes no GPU, and not the latest one
        rows = json.loads(there("ps", "--name", "tensorboard", "--json").stdout)["rows"]
        (row,) = (row for row in rows if row["run"] == run)
        assert (row["run"], row["state"], row["kind"], row["gpus"]) == (run, "running", "tensorboard", [])
        assert "last used" in row["progress"]
        assert "succeeded" in there("tail").stderr
        assert run not in there("tail").stderr
        # of the container alone
        assert gpu01.run("grep -c :1770 /proc/net/tcp", check=False).stdout.strip() == "0"
        # a line that drops: the same URL again
        gpu01.run("pkill -KILL -f 'sshd: ana@?[^/]*$'", check=False)
        until(lambda: "connected again" in one.said, seconds=60)
        assert scalars(one.get("data/plugin/scalars/tags")[1]) == wanted
        assert one.leave() == 130
    assert f"orch stop {run}" in one.said
    with way(there, "tensorboard", "second", "first") as again:
        assert (again.run, again.get()[0]) == (run, 200)
        there("stop", run)
        until(lambda: again.process.poll() is not None, seconds=60)
    assert again.process.returncode == 0
    assert "TensorBoard has ended: stopped: by " in again.said


def test_a_service_that_nobody_uses_ends(there: Orch) -> None:
    with way(there, "tensorboard", "first", "--idle", "3") as one:
        run = one.run
        assert one.get()[0] == 200
        assert one.leave() == 130

    def state() -> str:
        rows = json.loads(there("ps", "-a", "--name", "tensorboard", "--json").stdout)["rows"]
        return next(f"{r['state']} {r['cause']}" for r in rows if r["run"] == run)

    until(lambda: state() == "stopped by --idle: nobody used it for 3 s", seconds=120)


def test_the_real_jupyter(there: Orch, gpu01: Host) -> None:
    refused = there("jupyter", "gpu01", code=2)
    assert "no Jupyter in tensorflow/tensorflow:2.9.3. To install it into the home there" in refused.stderr
    with way(there, "jupyter", "gpu01", "--install") as one:
        run = one.run
        until(lambda: "token   gpu01:" in one.said)
        file = one.said.partition("token   gpu01:")[2].splitlines()[0]
        assert gpu01.run(f"stat -c '%a %U' {file}").stdout == "600 ana\n"
        token = gpu01.run(f"cat {file}").stdout
        assert one.get("api/contents")[0] == 403
        gpu01.run(f"echo text > /home/ana/.orch/ana/{PROJECT}/workspace/notes.txt", user="ana")
        status, text = one.get("api/contents", token=token)
        assert (status, [f["name"] for f in json.loads(text)["content"]]) == (200, ["notes.txt"])
        # the token stands nowhere else: on no command line, in no log, in nothing that orch says here
        assert token not in one.said + one.url
        log = gpu01.run(f"cat {file.rpartition('/')[0]}/training.log").stdout
        assert "jupyter" in log.lower()
        assert token not in log + there("why", run).stdout
        told = gpu01.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", check=False).stdout
        assert "jupyterlab" in told
        assert token not in told
        # a notebook that has got hold of a GPU is told as any run
        pid = gpu01.run("pgrep -f [j]upyterlab").stdout.split()[-1]
        show(gpu01, apps=f"GPU-a0, {pid}, python3, 31000\n")
        assert "ana: jupyter" in there("gpu-status", "gpu01").stdout
        assert one.leave() == 130
    with way(there, "jupyter", "gpu01") as again:
        assert again.run == run
        assert again.get("api/contents", token=token)[0] == 200
    there("stop", "jupyter")
    there("exec", "gpu01", "--", "python3", "-c", "import tensorflow")  # what came with it broke nothing
    assert gpu01.run("pgrep -f [j]upyterlab", check=False).stdout == ""
