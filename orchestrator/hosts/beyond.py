"""What Fabric can't do and the ssh program may: errors after which it is worth another try."""

from __future__ import annotations

from orchestrator.errors import ConfigError, NotPermitted


class NeedsProgram(ConfigError):
    """ssh_config asks for what only the ssh program does."""


class LoginRefused(NotPermitted):
    """None of the keys that could be tried opens the door; a Kerberos ticket may."""
