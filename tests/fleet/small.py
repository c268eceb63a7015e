"""A small base image without TensorFlow: there in seconds, for engines that have images of their own."""

from .lab import Host

IMAGE = "orch-small:1"
ARCHIVE = "/srv/shared/small.tar"
BASE = "tensorflow/tensorflow:2.9.3"


def archive(host: Host) -> str:
    """The path on every host of the image as `docker load` takes it; made once."""
    if host.run(f"test -e {ARCHIVE}", check=False).returncode:
        folder = host.docker("image", "inspect", "-f", "{{.GraphDriver.Data.UpperDir}}", BASE).strip()
        tar = f"tar -C {folder} --exclude=./usr/local/lib/python3.9 --exclude=./usr/share/doc -c ."
        host.run(f"{tar} | docker import -c 'ENV LANG=C.UTF-8' -c 'CMD [\"/bin/bash\"]' - {IMAGE}")
        part = f"{ARCHIVE}.part"
        host.run(f"docker save {IMAGE} -o {part} && chmod 644 {part} && mv {part} {ARCHIVE}")
    return ARCHIVE
