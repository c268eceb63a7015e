"""A network of your own: --model MODULE:FUNCTION."""

from __future__ import annotations

import importlib
import traceback
from typing import Any, Callable, Tuple

import tensorflow as tf
from tensorflow import keras

from .errors import BadInput


def build(name: str, shape: Tuple[int, ...], classes: int) -> keras.Model:
    """What FUNCTION(shape, classes) of MODULE returns, checked. Raises BadInput that says where it fails."""
    where = f"--model {name}"
    try:
        made = function(name, where)(shape, classes)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{where}: {told(error)}") from error
    check(made, shape, classes, where)
    return made


def function(name: str, where: str) -> Callable[..., Any]:
    """The function that this names."""
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            reason = f"no module {error.name} here or in PYTHONPATH"
            raise BadInput(f"{where}: {reason}") from None
        raise
    found = getattr(module, function_name, None)
    if not callable(found):
        raise BadInput(f"{where}: {module.__file__} has no function {function_name}")
    return found


def check(made: Any, shape: Tuple[int, ...], classes: int, where: str) -> None:
    """Refuse what can't be trained on the data. Raises BadInput."""
    if not isinstance(made, keras.Model):
        kind = f"{type(made).__module__}.{type(made).__name__}"
        raise BadInput(f"{where}: returned a {kind}, not a Keras model (use `from tensorflow import keras`)")
    if not made.built:
        raise BadInput(f"{where}: the model isn't built; begin it with keras.Input(shape)")
    taken, given = shapes(made, shape)
    if len(taken) != len(shape) or any(a not in (None, b) for a, b in zip(taken, shape)):
        raise BadInput(f"{where}: the model takes inputs of {taken}, but the data has {tuple(shape)}")
    if given[-1:] != (classes,):
        raise BadInput(f"{where}: the model gives {given}, but there are {classes} classes")


def shapes(made: keras.Model, shape: Tuple[int, ...]) -> Tuple[Tuple[Any, ...], Tuple[Any, ...]]:
    """What a model takes and gives, without the batch; one written as a class shows it by a call alone."""
    try:
        return tuple(made.input_shape[1:]), tuple(made.output_shape[1:])
    except AttributeError:
        return shape, tuple(made(tf.zeros((1, *shape))).shape[1:])


def told(error: Exception) -> str:
    """An error of somebody's own code, and the line of theirs that it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "importlib" not in frame.filename
    ]
    first = str(error).strip().splitlines()[:1] or [""]
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({error.filename}:{error.lineno})"
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {first[0]}{place}"
