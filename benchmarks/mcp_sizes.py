"""What agents pay: tokens of `tools/list` for every set over both transports, and of replies to questions.

    npm install --prefix DIR gpt-tokenizer @anthropic-ai/tokenizer
    python benchmarks/mcp_sizes.py --tokenizers DIR QUERIES TREES

QUERIES is a file of JSON lines with `repo`, `query` and `targets`; TREES a folder with a tree for each repo. Tokens are
counted by two real tokenizers (o200k, and one that was published for Claude), each list and reply as the client
receives it. Replies are compared with `includeSnippets: true`, which shows all that is known: the same files must be in
both. Exit code 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIST_TOKENS, REPLY_TOKENS, ESTIMATE = 900, 900, 0.10
COUNTER = """
const o = require('gpt-tokenizer/encoding/o200k_base'), c = require('@anthropic-ai/tokenizer');
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map(text => [o.countTokens(text), c.countTokens(text)])));
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "sizes", "version": "1"}}


def count(texts: list[str], tokenizers: Path) -> list[list[int]]:
    done = subprocess.run(
        ["node", "-e", COUNTER], input=json.dumps(texts), cwd=tokenizers, capture_output=True, text=True, check=True
    )
    counts: list[list[int]] = json.loads(done.stdout)
    return counts


class Session:
    """One server over standard input and output; `handshake_s` is how long it took to be there."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        started = time.perf_counter()
        command, pipe = [sys.executable, "-m", "codeinfo", "mcp", *options], subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, env=environment)
        self._number = 0
        self.request("initialize", HELLO)
        self.handshake_s = time.perf_counter() - started
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self.process.stdout is not None
        while (reply := json.loads(self.process.stdout.readline())).get("id") != self._number:
            pass
        result: dict[str, Any] = reply["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The whole HTTP application; yields the address of its MCP server."""
    import uvicorn

    from codeinfo.config import Config
    from codeinfo.serve.auth import Access, hosts_for
    from codeinfo.shells.http import make_app, make_state

    os.chdir(folder)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = make_app(make_state(Config.load()), Access(hosts_for("127.0.0.1", port), "t" * 32))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join(10)


def listed_over_http(address: str) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {"x-codeinfo-token": "t" * 32, "mcp-protocol-version": "2025-11-25"}
    request = urllib.request.Request(address, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        body = reply.read().decode()
    data = next((line[5:] for line in body.splitlines() if line.startswith("data:")), body)
    return compact(json.loads(data)["result"]["tools"])


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def show_lists(folder: Path, tokenizers: Path) -> bool:
    from codeinfo.shells.mcp_tools import SETS

    print(f"{'set':<10}{'tools':>6}{'characters':>12}{'o200k':>8}{'claude':>8}   the same over HTTP")
    with served(folder) as address:
        over_http = {name: listed_over_http(f"{address}/{name}") for name in SETS}
        over_http[""] = listed_over_http(address)
    default = [0, 0]
    for name in SETS:
        session = Session(folder, "--tools", name)
        tools = session.request("tools/list", {})["tools"]
        session.close()
        text = compact(tools)
        (tokens,) = count([text], tokenizers)
        over = json.loads(over_http[name])
        less = ", ".join(sorted({tool["name"] for tool in tools} - {tool["name"] for tool in over}))
        same = "yes" if over == tools else f"{len(over)} tools, without {less}"
        print(f"{name:<10}{len(tools):>6}{len(text):>12,}{tokens[0]:>8,}{tokens[1]:>8,}   {same}")
        default = tokens if over_http[""] == over_http[name] else default
    print(f"default over both transports: {default[0]} and {default[1]} tokens, at most {LIST_TOKENS}")
    return max(default) <= LIST_TOKENS


def show_replies(queries: list[dict[str, Any]], trees: Path, tokenizers: Path, keep: Path | None) -> bool:
    texts, estimates, answered, answered_whole = list[str](), list[int](), 0, 0
    for repo in dict.fromkeys(query["repo"] for query in queries):
        session = Session(trees / repo)
        for query in (row for row in queries if row["repo"] == repo):
            text = session.call("search_codebase", query=query["query"])["content"][0]["text"]
            reply = json.loads(text)
            if len(reply["results"]) < 10:
                continue
            whole = json.loads(
                session.call("search_codebase", query=query["query"], includeSnippets=True)["content"][0]["text"]
            )
            texts.append(text)
            estimates.append(reply["searchQuality"]["tokenEstimate"])
            targets = [target["path"] for target in query["targets"]]
            answered += has_any(reply, targets)
            answered_whole += has_any(whole, targets)
        session.close()
    tokens = count(texts, tokenizers)
    if keep:
        keep.write_text(json.dumps(texts))
    good = True
    print(
        f"\n{len(texts)} replies of ten results: {answered} have a right file, {answered_whole} with all that is known"
    )
    for name, column in (("o200k", 0), ("claude", 1)):
        sizes = sorted(counted[column] for counted in tokens)
        middle = statistics.median(sizes)
        print(f"  {name:<8} median {middle:,.0f}, largest {sizes[-1]:,} tokens, at most {REPLY_TOKENS}")
        good &= sizes[-1] <= REPLY_TOKENS
    errors = sorted(abs(guess - sum(real) / 2) / (sum(real) / 2) for guess, real in zip(estimates, tokens, strict=True))
    print(f"  tokenEstimate is off the mean of both by {errors[len(errors) // 2]:.1%}, at worst {errors[-1]:.1%}")
    return good and errors[-1] <= ESTIMATE and answered == answered_whole


def has_any(reply: dict[str, Any], targets: list[str]) -> bool:
    shown = {result["file"].rpartition(":")[0] for result in reply["results"]}
    return any(target == path or target.endswith(f"/{path}") for target in targets for path in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path)
    parser.add_argument("trees", type=Path)
    parser.add_argument("--tokenizers", type=Path, required=True)
    parser.add_argument("--repos", nargs="*", default=[])
    parser.add_argument("--most", type=int, default=100, help="questions")
    parser.add_argument("--keep", type=Path, help="write the replies there, to calibrate the estimate")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.queries.read_text().splitlines()]
    there = [row for row in rows if (options.trees / row["repo"]).is_dir()]
    chosen = [row for row in there if not options.repos or row["repo"] in options.repos][: options.most]
    lists = show_lists(options.trees / chosen[0]["repo"], options.tokenizers)
    replies = show_replies(chosen, options.trees, options.tokenizers, options.keep)
    sys.exit(0 if lists and replies else 1)


if __name__ == "__main__":
    main()
