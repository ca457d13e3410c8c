"""What answers cost and how far they can be trusted, over 50 questions about three trees of the search benchmark.

    python benchmarks/answers.py QUERIES TREES [--trees requests,axios,gin] [--set KEY=VALUE]

Tokens: the sources that `ask` sends, with the marks around them, against two readers of whole files: one that greps for
the question's words and reads the files with the most of them until the one that answers is among them, and an oracle
that opens only that one. What grading reads comes on top, and is listed separately.
Citations: a scripted model answers from its sources and cites wrongly in a third of the cases, in five ways by turns.
Abstaining: 20 questions that none of the trees can answer, and the 50 that they can, both without a model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from codeinfo import Config, Engine
from codeinfo.operations.answers import Answer, AskRequest
from codeinfo.search.query import STOP_WORDS
from codeinfo.tokens import estimate_tokens

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from model_server import ScriptedServer
from scripted import Reply, Request

PER_TREE = (17, 17, 16)
SETTINGS = {"llm.discover": "false"}
UNANSWERABLE = {
    "requests": [
        "how are database migrations applied in order",
        "shader compilation and texture upload to the GPU",
        "Kubernetes pod autoscaling policy",
        "how does the garbage collector compact the heap",
        "GraphQL resolver batching with dataloaders",
        "how are invoices rendered as PDF",
        "spell checking dictionaries and suggestions",
    ],
    "axios": [
        "how does the query planner choose a join order",
        "training loop of the neural network with gradient clipping",
        "Bluetooth device pairing and discovery",
        "how are thumbnails resized and cropped",
        "audio resampling between codecs",
        "Kafka consumer group rebalancing",
        "user password hashing with salt and pepper",
    ],
    "gin": [
        "how are SQL transactions rolled back on deadlock",
        "email delivery through SMTP with bounce tracking",
        "blockchain consensus and block validation",
        "speech recognition acoustic model decoding",
        "container image layers and overlay mounts",
        "collision detection between rigid bodies",
    ],
}


class Question(Struct, frozen=True):
    tree: str
    text: str
    targets: tuple[str, ...]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("queries", type=Path, help="queries.jsonl, with repos.tsv beside it")
    arguments.add_argument("trees", type=Path, help="a folder with the repositories")
    arguments.add_argument("--trees", dest="names", default="requests,axios,gin")
    arguments.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = arguments.parse_args()
    SETTINGS.update(item.split("=", 1) for item in options.settings)
    names = options.names.split(",")
    roots = read_roots(options.queries.with_name("repos.tsv"), options.trees)
    questions = list(read_questions(options.queries, names, roots, options.trees))
    with tempfile.TemporaryDirectory() as home:
        tokens(questions, roots, home)
        citations(questions, roots, home)
        abstaining(questions, roots, home)
    return 0


def read_roots(table: Path, trees: Path) -> dict[str, Path]:
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    return {row[0]: trees / row[0] / ("" if row[5] == "-" else row[5]) for row in rows}


def read_questions(queries: Path, names: list[str], roots: dict[str, Path], trees: Path) -> Iterator[Question]:
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    for name, count in zip(names, PER_TREE, strict=True):
        of_repo = [row for row in rows if row["repo"] == name]
        for row in of_repo[:count]:
            targets = tuple(
                str((trees / name / target["path"]).relative_to(roots[name]))
                for target in row["targets"]
                if target["grade"] == "relevant"
            )
            yield Question(name, row["query"], targets)


def engine_for(home: str, **settings: str) -> Engine:
    env = {"CODEINFO_HOME": home, "HOME": home}
    return Engine(Config.load({**SETTINGS, **settings}, Path(home), env=env))


# --- tokens ---------------------------------------------------------------------------------------------------------


def tokens(questions: list[Question], roots: dict[str, Path], home: str) -> None:
    """A model that grades everything as good shows what a plain question sends; its reply is cut to nothing."""
    rows: list[tuple[str, tuple[float, ...]]] = []
    listener = Listener()
    with ScriptedServer(listener) as server, engine_for(home, **{"llm.base_url": server.url}) as engine:
        for question in questions:
            root = roots[question.tree]
            listener.graded = listener.sources = 0
            answer = engine.answers.ask(AskRequest(question.text, (str(root),)))
            sent = {item.path for entry in answer.trace.rounds for item in entry.items if item.score != 0}
            has_file = bool(sent & set(question.targets))
            files = grepped(root, question.text)
            by_grep, hit = files_read(root, files, question.targets)
            oracle = sum(estimate_tokens(text_of(root / path)) for path in question.targets)
            rows.append((question.tree, (listener.sources, has_file, by_grep, hit, oracle, listener.graded)))
    heads = "tree, questions, evidence tokens, recall, grep-and-read tokens, recall, share, oracle tokens, share, "
    heads += "graded tokens, share with them"
    print("| " + heads.replace(", ", " | ") + " |\n" + "|---" * 11 + "|")
    trees = list(dict.fromkeys(row[0] for row in rows))
    for name in [*trees, "all"]:
        chosen = [figures for tree, figures in rows if name in (tree, "all")]
        ours, recall, theirs, reached, least, graded = map(statistics.mean, zip(*chosen, strict=True))
        print(
            f"| {name} | {len(chosen)} | {ours:,.0f} | {recall:.2f} | {theirs:,.0f} | {reached:.2f} "
            f"| {ours / theirs:.0%} | {least:,.0f} | {ours / least:.0%} "
            f"| {graded:,.0f} | {(ours + graded) / least:.0%} |"
        )


def agreeable(request: Request) -> Reply:
    properties = (request.schema or {}).get("properties", {})
    if "grades" in properties:
        count = request.messages[0].content.count("<<<passage ")
        return Reply(json.dumps({"grades": [{"passage": n, "score": 1} for n in range(1, count + 1)]}))
    if "query" in properties:
        return Reply(json.dumps({"query": "again", "missing": "nothing"}))
    return Reply("Yes [1].")


class Listener:
    """The agreeable model, counting what it is sent."""

    MARKED = re.compile(r"<<<(source|passage) .*?<<<end \w+>>>", re.DOTALL)

    def __init__(self) -> None:
        self.sources = self.graded = 0

    def __call__(self, request: Request) -> Reply:
        for message in request.messages:
            for block in self.MARKED.finditer(message.content):
                if block[1] == "source":
                    self.sources += estimate_tokens(block[0])
                else:
                    self.graded += estimate_tokens(block[0])
        return agreeable(request)


def grepped(root: Path, question: str) -> list[Path]:
    """Files by how many of the question's words they contain, then by how often: `grep -ric`, sorted."""
    words = [word for word in re.findall(r"\w+", question.lower()) if word not in STOP_WORDS]
    ranked = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        text = text_of(path).lower()
        counts = [text.count(word) for word in words]
        if any(counts):
            ranked.append((-sum(map(bool, counts)), -sum(counts), path))
    return [path for _, _, path in sorted(ranked)]


