"""Writing the answer: the model's reply, streamed, without reasoning, its citations checked.

Citations are checked against what was retrieved: the number, the file, the lines, the words. A claim is a sentence. An
invented number is removed; a citation that does not support its claim is marked, so that readers see which part of an
answer is not verified.

Answers for people may end with usage statistics. Models imitate that block when they see it in the history, so it is
removed there, even if its emoji was mis-decoded. No pattern here takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct, field

from codeinfo.answers.agents import Toolbox
from codeinfo.answers.evidence import cite, enclose, fence, format_passages
from codeinfo.answers.model import Model, Spent, ThinkFilter, fill_prompt, prompt
from codeinfo.errors import ProviderError
from codeinfo.languages import language_of
from codeinfo.model import Passage
from codeinfo.operations.answers import AnswerUsage, Citation, CitationFault, Conversation, Turn
from codeinfo.ports import Delta, Message, Messages, ToolCall, Tools
from codeinfo.search.query import STOP_WORDS
from codeinfo.sources.documents import Fences
from codeinfo.tokens import terms

# --- citations -------------------------------------------------------------------------------------------------------

UNVERIFIED = "unverified"
NO_SOURCE = "[no source]"  # where a claim lost its only citation
_CITATION = re.compile(rf"\[\s*\d+\s*(?:: {UNVERIFIED})?\]")  # in a checked answer
_CLAIM_SHOWN = 160  # characters of a claim quoted in a problem
_LONGEST_CLAIM = 2_000  # characters examined: a model that never stops must not keep the checks busy
_FEW_TERMS = 3  # a shorter claim says too little to be compared
_LEAST_SHARED = 0.2  # share of a claim's words its source must contain: below, it is about something else
_BETTER_BY = 0.34  # another source has this much more of them: the number was mixed up
_GOOD_SHARE = 0.6  # this share is enough, whatever another source has

_NUMBERS = re.compile(r"\[(\d{1,4}(?:\s{0,2}[,;]\s{0,2}\d{1,4}){0,20})\]")
_END = re.compile(r"[.!?](?:\s{0,2}\[\d[\d,; ]{0,80}\])*(?=\s|$)")
_CODE = re.compile(r"`([^`\n]{1,300})`")
_QUOTE = re.compile(r"\"([^\"\n]{2,300})\"|“([^”\n]{2,300})”")
_FILE = re.compile(r"[\w@+-][\w.@+/-]*\.\w{1,8}(?::(\d+)(?:\s?[-–]\s?(\d+))?)?")
_LINES = re.compile(r"\blines?\s+(\d+)(?:\s?(?:[-–]|to|and)\s?(\d+))?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)*(?:\(\))?")
_LOOKS_LIKE_CODE = re.compile(r"[a-z0-9][A-Z]|_[A-Za-z0-9]|\(\)$|::|->")
_NUMBER = re.compile(r"\d{1,30}(?:[,_]\d{3}){0,6}(?:\.\d{1,20})?")
_PART_OF_NAME = re.compile(r"[\w#-]*[A-Za-z_#-]\d[\w.]*|\d+(?:\.\d+){2,}")  # v2, utf-8, issue #12, 1.2.3
_ENUMERATION = re.compile(r"\s*\d+[.)]\s")  # at the start of a line
_LEAST_NUMBER = 10  # a smaller one may count what the source lists
# A number may be told in another unit: percent, thousands and millions (also of bytes), minutes, hours, days.
_UNITS = (1, 100, 1000, 1_000_000, 1_000_000_000, 1024, 1 << 20, 1 << 30, 60, 3600, 24, 86_400)
_SEPARATOR = re.compile(r"\.|::|->")


class Facts(Struct, frozen=True):
    files: tuple[tuple[str, int, int], ...]  # path, first and last line; 0 where no line is named
    lines: tuple[tuple[int, int], ...]
    words: tuple[str, ...]  # quoted text and names in code
    numbers: tuple[float, ...]  # of the prose
    terms: frozenset[str]


class CitationChecker:
    """Checks an answer piece by piece, whole sentences or lines at a time. `sources` may grow meanwhile."""

    def __init__(self, sources: Mapping[int, Passage]) -> None:
        self._sources = sources
        self._fences = Fences()
        self._problems: dict[int, str] = {}  # by number, in the order of the answer
        self.faults: list[CitationFault] = []

    def check(self, text: str) -> str:
        """The text with invented numbers removed and failed citations marked. Code blocks are left alone."""
        lines = []
        for line in text.split("\n"):
            if not self._fences.cover(line):
                line = "".join(self._claim(claim) for claim in claims(line))
            lines.append(line)
        return "\n".join(lines)

    def citations(self) -> tuple[Citation, ...]:
        return tuple(cite(self._sources[number], problem) for number, problem in sorted(self._problems.items()))

    def _claim(self, claim: str) -> str:
        if not (groups := list(_NUMBERS.finditer(_mask_code(claim)))):
            return claim
        numbers = [number for group in groups for number in _read_numbers(group)]
        cited = [self._sources[number] for number in numbers if number in self._sources]
        bare = claim
        for group in reversed(groups):
            bare = bare[: group.start()] + bare[group.end() :]
        facts = facts_of(bare)
        labels: dict[int, str] = {}
        for number in dict.fromkeys(numbers):
            if number not in self._sources:
                self._fault(number, bare, "nothing with this number was retrieved", "removed")
                continue
            problem = problem_with(facts, self._sources[number], cited, self._sources)
            labels[number] = f"{number}: {UNVERIFIED}" if problem else str(number)
            self._problems[number] = problem or self._problems.get(number, "")
            if problem:
                self._fault(number, bare, problem, "marked")
        return _rewrite_numbers(claim, groups, labels)

    def _fault(self, number: int, claim: str, problem: str, action: str) -> None:
        shown = re.sub(r" (?=[.,;:!?])", "", " ".join(claim.split()))  # a citation stood between
        self.faults.append(CitationFault(number, shown[:_CLAIM_SHOWN], problem, action))


# --- parsing a claim -------------------------------------------------------------------------------------------------


def claims(line: str) -> Iterator[str]:
    """The sentences that a line is made of. A citation after the full stop belongs to the sentence it closes."""
    masked = _mask_code(line)
    start = 0
    for end in _END.finditer(masked):
        yield line[start : end.end()]
        start = end.end()
    if start < len(line):
        yield line[start:]


def facts_of(claim: str) -> Facts:
    claim = claim[:_LONGEST_CLAIM]
    quoted = [match[1] for match in _CODE.finditer(claim)]
    quoted += [match[1] or match[2] for match in _QUOTE.finditer(_CODE.sub(" ", claim))]
    files, lines = [], [_span(match[1], match[2]) for match in _LINES.finditer(claim)]
    for match in _FILE.finditer(claim):
        path = match[0].partition(":")[0]
        if language_of(path) is not None:
            files.append((path, *_span(match[1], match[2])))
    paths = {path for path, _, _ in files}
    words = [word for word in quoted if not any(path in word for path in paths)]
    for match in _NAME.finditer(_CODE.sub(" ", claim)):
        if _LOOKS_LIKE_CODE.search(match[0]) and not any(match[0] in path for path in paths):
            words.append(match[0])
    prose = _ENUMERATION.sub(" ", claim) if _ENUMERATION.match(claim) else claim
    for described in (_CODE, _QUOTE, _LINES, _FILE, _PART_OF_NAME):
        prose = described.sub(" ", prose)
    numbers = tuple(number for number in _numbers_in(prose) if number >= _LEAST_NUMBER)
    return Facts(tuple(files), tuple(lines), tuple(dict.fromkeys(words)), numbers, _content_terms(claim))


def _numbers_in(text: str) -> Iterator[float]:
    return (float(re.sub(r"[,_]", "", match[0])) for match in _NUMBER.finditer(text))


def _span(first: str | None, last: str | None) -> tuple[int, int]:
    start = int(first) if first else 0
    return start, max(start, int(last)) if last else start


def _content_terms(text: str) -> frozenset[str]:
    return frozenset(term for term in terms(text) if term not in STOP_WORDS and len(term) > 2)


# --- comparing it with the source ------------------------------------------------------------------------------------


def problem_with(facts: Facts, source: Passage, cited: Sequence[Passage], sources: Mapping[int, Passage]) -> str:
    """Why this source does not support the claim, or "". Any of several sources may contain what the claim names."""
    for path, first, last in facts.files:
        if not any(_same_file(path, passage.path) for passage in cited):
            return f"it names {path}, the source is {source.path}"
        if first and not any(_same_file(path, passage.path) and _within(first, last, passage) for passage in cited):
            return f"it names line {first}, the source has lines {source.start_line}-{source.end_line}"
    for first, last in facts.lines:
        if not any(_within(first, last, passage) for passage in cited):
            return f"it names line {first}, the source has lines {source.start_line}-{source.end_line}"
    for words in facts.words:
        if not any(_contains(passage, words) for passage in cited):
            return f"the source does not contain {words!r}"
    for number in facts.numbers:
        if not any(_contains_number(passage, number) for passage in cited):
            return f"the source does not contain the number {number:g}"
    return _about_something_else(facts, source, sources)


def _about_something_else(facts: Facts, source: Passage, sources: Mapping[int, Passage]) -> str:
    if len(facts.terms) < _FEW_TERMS:
        return ""
    share = _measure_overlap(facts.terms, source)
    if share < _LEAST_SHARED:
        return "the source has hardly any of its words"
    if share < _GOOD_SHARE:
        for rival in sources.values():
            if rival.number != source.number and _measure_overlap(facts.terms, rival) > share + _BETTER_BY:
                return f"source {rival.number} has far more of its words"
    return ""


def _measure_overlap(words: frozenset[str], source: Passage) -> float:
    return len(words & _content_terms(f"{source.path} {source.symbol} {source.text}")) / len(words)


def _same_file(claimed: str, path: str) -> bool:
    claimed = claimed.removeprefix("./")
    return path == claimed or path.endswith(f"/{claimed}") or claimed.endswith(f"/{path}")


def _within(first: int, last: int, source: Passage) -> bool:
    return source.start_line <= first and last <= source.end_line


def _contains(source: Passage, words: str) -> bool:
    """Whether the words occur, ignoring spacing; a dotted name matches by its parts: code rarely spells it all."""
    text = f"{source.path}\n{source.symbol}\n{source.text}"
    phrase = words.strip().removesuffix("()").strip()
    if _squeeze(phrase) in _squeeze(text):
        return True
    parts = [part for part in _SEPARATOR.split(phrase) if part]
    return len(parts) > 1 and _NAME.fullmatch(phrase) is not None and all(part in text for part in parts)


def _contains_number(source: Passage, number: float) -> bool:
    text = f"{source.path} {source.symbol} {source.text}"
    numbers = {*_numbers_in(text), *_numbers_in(text.replace(",", " "))}  # f(100,200) has two of them
    return any(number * unit in numbers or number / unit in numbers for unit in _UNITS)


def _squeeze(text: str) -> str:
    return "".join(text.split()).lower()


# --- rewriting -----------------------------------------------------------------------------------------------------


def _mask_code(text: str) -> str:
    """The text with code in backticks blanked, so that `items[0]` is no citation and `a.b` does not end a sentence."""
    return _CODE.sub(lambda match: "`" + "x" * len(match[1]) + "`", text)


def _read_numbers(group: re.Match[str]) -> list[int]:
    return [int(number) for number in re.split(r"[,;]", group[1])]


def _rewrite_numbers(claim: str, groups: Sequence[re.Match[str]], labels: Mapping[int, str]) -> str:
    parts: list[str] = []
    start = 0
    for group in groups:
        between = claim[start : group.start()]
        citations = "".join(f"[{labels[number]}]" for number in dict.fromkeys(_read_numbers(group)) if number in labels)
        if not citations and not labels and group is groups[-1]:
            citations = NO_SOURCE
        parts += [between if citations else between.rstrip(" "), citations]
        start = group.end()
    return "".join((*parts, claim[start:]))


# --- usage statistics ------------------------------------------------------------------------------------------------

TITLE = "LLM Usage Stats"
_LABELS = ("API Calls", "Tokens", "Time", "Evidence", "Model", "Cost")
_RULE = "---"
_LONGEST_TITLE_LINE = 80  # the title, its stars and whatever an emoji turned into


def stats_block(usage: AnswerUsage, took_ms: float) -> str:
    prompt, completion, about = usage.prompt_tokens, usage.completion_tokens, "about " if usage.estimated else ""
    lines = (
        _RULE,
        f"📊 **{TITLE}:**",
        f"- **API Calls:** {usage.calls}",
        f"- **Tokens:** {about}{prompt + completion:,} (prompt {prompt:,}, completion {completion:,})",
        f"- **Time:** {took_ms / 1000:.1f} s",
    )
    return "\n".join(lines)


def strip_stats(text: str) -> str:
    """The text without statistics blocks, each with the rule above it."""
    if TITLE not in text:
        return text
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if is_title(line):
            inside, above = True, len(lines)
            while above and not lines[above - 1].strip():
                above -= 1
            if above and lines[above - 1].strip() == _RULE:
                del lines[above - 1 :]
        elif not inside or (line.strip() and not line.lstrip(" -*•").startswith(_LABELS)):
            inside = False
            lines.append(line)
    return "\n".join(lines).rstrip()


def is_title(line: str) -> bool:
    """Whether only the title is left after removing punctuation and non-ASCII characters (an emoji or its remains)."""
    if TITLE not in line or len(line) > _LONGEST_TITLE_LINE:
        return False
    return "".join(char for char in line if char.isascii() and (char.isalpha() or char == " ")).strip() == TITLE


# --- the reply -------------------------------------------------------------------------------------------------------

Emit = Callable[[str], None]
# The delimiters around passages in a prompt, removed if a model copies them.
_PASSAGE_MARK = re.compile(r"<{2,3}(?:source|passage|result|end)\b[^<>\n]{0,300}>{2,3}")
_LONG_LINE = 200  # characters: in longer lines, finished sentences are shown before the line ends

_ENDINGS = {
    "cut": "the answer is incomplete: the endpoint stopped in the middle of it",
    "length": "the answer is incomplete: it reached its size limit",
}


class WrittenAnswer(Struct):
    """`notes` is empty for a complete answer."""

    text: str
    checker: CitationChecker
    notes: list[str] = field(default_factory=list)


class Assignment(Struct, frozen=True):
    """What the model is asked to write, whichever passages it gets."""

    question: str
    reply_tokens: int
    system: str = ""
    briefing: str = ""  # shown as data beside the passages
    history: Messages = ()
    is_thin: bool = False  # the passages may not be enough

    def messages(self, sources: Sequence[Passage]) -> list[Message]:
        card = enclose("result of decision_card", self.briefing, fence([self.briefing]))
        user_prompt = fill_prompt(
            "question",
            question=self.question,
            sources=format_passages(sources),
            briefing=f"Known beforehand, as data:\n{card}\n\n" if self.briefing else "",
            thin=prompt("thin") + "\n\n" if self.is_thin else "",
        )
        system = Message("system", f"{self.system}\n\n{prompt('answer')}".strip())
        return [system, *self.history, Message("user", user_prompt)]


def write(
    assignment: Assignment, sources: Sequence[Passage], *, model: Model, toolbox: Toolbox, emit: Emit
) -> WrittenAnswer:
    """One reply, or several with tool calls in between; the last request offers no tools."""
    messages = assignment.messages(sources)
    checker = CitationChecker(toolbox.evidence.shown)
    live = LiveAnswer(checker, emit)
    written = WrittenAnswer("", checker)
    try:
        while True:
            tools = toolbox.specs()
            delta, text = _reply(model, messages, tools, assignment.reply_tokens, live, written.notes)
            if not delta.tool_calls:
                break
            if not tools:
                written.notes.append("the model kept asking for tools instead of answering")
                break
            messages += [Message("assistant", text, delta.tool_calls), *_perform_calls(delta.tool_calls, toolbox)]
        if note := _ENDINGS.get(delta.finish):
            written.notes.append(note)
    except Spent as limit:
        written.notes.append(f"the answer is incomplete: {limit}")
    live.finish()
    written.text = live.text
    return written


def _reply(
    model: Model, messages: Messages, tools: Tools, reply_tokens: int, live: LiveAnswer, notes: list[str]
) -> tuple[Delta, str]:
    """The final delta and the text of the reply. If an endpoint refuses tools, it is asked again without them."""
    parts: list[str] = []
    delta = Delta(finish="cut")
    try:
        for delta in model.stream(messages, tools=tools, max_tokens=reply_tokens):
            parts.append(delta.text)
            live.feed(delta.text)
    except ProviderError as error:
        if error.code != "LLM_REJECTED" or not tools:
            raise
        notes.append("the endpoint refuses tools: the answer was written without them")
        return _reply(model, messages, (), reply_tokens, live, notes)
    return delta, "".join(parts)


def _perform_calls(calls: Sequence[ToolCall], toolbox: Toolbox) -> list[Message]:
    over = "error: no more tool calls are allowed; answer from what you have"
    return [Message("tool", toolbox.perform(call) if toolbox.open else over, tool_call_id=call.id) for call in calls]


class LiveAnswer:
    """An answer while it is streamed. Shown text is final, so it is shown sentence by sentence, each one checked."""

    def __init__(self, checker: CitationChecker, emit: Emit) -> None:
        self._thinking = ThinkFilter()
        self._checker = checker
        self._emit = emit
        self._waiting = ""  # the unfinished line or sentence
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts).strip()

    def feed(self, text: str) -> None:
        self._waiting += self._thinking.feed(text)
        end = self._waiting.rfind("\n") + 1
        if not end and len(self._waiting) > _LONG_LINE and not self._waiting.lstrip().startswith("`"):
            *_, rest = claims(self._waiting)
            if rest.strip() and not rest.lstrip().startswith("["):  # a citation may still follow the full stop
                end = len(self._waiting) - len(rest)
        self._show(self._waiting[:end])
        self._waiting = self._waiting[end:]

    def finish(self) -> None:
        self._show(self._waiting + self._thinking.flush())
        self._waiting = ""

    def _show(self, text: str) -> None:
        if text := _PASSAGE_MARK.sub("", text):
            checked = self._checker.check(text)
            self._parts.append(checked)
            self._emit(checked)


# --- conversations, as a model and as a reader see them --------------------------------------------------------------

TITLE_CHARS = 60
HISTORY_CHARS = 12_000  # of earlier turns, newest first: most tokens belong to the evidence


def title_of(question: str) -> str:
    words = " ".join(question.split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1].rstrip() + "…"


def history_messages(turns: Sequence[Turn], limit: int) -> tuple[Message, ...]:
    """The newest successful turns, without statistics or citations: their numbers no longer mean anything."""
    chosen: list[Message] = []
    room = HISTORY_CHARS
    for question, reply in reversed(list(pairwise(turns))):
        if question.role != "user" or reply.role != "assistant" or reply.status != "ok" or not reply.content:
            continue
        text = _strip_citations(reply.content)
        room -= len(question.content) + len(text)
        if len(chosen) >= 2 * limit or room < 0:
            break
        chosen += [Message("assistant", text), Message("user", question.content)]
    return tuple(reversed(chosen))


def _strip_citations(text: str) -> str:
    """An answer without statistics and `[n]`: a model that sees old numbers cites them again."""
    return _CITATION.sub("", strip_stats(text))


def to_markdown(conversation: Conversation, turns: Sequence[Turn]) -> str:
    about = [f"conversation {conversation.id}", conversation.created_at]
    if conversation.agent_name:
        about.append(f"agent {conversation.agent_name}")
    if conversation.model:
        about.append(f"model {conversation.model}")
    lines = [f"# {conversation.title}", "", f"*{', '.join(about)}*"]
    for turn in turns:
        lines += ["", "## Question" if turn.role == "user" else "## Answer", "", strip_stats(turn.content)]
        if turn.status != "ok":
            lines += ["", f"*{turn.status}: {turn.error or 'ended before it was done'}*"]
        if turn.citations:
            lines += ["", "Sources:", ""]
            for citation in turn.citations:
                place = f"{citation.path}:{citation.start_line}-{citation.end_line}"
                problem = f" ({UNVERIFIED}: {citation.problem})" if citation.problem else ""
                lines.append(f"- [{citation.number}] {place}{problem}")
    return "\n".join(lines).rstrip() + "\n"
