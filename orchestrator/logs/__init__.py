"""A run's log: followed without losing a byte, shown as lines, and read for its progress."""
