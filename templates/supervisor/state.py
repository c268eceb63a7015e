"""state.json: replaced as a whole, fsynced, and still writable when the disk is full."""

import errno
import json
import os

from supervisor.files import fill, remove

SPARE = 16384  # bytes kept for the last word about a run on a full disk


class State:
    """What is true now. Two spare files keep the blocks that a full disk would not give."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "state.json")
        self.spares = [os.path.join(folder, ".state.spare{}".format(n)) for n in (1, 2)]
        self.fields = {}
        self._keep_spares()

    def _keep_spares(self):
        for spare in self.spares:
            if os.path.exists(spare):
                continue
            try:
                fill(spare, "wb", b" " * SPARE)
            except OSError:
                remove(spare)  # half a spare is none; the next write says it louder

    def write(self, leave=1, **fields):
        """Write the fields; on a full disk into a spare, of which at least `leave` must be left after it."""
        self.fields.update(fields)
        line = (json.dumps(self.fields) + "\n").encode("utf-8")
        part = self.path + ".part"
        try:
            fill(part, "wb", line)
        except OSError as error:
            remove(part)
            there = [spare for spare in self.spares if os.path.exists(spare)]
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or len(there) <= leave:
                raise
            # The spare's blocks are ours already: written in place, and JSON does not mind the blanks.
            part = there[0]
            fill(part, "r+b", line.rstrip(b"\n").ljust(SPARE - 1) + b"\n")
        os.rename(part, self.path)
        self._keep_spares()
