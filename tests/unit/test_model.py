"""Decoders of values in threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from codeinfo.model import plain_headings

# Classes that nothing has decoded yet, again and again: with `msgspec.json.decode(…, type=…)` the process crashes.
RACE = """
import sys, threading
from msgspec import defstruct, json, msgpack
from codeinfo.model import {used}

sys.setswitchinterval(1e-7)
for _ in range(100):
    kind = int
    for level in range(6):
        kind = defstruct(f"C{{level}}", [(f"f{{n}}", list[kind] | None, None) for n in range(4)])
    written = {{"f0": [{{"f1": [{{"f2": [{{"f0": [{{"f3": [{{"f0": [1]}}]}}]}}]}}]}}]}}
    start = threading.Barrier(4)
    wrong = []

    def decode():
        start.wait()
        if {call}.f0[0].f1[0].f2[0].f0[0].f3[0].f0 != [1]:
            wrong.append(1)

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
"""


@pytest.mark.parametrize(
    ("used", "call"),
    [
        ("json_decoder", "json_decoder(kind).decode(json.encode(written))"),
        ("msgpack_decoder", "msgpack_decoder(kind).decode(msgpack.encode(written))"),
        ("convert", "convert(written, kind)"),
        ("decode_stored", "decode_stored(json.encode(written), kind)"),
    ],
)
def test_threads_may_decode_a_type_for_the_first_time_together(used: str, call: str) -> None:
    program = RACE.format(used=used, call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Clinic [![build](https://a/b.svg)](https://a) > Set up", "Clinic > Set up"),
        ("Clinic [![build](https://a/very/lo > Set up (for one)", "Clinic > Set up (for one)"),
        ('<img src="logo.png"> Clinic > The [guide](https://a) of vector<int>', "Clinic > The guide of vector<int>"),
        ("arrays[0] and f(x) > [Unreleased] > __init__.py", "arrays[0] and f(x) > [Unreleased] > __init__.py"),
    ],
)
def test_headings_are_shown_without_their_markup(written: str, read: str) -> None:
    assert plain_headings(written) == read
