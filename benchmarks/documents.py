"""How well and how fast documents are found.

    relevance FOLDER   the Cranfield collection (cran.all.1400.xml, cran.qry.xml, cranqrel.trec.txt): nDCG@10, MRR@10
                       and recall@10 of words alone, meaning alone, and both, through the same facade as every shell
    pages FOLDER       index a folder of pages, then search it: seconds, and milliseconds a query

FOLDER is never changed; what is written goes to a temporary folder.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.requests.documents import DocsAddRequest, DocsSearchRequest

DEPTH = 10
QUESTIONS = (
    "how do I deploy the site",
    "configure a custom font",
    "fetch data at build time",
    "what changed in the last major version",
    "environment variables that the client may see",
    "render a list of blog posts with pagination",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("relevance", "pages"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
    options = parser.parse_args()
    flags = dict(item.split("=", 1) for item in options.set)
    with tempfile.TemporaryDirectory() as place:
        if options.what == "relevance":
            relevance(options.folder, Path(place), flags)
        else:
            pages(options.folder, Path(place), flags)


def engine(place: Path, flags: Mapping[str, str]) -> Engine:
    return Engine(Config.load(flags, place, env={"CODEINFO_HOME": str(place / "home"), "HOME": str(place)}))


# --- relevance -----------------------------------------------------------------------------------------------------


def relevance(folder: Path, place: Path, flags: Mapping[str, str]) -> None:
    documents = place / "cranfield"
    documents.mkdir()
    for number, title, text in abstracts(folder):
        (documents / f"{number}.md").write_text(f"# {title}\n\n{text}\n")
    asked = questions(folder)
    wanted = judgements(folder)
    modes = {
        "words": ({**flags, "embedding.provider": "none"}, True),
        "meaning": (flags, False),
        "words and meaning": (flags, True),
    }
    print(f"{len(list(documents.iterdir()))} documents, {len(asked)} questions")
    print("mode | nDCG@10 | MRR@10 | recall@10")
    for mode, (settings, hybrid) in modes.items():
        with engine(place, settings) as facade:
            facade.documents.add(DocsAddRequest((str(documents),), name="cranfield", path=str(place)))
            figures = []
            for number, question in asked.items():
                request = DocsSearchRequest((question,), hybrid=hybrid, limit=50, path=str(place), refresh=False)
                (found,) = facade.documents.search(request).searches
                ranked = list(dict.fromkeys(hit.document.removesuffix(".md") for hit in found.results))[:DEPTH]
                figures.append(judged(ranked, wanted[number]))
        means = (statistics.fmean(column) for column in zip(*figures, strict=True))
        print(" | ".join([mode, *(f"{value:.4f}" for value in means)]))


def judged(ranked: Sequence[str], wanted: set[str]) -> tuple[float, float, float]:
    gains = [1 / math.log2(place + 2) for place, document in enumerate(ranked) if document in wanted]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(wanted))))
    first = next((1 / (place + 1) for place, document in enumerate(ranked) if document in wanted), 0.0)
    return sum(gains) / ideal, first, len(gains) / min(DEPTH, len(wanted))


def abstracts(folder: Path) -> list[tuple[str, str, str]]:
    text = (folder / "cran.all.1400.xml").read_text()
    found = []
    for document in re.findall(r"<doc>(.*?)</doc>", text, re.DOTALL):
        number, title, body = (field(document, name) for name in ("docno", "title", "text"))
        if body:
            found.append((number, title or f"Abstract {number}", body.removeprefix(title).strip()))
    return found


def field(text: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return " ".join(match.group(1).split()) if match else ""


def questions(folder: Path) -> dict[str, str]:
    """By position: the judgements count questions, they do not use their numbers."""
    text = (folder / "cran.qry.xml").read_text()
    found = [field(top, "title") for top in re.findall(r"<top>(.*?)</top>", text, re.DOTALL)]
    wanted = judgements(folder)
    return {str(place): question for place, question in enumerate(found, 1) if str(place) in wanted}


def judgements(folder: Path) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = {}
    for line in (folder / "cranqrel.trec.txt").read_text().splitlines():
        parts = line.split()
        if len(parts) == 4 and int(parts[3]) > 0:
            wanted.setdefault(parts[0], set()).add(parts[2])
    return wanted


# --- pages ---------------------------------------------------------------------------------------------------------


def pages(folder: Path, place: Path, flags: Mapping[str, str]) -> None:
    with engine(place, flags) as facade:
        started = time.perf_counter()
        (report,) = facade.documents.add(DocsAddRequest((str(folder),), name="pages", path=str(place))).reports
        took = time.perf_counter() - started
        print(f"{report.documents} documents, {report.chunks} passages indexed in {took:.1f} s")
        for refresh in (True, False):
            times = []
            for _ in range(5):
                for question in QUESTIONS:
                    request = DocsSearchRequest((question,), path=str(place), refresh=refresh)
                    started = time.perf_counter()
                    facade.documents.search(request)
                    times.append(1000 * (time.perf_counter() - started))
            look = "with a look for changes" if refresh else "search alone"
            print(f"{look}: median {statistics.median(times):.1f} ms, slowest {max(times):.1f} ms")


if __name__ == "__main__":
    main()
