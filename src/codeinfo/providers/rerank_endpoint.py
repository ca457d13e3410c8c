"""Reranker over a `/rerank` endpoint: Jina, Cohere, vLLM and llama.cpp share one shape, TEI has its own."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from codeinfo.providers.endpoints import RerankEndpoint
from codeinfo.providers.faults import Fault, Kind, provider_error
from codeinfo.providers.relevance import are_logits, sigmoid
from codeinfo.providers.wire import Connection, parse_target, retried

_LARGEST_REPLY = 8_000_000  # bytes; some endpoints send the documents back


class EndpointReranker:
    """Safe to share between threads: each call takes an idle connection or opens one, so that nobody waits in line.

    Most endpoints return relevances from 0 to 1, llama.cpp returns logits, and no field tells which. A reply with a
    score outside 0..1 can only be logits; from then on every reply of the endpoint is read as logits. Either way the
    order is the same, since the sigmoid keeps it.
    """

    def __init__(self, endpoint: RerankEndpoint) -> None:
        self._endpoint = endpoint
        self._target = parse_target(endpoint.base_url, "/v1" if endpoint.model else "")
        self._sends_logits = False
        self._idle: list[Connection] = []
        weakref.finalize(self, _close_all, self._idle)

    @property
    def model_id(self) -> str:
        return f"endpoint:{self._endpoint.model or self._target.shown}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        payload = self._payload(query, [text[: self._endpoint.text_chars] or " " for text in texts])
        try:
            scores = self._ask(payload, len(texts))
        except Fault as fault:
            raise provider_error(fault, role="RERANK", where=self._target.shown, model=self._endpoint.model) from fault
        self._sends_logits = self._sends_logits or are_logits(scores)
        return [sigmoid(score) for score in scores] if self._sends_logits else scores

    def close(self) -> None:
        _close_all(self._idle)

    def _payload(self, query: str, texts: list[str]) -> dict[str, Any]:
        query = query[: self._endpoint.text_chars]
        if not self._endpoint.model:
            return {"query": query, "texts": texts, "truncate": True}
        return {"model": self._endpoint.model, "query": query, "documents": texts, "top_n": len(texts)}

    def _ask(self, payload: dict[str, Any], count: int) -> list[float]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = Connection(self._target, self._endpoint.key, self._endpoint.limits)

        def attempt() -> list[float]:
            connection.post("/rerank", payload)
            return _scores_in_order(connection.read_json(_LARGEST_REPLY), count)

        try:
            scores = retried(attempt, self._endpoint.limits)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return scores


def _close_all(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


def _scores_in_order(reply: Any, count: int) -> list[float]:
    """The scores by their `index`: endpoints answer best first. TEI sends the bare list and calls a score `score`."""
    results = reply.get("results") if isinstance(reply, dict) else reply
    if not isinstance(results, list):
        raise Fault(Kind.BAD_REPLY, "no list of results in it")
    scores: dict[int, float] = {}
    for position, item in enumerate(results):
        index = item.get("index") if isinstance(item, dict) else None
        score = item.get("relevance_score", item.get("score")) if isinstance(item, dict) else None
        if type(index) is not int or index in scores or not 0 <= index < count:
            raise Fault(Kind.BAD_REPLY, f"result {position} has no index of its own within 0..{count - 1}")
        scores[index] = _number(score, index)
    if len(scores) != count:
        raise Fault(Kind.BAD_REPLY, f"{len(scores)} scores for {count} texts")
    return [scores[index] for index in range(count)]


def _number(score: Any, index: int) -> float:
    try:
        number = float(score) if type(score) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Fault(Kind.BAD_REPLY, f"the score of text {index} is no finite number")
    return number
