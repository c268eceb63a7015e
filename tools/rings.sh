#!/bin/sh
# All tests: the fast rings in parallel with coverage, then those on two real fleets. Their order is
# drawn by chance; `SEED=N make test` draws the same once more.
set -u
status=0
seed=${SEED:-$(date +%s)}
echo "order of the tests: SEED=$seed"
.venv/bin/pytest -q -n auto --dist loadfile --randomly-seed "$seed" --cov --cov-report=term:skip-covered -m 'not fleet' tests || status=$?
.venv/bin/pytest -q -n 2 --dist loadfile --randomly-seed "$seed" -rfE tests/fleet || status=$?
exit $status
