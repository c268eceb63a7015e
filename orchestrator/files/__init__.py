"""Files on their way to and from a host: one tar stream each way, each file whole or not visible."""
