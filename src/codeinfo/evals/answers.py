"""Answer tests: questions in YAML with what their answers must cite, mention, leave out, or refuse.

- question: How are redirects followed?
  must_cite: [src/requests/sessions.py]        # a file of the answer's verified citations; a glob works
  must_mention: [resolve_redirects]            # words of the answer or its citations' places, any case
  must_not_mention: [I think]
- question: How is the payment provider configured?
  must_abstain: true
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from codeinfo.engine.answers import AnswerOperations
from codeinfo.errors import UsageError
from codeinfo.globs import match_globs
from codeinfo.operations.answers import Answer, AskRequest
from codeinfo.operations.evaluation import AnswerCheck, AnswerEvalReport, AnswerEvalRequest

_LISTS = ("must_cite", "must_mention", "must_not_mention")


class Case(Struct, frozen=True):
    question: str
    must_cite: tuple[str, ...] = ()
    must_mention: tuple[str, ...] = ()
    must_not_mention: tuple[str, ...] = ()
    must_abstain: bool = False


def run_suites(answers: AnswerOperations, request: AnswerEvalRequest) -> AnswerEvalReport:
    """Every question of every suite, asked as `ask` does, in conversations that are deleted afterwards."""
    if not request.suites:
        raise UsageError("no suite is named", next_step="Name a YAML file with questions")
    cases = [(suite, case) for suite in request.suites for case in read_suite(Path(suite))]
    checks = []
    for suite, case in cases:
        asked = AskRequest(case.question, request.paths, "", request.provider, request.model)
        answer = answers.ask(asked, left_out=[Path(name) for name in request.suites])
        answers.store.delete((answer.conversation_id,))
        failures = tuple(failures_of(case, answer))
        tokens = answer.usage.prompt_tokens + answer.usage.completion_tokens
        checks.append(AnswerCheck(suite, case.question, not failures, failures, answer.status, tokens))
    passed = sum(check.passed for check in checks)
    return AnswerEvalReport(tuple(checks), passed, len(checks) - passed)


def failures_of(case: Case, answer: Answer) -> Iterator[str]:
    """What the answer lacks."""
    abstained = answer.status == "abstained"
    if abstained != case.must_abstain:
        yield "it abstained" if abstained else f"it should have abstained, and said: {answer.text[:120]}"
        return
    cited = [one.path for one in answer.citations if not one.problem]
    for pattern in case.must_cite:
        by_glob = match_globs(cited, [pattern], f"must_cite of {case.question!r}")
        if not any(by_glob) and not any(path.endswith(f"/{pattern}") for path in cited):
            yield f"it does not cite {pattern}, but {', '.join(cited) or 'nothing'}"
    text = f"{answer.text}\n{' '.join(f'{one.path} {one.symbol}' for one in answer.citations)}".casefold()
    for words in case.must_mention:
        if words.casefold() not in text:
            yield f"it does not mention {words!r}"
    for words in case.must_not_mention:
        if words.casefold() in text:
            yield f"it mentions {words!r}"


def read_suite(path: Path) -> tuple[Case, ...]:
    import yaml

    try:
        parsed = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", next_step="Name a YAML file") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path} is not valid YAML: {error}", next_step="Correct that line") from error
    if not isinstance(parsed, list) or not parsed:
        raise UsageError(f"{path} has no list of questions", next_step="docs/answers.md shows one")
    return tuple(_case(entry, f"{path}, entry {number}") for number, entry in enumerate(parsed, 1))


def _case(entry: Any, where: str) -> Case:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("question"), str):
        raise UsageError(f"{where} has no question", next_step="docs/answers.md shows one")
    known = ("question", "must_abstain", *_LISTS)
    if unknown := sorted(set(map(str, entry)) - set(known)):
        raise UsageError(f"{where} has {', '.join(unknown)}", next_step=f"It takes {', '.join(known)}")
    lists = {name: _texts(entry.get(name, ()), f"{name} of {where}") for name in _LISTS}
    abstain = entry.get("must_abstain", False)
    if not isinstance(abstain, bool) or (abstain and any(lists.values())):
        raise UsageError(
            f"{where}: must_abstain is true or false, and true stands alone", next_step="Correct that entry"
        )
    return Case(entry["question"], **lists, must_abstain=abstain)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(item, str) for item in listed):
        raise UsageError(f"{where} is not a list of texts", next_step="Write it as [one, two]")
    return tuple(listed)
