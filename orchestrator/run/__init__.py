"""One training command on one or more hosts: bundle, launch, record, status."""
