#!/bin/sh
# All tests: the fast rings in parallel with coverage, then those on the real fleet, one after another.
set -u
status=0
.venv/bin/pytest -q -n auto --dist loadfile --cov --cov-report=term:skip-covered -m 'not fleet' tests || status=$?
.venv/bin/pytest -q -n 0 -rfE tests/fleet || status=$?
exit $status
