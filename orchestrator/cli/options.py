"""The options that verbs share, and how a verb gets the App of its call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from orchestrator.cli import completing, tracing
from orchestrator.cli.app import App

F = TypeVar("F", bound=Callable[..., Any])


def pass_app(function: F) -> F:
    """Hand the App of this call to a verb as its first argument."""

    @click.pass_context
    @functools.wraps(function)
    def with_app(ctx: click.Context, *args: Any, **kwargs: Any) -> Any:
        return function(_app(ctx), *args, **kwargs)

    return with_app  # type: ignore[return-value]


def _app(ctx: click.Context) -> App:
    root = ctx.find_root()
    if root.obj is None:
        root.obj = App()
        root.call_on_close(root.obj.finish)
    assert isinstance(root.obj, App)
    return root.obj


def _take_files(ctx: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> None:
    if value:
        _app(ctx).files = tuple(Path(v) for v in value)


def _take_verbose(ctx: click.Context, _parameter: click.Parameter, value: int) -> None:
    if value and not ctx.resilient_parsing:
        _app(ctx).verbose = value
        tracing.log().show(value)
        ctx.find_root().call_on_close(tracing.log().hush)


def _take_log_file(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if ctx.resilient_parsing:  # a shell asks what it may complete
        return
    app = _app(ctx)
    named = app.environ.get(tracing.LOG_FILE)
    if value:
        tracing.log().open(app.cwd / Path(value).expanduser(), "--log-file")
    elif named:
        tracing.log().open(app.cwd / Path(named).expanduser(), tracing.LOG_FILE)


def _split(
    _ctx: click.Context, _parameter: click.Parameter, value: tuple[str, ...] | str | None
) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def inventory_options(function: F) -> F:
    """--inventory, --log-file and -v, which every verb that reaches hosts takes."""
    function = click.option(
        "--inventory",
        "_inventory",
        multiple=True,
        metavar="FILE",
        shell_complete=completing.files,
        expose_value=False,
        callback=_take_files,
        is_eager=True,
        help="An inventory file (repeatable). Default: $ORCH_INVENTORY, else the nearest hosts.ini.",
    )(function)
    function = click.option(
        "--log-file",
        "_log_file",
        metavar="FILE",
        shell_complete=completing.files,
        expose_value=False,
        callback=_take_log_file,
        help="Append all that -vv says to FILE, with times. Default: $ORCH_LOG_FILE.",
    )(function)
    return click.option(
        "-v",
        "_verbose",
        count=True,
        expose_value=False,
        callback=_take_verbose,
        help="Say more, and each command on a host; -vv: what it is, too.",
    )(function)


def host_options(function: F) -> F:
    """--hosts and -x, for verbs whose words are something else than hosts."""
    function = click.option(
        "--hosts",
        "hosts",
        multiple=True,
        callback=_split,
        metavar="HOSTS",
        shell_complete=completing.hosts,
        help="Names, groups, globs, ranges (gpu[01-04], gpu01..04), joined by commas.",
    )(function)
    function = click.option(
        "-x",
        "--exclude",
        "exclude",
        multiple=True,
        callback=_split,
        metavar="HOSTS",
        shell_complete=completing.hosts,
        help="Leave these out.",
    )(function)
    return inventory_options(function)


def host_arguments(function: F) -> F:
    """Hosts as words or by --hosts, and -x; the verb gets them together as `hosts`."""

    @functools.wraps(function)
    def joined(*args: Any, host_words: tuple[str, ...], hosts: tuple[str, ...], **kwargs: Any) -> Any:
        return function(*args, hosts=(*host_words, *hosts), **kwargs)

    wrapped = click.argument("host_words", nargs=-1, metavar="[HOST]...", shell_complete=completing.hosts)(
        joined
    )
    return host_options(wrapped)  # type: ignore[return-value]
