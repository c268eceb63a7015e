"""hosts.ini (Ansible's INI grammar) to frozen `Host` values, each setting with where it came from."""

from orchestrator.inventory.find import config_folder, find_files
from orchestrator.inventory.host import Host, Settings, Volume
from orchestrator.inventory.inventory import Inventory, load
from orchestrator.inventory.patterns import Selection

__all__ = ["Host", "Inventory", "Selection", "Settings", "Volume", "config_folder", "find_files", "load"]
