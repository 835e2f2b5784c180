"""Pack a folder with a root file system as an image: `pack_image.py NAME FOLDER OUT.tar [PROGRAM]`.

Without a program, the image has the settings of `k8s/Dockerfile`. The file has the layout that
`docker save` writes, which every runtime and `skopeo` read. Python and `tar` are all that it needs.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

DOCKERFILE = Path(__file__).with_name("Dockerfile")
NOT_PACKED = ("./proc/*", "./sys/*", "./dev/*", "./tmp/*")


def settings(dockerfile: str) -> dict[str, object]:
    """Return what the stage `cpu` of the Dockerfile sets for its containers."""
    stage = re.split(r"^FROM .*$", dockerfile.replace("\\\n", " "), flags=re.MULTILINE)[2]
    lines = dict(re.findall(r"^(ENV|WORKDIR|USER|CMD) (.*)$", stage, re.MULTILINE))
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "Env": lines["ENV"].replace("$PATH", path).split(),
        "WorkingDir": lines["WORKDIR"],
        "User": lines["USER"],
        "Cmd": json.loads(lines["CMD"]),
    }


def main(name: str, folder: str, out: str, *program: str) -> None:
    with tempfile.TemporaryDirectory(dir=Path(out).resolve().parent) as scratch:
        layer = Path(scratch, "layer.tar")
        excluded = [f"--exclude={pattern}" for pattern in NOT_PACKED]
        how = ["--sort=name", "--numeric-owner", *excluded]  # with times, by which Python goes
        subprocess.run(["tar", "-C", folder, *how, "-cf", layer, "."], check=True)
        with layer.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": program} if program else settings(DOCKERFILE.read_text()),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "k8s/image.sh"}],
        }
        text = json.dumps(config).encode()
        config_name = f"{hashlib.sha256(text).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
        with tarfile.open(out, "w") as image:
            for file_name, content in (
                ("manifest.json", json.dumps(manifest).encode()),
                (config_name, text),
            ):
                entry = tarfile.TarInfo(file_name)
                entry.size = len(content)
                image.addfile(entry, io.BytesIO(content))
            image.add(layer, "layer.tar")


if __name__ == "__main__":
    main(*sys.argv[1:])
