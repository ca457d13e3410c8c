"""Which tool a real model picks: 60 tasks, the default set as it is sent, and any chat endpoint that can call tools.

    python benchmarks/tool_choice.py --base-url http://127.0.0.1:1234/v1 --model NAME

`tool_choice.jsonl` has a task a line and the tool that fits: search_codebase, explore, or none. The model gets the
server's instructions, the two tools and one task, no other tool; what it calls first counts. Printed are the share that
fits and every task where it does not, so that a description can be improved where models misread it.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from codeinfo.errors import ProviderError
from codeinfo.models.chat import make_llm
from codeinfo.models.endpoints import ChatEndpoint
from codeinfo.ports import Message, ToolSpec
from codeinfo.shells.mcp_protocol import INSTRUCTIONS
from codeinfo.shells.mcp_tools import choose_tools, describe_tool

TASKS = Path(__file__).with_suffix(".jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    llm = make_llm(ChatEndpoint(options.base_url, options.model, None))
    shown = [describe_tool(tool) for tool in choose_tools(())]
    tools = [ToolSpec(tool["name"], tool["description"], tool["inputSchema"]) for tool in shown]
    tasks = [json.loads(line) for line in TASKS.read_text().splitlines()]
    outcomes: Counter[tuple[str, bool]] = Counter()
    for row in tasks:
        try:
            *_, last = llm.stream([Message("system", INSTRUCTIONS), Message("user", row["task"])], tools=tools)
            picked = last.tool_calls[0].name if last.tool_calls else "none"
        except ProviderError as error:
            picked = f"failed: {error.what}"
        outcomes[row["tool"], picked == row["tool"]] += 1
        if picked != row["tool"]:
            print(f"  {picked:<18} instead of {row['tool']:<16} {row['task']}")
    for name in dict.fromkeys(row["tool"] for row in tasks):
        good, bad = outcomes[name, True], outcomes[name, False]
        print(f"{name:<18}{good} of {good + bad}")


if __name__ == "__main__":
    main()
