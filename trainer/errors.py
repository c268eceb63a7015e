"""What ends a training with one line on stderr instead of a traceback."""


class TrainerError(Exception):
    """The training cannot go on; the message is one line for the person who started it."""

    status = 1


class BadInput(TrainerError):
    """The arguments or the data are no good, and nothing was trained."""

    status = 2
