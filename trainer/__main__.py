"""`python -m trainer`: flags first, then the data, and TensorFlow only when both are good."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn, Sequence

from . import arguments
from .errors import TrainerError
from .stopping import Stop

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trainer and return its exit status; what a person can mend ends as one line on stderr."""
    options = arguments.parse(argv)
    stop = Stop()
    stop.listen()
    try:
        from . import cluster, dataset, strategy

        who = cluster.read(os.environ)
        strategy.before_tensorflow(who)
        data = dataset.load(options)
        os.environ.setdefault(
            "TF_CPP_MIN_LOG_LEVEL", "2"
        )  # TensorFlow's notes about itself; 0 brings them back
        from .train import train

        train(options, data, who, stop)
    except TrainerError as error:
        return fail(str(error), error.status)
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "tensorflow"):
            raise
        return fail(f"{error.name} is not installed for {sys.executable} (pip install tensorflow)", 1)
    except OSError as error:
        return fail(f"{error.filename or 'output'}: {error.strerror}", 1)
    except KeyboardInterrupt:
        return fail("interrupted", INTERRUPTED)
    except SystemExit as end:  # by SIGTERM
        return int(end.code or 0)
    return 0


def fail(message: str, status: int) -> int:
    """Say why there is no model."""
    print(f"trainer: {message}", file=sys.stderr, flush=True)
    return status


def status_of(argv: Sequence[str] | None = None) -> int:
    """The exit status, also where an error is the trainer's own."""
    try:
        return main(argv)
    except Exception:
        traceback.print_exc()
        return 1


def leave(status: int) -> NoReturn:
    """End here and now: the files are written, and TensorFlow's threads may crash while Python shuts down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    leave(status_of())
