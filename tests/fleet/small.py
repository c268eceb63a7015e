"""A small base image without TensorFlow: there in seconds, for engines that have images of their own."""

from .lab import Host
from .orch import Orch

IMAGE = "orch-small:1"
ARCHIVE = "/srv/shared/small.tar"
BUILT = "/srv/shared/built.tar"
BASE = "tensorflow/tensorflow:2.9.3"


def archive(host: Host) -> str:
    """The path on every host of the image as `docker load` takes it; made once."""
    if not _is_there(host, ARCHIVE):
        _import(host)
        _save(host, ARCHIVE, IMAGE)
    return ARCHIVE


def built(orch: Orch, host: Host) -> str:
    """The same with what orch builds on it for ana's mnist; made once, by the Docker of `host`."""
    if not _is_there(host, BUILT):
        host.run(f"docker load -qi {archive(host)}")  # the very image that other tests have
        host.run("docker ps -aqf name=orch-ana-mnist | xargs -r docker rm -f; rm -rf /home/ana/.orch")
        host.run("docker images -q orch/ana-mnist | sort -u | xargs -r docker rmi -f")
        small = orch.having(ORCH_IMAGE=IMAGE)
        small("deploy", "--yes", "--hosts", host.name)
        small("down", "--yes", "--hosts", host.name)
        host.run("rm -rf /home/ana/.orch")
        (tag,) = (name for name in host.images() if name.startswith("orch/ana-mnist:"))
        _save(host, BUILT, IMAGE, tag)
    return BUILT


def _is_there(host: Host, path: str) -> bool:
    return host.run(f"test -e {path}", check=False).returncode == 0


def _import(host: Host) -> None:
    folder = host.docker("image", "inspect", "-f", "{{.GraphDriver.Data.UpperDir}}", BASE).strip()
    tar = f"tar -C {folder} --exclude=./usr/local/lib/python3.9 --exclude=./usr/share/doc -c ."
    host.run(f"{tar} | docker import -c 'ENV LANG=C.UTF-8' -c 'CMD [\"/bin/bash\"]' - {IMAGE}")


def _save(host: Host, path: str, *images: str) -> None:
    host.run(
        f"docker save {' '.join(images)} -o {path}.part && chmod 644 {path}.part && mv {path}.part {path}"
    )
