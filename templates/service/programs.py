"""The programs that are served: their commands, and what counts as a use of them besides a connection."""

import http.client
import importlib.util
import json
import os
import secrets
import sys

WORKER = os.path.dirname(os.path.abspath(os.environ.get("ORCH_PROGRESS") or "progress.jsonl"))
RUNS = os.path.dirname(os.environ.get("ORCH_RUN_DIR") or os.path.dirname(WORKER))

# A module as a program, without the working directory on its path: there may be a random.py.
_MODULE = (
    "import runpy, sys; sys.path.pop(0); sys.argv.pop(0); "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def first_of(*names):
    """Return the first of these modules that is installed."""
    return next((name for name in names if importlib.util.find_spec(name)), None)


class Program:
    """What is common: a module, words for its command line, where it runs, its environment."""

    folder = "."

    def command(self, port):
        return [sys.executable, "-c", _MODULE, self.module] + self.words(port)

    def environment(self):
        return dict(os.environ)

    def busy(self, ask):
        """Whether it works although nobody looks; `ask(request, headers)` returns an answer's text."""
        return False


class TensorBoard(Program):
    """Over a folder of links, one for each run, that names them."""

    name = "TensorBoard"

    def __init__(self, asked):
        self.module = "tensorboard.main" if first_of("tensorboard") else None
        self.links = os.path.abspath("runs")
        os.makedirs(self.links, exist_ok=True)
        for pair in asked.show:
            name, _, worker = pair.partition("=")
            os.symlink(os.path.join(RUNS, worker, "work"), os.path.join(self.links, name))

    def words(self, port):
        return ["--logdir", self.links, "--host", "127.0.0.1", "--port", str(port), "--reload_interval", "5"]


class Jupyter(Program):
    """JupyterLab, else the classic notebook. Its token is in a file, and on no command line."""

    name = "Jupyter"

    def __init__(self, asked):
        self.module = first_of("jupyterlab", "notebook")
        self.folder = asked.folder
        self.token = secrets.token_hex(24)
        self.path = os.path.join(WORKER, "token")
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.token)

    def words(self, port):
        own = ["--no-browser", "--ip=127.0.0.1", "--port={}".format(port), "--port-retries=0"]
        own.append("--notebook-dir={}".format(os.path.abspath(self.folder)))
        return own + (["--allow-root"] if os.getuid() == 0 else [])

    def environment(self):
        env = {name: value for name, value in os.environ.items() if name != "JUPYTER_TOKEN"}
        env["JUPYTER_TOKEN_FILE"] = self.path
        return env

    def busy(self, ask):
        """A notebook that computes is in use, whoever looks at it."""
        try:
            kernels = json.loads(ask("/api/kernels", {"Authorization": "token " + self.token}))
            return any(kernel.get("execution_state") == "busy" for kernel in kernels)
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            return False


KINDS = {"tensorboard": TensorBoard, "jupyter": Jupyter}
