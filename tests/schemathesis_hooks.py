"""What Schemathesis makes up, led to what there is: else nearly every answer would be 404.

Half of the requests, by the length of what was made up, are left as they are.
"""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis

HERE: dict[str, str] = json.loads(os.environ["DOCUMENT_TEST_KNOWN"])  # what the test made beforehand
DESTROYS = ("/remove", "/clear")  # what others need
# The server's own project is meant where none is named.
FOLDERS = ("paths", "working_folder", "root", "repository", "projects", "conversationId", "conversation", "provider")
FILES = ("/why", "/symbols", "/imports", "/impact")
VALUES: dict[str, Any] = {
    "agent": "explainer", "command": "", "collection": "notes", "collections": ["notes"], "document": "notes.md",
    "file": "bank.py", "instruction": "look at transfer", "memory": "Move money in one transaction", "message": "who?",
    "model": "", "name": "transfer", "place": "bank.py:4", "queries": ["when does it open"], "query": "move money",
    "question": "how is it moved?", "reason": "it was lost", "scope": "global", "symbol": "transfer", "text": "money",
    "changed_since": "HEAD", "base": "HEAD", "conversationIds": [HERE["conversation"]], "ids": [HERE["conversation"]],
    "runId": HERE["indexing"], "section": "",
}  # fmt: skip


def is_led(made_up: object) -> bool:
    return len(json.dumps(made_up, default=str)) % 2 == 0


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    where = context.operation.path if context.operation else ""
    if where.endswith("/conversations/delete") and isinstance(body, dict):  # a made-up id may be the beginning of one
        return {name: [HERE["spare"]] if name in ("ids", "conversationIds") else value for name, value in body.items()}
    if not isinstance(body, dict) or not is_led(body) or where.endswith(DESTROYS):
        return body
    led = {name: VALUES.get(name, value) for name, value in body.items() if name not in FOLDERS}
    if "id" in led:
        led["id"] = HERE["memory" if "/memory/" in where else "conversation"]
    if where in ("/ingest/start", "/ingest/reembed"):
        return led | {"path" if where.endswith("start") else "root": HERE["project"]}
    if "path" in led:
        led["path"] = "bank.py" if where.endswith(FILES) else HERE["project"]
    return led


@schemathesis.hook
def map_path_parameters(context: schemathesis.HookContext, path_parameters: Any) -> Any:
    if not isinstance(path_parameters, dict) or not is_led(path_parameters):
        return path_parameters
    where = context.operation.path if context.operation else ""
    run = HERE["indexing" if where.startswith("/ingest/") else "answering"]
    led = {"name": "explainer", "identity": HERE["conversation"], "run_id": run}
    return {name: led.get(name, value) for name, value in path_parameters.items()}
