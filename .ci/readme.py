"""Run the commands of Markdown files, so that they cannot rot.

Every ```sh block is run, line by line, from the top of the checkout. One that CI cannot run (a
server, a cluster, a download) stands behind `<!-- not run: the reason -->`, and is counted.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

BLOCK = re.compile(r"(?:<!-- not run: (?P<why>[^>]*) -->\n)?```sh\n(?P<commands>.*?)```", re.DOTALL)
LIMIT_S = 1800


def main(*files: str) -> int:
    done: dict[str, bool] = {}  # by command: pages repeat some, each of which is run once
    return max(run_page(file, done) for file in files)


def run_page(file: str, done: dict[str, bool]) -> int:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for block in BLOCK.finditer(Path(file).read_text()):
        for command in commands(block["commands"]):
            if block["why"]:
                print(f"not run ({block['why']}): {command}", flush=True)
                counts["skipped"] += 1
            else:
                if command not in done:
                    done[command] = runs(command)
                counts["passed" if done[command] else "failed"] += 1
    print(f"{file}: {', '.join(f'{number} {name}' for name, number in counts.items())}")
    return 1 if counts["failed"] or not counts["passed"] else 0


def commands(block: str) -> list[str]:
    """Return the commands of a block, with lines joined that a backslash continues."""
    joined = block.replace("\\\n", " ")
    lines = (line.split("  #")[0].strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def runs(command: str) -> bool:
    start = time.monotonic()
    path = f"{Path('.venv/bin').absolute()}:{os.environ['PATH']}"
    done = subprocess.run(
        ["timeout", "--signal=INT", str(LIMIT_S), "bash", "-c", command],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    result = "ok" if done.returncode == 0 else "FAILED"
    print(f"{result} in {time.monotonic() - start:.0f} s: {command}")
    shown = done.stdout[-20_000:] if done.returncode else "\n".join(done.stdout.splitlines()[-3:])
    print(shown, flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
