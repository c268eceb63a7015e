"""The image of a deploy: what it is built of, its build on a host, and what was built there."""
