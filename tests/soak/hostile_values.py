"""Texts and values that nobody means well, drawn from a seed."""

from __future__ import annotations

import random
from typing import Any

PIECES = (
    "", " ", ".", "..", "::", "a::", "a.", "()", "*", "[", "(?", "\n", "~", "--help", "--", "-n", "é", "\u202e",
    "\x1b[31m",    "\x9b31m", "\ufeff", "\u0000", "𝔘", "%00", "%2e%2e%2f", "../" * 9 + "etc/passwd", "/etc/passwd", "file:///etc/passwd",
    "git+file:///etc", "http://169.254.169.254/latest", "http://127.0.0.1:1/x", "http://[::1]/", "data:text/html,x",
    "**/" * 60 + "zzz", "a?" * 45 + "a" * 45, "(a+)+$", "(?:a|a)*b", "{" * 500, "[" * 2000, "((((" * 300, "NaN",
    "1e999", "'; DROP TABLE files; --", "${HOME}", "$(id)", "`id`", "<script>alert(1)</script>", "compute_3_1",
    "steady.py",
    "module0001.py", "null", "true", "-1", "0", "99999999999999999999", "\udcff", "a" * 300, "x y " * 4000,
)  # fmt: skip
SMALL = tuple(piece for piece in PIECES if "\0" not in piece and len(piece) < 20_000)


def text(rng: random.Random) -> str:
    """One piece, several, or one with characters exchanged."""
    piece = rng.choice(PIECES)
    if rng.random() < 0.3:
        piece += rng.choice(PIECES)
    if piece and rng.random() < 0.2:
        at = rng.randrange(len(piece))
        piece = piece[:at] + chr(rng.choice((0, 7, 34, 92, 0x202E, 0x9B, 0x1F600, 0xFFFF))) + piece[at + 1 :]
    return piece


def value(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON value."""
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind < 3:
        return text(rng).encode("utf-8", "replace").decode()
    if kind == 3:
        return rng.choice((0, -1, 1, 10**6, 10**30, 1.5, -0.0))
    if kind < 6:
        return rng.choice((None, True, False, "", [], {}))
    if kind == 6:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {text(rng)[:50]: value(rng, depth + 1) for _ in range(rng.randrange(4))}


def fitting(schema: dict[str, Any], rng: random.Random) -> Any:
    """A value of the kind that a schema asks for, mostly; what must be given is given, mostly."""
    if rng.random() < 0.1:
        return value(rng)
    kind = schema.get("type") or next((one.get("type") for one in schema.get("anyOf", ()) if "type" in one), "string")
    if "enum" in schema and rng.random() < 0.7:
        return rng.choice(schema["enum"])
    if kind == "array":
        return [fitting(schema.get("items", {}), rng) for _ in range(rng.choice((0, 1, 3, 12)))]
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: fitting(one, rng)
            for name, one in schema.get("properties", {}).items()
            if (name in required and rng.random() < 0.95) or (name not in required and rng.random() < 0.3)
        }
    if kind in ("integer", "number"):
        return rng.choice((0, -1, 1, 5, 10**6, 10**30))
    return rng.choice((True, False)) if kind == "boolean" else text(rng)
