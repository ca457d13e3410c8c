"""The demo: index a small sample repository, search it, see why a result came first, and ask a question.

It runs the same commands that you would type, on a copy under `.demo/`, with its index there too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / ".demo"

STEPS = (
    ("index", "--root", "."),  # it lies in this repository, and is a project of its own from here on
    ("search", "what happens when the payment provider is down", "-n", "3"),
    ("search", "release_expired", "-n", "1", "--explain"),
    ("ask", "what happens when the payment provider is down"),
    ("why", "node_modules/left-pad/index.js"),
    ("status",),
)


def main() -> int:
    shutil.rmtree(DEMO, ignore_errors=True)
    repository = DEMO / "shop"
    shutil.copytree(HERE / "shop", repository)
    (repository / "node_modules" / "left-pad").mkdir(parents=True)
    (repository / "node_modules" / "left-pad" / "index.js").write_text("module.exports = (s, n) => s.padStart(n);\n")
    environment = {**os.environ, "CODEINFO_HOME": str(DEMO / "home")}
    for step in STEPS:
        shown = " ".join(f"'{word}'" if " " in word else word for word in step)
        print(f"\n$ codeinfo {shown}", flush=True)
        done = subprocess.run([sys.executable, "-m", "codeinfo", *step], cwd=repository, env=environment, check=False)
        if done.returncode:
            return done.returncode
    print("\nThat was a sample. In your own repository: codeinfo search 'what you are looking for'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