def files_read(root: Path, files: list[Path], targets: tuple[str, ...], most: int = 10) -> tuple[int, bool]:
    """Tokens of the files read whole, in order, until one of the targets was read or ten were."""
    tokens = 0
    for path in files[:most]:
        tokens += estimate_tokens(text_of(path))
        if path.relative_to(root).as_posix() in targets:
            return tokens, True
    return tokens, False


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


# --- citations ------------------------------------------------------------------------------------------------------

SOURCE = re.compile(r"<<<source (\d+) (\S+):(\d+)-(\d+)(?: \([^\n]*\))? (\w+)>>>\n(.*?)\n<<<end \5>>>", re.DOTALL)
FAULTS = ("invented number", "other source", "wrong file", "wrong lines", "wrong words")


class Liar:
    """Answers by naming things that a source really has; every third answer has one fault, each kind in its turn."""

    def __init__(self) -> None:
        self.asked = 0
        self.kinds = itertools.cycle(FAULTS)
        self.fault = ""

    def __call__(self, request: Request) -> Reply:
        if request.schema:
            return agreeable(request)
        self.asked += 1
        self.fault = next(self.kinds) if self.asked % 3 == 0 else ""
        return Reply(self._claim(SOURCE.findall(request.messages[-1].content)))

    def _claim(self, sources: list[tuple[str, str, str, str, str, str]]) -> str:
        number, path, first, last, _, text = sources[0]
        name = max(re.findall(r"[A-Za-z_]\w{5,}", text) or ["code"], key=len)
        others = [source for source in sources[1:] if name not in source[5]]
        match self.fault:
            case "invented number":
                number = str(len(sources) + 40)
            case "other source":
                number = others[0][0] if others else str(len(sources) + 41)
            case "wrong file":
                path = f"lib/{path.rpartition('/')[2].partition('.')[0]}_helpers.py"
            case "wrong lines":
                first = last = str(int(last) + 500)
            case "wrong words":
                name = f"{name}_that_is_not_there"
        return f"It is done by `{name}` in {path}:{first} [{number}]."


def citations(questions: list[Question], roots: dict[str, Path], home: str) -> None:
    liar = Liar()
    planted: dict[str, int] = dict.fromkeys(FAULTS, 0)
    caught: dict[str, int] = dict.fromkeys(FAULTS, 0)
    false_alarms = 0
    with ScriptedServer(liar) as server, engine_for(home, **{"llm.base_url": server.url}) as engine:
        for question in questions:
            answer = engine.answers.ask(AskRequest(question.text, (str(roots[question.tree]),)))
            if liar.fault:
                planted[liar.fault] += 1
                caught[liar.fault] += not survives(answer)
            else:
                false_alarms += bool(answer.trace.faults)
    print("\n| fault | planted | removed or marked |\n|---|---|---|")
    for fault in FAULTS:
        print(f"| {fault} | {planted[fault]} | {caught[fault]} |")
    right = len(questions) - sum(planted.values())
    unmarked = sum(planted.values()) - sum(caught.values())
    print(f"\n{unmarked} survive unmarked; {false_alarms} of {right} right ones were marked.")


def survives(answer: Answer) -> bool:
    return not answer.trace.faults or any(f"[{fault.number}]" in answer.text for fault in answer.trace.faults)


# --- abstaining -----------------------------------------------------------------------------------------------------


def abstaining(questions: list[Question], roots: dict[str, Path], home: str) -> None:
    with engine_for(home, **{"llm.provider": "none"}) as engine:
        foreign = [(text, roots[tree]) for tree, texts in UNANSWERABLE.items() for text in texts]
        answered = [text for text, root in foreign if not abstains(engine, text, root)]
        refused = [question.text for question in questions if abstains(engine, question.text, roots[question.tree])]
    print(f"\nUnanswerable: {len(foreign) - len(answered)} of {len(foreign)} refused.", *answered, sep="\n- answered: ")
    print(f"\nAnswerable: {len(refused)} of {len(questions)} refused.", *refused, sep="\n- refused: ")


def abstains(engine: Engine, text: str, root: Path) -> bool:
    return engine.answers.ask(AskRequest(text, (str(root),))).status == "abstained"


if __name__ == "__main__":
    sys.exit(main())
