"""How large the log was when."""

import os
import time

SIZES = 4096  # lines of `sizes`; then the older half keeps every other one


class Sizes:
    """How large the log was when: it has no times in it, and somebody may ask for its last ten minutes."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "sizes")
        self.lines = []
        self.last = -1

    def note(self):
        """Write down the size of what stdout is, if that is another than before. Never raises."""
        try:
            size = os.fstat(1).st_size
            if size != self.last:
                self._add("{} {}\n".format(int(time.time()), size))
                self.last = size
        except OSError:
            pass  # a full disk: fewer notes, and so more of the log is shown than was asked for

    def _add(self, line):
        if len(self.lines) < SIZES:
            with open(self.path, "a") as file:
                file.write(line)
            self.lines.append(line)
            return
        lines = self.lines[: SIZES // 2 : 2] + self.lines[SIZES // 2 :] + [line]
        with open(self.path + ".part", "w") as file:
            file.writelines(lines)
        os.rename(self.path + ".part", self.path)
        self.lines = lines
