"""`codeinfo ask`, `chat` and `docs ask` against a real model that a real program serves; see real_model.py for it.

    python benchmarks/real_answers.py PROJECT [--venv FOLDER]

The model (SmolLM2, 135M parameters) is far too small to answer well. What this shows is that the way works: search,
grades, a streamed reply, checked citations, a second turn, and that whatever the model gets wrong is said.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from real_model import free_port, install, served

QUESTIONS = ("How are redirects followed?", "Which exception is raised when there are too many?")
DOCUMENT_QUESTION = "How is the timeout of a request set?"
SETTINGS = ("answers.tool_calls=0", "answers.reply_tokens=120", "answers.items=3")
LIMITS = tuple(part for setting in SETTINGS for part in ("--set", setting))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("project", type=Path, help="a folder with documents in `docs`, best that of `requests`")
    arguments.add_argument("--venv", type=Path, help="a folder to keep the server's environment in")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as home:
        python, model = install(options.venv or Path(home) / "venv")
        with served(python, model, free_port()) as url:
            env = {**os.environ, "CODEINFO_HOME": home, "CODEINFO_LLM_BASE_URL": url}
            run(options.project, env, "providers")
            run(options.project, env, "ask", QUESTIONS[0], "--trace", *LIMITS)
            run(options.project, env, "chat", *LIMITS, text="\n".join(QUESTIONS) + "\n")
            run(options.project, env, "docs", "add", "docs", "--name", "manual")
            run(options.project, env, "docs", "ask", DOCUMENT_QUESTION, *LIMITS)
            run(options.project, env, "conversations", "list")
    return 0


def run(folder: Path, env: dict[str, str], *arguments: str, text: str = "") -> None:
    print(f"\n$ codeinfo {' '.join(arguments)}", flush=True)
    command = [sys.executable, "-m", "codeinfo", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, input=text, text=True, stderr=subprocess.STDOUT, check=False)
    print(f"[exit {done.returncode}]", flush=True)


if __name__ == "__main__":
    sys.exit(main())
