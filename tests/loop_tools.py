"""What tests of the answer loop share: searches that bring what a test says, and a model that plays its parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from scripted import Reply, Request, ScriptedLlm

from codeinfo.answers.evidence import PassageFilter, Retrieval
from codeinfo.answers.loop import Resources, answer
from codeinfo.answers.model import Budget, Model
from codeinfo.answers.write import Assignment
from codeinfo.errors import NotFound
from codeinfo.model import Distance, Passage, Quality
from codeinfo.operations.base import Listener
from codeinfo.settings import AnswerSettings, RetrievalSettings


def passage(number: int, distance: float = 0.5, text: str = "", score: float = 1.0) -> Passage:
    return Passage(
        root="/r",
        path=f"src/part{number}.py",
        start_line=1,
        end_line=max(3, text.count("\n") + 1),
        text=text or f"def part{number}(value):\n    total = value + {number}\n    return total",
        chunk_id=str(number),
        distance=Distance(distance),
        score=score,
    )


class Scenario:
    """Searches that bring what a test says, and a model that plays its parts by the kind of request."""

    def __init__(
        self,
        searches: Sequence[Sequence[Passage]],
        grades: Sequence[Any] = (1.0,),
        replies: Sequence[Reply | str] = ("The total is returned by `part1` [1].",),
        **settings: Any,
    ) -> None:
        self.searches, self.grades, self.replies = list(searches), list(grades), list(replies)
        self.queries: list[str] = []
        self.graded: list[int] = []  # passages a grading call saw
        self.texts: list[str] = []
        self.settings = AnswerSettings(**settings)
        self.llm = ScriptedLlm(self._play)
        self.budget = Budget(self.settings.max_tokens, self.settings.timeout_s)

    def _play(self, request: Request) -> Reply:
        properties = (request.schema or {}).get("properties", {})
        if "grades" in properties:
            count = request.messages[0].content.count("<<<passage ")
            self.graded.append(count)
            score = self.grades[min(len(self.queries), len(self.grades)) - 1]
            if isinstance(score, Reply):
                return score
            scores = score if isinstance(score, list) else [score] * count
            grades = [{"passage": n, "score": scores[n - 1]} for n in range(1, count + 1)]
            return Reply(json.dumps({"grades": grades}))
        if "query" in properties:
            return Reply(json.dumps({"query": f"query {len(self.queries) + 1}", "missing": "the caller"}))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return Reply(reply) if isinstance(reply, str) else reply

    def search(self, query: str) -> Retrieval:
        self.queries.append(query)
        found = self.searches.pop(0) if len(self.searches) > 1 else self.searches[0]
        return Retrieval(query, tuple(found), Quality("ok", 1.0))

    def read_file(self, path: str, start_line: int, end_line: int) -> Passage:
        if not path.startswith("src/"):
            raise NotFound(f"{path} is not an indexed file")
        return Passage("/r", path, start_line, end_line, f"line {start_line} of {path}")

    def outline(self, path: str) -> str:
        return f"{path}\n1-3 function part1"

    def means(self) -> Resources:
        return Resources(
            model=Model(self.llm, self.budget),
            tools=self,
            filter=self.filter(),
            settings=self.settings,
            allowed_tools=("search", "read_file", "outline"),
        )

    def filter(self) -> PassageFilter:
        return PassageFilter(
            RetrievalSettings(),
            lambda query: dict.fromkeys(query.split(), 1.0),
            self.settings.least_score,
            self.settings.passage_chars,
        )

    def ask(self, question: str = "how is the total computed?", **more: Any) -> Any:
        research = more.pop("research", None)
        assignment = Assignment(question, self.settings.reply_tokens, **more)
        return answer(assignment, self.means(), Listener(text=self.texts.append), research)


FIVE = [passage(n) for n in range(1, 6)]


def interrupt(request: Request) -> Reply:
    """The user has seen enough."""
    raise KeyboardInterrupt
