"""The first host that builds a recipe gives its packages to the others, and one that fails gives nothing."""

from __future__ import annotations

import threading

from orchestrator.container.image.pins import Pins


def never() -> None:
    raise AssertionError("nobody is to be waited for")


def test_the_first_gives_and_the_others_wait_for_it() -> None:
    pins, heard = Pins(), list[tuple[str, ...] | None]()
    waiting = threading.Event()

    def other() -> None:
        with pins.known(waiting.set) as known:
            heard.append(known)

    with pins.known(never) as known:
        assert known is None
        thread = threading.Thread(target=other)
        thread.start()
        assert waiting.wait(60)
        assert heard == []
        pins.give(["six==1.16.0"])
    thread.join(60)
    assert heard == [("six==1.16.0",)]
    pins.give(["six==1.15.0"])
    with pins.known(never) as known, pins.known(never) as again:
        assert known == again == ("six==1.16.0",)


def test_after_a_failure_the_next_is_the_first() -> None:
    pins = Pins()
    try:
        with pins.known(never):
            raise OSError
    except OSError:
        pass
    with pins.known(never) as known:
        assert known is None


def test_only_what_pip_takes_for_a_version_is_pinned() -> None:
    pins = Pins()
    kept = ["a==1", "zope.interface==5.4.0", "b==1!2.0rc1.post2.dev3", "torch==2.1.0+cu118"]
    pins.give([*kept, "python-apt==2.2.1-ubuntu0.2", "c==unknown", "d"])
    with pins.known(never) as known:
        assert known == tuple(kept)
