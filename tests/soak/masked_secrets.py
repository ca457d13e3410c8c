"""Random keys of every kind in every container, indexed for real: no search, passage or stored file shows one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from sandbox import Sandbox, Tally
from secret_corpus import Case, cases, unpacked_values

LEAST_MASKED = 0.99  # of each kind
MOST_KINDS_SHOWN = 2
CONTROL = "a sentence that must be found where secrets are looked for"


def check_secrets(sandbox: Sandbox, tally: Tally, seed: int, each: int) -> None:
    written: dict[str, Case] = {}
    for number, case in enumerate(cases(seed, each)):
        path = Path(f"secret{number // 200:03}") / f"{number:05}-{case.path}"
        (sandbox.project / path).parent.mkdir(exist_ok=True)
        (sandbox.project / path).write_text(case.text)
        written[str(path)] = case
    (sandbox.project / "control.md").write_text(f"# Control\n\n{CONTROL}\n")
    done = sandbox.ask("index", str(sandbox.project))
    if done.code not in (0, 3):
        tally.fail("secrets", f"index ended with {done.code}: {done.err[-500:]}")
        return
    stored = [path for path in sorted(sandbox.home.rglob("*")) if path.is_file()]
    parts = [path.read_bytes() for path in stored]  # before a database is opened, which takes its log away
    parts += (value for path in stored if path.exists() for value in unpacked_values(path))
    plain = b"\n".join(parts).decode("utf-8", "replace")
    if CONTROL not in plain or "[masked:" not in plain:
        tally.fail("secrets", "what is stored is not readable as it is, so that nothing could be found in it")
        return
    missed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for place, case in written.items():
        total[case.kind] += 1
        shown = find_unmasked(case, plain)
        tally.done["secrets"] += 1
        tally.outcomes.setdefault("secrets", Counter())["stored" if shown else "masked"] += 1
        if shown:
            missed[case.kind] += 1
            print(f"stored: {case.kind} in {place}", flush=True)
    tally.slowest["secrets"] = 0.0
    bad = {kind: count for kind, count in missed.items() if 1 - count / total[kind] < LEAST_MASKED}
    tally.figures.append(f"secrets: {len(total)} kinds, {sum(total.values())} keys, {sum(missed.values())} stored")
    if len(bad) > MOST_KINDS_SHOWN:
        tally.fail("secrets", f"kinds that are not masked well enough: {bad}")


def find_unmasked(case: Case, plain: str) -> str:
    """Whether a whole secret stands in what is stored; parts are left to tests/test_secrets.py, which sees one file."""
    return next((secret for secret in case.secrets if secret in plain), "")
