"""Gives shells that come by ssh the environment that `docker exec` has: exact values, from one place.

    shell-env HOME GID    (as root, with the container's environment)

sshd reads ~/.ssh/environment (it takes no line ends in values); login shells read /etc/profile.d/orch.sh
after /etc/profile, which sets PATH anew on Debian.
"""

import os
import re
import shlex
import sys

OWN = {"HOME", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "TERM", "USER", "LOGNAME", "SHELL", "_"}
OWN.add("PYTHONCOERCECLOCALE")  # 0 for us: else Python adds LC_CTYPE to what it is to pass on
PROFILE = "/etc/profile.d/orch.sh"
START = """case $- in *i*) if [ "$PWD" = "$HOME" ] && [ -d /workspace ]; then cd /workspace; fi ;; esac\n"""


def write(path, text, mode):
    """Write a file that is never readable for more people than in the end."""
    part = path + ".part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(os.fsencode(text))
    os.chmod(part, mode)
    return part


def main(home, gid):
    names = sorted(n for n in os.environ if n not in OWN and re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", n))
    exports = "".join("export %s=%s\n" % (n, shlex.quote(os.environ[n])) for n in names)
    part = write(PROFILE, exports + START, 0o640)
    os.chown(part, 0, int(gid))
    os.rename(part, PROFILE)
    lines = ["%s=%s\n" % (n, os.environ[n]) for n in names if "\n" not in os.environ[n]]
    sys.stdout.buffer.write(os.fsencode("".join(lines)))  # written to the home by its user


main(*sys.argv[1:])
