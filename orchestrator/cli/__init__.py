"""The rooms of the command line: one file per verb. The only place that prints."""
