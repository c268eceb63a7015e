"""What a run was and why it ended so, for people: its story, its differences, its archive."""
