"""end.json: what the host looked like when the run ended. Best effort: nothing waits for it for long."""

import json
import os
import resource
import subprocess
import threading

from supervisor.files import fill, remove
from supervisor.memory import meminfo

SMI = 10.0  # seconds for nvidia-smi, which can hang for good on a driver that is ill
_MIB = 1024 * 1024


def record(folder, memory, gpus, limit):
    """Write end.json within `limit` seconds, or not at all; `gpus` are the UUIDs that the run was given."""
    # Nothing of it may keep the end of the run from being recorded: a disk or a driver can hang any call.
    thread = threading.Thread(target=_write, args=(folder, memory, gpus, limit), daemon=True)
    try:
        thread.start()
        thread.join(limit)
    except (RuntimeError, MemoryError):
        pass


def _write(folder, memory, gpus, limit):
    part = os.path.join(folder, "end.json.part")
    try:
        facts = _host(folder, memory)
        if gpus:
            facts.update(_gpus(gpus, min(SMI, limit)))
        fill(part, "wb", (json.dumps(facts) + "\n").encode("utf-8"))
        os.rename(part, os.path.join(folder, "end.json"))
    except Exception:  # a full disk, an nvidia-smi of another world
        remove(part)


def _host(folder, memory):
    total, disk, used = meminfo(), os.statvfs(folder), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "memory_total": total.get("MemTotal"),
        "memory_available": total.get("MemAvailable"),
        "memory_limit": memory.limit(),
        "memory_used": memory.used(),
        "disk_free": disk.f_bavail * disk.f_frsize,
        "disk_total": disk.f_blocks * disk.f_frsize,
        "max_rss": used.ru_maxrss * 1024,
        "user_seconds": used.ru_utime,
        "system_seconds": used.ru_stime,
    }


def _gpus(uuids, limit):
    status, rows = _smi("--query-gpu=uuid,index,memory.used,memory.total,temperature.gpu,name", limit)
    if status:
        fault = rows[0] if rows else "nvidia-smi gives no answer in {:g} s".format(limit)
        return {"gpus": [{"uuid": uuid, "fault": fault} for uuid in uuids]}
    found = [_gpu(row) for row in rows if row.count(",") >= 5]
    _, rows = _smi("--query-compute-apps=gpu_uuid,pid,used_memory,process_name", limit)
    users = [row.split(", ", 3) for row in rows if row.count(", ") >= 3]
    return {
        "gpus": [gpu for gpu in found if gpu["uuid"] in uuids],
        "gpu_processes": [
            {"uuid": u, "pid": _int(pid), "memory": _int(mib, _MIB), "name": name}
            for u, pid, mib, name in users
            if u in uuids
        ],
    }


def _gpu(row):
    uuid, index, used, total, temperature, name = row.split(", ", 5)
    words = (used, total, temperature)
    return {
        "uuid": uuid,
        "index": _int(index),
        "name": name,
        "memory_used": _int(used, _MIB),
        "memory_total": _int(total, _MIB),
        "temperature": _int(temperature),
        "fault": next((w.strip("[]") for w in words if "lost" in w or "reset" in w or "Error" in w), None),
    }


def _int(word, unit=1):
    return int(word) * unit if word.isdigit() else None


def _smi(query, limit):
    """Ask nvidia-smi; return its status and lines. One that hangs is left behind: it can't be waited for."""
    words = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT)
    try:
        said = process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return 124, []
    return process.returncode, [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
