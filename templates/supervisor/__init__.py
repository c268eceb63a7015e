"""What supervise.py is made of. Python 3.6, standard library only; a launch lays it beside supervise.py."""
