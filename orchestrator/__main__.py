"""The program `orch`; `python -m orchestrator` is the same."""

import signal  # and nothing else: Ctrl-C before `main` is Python's own, with a traceback


def main() -> None:
    """Entry point of the console script. Ctrl-C while the modules are loaded ends it without a word."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # else the caller has it ignored, as nohup does
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from orchestrator.cli.main import main

    signal.signal(signal.SIGINT, handler)
    main()


if __name__ == "__main__":
    main()
