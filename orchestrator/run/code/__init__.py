"""The user's code: collected here, named by its content, brought to hosts and back."""
