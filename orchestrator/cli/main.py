"""The `orch` command: verbs are loaded when they are called, and every error becomes one line."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from orchestrator import __version__
from orchestrator.cli import colour, completing, tracing
from orchestrator.errors import FAILED, INTERRUPTED, OK, OrchError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from orchestrator.cli.app import App

VERBS = {
    "init": "write hosts.ini and prove the hosts",
    "hosts": "the inventory as orch sees it",
    "doctor": "prove that the hosts can do the job",
    "deploy": "build, start and prove the container",
    "train": "run a training command",
    "ps": "list runs",
    "tail": "show the log of a run, live",
    "gpu-status": "every GPU, who uses it and for which run",
    "tensorboard": "runs side by side in TensorBoard",
    "jupyter": "JupyterLab in the container",
    "stop": "end a run",
    "why": "how a run ended, and what is known around it",
    "diff": "what differs between two runs",
    "rerun": "run what ran once more, from its start",
    "resume": "go on with what a run left",
    "ls": "list a run's files",
    "fetch": "bring a run's files back",
    "cp": "copy files to and from a host or a run",
    "exec": "run a command in the container",
    "ssh": "open a shell in the container",
    "login": "log in by hand, once, where a one-time password is asked for",
    "ssh-config": "stanzas for ~/.ssh/config",
    "schedule": "run commands by cron",
    "down": "stop and remove the container",
    "image": "list, copy, lock and remove images on hosts",
    "demo": "the whole path on this machine",
}
"""Verb and one-line help, in the order of --help. A verb `a-b` lives in cli/a_b.py as `command`."""

ALIASES = {"logs": "tail", "gpus": "gpu-status"}

KNOWN_ELSEWHERE = {
    "up": "deploy",
    "run": "train",
    "submit": "train",
    "launch": "train",
    "status": "ps",
    "list": "ps",
    "kill": "stop",
    "cancel": "stop",
    "rm": "down",
    "destroy": "down",
    "attach": "tail",
    "follow": "tail",
    "log": "tail",
    "shell": "ssh",
    "preflight": "doctor",
    "check": "doctor",
    "nvidia-smi": "gpu-status",
    "cron": "schedule",
    "pull": "fetch",
    "download": "fetch",
    "explain": "why",
    "compare": "diff",
    "inspect": "why",
    "describe": "why",
    "tb": "tensorboard",
    "notebook": "jupyter",
    "lab": "jupyter",
}
"""Verbs of other tools, and ours for the same thing."""


class _NobodyReads(Exception):
    """The pipe that the output goes to was closed: `orch ps | head -1`."""


@contextlib.contextmanager
def _told_to_run() -> Iterator[None]:
    """Hide a closed pipe from click, and Ctrl-C: it would end with 1, and with two empty lines."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise click.Abort from error
    except BrokenPipeError as error:
        raise _NobodyReads from error


class LazyGroup(click.Group):
    """A group whose verbs are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of VERBS."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the file of a verb and return its command; None when there is no such verb."""
        verb = ALIASES.get(cmd_name, cmd_name)
        if verb not in VERBS:
            return None
        module = importlib.import_module(f"orchestrator.cli.{verb.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or say which one was probably meant."""
        name = args[0]
        if name not in VERBS and name not in ALIASES:
            from orchestrator.inventory.nearest import nearest

            guess = KNOWN_ELSEWHERE.get(name) or nearest(name, [*VERBS, *ALIASES])
            ctx.fail(f"no verb '{name}'." + (f" Did you mean 'orch {guess}'?" if guess else ""))
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line; `--help` prints here already."""
        with _told_to_run():
            try:
                return super().make_context(*args, **kwargs)
            except click.NoSuchOption as error:
                name = error.option_name
                hint = f"A verb's options stand behind it: orch VERB {name}"
                raise UsageError(f"no option {name} before the verb", hint=hint) from error

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb."""
        with _told_to_run():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the verbs without importing any of them, and the options where they begin."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(v, help=what) for v, what in VERBS.items() if v.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing any of them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def _completion_option(verb: str, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make --install-completion or --show-completion; SHELL is found out where it isn't said."""

    def take(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value:
            from orchestrator.cli import install

            (install.take_install if verb == "install" else install.take_show)(ctx, parameter, value)

    return click.option(
        f"--{verb}-completion",
        is_flag=False,
        flag_value="auto",
        metavar="[bash|zsh|fish]",
        expose_value=False,
        is_eager=True,
        callback=take,
        help=what,
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="orch")
@_completion_option("install", "Let the shell complete verbs, options, hosts and runs.")
@_completion_option("show", "Print what the shell would read.")
def cli() -> None:
    """Train TensorFlow models on GPU servers that you reach by SSH and nothing else.

    \b
      orch deploy --hosts gpu01
      orch train --hosts gpu01 -- python3 train.py
      orch tail
    """


def run(argv: list[str], app: App | None = None) -> int:
    """Run one command line and return its exit code; errors are told in one line on stderr."""
    with tracing.logging(argv) as log:
        status = FAILED
        try:
            status = _run(argv, app)
        finally:
            log.close(status)
        return status


def _run(argv: list[str], app: App | None) -> int:
    try:
        outcome = cli.main(
            argv, prog_name="orch", obj=app, standalone_mode=False, color=colour.wanted(os.environ)
        )
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else OK
    except OrchError as error:
        from orchestrator.cli.app import tell

        tell(error)
        return error.exit_code
    except click.ClickException as error:
        message = error.format_message()  # of a group without a verb: its help
        click.echo(message if message.startswith("Usage: ") else f"orch: {message}", err=True)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("", err=True)
        return INTERRUPTED
    except (_NobodyReads, BrokenPipeError):
        _silence(sys.stdout, sys.stderr)
        return 128 + signal.SIGPIPE  # as any program at the head of a pipe
    except OSError as error:  # of a local file, or of stdout: a full disk
        _silence(sys.stdout)
        what = f"{error.filename}: " if error.filename else ""
        click.echo(f"orch: {what}{error.strerror or error}", err=True)
        return FAILED


def _silence(*files: TextIO) -> None:
    """Let what is still held for these files go nowhere: writing it at the exit would fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for file in files:
        with contextlib.suppress(OSError, ValueError):  # not a real file, in a test
            os.dup2(nowhere, file.fileno())
    os.close(nowhere)


def main() -> NoReturn:
    """Run the command line of this process, and end it."""
    _open_streams()
    if completing.VARIABLE in os.environ:
        completing.answer(cli)
        os._exit(OK)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # else the caller has it ignored, as nohup does
            signal.signal(number, _end)
    try:
        code = run(sys.argv[1:])
    except SystemExit as end:
        code = int(end.code or 0)
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            file.flush()
    os._exit(code)  # threads may still wait for a host: the interpreter's own end would abort in some of them


def _end(number: int, _frame: object) -> NoReturn:
    """Leave all `with` blocks on the way out."""
    raise SystemExit(128 + number)


def _open_streams() -> None:
    """Make stdin, stdout and stderr usable whatever the caller closed and whatever its locale can write.

    A closed one would be the next file or socket that is opened.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, mode))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
