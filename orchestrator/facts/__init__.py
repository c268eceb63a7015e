"""Questions to a host: each is one shell script and one pure parser."""
