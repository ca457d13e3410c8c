"""Rerankers: a `/rerank` endpoint (Jina, Cohere, vLLM and llama.cpp share one shape, TEI has its own), or a
cross-encoder on this machine, from a folder that the user names; nothing is downloaded.

The local one needs the `rerank` extra: onnxruntime runs the model, tokenizers reads `tokenizer.json`.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from codeinfo.errors import ProviderError
from codeinfo.models.endpoints import CrossEncoderFolder, RerankEndpoint
from codeinfo.models.http import Connection, Fault, Kind, parse_target, provider_error, with_retries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def sigmoid(logit: float) -> float:
    """In the form that does not overflow for either sign."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    power = math.exp(logit)
    return power / (1 + power)


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
        self._sends_logits = self._sends_logits or any(not 0 <= score <= 1 for score in scores)
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
            scores = with_retries(attempt, self._endpoint.limits)
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
        raise Fault(Kind.BAD_REPLY, f"the score of text {index} is not a finite number")
    return number


MODEL_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"
_ONLY_ERRORS = 3  # of onnxruntime's log levels: its warnings about a model's graph are of no use to a reader


class _Model(Struct, frozen=True):
    session: Any
    tokenizer: Any
    inputs: tuple[tuple[str, str], ...]  # name and type, as the model declares them


class LocalReranker:
    """Calls from several threads take turns, since each uses every core. The model is loaded by the first call.

    One pair is scored at a time: no padding is computed, a model with a fixed batch size works as well, and a call
    that is out of time stops at the next pair.
    """

    def __init__(self, model: CrossEncoderFolder) -> None:
        self._settings = model
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._model: _Model | None = None

    @property
    def model_id(self) -> str:
        return f"local:{self._settings.folder.name}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        deadline = time.monotonic() + self._settings.seconds
        if not self._turn.acquire(timeout=self._settings.seconds):
            raise self._timeout()
        try:
            self._model = self._model or self._load()
            return [sigmoid(self._logit(self._model, query, text, deadline)) for text in texts]
        finally:
            self._turn.release()

    def close(self) -> None:
        """Waits for a call that is running: the runtime must not be torn down under it."""
        self._closed.set()
        with self._turn:
            self._model = None

    def _load(self) -> _Model:
        folder = self._settings.folder
        missing = [name for name in (MODEL_FILE, TOKENIZER_FILE) if not (folder / name).is_file()]
        if missing:
            raise ProviderError(
                f"{folder} has no {' and no '.join(missing)}",
                next_step="Set rerank.model_path to the folder of a cross-encoder that was exported to ONNX",
                code="RERANK_MODEL_MISSING",
            )
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ProviderError(
                f"a local reranking model needs a package that is not installed ({error.name})",
                next_step="Install it: pip install 'codeinfo[rerank]'",
                code="RERANK_UNAVAILABLE",
            ) from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ONLY_ERRORS
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
            session = onnxruntime.InferenceSession(
                str(folder / MODEL_FILE), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # both libraries raise kinds of their own for a damaged file
            raise self._unusable(f"cannot be loaded ({_first_line(error)})") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._settings.max_tokens)
        return _Model(session, tokenizer, tuple((one.name, one.type) for one in session.get_inputs()))

    def _logit(self, model: _Model, query: str, text: str, deadline: float) -> float:
        if self._closed.is_set():
            raise ProviderError(f"the model in {self._settings.folder} was closed", code="RERANK_CANCELLED")
        if time.monotonic() > deadline:
            raise self._timeout()
        try:
            outputs = model.session.run(None, self._inputs(model, model.tokenizer.encode(query, text)))
        except ProviderError:
            raise
        except Exception as error:  # of the libraries' own kinds
            raise self._unusable(f"fails on a pair of texts ({_first_line(error)})") from error
        return self._read_logit(outputs[0])

    def _inputs(self, model: _Model, pair: Any) -> dict[str, NDArray[np.integer[Any]]]:
        import numpy as np

        known = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        unknown = [name for name, _ in model.inputs if name not in known]
        if unknown:
            raise self._unusable(f"wants the input {unknown[0]!r}, which no cross-encoder for text has")
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
        return {name: np.array([known[name]], kinds.get(kind, np.int64)) for name, kind in model.inputs}

    def _read_logit(self, output: Any) -> float:
        """One number for the pair; of a model with two classes the difference, which is the logit of the second."""
        import numpy as np

        numbers = np.asarray(output, np.float64).ravel()
        if len(numbers) not in (1, 2) or not np.isfinite(numbers).all():
            raise self._unusable(f"gives {len(numbers)} numbers for a pair where one logit is expected")
        return float(numbers[-1] - (numbers[0] if len(numbers) == 2 else 0.0))

    def _unusable(self, why: str) -> ProviderError:
        return ProviderError(
            f"the model in {self._settings.folder} {why}",
            next_step="Set rerank.model_path to a cross-encoder that was exported to ONNX with its tokenizer",
            code="RERANK_BAD_MODEL",
        )

    def _timeout(self) -> ProviderError:
        return ProviderError(
            f"the model in {self._settings.folder} did not answer within {self._settings.seconds:g} s",
            next_step="Allow more in rerank.timeout_ms, or use a smaller model",
            code="RERANK_TIMEOUT",
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
