"""What the commands of the README look like, 80 and 120 columns wide.

    python tools/transcripts.py                  # tests/golden/shop-*.txt, which a test compares with
    python tools/transcripts.py FOLDER           # build/transcripts/click-*.txt, from a clone of pallets/click

Read them after a change: would you act on what they show?
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))

from terminal_tools import WIDTHS, shop_transcript, transcript  # noqa: E402  (found by the line above)

CLICK = """\
codeinfo index
codeinfo "what happens when a required option is missing"
codeinfo search pause
codeinfo search parse arguments src/click/parser.py --limit 2
codeinfo search "colored output" --kind docs --glob 'docs/**' --limit 3
codeinfo search '"Press any key"'
codeinfo search make_pass_decorator --explain --limit 1
codeinfo similar src/click/termui.py:990 --limit 3
codeinfo ask "how does prompt hide its input"
codeinfo defs Option
codeinfo refs pause
codeinfo calls pause
codeinfo map
codeinfo impact src/click/termui.py --limit 10
codeinfo cycles --limit 3
codeinfo patterns
codeinfo search "change the prompt suffix" --purpose edit --limit 3
codeinfo search "shell completion" --json --limit 1 --max-tokens 300
codeinfo status
codeinfo why src/click/core.py
"""


def main() -> None:
    for columns in WIDTHS:
        if len(sys.argv) == 1:
            target, text = REPOSITORY / "tests" / "golden" / f"shop-{columns}.txt", shop_transcript(columns)
        else:
            target = REPOSITORY / "build" / "transcripts" / f"click-{columns}.txt"  # it quotes the code of others
            with tempfile.TemporaryDirectory(dir="/tmp", prefix="codeinfo") as home:
                text = transcript(CLICK.splitlines(), Path(sys.argv[1]).resolve(), Path(home), columns)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        print(target)


if __name__ == "__main__":
    main()
