"""Runs at set times: entries in the user's own crontab, and what they do when cron calls them."""
