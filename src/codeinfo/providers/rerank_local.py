"""Reranker that runs a cross-encoder on this machine, from a folder that the user names; nothing is downloaded.

It needs the `rerank` extra: onnxruntime runs the model, tokenizers reads `tokenizer.json`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from codeinfo.errors import ProviderError
from codeinfo.providers.endpoints import CrossEncoderFolder
from codeinfo.providers.relevance import sigmoid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
