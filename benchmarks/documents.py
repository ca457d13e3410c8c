"""How well and how fast documents are found.

    relevance FOLDER   a labelled collection: Cranfield (cran.all.1400.xml, cran.qry.xml, cranqrel.trec.txt) or CISI
                       (CISI.ALL, CISI.QRY, CISI.REL). nDCG@10, MRR@10 and recall@10 of words alone, meaning alone, and
                       both, through the same facade as every shell
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

from synthetic import cpu_s

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.operations.documents import DocsAddRequest, DocsSearchRequest

DEPTH = 10
ROUNDS = 5
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
    read = cisi if (folder / "CISI.ALL").exists() else cranfield
    texts, questions, answers = read(folder)
    documents = place / "documents"
    documents.mkdir()
    for number, (title, text) in texts.items():
        (documents / f"{number}.md").write_text(f"# {title}\n\n{text}\n")
    modes = {
        "words": ({**flags, "embedding.provider": "none"}, True),
        "meaning": (flags, False),
        "words and meaning": (flags, True),
    }
    print(f"{len(texts)} documents, {len(questions)} questions")
    print("mode | nDCG@10 | MRR@10 | recall@10")
    for mode, (settings, hybrid) in modes.items():
        with engine(place, settings) as facade:
            facade.documents.add(DocsAddRequest((str(documents),), path=str(place)))
            figures = []
            for number, question in questions.items():
                request = DocsSearchRequest((question,), hybrid=hybrid, limit=50, path=str(place), refresh=False)
                (result,) = facade.documents.search(request).searches
                ranked = list(dict.fromkeys(hit.document.removesuffix(".md") for hit in result.results))[:DEPTH]
                figures.append(judged(ranked, answers[number]))
        means = (statistics.fmean(column) for column in zip(*figures, strict=True))
        print(" | ".join([mode, *(f"{value:.4f}" for value in means)]))


def judged(ranked: Sequence[str], answers: set[str]) -> tuple[float, float, float]:
    gains = [1 / math.log2(place + 2) for place, document in enumerate(ranked) if document in answers]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(answers))))
    first = next((1 / (place + 1) for place, document in enumerate(ranked) if document in answers), 0.0)
    return sum(gains) / ideal, first, len(gains) / min(DEPTH, len(answers))


Labelled = tuple[dict[str, tuple[str, str]], dict[str, str], dict[str, set[str]]]  # documents, questions, answers


def cranfield(folder: Path) -> Labelled:
    """Questions count by position: the judgements do not use their numbers."""
    texts = {}
    for document in re.findall(r"<doc>(.*?)</doc>", (folder / "cran.all.1400.xml").read_text(), re.DOTALL):
        number, title, body = (element(document, name) for name in ("docno", "title", "text"))
        if body:
            texts[number] = (title or f"Abstract {number}", body.removeprefix(title).strip())
    tops = re.findall(r"<top>(.*?)</top>", (folder / "cran.qry.xml").read_text(), re.DOTALL)
    answers: dict[str, set[str]] = {}
    for line in (folder / "cranqrel.trec.txt").read_text().splitlines():
        parts = line.split()
        if len(parts) == 4 and int(parts[3]) > 0:
            answers.setdefault(parts[0], set()).add(parts[2])
    questions = {str(place): element(top, "title") for place, top in enumerate(tops, 1) if str(place) in answers}
    return texts, questions, answers


def element(text: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return " ".join(match.group(1).split()) if match else ""


def cisi(folder: Path) -> Labelled:
    texts = {
        number: (fields.get("T", f"Abstract {number}"), fields.get("W", ""))
        for number, fields in records((folder / "CISI.ALL").read_text())
    }
    answers: dict[str, set[str]] = {}
    for line in (folder / "CISI.REL").read_text().splitlines():
        question, document = line.split()[:2]
        answers.setdefault(question, set()).add(document)
    questions = {number: fields["W"] for number, fields in records((folder / "CISI.QRY").read_text())}
    return texts, {number: text for number, text in questions.items() if number in answers}, answers


def records(text: str) -> list[tuple[str, dict[str, str]]]:
    """`.I 1` begins a record, `.T` a field of it."""
    entries = []
    for record in re.split(r"(?m)^\.I ", text)[1:]:
        number, _, rest = record.partition("\n")
        fields = re.split(r"(?m)^\.([A-Z])\s*$", rest)
        pairs = zip(fields[1::2], fields[2::2], strict=True)
        entries.append((number.strip(), {name: " ".join(value.split()) for name, value in pairs}))
    return entries


# --- pages ---------------------------------------------------------------------------------------------------------


def pages(folder: Path, place: Path, flags: Mapping[str, str]) -> None:
    with engine(place, flags) as facade:
        started = time.perf_counter()
        (report,) = facade.documents.add(DocsAddRequest((str(folder),), name="pages", path=str(place))).reports
        took, busy = time.perf_counter() - started, cpu_s()
        print(f"{report.documents} documents, {report.chunks} passages in {took:.1f} s ({busy:.1f} s of processor)")
        for refresh in (True, False):
            times, busy = [], time.process_time()
            for _ in range(ROUNDS):
                for question in QUESTIONS:
                    request = DocsSearchRequest((question,), path=str(place), refresh=refresh)
                    started = time.perf_counter()
                    facade.documents.search(request)
                    times.append(1000 * (time.perf_counter() - started))
            spent = 1000 * (time.process_time() - busy) / len(times)
            look = "with a look for changes" if refresh else "search alone"
            median = statistics.median(times)
            print(f"{look}: median {median:.1f} ms, fastest {min(times):.1f} ms, processor {spent:.1f} ms")


if __name__ == "__main__":
    main()
