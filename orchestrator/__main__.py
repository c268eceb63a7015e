"""`python -m orchestrator` is the same as `orch`."""

from orchestrator.cli.main import main

if __name__ == "__main__":
    main()
