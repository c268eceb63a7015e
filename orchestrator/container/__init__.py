"""The SSH-enabled container of one project of one person on one host."""
