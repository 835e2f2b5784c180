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
TABLE = re.compile(  # its title, its headings, a rule and its rows
    r"^```\n(?P<study>\w+@\w+): .*?^(?P<columns>arm [^\n]*)\n─+\n(?P<rows>.*?)\n\n",
    re.DOTALL | re.MULTILINE,
)
MADE_ON = (
    'ablate query --format csv "SELECT DISTINCT processor, kernels, ablate_commit FROM trials '
    "WHERE study_key = '{study}'\""
)
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
                    done[command], printed = runs(command)
                    compare_digits(Path(file).read_text(), printed)
                counts["passed" if done[command] else "failed"] += 1
    print(f"{file}: {', '.join(f'{number} {name}' for name, number in counts.items())}")
    return 1 if counts["failed"] or not counts["passed"] else 0


def commands(block: str) -> list[str]:
    """Return the commands of a block, with lines joined that a backslash continues."""
    joined = block.replace("\\\n", " ")
    lines = (line.split("  #")[0].strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def compare_digits(page: str, printed: str) -> None:
    """Say which rows of the page's table this machine printed with other digits, and why it may:
    bits agree on one processor, with the same kernels."""
    table = TABLE.search(page)
    lines = printed.splitlines()
    if table is None or table["columns"] not in lines:
        return  # another table, perhaps of the same study
    rows = table["rows"].splitlines()
    other = [row for row in rows if row not in lines]
    print(f"{table['study']}: {len(other)} of {len(rows)} rows of the page have other digits here")
    for place, where in (("the page", " --results results"), ("here", "")) if other else ():
        print(f"made on, {place}:\n{output(MADE_ON.format(study=table['study']) + where)[1]}")


def runs(command: str) -> tuple[bool, str]:
    """Run a command and print how it ended; return whether it succeeded, and what it printed."""
    start = time.monotonic()
    succeeded, printed = output(command)
    result = "ok" if succeeded else "FAILED"
    print(f"{result} in {time.monotonic() - start:.0f} s: {command}")
    print("\n".join(printed.splitlines()[-3:]) if succeeded else printed[-20_000:], flush=True)
    return succeeded, printed


def output(command: str) -> tuple[bool, str]:
    """Run a command with this checkout's programs."""
    path = f"{Path('.venv/bin').absolute()}:{os.environ['PATH']}"
    done = subprocess.run(
        ["timeout", "--signal=INT", str(LIMIT_S), "bash", "-c", command],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
