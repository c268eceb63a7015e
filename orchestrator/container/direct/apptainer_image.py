"""What image apptainer runs, and by which program. Pure."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.container.spec import tensorflow_image
from orchestrator.hosts.command import on_host
from orchestrator.inventory import Host

PROGRAM = "apptainer"
"""What is looked for, and its older name singularity after it."""

HOW_TO_HAVE = "Install apptainer there, or name what brings it (activate = module load apptainer)."

_ADDRESS = re.compile(r"[a-z]+://|(docker-daemon|docker-archive|oci|oci-archive):")
"""How addresses begin that apptainer takes; without such a beginning it is a name as Docker takes it."""


def image_of(host: Host, *, gpus: bool) -> str:
    """Return the image: a path on the host as it is, else an address with its scheme."""
    image = host.settings.image or tensorflow_image(host, gpus=gpus)
    if is_path(image) or _ADDRESS.match(image):
        return image
    return f"docker://{image}"


def is_path(image: str) -> bool:
    """Whether an image is a file or a folder of the host; no address begins or ends so."""
    return image.startswith(("/", "~/")) or image.endswith((".sif", ".img", ".simg"))


def image_values(host: Host) -> dict[str, Any]:
    """Return the values of the question `own` that are about apptainer."""
    settings = host.settings
    own = settings.engine_command if settings.engine == "apptainer" else ()
    image = settings.image or ""
    return {"program": (own or (PROGRAM,))[0], "image_file": on_host(image).text if is_path(image) else None}
