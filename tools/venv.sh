#!/bin/sh
# Install $1 (`.` or `.[dev]`) into .venv, which is made with $PYTHON or the first Python >= 3.10 that works.
# Debian's python3 comes without pip and ensurepip: pip is then taken from the system, else from PyPI.
set -eu
fits() { "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

choose() {
    for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
        if fits "$python"; then
            echo "$python"
            return
        fi
    done
    echo "orch needs Python 3.10 or newer; ${PYTHON:-python3} is not. Name one: make PYTHON=/path/to/python3.12 ..." >&2
    return 1
}

fetch_pip() {
    "$1" - "$2" <<'END'
import hashlib, json, sys, urllib.parse, urllib.request

page = "https://pypi.org/pypi/pip/json"
with urllib.request.urlopen(page, timeout=60) as answer:
    wheel = next(f for f in json.load(answer)["urls"] if f["packagetype"] == "bdist_wheel")
with urllib.request.urlopen(urllib.parse.urljoin(page, wheel["url"]), timeout=60) as answer:
    data = answer.read()
if hashlib.sha256(data).hexdigest() != wheel["digests"]["sha256"]:
    sys.exit("pip came damaged from PyPI: try again")
with open(sys.argv[1], "wb") as file:
    file.write(data)
END
}

make_venv() {
    python=$(choose)
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv --clear .venv
        return
    fi
    "$python" -m venv --clear --without-pip .venv
    if "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m pip --python .venv/bin/python install -q pip && return
    fi
    fetch_pip "$python" .venv/pip.whl && .venv/bin/python .venv/pip.whl/pip install -qI pip && rm .venv/pip.whl && return
    echo "no pip here and none from PyPI: install python3-venv (apt-get install python3-venv) and try again" >&2
    return 1
}

fits .venv/bin/python && .venv/bin/python -c 'import pip' 2>/dev/null || make_venv
echo "installing $1 into .venv" >&2
PYTHONWARNINGS=ignore .venv/bin/python -m pip install -q --disable-pip-version-check -e "$1"
