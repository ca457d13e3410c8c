"""Questions in YAML with what their answers must cite, mention, leave out, or refuse:

- question: How are redirects followed?
  must_cite: [src/requests/sessions.py]        # a file of the answer's verified citations; a glob works
  must_mention: [resolve_redirects]            # words of the answer or its citations' places, any case
  must_not_mention: [I think]
- question: How is the payment provider configured?
  must_abstain: true
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct

from codeinfo.errors import NotFound, UsageError
from codeinfo.files import read_user_file
from codeinfo.globs import match_globs
from codeinfo.operations import answers as operations
from codeinfo.operations import search as ops

if TYPE_CHECKING:
    from codeinfo.engine import Engine

LARGEST = 1_000_000  # bytes of a suite


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """A question of a suite and the requirements for its answer; a list with one item may be written as plain text."""

    question: str
    must_cite: str | tuple[str, ...] = ()
    must_mention: str | tuple[str, ...] = ()
    must_not_mention: str | tuple[str, ...] = ()
    must_abstain: bool = False

    def __post_init__(self) -> None:
        if self.must_abstain and (self.must_cite or self.must_mention or self.must_not_mention):
            raise ValueError("must_abstain cannot be combined with other requirements")


def run_suites(engine: Engine, request: ops.AnswerEvalRequest) -> ops.AnswerEvalReport:
    """Ask every question of every suite, as `ask` does, in conversations that are deleted afterwards."""
    if not request.suites:
        raise UsageError("no suite was given", next_step="Give a YAML file with questions")
    cases = [(suite, case) for suite in request.suites for case in read_suite(Path(suite))]
    checks = []
    for suite, case in cases:
        asked = operations.AskRequest(case.question, request.paths, "", request.provider, request.model)
        answer = engine.answers.ask(asked, left_out=[Path(name) for name in request.suites])
        engine.answers.store.delete((answer.conversation_id,))
        failures = tuple(failures_of(case, answer))
        tokens = answer.usage.prompt_tokens + answer.usage.completion_tokens
        checks.append(ops.AnswerCheck(suite, case.question, not failures, failures, answer.status, tokens))
    passed = sum(check.passed for check in checks)
    return ops.AnswerEvalReport(tuple(checks), passed, len(checks) - passed)


def failures_of(case: Case, answer: operations.Answer) -> Iterator[str]:
    """What the answer lacks."""
    abstained = answer.status == "abstained"
    if abstained != case.must_abstain:
        yield "it abstained" if abstained else f"it should have abstained, and said: {answer.text[:120]}"
        return
    cited = [one.path for one in answer.citations if not one.problem]
    for pattern in _texts(case.must_cite):
        by_glob = match_globs(cited, [pattern], f"must_cite of {case.question!r}")
        if not any(by_glob) and not any(path.endswith(f"/{pattern}") for path in cited):
            yield f"it does not cite {pattern}, but {', '.join(cited) or 'nothing'}"
    text = f"{answer.text}\n{' '.join(f'{one.path} {one.symbol}' for one in answer.citations)}".casefold()
    for words in _texts(case.must_mention):
        if words.casefold() not in text:
            yield f"it does not mention {words!r}"
    for words in _texts(case.must_not_mention):
        if words.casefold() in text:
            yield f"it mentions {words!r}"


_SUITE: Any = Annotated[tuple[Case, ...], msgspec.Meta(min_length=1)]


def read_suite(path: Path) -> tuple[Case, ...]:
    import yaml

    text = read_user_file(path, LARGEST)
    if text is None:
        raise NotFound(f"there is no suite {path}", next_step="Give a YAML file")
    try:
        parsed = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path} is not valid YAML: {error}", next_step="Correct that line") from error
    try:
        cases: tuple[Case, ...] = msgspec.convert(parsed, _SUITE)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path} is not a list of questions: {error}", next_step="docs/answers.md shows one"
        ) from error
    return cases


def _texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
