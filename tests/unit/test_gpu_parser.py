"""The parser of nvidia-smi's answers: what real drivers print, cell by cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.facts.gpu import Gpu, GpuReport, in_use, is_free, parse
from orchestrator.facts.gpu_process import GpuProcess
from orchestrator.facts.question import Section

DATA = Path(__file__).parent / "data" / "nvidia-smi"
FIELDS = (
    "index,uuid,name,driver_version,memory.total,memory.used,utilization.gpu,"
    "temperature.gpu,power.draw,mig.mode.current"
)


def answer(gpus: str, *, apps: str = "", status: int = 0, apps_status: int = 0, more: str = "") -> GpuReport:
    lines = ["cards\t0", "smi\t/usr/bin/nvidia-smi", f"fields\t{FIELDS}"]
    lines += [f"gpu\t{line}" for line in gpus.split("\n")]
    lines += [f"status\t{status}"]
    lines += [f"app\t{line}" for line in apps.split("\n")]
    lines += [f"apps-status\t{apps_status}", more]
    return parse(Section("\n".join(lines), 0))


def of(name: str, status: int = 0) -> GpuReport:
    return answer((DATA / f"{name}.csv").read_text(), status=status)


def only(report: GpuReport) -> Gpu:
    assert len(report.gpus) == 1, report
    return report.gpus[0]


def test_healthy_gpus_have_every_value() -> None:
    report = of("healthy")
    assert report.gpus[0] == Gpu(
        index=0,
        uuid="GPU-1f0a3c55-7777-4b1e-9a00-0000000000a0",
        name="NVIDIA A100-SXM4-40GB",
        driver="535.183.01",
        memory_total_mb=40960,
        memory_used_mb=31744,
        utilization=87,
        temperature=64,
        power_w=310.44,
    )
    assert len(report.gpus) == 2
    assert (report.driver, report.problem, report.warnings) == ("535.183.01", None, ())


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("old-driver", ("memory_total_mb", "memory_used_mb", "utilization", "power_w")),
        ("new-words", ("power_w",)),
        ("unified-memory", ("memory_total_mb", "memory_used_mb")),
        ("vgpu", ("temperature", "power_w")),
        ("jetson", ("uuid", "driver", "memory_total_mb", "utilization", "temperature", "power_w")),
        ("mig", ("utilization",)),
    ],
)
def test_an_absent_cell_is_none_never_zero_and_no_fault(name: str, missing: tuple[str, ...]) -> None:
    gpu = only(of(name))
    assert [field for field in missing if getattr(gpu, field) is not None] == []
    assert gpu.fault is None
    assert gpu.index == 0


def test_the_words_of_the_driver_are_kept() -> None:
    assert dict(only(of("new-words")).absent) == {
        "power.draw": "[Requested functionality has been deprecated]",
        "mig.mode.current": "[Function Not Found]",
    }


def test_one_bad_sensor_flags_its_row_and_leaves_the_other_alone() -> None:
    bad, good = of("bad-sensor").gpus
    assert bad.fault == "Unknown Error"
    assert (bad.temperature, bad.power_w) == (84, None)
    assert (good.fault, good.power_w) == (None, 242.05)


def test_a_lost_gpu_is_a_fault_and_not_an_idle_gpu() -> None:
    good, lost, reset = of("lost").gpus
    assert good.fault is None
    assert lost.fault == "GPU is lost (reboot or reset)"
    assert reset.fault is not None
    assert reset.fault.startswith("GPU requires reset")
    assert [is_free(g) for g in (good, lost, reset)] == [True, False, False]


def test_header_and_units_are_tolerated() -> None:
    gpu = only(of("header-and-units"))
    assert (gpu.memory_total_mb, gpu.memory_used_mb, gpu.utilization, gpu.power_w) == (16160, 593, 12, 55.1)
    assert gpu.driver == "418.87.01"


def test_cells_without_blanks_and_names_with_commas() -> None:
    assert only(of("no-spaces")).name == "Tesla T4"
    gpu = only(of("name-with-comma"))
    assert (gpu.name, gpu.driver, gpu.power_w) == ("Graphics Device, Rev. A", "455.23.05", 9.65)


def test_a_warning_behind_good_rows_is_a_warning() -> None:
    report = of("trailing-warning", status=14)
    assert only(report).memory_total_mb == 16160
    assert report.problem is None
    assert report.warnings == ("WARNING: infoROM is corrupted at gpu 0001:00:00.0",)


def test_a_dead_gpu_beside_rows_is_a_row_with_a_fault() -> None:
    live, dead = of("dead-among-rows").gpus
    assert is_free(live)
    assert dead.fault == "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error"
    assert not is_free(dead)


def test_mig_is_known() -> None:
    assert only(of("mig")).mig
    assert not of("healthy").gpus[0].mig


@pytest.mark.parametrize(
    ("said", "status", "problem", "hint"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161",
            18,
            "Driver/library version mismatch",
            "reboot, or reload",
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure.",
            9,
            "couldn't communicate",
            "modinfo",
        ),
        ("No devices were found  ", 0, "No devices were found", "dmesg"),
        ("No devices were found", 6, "No devices were found", "dmesg"),
        (
            "Failed to initialize NVML: No supported GPUs were found\nUnable to determine the number of GPUs",
            255,
            "No supported GPUs",
            "vfio",
        ),
        (
            "Unable to determine the device handle for GPU0000:07:00.0: Unknown Error",
            255,
            "Unable to determine the device handle",
            "xid",
        ),
        (
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  "
            "Reboot the system to recover this GPU",
            15,
            "GPU is lost",
            "Reboot",
        ),
        ("Failed to initialize NVML: Insufficient Permissions", 4, "Insufficient Permissions", "group video"),
        (
            "Failed to initialize NVML: GPU access blocked by the operating system",
            255,
            "blocked by the operating system",
            "wsl --shutdown",
        ),
        (
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure it is there.\n"
            "Please also try adding directory that contains libnvidia-ml.so to your system PATH.",
            12,
            "libnvidia-ml",
            "LD_LIBRARY_PATH",
        ),
        ("Failed to initialize NVML: Unknown Error", 255, "NVML: Unknown Error", "container"),
        ('Field "uuid" is not a valid field to query.\n', 2, "not a valid field", "Update the NVIDIA driver"),
    ],
)
def test_each_complaint_on_stdout_is_a_problem_with_one_hint(
    said: str, status: int, problem: str, hint: str
) -> None:
    report = answer(said, status=status)
    assert report.gpus == ()
    assert not report.absent
    assert problem in (report.problem or "")
    assert hint in (report.hint or "")


def test_an_unknown_complaint_is_its_first_line_and_silence_is_told() -> None:
    assert answer("\nSomething, new, happened.\nmore", status=3).problem == "Something, new, happened"
    assert answer("", status=3).problem == "nvidia-smi printed nothing (exit status 3)"


@pytest.mark.parametrize("status", [124, 137])
def test_a_hanging_nvidia_smi_is_told_with_its_hint(status: int) -> None:
    report = parse(Section(f"smi\t/usr/bin/nvidia-smi\nfields\tindex\ngpu\t\nstatus\t{status}\n", 0))
    assert report.problem == "nvidia-smi did not answer in 20 s"
    assert "persistence" in (report.hint or "")


def test_no_nvidia_smi_at_all() -> None:
    plain = parse(Section("cards\t0\n", 0))
    assert (plain.absent, plain.problem) == (True, "nvidia-smi not found")
    card = parse(Section("cards\t2\n", 0))
    assert (card.absent, card.hint is not None) == (False, True)
    jetson = parse(Section("cards\t0\njetson\t# R35 (release), REVISION: 4.1\n", 0))
    assert "Jetson" in (jetson.problem or "")
    assert not jetson.absent


GPU_A = "GPU-1f0a3c55-7777-4b1e-9a00-0000000000a0"
CONTAINER = "c0ffee" + "0" * 58
HEALTHY = (DATA / "healthy.csv").read_text()


def first_process(apps: str, more: str = "") -> GpuProcess:
    return answer(HEALTHY, apps=apps, more=more).gpus[0].processes[0]


def test_a_process_is_its_gpus_and_its_runs() -> None:
    more = "\n".join(
        [
            f"proc\t410\t409\tana\t720\tpython3\t0::/docker/{CONTAINER}",
            f"proc\t409\t1\tana\t721\tpython3\t0::/docker/{CONTAINER}\t/orch/runs/r/supervise.py"
            "\t--person\tAna María\t--run\t20261130-0214-nightly-7f3a",
            f"container\t{CONTAINER}\torch-ana-mnist\tAna María\tmnist",
        ]
    )
    report = answer(HEALTHY, apps=f"{GPU_A}, 410, /usr/bin/python3, 30720", more=more)
    assert report.gpus[0].processes == (
        GpuProcess(
            pid=410,
            memory_mb=30720,
            name="python3",
            user="ana",
            seconds=720,
            container="orch-ana-mnist",
            person="Ana María",
            run_id="20261130-0214-nightly-7f3a",
            outside=False,
        ),
    )
    assert report.gpus[0].processes[0].run_name == "nightly"
    assert report.gpus[1].processes == ()


def test_a_process_that_orch_knows_nothing_of() -> None:
    process = first_process(f"{GPU_A}, 77, ./train, fast, [N/A]", "proc\t77\t1\tbob\t32400\ttrain\t")
    assert (process.name, process.user, process.seconds) == ("train, fast", "bob", 32400)
    assert (process.memory_mb, process.container, process.outside) == (None, None, True)


def test_a_foreign_container_is_named_by_its_id_where_docker_says_nothing() -> None:
    more = f"proc\t77\t1\troot\t5\tpython3\t12:pids:/docker/{CONTAINER}"
    process = first_process(f"{GPU_A}, 77, python3, 100", more)
    assert (process.container, process.person, process.outside) == (CONTAINER[:12], None, True)


def test_a_notebook_in_a_container_of_orch_is_its_persons() -> None:
    more = f"proc\t77\t1\tana\t5\tpython3\t0::/docker/{CONTAINER}\ncontainer\t{CONTAINER}\torch-ana-m\tana\tm"
    process = first_process(f"{GPU_A}, 77, python3, 100", more)
    assert (process.container, process.person, process.run_id) == ("orch-ana-m", "ana", None)
    assert not process.outside


def test_a_process_without_a_cgroup_of_its_own_is_in_the_container_of_podmans_monitor() -> None:
    more = "\n".join(
        [
            "proc\t77\t76\tana\t5\tpython3\t",
            f"proc\t76\t1\tana\t9\tconmon\t{CONTAINER}",
            f"container\t{CONTAINER}\torch-ana-m\tana",
        ]
    )
    process = first_process(f"{GPU_A}, 77, python3, 100", more)
    assert (process.container, process.person, process.outside) == ("orch-ana-m", "ana", False)


@pytest.mark.parametrize("name", ["[Not Found]", "[Insufficient Permissions]", ""])
def test_a_program_that_the_driver_will_not_name_is_named_by_proc(name: str) -> None:
    assert first_process(f"{GPU_A}, 77, {name}, 100", "proc\t77\t1\tbob\t5\ttrainer\t").name == "trainer"


def test_a_process_that_the_driver_hides_still_uses_the_gpu() -> None:
    words = "[Insufficient Permissions]"
    gpu = answer(HEALTHY.replace("31744", "3"), apps=f"{GPU_A}, {words}, {words}, {words}").gpus[0]
    assert in_use(gpu)
    assert (gpu.processes[0].pid, gpu.processes[0].name) == (0, "?")


def test_a_circle_of_parents_ends() -> None:
    more = "proc\t77\t78\tbob\t5\ta\t\nproc\t78\t77\tbob\t5\tb\t\nproc\tx\ty\nproc\t1\tx\tbob\t5\ta\t"
    assert first_process(f"{GPU_A}, 77, a, 100", more).person is None


@pytest.mark.parametrize(
    ("apps", "status", "why"),
    [
        ("[Not Supported]", 0, "[Not Supported]"),
        ("Failed to initialize NVML: Unknown Error", 255, "Failed to initialize NVML: Unknown Error"),
        ("", 124, "nvidia-smi did not answer in 20 s"),
        ("", 3, "exit status 3"),
    ],
)
def test_unknown_processes_are_a_warning_and_memory_decides(apps: str, status: int, why: str) -> None:
    report = answer(HEALTHY, apps=apps, apps_status=status)
    assert report.warnings == (f"processes are not known: {why}",)
    assert [is_free(g) for g in report.gpus] == [False, True]


def test_no_running_processes_is_no_warning() -> None:
    report = answer(HEALTHY, apps="No running processes found")
    assert report.warnings == ()
    assert report.gpus[0].processes_known


FREE = Gpu(index=0, uuid="GPU-a", memory_total_mb=40960, memory_used_mb=500)


@pytest.mark.parametrize(
    ("change", "used", "free"),
    [
        ({}, False, True),
        ({"memory_used_mb": 501}, True, False),
        ({"memory_used_mb": 0, "utilization": 99}, False, True),
        ({"processes": (GpuProcess(1),)}, True, False),
        ({"memory_used_mb": None}, False, True),  # unified memory: nobody's process is there
        ({"memory_used_mb": None, "processes_known": False}, False, False),
        ({"fault": "Unknown Error"}, False, False),
        ({"uuid": None}, False, False),
    ],
)
def test_the_rule_of_what_is_used_and_what_is_free(change: dict[str, object], used: bool, free: bool) -> None:
    gpu = Gpu(**{**FREE.__dict__, **change})
    assert (in_use(gpu), is_free(gpu)) == (used, free)
