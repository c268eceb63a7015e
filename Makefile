# Two commands: `make demo` shows the whole path on this machine, `make test` proves it. See CONTRIBUTING.md.

PYTHON ?=
BIN := .venv/bin
# What the tests and the fleet use of Debian's.
PACKAGES := docker.io openssh-server openssh-client rsync iptables iproute2 procps debootstrap bindfs cron git fish zsh tcsh busybox tmux libpam-oath oathtool softhsm2 opensc gcc libssl-dev krb5-kdc krb5-admin-server krb5-user \
    podman uidmap slirp4netns crun catatonit rootlesskit sudo

.PHONY: demo test lint venv packages fleet fleet-down bench clean

demo: .venv/ready
	@$(BIN)/orch demo

test: .venv/ready-dev packages
	@tools/rings.sh

lint: .venv/ready-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

venv: .venv/ready-dev

.venv/ready: setup.cfg pyproject.toml tools/venv.sh
	@PYTHON='$(PYTHON)' tools/venv.sh .
	@touch $@

.venv/ready-dev: .venv/ready
	@PYTHON='$(PYTHON)' tools/venv.sh '.[dev]'
	@touch $@

packages:
	@tools/packages.sh $(PACKAGES)

fleet: .venv/ready packages
	@$(BIN)/python -m tests.fleet.lab up

fleet-down:
	@python3 -m tests.fleet.lab down

bench: .venv/ready-dev packages
	@tools/packages.sh pdsh
	@set -e; for file in bench/*.py; do [ ! -e "$$file" ] || { echo "== $$file"; $(BIN)/python "$$file"; }; done

clean:
	rm -rf .venv build dist *.egg-info .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
