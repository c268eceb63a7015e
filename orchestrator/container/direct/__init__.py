"""Deploys without a daemon: a venv, an account's own environment, apptainer."""
