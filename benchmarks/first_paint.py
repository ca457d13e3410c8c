"""When each page of the server shows something, in a real browser, on a repository of your own.

    python benchmarks/first_paint.py FOLDER [--runs 7] [--most 200]

The folder is indexed first, in a cache of its own. Each page is loaded in a fresh tab; `first paint` is the browser's
first contentful paint, `reply` the first byte of the page, both from the moment the address is opened, and `filled`
when nothing is loaded any more. The least of the runs counts: the others tell what else the machine does. Exits with 1
where one is above `--most` milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from web_tools import served

CHROMIUM = "/usr/bin/chromium"
PAGES = {
    "search, empty": "/",
    "search": "/?q=where+are+errors+handled",
    "file": "/ui/file",
    "chat": "/ui/chat",
    "agents": "/ui/agents",
    "documents": "/ui/documents",
    "map": "/ui/map",
    "patterns": "/ui/patterns",
    "memories": "/ui/memories",
    "projects": "/ui/projects",
    "health": "/ui/health",
    "api": "/docs",
}
TIMES = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const [page] = performance.getEntriesByType("navigation");
  return [paint ? paint.startTime : -1, page.responseStart];
}"""


def load(context: BrowserContext, address: str) -> tuple[float, float, float]:
    """First paint, first byte and the end of all loading, in milliseconds."""
    page = context.new_page()
    page.goto(address, wait_until="networkidle", timeout=600_000)
    filled = page.evaluate("Math.max(...performance.getEntriesByType('resource').map((one) => one.responseEnd))")
    paint, reply = page.evaluate(TIMES)
    page.close()
    return paint, reply, filled


def found_file(context: BrowserContext, address: str) -> str:
    """The address of a file that a search finds."""
    page = context.new_page()
    page.goto(f"{address}/?q=where+are+errors+handled", timeout=600_000)
    link = page.locator("[data-file]").first
    link.wait_for(timeout=600_000)
    file_address = str(link.get_attribute("href"))
    page.close()
    return file_address


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--most", type=float, default=200.0, help="milliseconds")
    options = parser.parse_args()
    slow = []
    with (
        tempfile.TemporaryDirectory() as home,
        served(options.folder, Path(home)) as address,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context()
        first = context.new_page()
        first.goto(address.link())
        first.wait_for_url(f"{address}/")
        file = found_file(context, address)
        print(f"{options.folder.name}, {options.runs} runs\n")
        print(f"{'page':15}{'first paint':>12}{'median':>8}{'reply':>8}{'filled':>8}   ms")
        for name, path in PAGES.items():
            target = f"{address}{file if name == 'file' else path}"
            runs = [load(context, target) for _ in range(options.runs)]
            paint, reply, filled = (min(run[column] for run in runs) for column in range(3))
            median = statistics.median(run[0] for run in runs)
            print(f"{name:15}{paint:12.0f}{median:8.0f}{reply:8.0f}{filled:8.0f}", flush=True)
            if paint > options.most:
                slow.append(name)
        browser.close()
    if slow:
        print(f"\nabove {options.most:.0f} ms: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
