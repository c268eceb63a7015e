"""Runs one training command and records on the host, truthfully, how it goes and how it ended.

Started by a launch as

    nohup setsid flock -w 10 LOCK python3 supervise.py --person P --run ID -- CMD >> LOG 2>&1 < /dev/null

in the worker's `work/` folder or below. Python 3.6, standard library only. The worker's folder
(ORCH_WORKER_DIR) holds:

    launch.json   env values, boot id, container id, grace and timeout; 0600, removed as soon as it is read;
                  of a run with restarts at its end
    state.json    what is true now, one line, replaced atomically
    stop.json     who asked for the end, and why; written by `orch stop` before it signals
    sizes         how large the log was when, a line `SECONDS BYTES` for each heartbeat at which it had grown
    end.json      what the host looked like at the end; written before the last state
    training.log  where stdout and stderr go

The command inherits the lock, so that the lock is held for as long as anything of the run lives.
"""

import os
import sys

sys.dont_write_bytecode = True  # the worker's folder is for people to look into

from supervisor.training import Supervisor  # noqa: E402


def main(words):
    split = words.index("--")
    options, command = words[:split], words[split + 1 :]
    named = dict(zip(options[::2], options[1::2]))
    folder = os.environ.pop("ORCH_WORKER_DIR")
    if not os.path.exists(os.path.join(folder, "launch.json")):
        sys.exit("orch: this launch was given up")
    supervisor = Supervisor(named["--person"], named["--run"], command, folder)
    sys.exit(supervisor.supervise())


if __name__ == "__main__":
    main(sys.argv[1:])
