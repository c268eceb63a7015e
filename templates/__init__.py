"""Every script, Dockerfile and config that reaches a host. Ships as `orchestrator.templates`."""
