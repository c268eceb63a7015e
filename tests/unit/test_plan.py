"""What a deploy would do: each setting changed alone, and all that a host may hold already."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.action import BESIDE, CREATE, KEEP, PROVE, REPLACE, START
from orchestrator.container.by_hand import old_name
from orchestrator.container.image.context import read_source
from orchestrator.container.inputs import Inputs
from orchestrator.container.plan import Plan
from orchestrator.container.refusals import check_engine
from orchestrator.container.telling import plan_lines
from orchestrator.errors import Busy, ConfigError, HostError, NotPermitted, Refused
from orchestrator.facts.docker import Container, Image
from orchestrator.facts.mount import Mount
from orchestrator.facts.place import LiveRun, Source
from orchestrator.facts.trouble import Trouble
from orchestrator.inventory import Volume

from .deploys import BASE, IDENTITY, KEY, deployed, facts, gpus, host, plan, running, spec_of
from .test_environment import CONTAINER

RUN = LiveRun("20261130-0214-nightly-7f3a", "c" * 64)


def test_nothing_is_there() -> None:
    found = plan(host())
    assert (found.action, found.port, found.image.pull, found.image.build) == (CREATE, 2222, True, True)
    assert list(plan_lines(found)) == [
        f"  image      build    {BASE} + sshd   (the base is pulled first)",
        "  container  create   orch-ana-mnist   gpus none   shm 8g   ssh 127.0.0.1:2222",
    ]


def test_what_is_on_the_host_is_used() -> None:
    _, wanted = spec_of(host(), facts(), Inputs())
    base = Image("sha256:bb", "amd64", {})
    built = Image("sha256:cc", "amd64", {"orch.recipe": wanted.digest})
    found = plan(host(), facts(docker__images={BASE: base}))
    assert (found.image.pull, found.image.build) == (False, True)
    found = plan(host(), facts(docker__images={wanted.tag(IDENTITY): built}))
    assert (found.image.pull, found.image.build) == (False, False)
    stale = replace(built, labels={"orch.recipe": "another"})
    assert plan(host(), facts(docker__images={wanted.tag(IDENTITY): stale})).image.build


def test_no_change_costs_nothing() -> None:
    found = plan(host(), deployed(running(host())))
    assert found.action == KEEP
    assert found.unchanged
    assert list(plan_lines(found)) == []


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"image": "nvcr.io/tf:22.06"}, f"image {BASE} -> nvcr.io/tf:22.06"),
    ({"apt_packages": ("ffmpeg",)}, "apt_packages none -> ffmpeg"),
    ({"shm_size": "16g"}, "shm_size 8g -> 16g"),
    ({"memory": "64g"}, "memory default -> 64g"),
    ({"cpus": "4"}, "cpus default -> 4"),
    ({"network": "host"}, "network bridge -> host"),
    ({"ssh_port": 2300}, "ssh_port default -> 2300"),
    ({"publish": ("6006",)}, "publish none -> 6006"),
    ({"cluster_ports": "10000-10010"}, "cluster default -> 0.0.0.0:10000-10010"),
    ({"jupyter": True}, "jupyter no -> yes"),
    ({"container_user": "root"}, "user ana (1001:1001) -> root (0:0)"),
    ({"volumes": (Volume("/data", "/datasets", True),)}, "volumes none -> /data:/datasets:ro"),
    ({"ca_bundle": "x.pem"}, ""),
]


@pytest.mark.parametrize(("settings", "line"), CHANGES, ids=[next(iter(s)) for s, _ in CHANGES])
def test_each_setting_changed_alone_is_one_line(settings: dict[str, Any], line: str) -> None:
    inputs = Inputs(ca_bundle=b"-----BEGIN") if "ca_bundle" in settings else Inputs()
    found = plan(host(**settings), deployed(running(host())), inputs)
    assert found.action == REPLACE
    expected = [line] if line else ["recipe what the image was built of -> as it is now"]
    assert [str(change) for change in found.changes] == expected


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (Inputs(), Inputs(requirements=("wandb",)), "packages none -> wandb"),
        (Inputs(env={"A": "1"}), Inputs(env={"A": "2"}), "env A set -> another value"),
        (Inputs(env={"A": "1"}), Inputs(), "env A set -> unset"),
        (Inputs(), Inputs(env={"A": "1"}), "env A unset -> set"),
        (Inputs(), Inputs(startup=b"echo"), "startup none -> new text"),
        (Inputs(startup=b"old"), Inputs(startup=b"new"), "startup old text -> new text"),
    ],
)
def test_each_input_changed_alone_is_one_line(old: Inputs, new: Inputs, line: str) -> None:
    found = plan(host(), deployed(running(host(), inputs=old)), new)
    assert [str(change) for change in found.changes] == [line]


def test_a_changed_dockerfile_or_context_is_one_line_each(tmp_path: Path) -> None:
    for name in ("Dockerfile", "a", "b"):
        (tmp_path / name).write_text("FROM x\n")
    wanted = host(dockerfile=str(tmp_path / "Dockerfile"))
    was = Inputs(source=read_source(wanted))
    known = deployed(running(wanted, inputs=was))
    assert plan(wanted, known, was).unchanged
    (tmp_path / "Dockerfile").write_text("FROM y\n")
    assert changes(plan(wanted, known, Inputs(source=read_source(wanted)))) == ["build: Dockerfile changed"]
    (tmp_path / "a").write_text("2")
    (tmp_path / "b").write_text("2")
    now = Inputs(source=read_source(wanted))
    both = ["build: Dockerfile changed", "build: 2 files of the build context changed: a, b"]
    assert changes(plan(wanted, known, now)) == both
    to_it = plan(wanted, deployed(running(host())), now)
    assert changes(to_it) == [f"image {BASE} -> ./Dockerfile"]
    assert (to_it.image.pull, to_it.image.build_base) == (False, True)
    source = now.source
    assert source
    base = Image("sha256:bb", "amd64", {"orch.source": source.digest})
    there = replace(facts(), docker=replace(facts().docker, images={source.tag(IDENTITY): base}))
    assert (plan(wanted, there, now).image.build_base, plan(wanted, there, now).image.build) == (False, True)


def test_what_hardly_belongs_into_an_image_is_noted(tmp_path: Path) -> None:
    for name in ("Dockerfile", "hosts.ini"):
        (tmp_path / name).write_text("FROM x\n")
    (tmp_path / ".git").mkdir()
    wanted = host(build_context=str(tmp_path))
    said = "the build context holds .git, hosts.ini: put into .dockerignore what the image need not have"
    assert plan(wanted, facts(), Inputs(source=read_source(wanted))).notes == (said,)
    (tmp_path / ".dockerignore").write_text(".git\nhosts.ini\n")
    now = Inputs(source=read_source(wanted))
    assert plan(wanted, facts(), now).notes == ()


def changes(found: Plan) -> list[str]:
    return [str(change) for change in found.changes]


def test_what_the_host_changed_is_told_too() -> None:
    found = plan(host(), deployed(running(host()), facts(gpus=gpus(2))))
    changes = [str(change) for change in found.changes]
    assert changes == [f"image {BASE} -> {BASE}-gpu", "gpus none -> all"]


def test_no_value_of_the_environment_is_in_the_spec_or_the_plan() -> None:
    inputs = Inputs(env={"TOKEN": "hunter2"})
    found = plan(host(), deployed(running(host())), inputs)
    assert "hunter2" not in found.spec.text() + str(found) + "".join(plan_lines(found))


def test_a_live_run_is_never_ended_without_replace() -> None:
    known = deployed(running(host()), live=(RUN,))
    assert plan(host(), known).action == KEEP
    found = plan(host(shm_size="1g"), known)
    assert (found.action, found.port) == (BESIDE, 2223)
    assert any(RUN.run in line for line in plan_lines(found))
    found = plan(host(shm_size="1g"), known, replace=True)
    assert (found.action, found.port) == (REPLACE, 2222)
    assert any(f"--replace ends {RUN.run}" in line for line in plan_lines(found))


def test_a_run_counts_only_in_its_own_container() -> None:
    known = deployed(running(host()), live=(replace(RUN, container="d" * 64),))
    assert plan(host(shm_size="1g"), known).action == REPLACE
    unknown = deployed(running(host()), live=(replace(RUN, container=None),))
    assert plan(host(shm_size="1g"), unknown).action == BESIDE


def test_a_run_of_another_account_is_seen_by_its_supervisor() -> None:
    known = deployed(running(host()), processes=(RUN,))
    assert plan(host(shm_size="1g"), known).action == BESIDE


def test_a_stopped_container_is_started_and_an_unproven_one_proven() -> None:
    assert plan(host(), deployed(running(host(), running=False))).action == START
    found = plan(host(), deployed(running(host()), environment=None))
    assert (found.action, found.image.build) == (PROVE, False)


def test_a_folder_that_was_deleted_under_its_container() -> None:
    """The container has what was deleted mounted: to start or to prove it would never do."""
    for is_running in (True, False):
        gone = deployed(running(host(), running=is_running), environment=None, placed_keys=())
        found = plan(host(), gone)
        assert (found.action, found.image.build) == (REPLACE, True)
        assert f"by hand: folder: {gone.place.path} was deleted" in "\n".join(plan_lines(found))
        made_anew = replace(gone, place=replace(gone.place, exists=True, owner=1001))
        assert plan(host(), made_anew).action == REPLACE
        others = replace(gone, place=replace(gone.place, exists=True, owner=1002))
        assert plan(host(), others).action != REPLACE
    lives = deployed(running(host()), environment=None, placed_keys=(), processes=(RUN,))
    assert plan(host(), lives).action == BESIDE


def test_keys_change_without_a_new_container() -> None:
    known = deployed(running(host()))
    found = plan(host(), known, Inputs(keys=("ssh-ed25519 AAAAC3Other bob",)))
    assert (found.action, found.keys_change, found.unchanged) == (KEEP, True, False)
    assert found.keys == (KEY, "ssh-ed25519 AAAAC3Other bob")
    again = plan(host(), known, Inputs(keys=("ssh-ed25519 AAAAC3Nza the same key",)))
    assert again.unchanged


def test_what_was_replaced_goes_after_its_last_run() -> None:
    old = running(host(), id="d" * 64, name=old_name(IDENTITY.container, "d" * 64))
    now = deployed(running(host()))
    both = replace(now, docker=replace(now.docker, containers=(*now.docker.containers, old)))
    assert plan(host(), both).leftovers == (old,)
    assert not plan(host(), both).unchanged
    live = replace(both, place=replace(both.place, live=(replace(RUN, container=old.id),)))
    assert plan(host(), live).leftovers == ()
    assert plan(host(), live).unchanged
    foreign = replace(old, labels={})
    theirs = replace(now, docker=replace(now.docker, containers=(*now.docker.containers, foreign)))
    assert plan(host(), theirs).leftovers == ()


def test_a_foreign_container_is_not_touched() -> None:
    foreign = Container("f" * 64, IDENTITY.container, "sha256:aa", True, 0, {})
    with pytest.raises(Refused, match="orch-ana-mnist is there that orch did not make"):
        plan(host(), facts(docker__containers=(foreign,)))


def test_a_folder_of_somebody_else_is_refused_though_nothing_is_deployed() -> None:
    theirs = '{"person": "Ana", "project": "mnist", "folder": "another-laptop:/src/mnist"}'
    with pytest.raises(Refused, match=r"'mnist' of 'Ana'.*'mnist' of 'ana'"):
        plan(host(), facts(place__owned=theirs))
    assert plan(host(), facts(place__owned=theirs.replace("Ana", "ana"))).action == CREATE


PRIVATE = Mount("fuse.sshfs", frozenset({"rw", "nosuid", "nodev", "user_id=1001", "group_id=1001"}))


def test_a_disk_that_keeps_the_daemon_out_is_said_before_anything_is_built() -> None:
    with pytest.raises(
        ConfigError, match=r"only ana may look into its disk \(fuse\.sshfs, without allow_other\)"
    ):
        plan(host(), facts(place__mount=PRIVATE))
    shared = replace(PRIVATE, options=PRIVATE.options | {"allow_other"})
    assert plan(host(), facts(place__mount=shared)).action == CREATE
    for own in (
        {"docker__security": frozenset({"rootless"})},
        {"docker__kind": "podman"},
        {"system__uid": 0},
    ):
        assert plan(host(), facts(place__mount=PRIVATE, **own)).action == CREATE, own


def test_a_container_that_was_made_from_another_machine_is_replaced_with_a_word() -> None:
    mine = running(host())
    made = replace(CONTAINER, person="ana", container=mine.id, name=mine.name, folder="laptop2:/src/mnist")
    known = deployed(mine, environment=made.text())
    lines = "".join(plan_lines(plan(host(shm_size="1g"), known)))
    assert "deployed from laptop2:/src/mnist before" in lines
    assert plan(host(), known).unchanged
    here = replace(made, folder=IDENTITY.folder).text()
    assert "before" not in "".join(plan_lines(plan(host(shm_size="1g"), deployed(mine, environment=here))))


def test_somebody_elses_project_of_the_same_name_is_refused() -> None:
    theirs = running(host())
    labels = {**theirs.labels, "orch.person": "a", "orch.project": "na-mnist"}
    with pytest.raises(Refused, match=r"'na-mnist' of 'a'.*'mnist' of 'ana'"):
        plan(host(), deployed(replace(theirs, labels=labels)))


def test_the_next_free_port_is_taken() -> None:
    idle = Container("f" * 64, "orch-bob-x", "sha256:aa", False, 0, {"orch.person": "bob"}, frozenset({2224}))
    known = facts(docker__holders={2222: "web"}, system__ports=frozenset({2223}), docker__containers=(idle,))
    assert plan(host(), known).port == 2225


def test_a_taken_port_names_who_has_it_and_what_to_set() -> None:
    known = facts(docker__holders={2222: "orch-bob-speech"}, system__ports=frozenset({2222, 22}))
    with pytest.raises(Busy) as told:
        plan(host(ssh_port=2222), known)
    assert str(told.value) == (
        "gpu01: port 2222 is taken by container orch-bob-speech. "
        "Set ssh_port = auto for gpu01 (hosts.ini:10), or another port."
    )
    with pytest.raises(Busy, match="port 22 is taken by another program"):
        plan(host(ssh_port=22), known)


def test_our_own_port_is_ours_again() -> None:
    wanted, changed = host(ssh_port=2222), host(ssh_port=2222, shm_size="1g")
    assert plan(changed, deployed(running(wanted))).port == 2222
    known = deployed(running(wanted), live=(RUN,))
    with pytest.raises(Busy, match="--replace"):
        plan(changed, known)


def test_a_missing_volume_is_reported_and_never_made() -> None:
    wanted = host(volumes=(Volume("/data/no", "/data"),))
    with pytest.raises(ConfigError, match=r"hosts\.ini:10: volume /data/no does not exist on gpu01"):
        plan(wanted, facts(place__sources=(Source("/data/no", "/data/no", "missing"),)))


@pytest.mark.parametrize(
    ("kind", "error"),
    [("missing", HostError), ("denied", NotPermitted), ("down", HostError), ("other", HostError)],
)
def test_an_engine_that_cant_be_used(kind: str, error: type[HostError]) -> None:
    with pytest.raises(error) as told:
        check_engine(
            host(), facts(docker__trouble=Trouble(kind, "no", "As root: usermod -aG docker ACCOUNT"))
        )
    assert type(told.value) is error
    assert "usermod -aG docker ana" in str(told.value)


def test_an_engine_that_is_too_old_or_of_another_kind() -> None:
    for change in ({"docker__client": "17.12.1"}, {"docker__server": "18.9.7"}):
        with pytest.raises(HostError, match=r"19\.03"):
            check_engine(host(), facts(**change))
    with pytest.raises(HostError, match="aarch64"):
        check_engine(host(), facts(docker__arch="aarch64"))
    check_engine(host(image="mine:1"), facts(docker__arch="aarch64"))


def test_a_person_is_told_that_nobody_can_log_in() -> None:
    found = plan(host(), facts(place__account_keys=()))
    assert found.keys == ()
    assert any("no public key" in note for note in found.notes)


def test_what_an_engine_can_not_do_and_what_another_left_is_noted() -> None:
    known = facts(docker__kind="podman", docker__limits=False, place__environment=left("docker"))
    made = plan(host(engine="podman", memory="8g"), known)
    assert made.notes == (
        "memory and cpus have no effect: rootless podman has no cgroups of its own there",
        "container orch-ana-mnist of docker stays where it is; "
        "to remove it: ORCH_ENGINE=docker orch down --hosts gpu01, before this",
    )
    assert made.by_hand == ()  # that this engine does not see it is nobody's doing
    for engine in ("podman", "venv"):
        assert (
            plan(
                host(engine="podman"), replace(known, place=replace(known.place, environment=left(engine)))
            ).notes
            == ()
        )


def left(engine: str) -> str:
    return replace(CONTAINER, engine=engine).text()
