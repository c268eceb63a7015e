"""hosts.ini (Ansible's INI grammar) to frozen `Host` values, each setting with where it came from."""

from orchestrator.inventory.host import Host, Settings, Volume

__all__ = ["Host", "Settings", "Volume"]
