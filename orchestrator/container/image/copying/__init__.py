"""An image from one place to others: hosts, this machine, a file."""
