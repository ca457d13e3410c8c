"""`codeinfo search -I`: type, see the results, open one in an editor at its line.

Drawn on stderr, so that stdout holds only what was chosen. Imported on demand: no other command needs a terminal that
reports single keys.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import select
import shlex
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from codeinfo.config import editor_command, refuses_colour
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.model import Hit, SearchResult, split_lines
from codeinfo.operations.search import SearchRequest
from codeinfo.shells.render import mark_words, query_words, title_of, window
from codeinfo.shells.terminal import Output, cells, near_path, show_progress

IDLE_S = 0.08  # without a key before a search: results for half a word are not worth it
LISTED = 10  # results above the text of the selected one
ESCAPE_S = 0.05  # the rest of a key's sequence follows at once; after Esc alone comes nothing
HELP = "↑↓ choose · Enter open · Ctrl-U clear · Esc end"
_SHOW, _HIDE = "\x1b[?1049h\x1b[?25h", "\x1b[?1049l"
_KEYS = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
_UP, _DOWN = ("\x1b[A", "\x1bOA", "\x10"), ("\x1b[B", "\x1bOB", "\x0e")
_MOVES = {**dict.fromkeys(_UP, -1), **dict.fromkeys(_DOWN, 1), "\x1b[5~": -LISTED, "\x1b[6~": LISTED}
_AT_LINE = {  # how editors are told to open a file at a line; the others, by +LINE
    **dict.fromkeys(("code", "code-insiders", "codium", "cursor", "windsurf"), ("--goto", "{path}:{line}")),
    **dict.fromkeys(("subl", "zed", "hx", "helix"), ("{path}:{line}",)),
    **dict.fromkeys(("idea", "pycharm", "goland", "webstorm", "clion", "rider"), ("--line", "{line}", "{path}")),
}


def pick(engine: Engine, request: SearchRequest) -> int:
    """Search as a person types, until a result is opened or the screen is left."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("an interactive search needs a terminal", "Leave -I out to print the results")
    with show_progress(sys.stderr) as progress:  # a first search indexes, before the screen is switched
        engine.search(replace(request, query=request.query or "index", limit=1), progress)
    picker = Picker(engine, replace(request, refresh=False, limit=max(request.limit, LISTED)))
    with _keys() as keys:
        chosen = picker.run(keys)
    if chosen is None:
        return 0
    path = os.path.join(chosen.root, chosen.path)
    command = editor_command()
    if command and sys.stdout.isatty():
        return subprocess.run(editor_command_for(command, path, chosen.start_line), check=False).returncode
    print(f"{near_path(path)}:{chosen.start_line}")
    return 0


def editor_command_for(command: str, path: str, line: int) -> list[str]:
    program = shlex.split(command)
    arguments = _AT_LINE.get(os.path.basename(program[0]), ("+{line}", "{path}"))
    return [*program, *(argument.format(path=path, line=line) for argument in arguments)]


class Picker:
    def __init__(self, engine: Engine, request: SearchRequest) -> None:
        self._engine = engine
        self._request = request
        self._query = request.query
        self._result: SearchResult | None = None
        self._chosen = 0
        self._problem = ""

    def run(self, keys: Iterator[str]) -> Hit | None:
        self._search()
        self._draw()
        for key in keys:
            if key == "":  # nothing was pressed for a moment
                self._search()
            elif key in ("\r", "\n"):
                self._search()
                if self._hits:
                    return self._hits[self._chosen]
            elif key in ("\x1b", "\x04"):
                return None
            elif key in _MOVES:
                self._chosen = min(max(0, self._chosen + _MOVES[key]), max(0, len(self._hits) - 1))
            else:
                self._edit(key)
            self._draw()
        return None

    @property
    def _hits(self) -> tuple[Hit, ...]:
        return self._result.hits if self._result else ()

    def _edit(self, key: str) -> None:
        if key in ("\x7f", "\x08"):
            self._query = self._query[:-1]
        elif key == "\x15":
            self._query = ""
        elif key == "\x17":
            self._query = self._query.rstrip().rpartition(" ")[0]
        elif key.isprintable():
            self._query += key

    def _search(self) -> None:
        if self._result is not None and self._result.query == self._query:
            return
        self._chosen, self._result, self._problem = 0, None, ""
        if self._query.strip():
            try:
                self._result = self._engine.search(replace(self._request, query=self._query))
            except CodeInfoError as error:
                self._problem = str(error)

    def _draw(self) -> None:
        size = os.get_terminal_size(sys.stderr.fileno())
        screen = _Screen()
        out = Output(screen, colour=not refuses_colour())
        out.width = size.columns
        out.uncut_line(("> ", "bold"), *out.fit_spans([self._query], 2))
        status = self._problem or (f"{len(self._hits)} results · {HELP}" if self._result else HELP)
        out.uncut_line(("  " + out.cut(status, 2), "yellow" if self._problem else "dim"))
        listed = min(LISTED, max(3, size.lines // 3))
        first = max(0, self._chosen - listed + 1)
        for number, hit in enumerate(self._hits[first : first + listed], first):
            self._row(hit, out, chosen=number == self._chosen)
        if self._hits:
            out.uncut_line()
            self._text(self._hits[self._chosen], out, size.lines - screen.getvalue().count("\n") - 1)
        lines = screen.getvalue().splitlines()[: size.lines - 1]
        typed = min(size.columns, 3 + cells(self._query))
        drawn = "".join(f"{line}\x1b[K\r\n" for line in lines)
        sys.stderr.write(f"\x1b[H{drawn}\x1b[J\x1b[1;{typed}H")
        sys.stderr.flush()

    def _row(self, hit: Hit, out: Output, *, chosen: bool) -> None:
        place = f"{near_path(hit.root, hit.path)}:{hit.start_line}"
        label = title_of(hit)
        spans = out.fit_spans([(place, "bold cyan"), f"  {label}" if label else ""], 2)
        out.uncut_line(("▌ ", "bold yellow") if chosen else "  ", *spans)

    def _text(self, hit: Hit, out: Output, rows: int) -> None:
        terms = query_words(self._query)
        lines = out.code(hit.text, hit.path)
        for index in window(split_lines(hit.text), terms, rows)[:rows] if rows > 2 else ():
            out.numbered_line(f"{hit.text_line + index:>5} │ ", mark_words(lines[index], terms))


class _Screen(io.StringIO):
    """Collects what is drawn, so that it is written in one piece."""

    def isatty(self) -> bool:
        return True


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """Keys as they are pressed, "" after a moment without one; restores the terminal afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    sys.stderr.write(_SHOW)
    try:
        yield _read_keys(descriptor)
    finally:
        sys.stderr.write(_HIDE)
        sys.stderr.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read_keys(descriptor: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pause: float | None = None
    while True:
        if pause is not None and not select.select([descriptor], [], [], pause)[0]:
            pause = None
            yield ""
            continue
        read = os.read(descriptor, 1024)
        if read == b"\x1b" and select.select([descriptor], [], [], ESCAPE_S)[0]:
            read += os.read(descriptor, 1024)
        if not read:
            return
        pause = IDLE_S
        yield from _KEYS.findall(decoder.decode(read))
