"""Bits flipped, numbers made non-finite and tails cut off, in every file that CodeInfo keeps.

What is derived (indexes) must answer as before, or refuse and heal, or say what it did. What is precious (memories,
conversations, the list of collections) must stay readable or be refused by name; it may never become fewer in silence.
"""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

from sandbox import Failed, Sandbox, State, Tally, answers, answers_with_notes, check_end, state

NUMBERS = (float("nan"), float("inf"), float("-inf"), 1e38)
DERIVED = {
    "index.db": "cache/indexes/*/v*/index.db",
    "vectors": "cache/indexes/*/v*/vectors-*",
    "pointer": "cache/indexes/*/current",
    "tree's pointer": "cache/indexes/*/trees/*/current",
    "documents index.db": "cache/documents/indexes/*/v*/index.db",
    "documents vectors": "cache/documents/indexes/*/v*/vectors-*",
}
PRECIOUS = {
    "memory.json": ".codeinfo/memory.json",
    "conversations.db": "data/conversations.db",
    "collections.json": "data/collections.json",
}


def flip_bits(sandbox: Sandbox, tally: Tally, wanted: int, rng: random.Random) -> None:
    expected = sandbox.inside(answers)
    targets = [*DERIVED, "index.db", "vectors", *PRECIOUS]
    for number in range(wanted):
        name = targets[number % len(targets)]
        sandbox.restore()
        what = damage(target(sandbox, name), name, rng)
        if name in DERIVED:
            tally.attempt(f"flip: {name}", what, lambda: check_index(sandbox, expected))
        else:
            tally.attempt(f"flip: {name}", what, lambda: check_user_data(sandbox, name))  # noqa: B023  called now


def target(sandbox: Sandbox, name: str) -> Path:
    if name == "memory.json":
        return sandbox.project / PRECIOUS[name]
    (path,) = sandbox.home.glob(DERIVED.get(name) or PRECIOUS[name])
    return path


def damage(path: Path, name: str, rng: random.Random) -> str:
    """One bit mostly; else a number that is none, an empty block or a cut. In words that repeat it."""
    size = path.stat().st_size
    at = rng.randrange(size)
    manner = rng.choice(("bit",) * 7 + ("number" if "vectors" in name else "bit", "zeroes", "cut"))
    with open(path, "r+b") as file:
        if manner == "cut":
            file.truncate(at)
            return f"{name} cut to {at} of {size} bytes"
        at = at // 4 * 4 if manner == "number" else at
        file.seek(at)
        old = file.read({"bit": 1, "number": 4, "zeroes": 512}[manner])
        new = bytes(len(old))
        if manner == "bit":
            new = bytes([old[0] ^ 1 << rng.randrange(8)])
        elif manner == "number":
            new = struct.pack("<f", rng.choice(NUMBERS))
        file.seek(at)
        file.write(new)
    return f"{name} {manner} at {at} of {size}: {old[:8].hex()} to {new[:8].hex()}"


def check_index(sandbox: Sandbox, expected: tuple[Any, ...]) -> str:
    """The same answers, or a refusal or a note and then the same answers."""
    outcome = "harmless"
    try:
        found, notes = sandbox.inside(answers_with_notes)
    except Failed as failure:
        if "ended with 5" not in str(failure):
            raise
        outcome = "refused, healed"
        for _ in range(3):  # one command repairs one index, and the documents have another
            try:
                found, notes = sandbox.inside(answers_with_notes)
                break
            except Failed as again:
                if "ended with 5" not in str(again):
                    raise
        else:
            raise Failed(f"refused four times: {failure}") from None
    if any("set aside" in note for note in notes):
        outcome = "announced, healed" if outcome == "harmless" else outcome
    if found != expected:
        return _differs(sandbox, expected, found, outcome, notes)
    sandbox.check_nothing_left()
    return outcome


def _differs(
    sandbox: Sandbox, expected: tuple[Any, ...], found: tuple[Any, ...], outcome: str, notes: list[str]
) -> str:
    """A vector that is a little off may change an order (docs/durability.md); nothing else may, and nothing is gone."""
    fewer = [(was, now) for was, now in zip(expected, found, strict=True) if now.count("[") < was.count("[")]
    if fewer and not notes:
        raise Failed(f"fewer results in silence: {fewer[0][0][:300]} became {fewer[0][1][:300]}")
    if sandbox.ask("doctor", str(sandbox.project)).code == 0 and not notes:
        raise Failed(f"other results in silence, and doctor finds nothing: {found} instead of {expected}"[:1500])
    return "another order, doctor tells" if outcome == "harmless" else f"{outcome}, another order"


def check_user_data(sandbox: Sandbox, name: str) -> str:
    path = target(sandbox, name)
    size = path.stat().st_size
    try:
        now: State = sandbox.inside(state)
    except Failed as failure:
        if "ended with" not in str(failure):
            raise
        _check_refusal(sandbox, name, path, size)
        return "refused by name"
    before, found = set().union(*sandbox.state), set().union(*now)
    if before <= found:
        return "harmless"
    if [len(part) for part in now] >= [len(part) for part in sandbox.state] and len(found) >= len(before):
        return "a text altered, not noticed"
    raise Failed(f"fewer in silence: {[str(one)[:200] for one in before - found]}")


def _check_refusal(sandbox: Sandbox, name: str, path: Path, size: int) -> None:
    """Refusing must not throw away what can still be repaired by hand, nor stop a search."""
    kept = [one.stat().st_size for one in path.parent.glob(f"{path.name}*")]
    if not kept or max(kept) < min(size, path.stat().st_size if path.exists() else size):
        raise Failed(f"{name} was refused and is gone: {os.listdir(path.parent)}")
    done = sandbox.ask("search", "steady_landmark", str(sandbox.project))
    check_end(done)
    if done.code != 0 or "steady.py" not in done.out:
        raise Failed(f"a search fails because of {name}: exit {done.code}, {done.err[-500:]}")
