"""Runs TensorBoard or Jupyter as the command of a run, and ends it when nobody has used it for long.

    python3 serve.py tensorboard [--idle SECONDS] --show NAME=RUN/HOST ...
    python3 serve.py jupyter [--idle SECONDS] --folder FOLDER

Python 3.6, standard library only. It listens on 127.0.0.1 alone, on a port that is free. The worker's
folder gets

    service.json  port and when it was last used, as soon as it answers; replaced atomically
    token         what opens Jupyter; 0600, and nowhere else
"""

import argparse
import sys

import programs
from watching import Watch


def options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(programs.KINDS))
    parser.add_argument("--idle", type=float, default=0)
    parser.add_argument("--show", action="append", default=[])
    parser.add_argument("--folder", default=".")
    return parser.parse_args(words)


def main(words):
    asked = options(words)
    program = programs.KINDS[asked.kind](asked)
    if program.module is None:
        sys.exit("orch: no {} in this environment".format(program.name))
    return Watch(program, asked.idle).serve()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
