"""The answer without a model: the uses of a name, listed, or the best passages, quoted; each is cited. Where the files
do not answer, a refusal.

Some questions say what their answer looks like. What a project is, its README or manifest says; what changed, its
changelog; and how long, how many or when, a sentence that has a number beside the question's other words.

Otherwise a refusal depends on two things. One is the question's own words, weighted by rarity: how many of them one of
the best results has, in its text and in its name. The other is the confidence of the search, which knows the vectors. A
question about something else shares only common words with the tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from codeinfo.answers.evidence import (
    Evidence,
    Retrieval,
    cite,
    finder_of,
    focus_passage,
    quote_passages,
    weigh_words,
    words_in,
)
from codeinfo.cache import group_by_key
from codeinfo.errors import CodeInfoError
from codeinfo.languages import file_kind
from codeinfo.languages.manifests import kind_of_manifest
from codeinfo.model import FileKind, Passage, Quality, Step, quantity
from codeinfo.operations.answers import Answer, AnswerUsage
from codeinfo.operations.code import SymbolInfo
from codeinfo.operations.knowledge import TestSetup
from codeinfo.search.boost import CHANGELOG, lists_changes
from codeinfo.search.focus import Finder, line_asked_for
from codeinfo.search.query import read_query
from codeinfo.tokens import estimate_tokens, identifiers, split_identifier

ReadFile = Callable[[str, int, int], Passage]  # lines of an indexed file

PASSAGES = 3  # files quoted in an answer
PASSAGE_CHARS, LATER_CHARS = 700, 500  # of the first, of each other: the lines that answer best
LEAST_QUOTED = 0.5  # share of the question's words, weighted by rarity, relative to the passage that has most of them
JUDGED = 3  # top results in which the question's words are looked up

# Chosen on trees of the benchmark that are not those of the table in docs/answers.md: their own questions against those
# of other projects, many of which both answer. On 9 trees the sum refuses none of 176 of the first and 45 % of the
# second. It depends on how the confidence of a search is fitted: measure again when that changes.
NAME_WEIGHT = 0.7  # of words in a file's or definition's name, relative to words in its text
LEAST_SUPPORT = 1.0  # words and confidence combined
LEAST_SUPPORT_UNSTATED = 1.4  # where no sentence states the measure that is asked for

NO_MODEL = "No language model was used."
EXTRACTIVE = f"{NO_MODEL} These passages match the question best:"


class Support(Struct, frozen=True):
    """How well the best results support an answer; `absent` are words that none of them has, rare ones first."""

    value: float
    absent: tuple[str, ...]


def extract(
    question: str,
    retrieval: Retrieval,
    passages: Sequence[Passage],
    documents: Sequence[Passage],
    weights: Mapping[str, float],
    read_file: ReadFile,
) -> Answer:
    """`passages` may be shown, `documents` only where they state the answer; `weights` are the question's words by
    rarity."""
    aim, query, finder = read_aim(question), read_query(question), finder_of(weights)
    passages = [passage for passage in passages if aim.may_quote(passage)]
    judged = [passage for passage in retrieval.passages if aim.may_quote(passage)][:JUDGED]
    support = support_of(judged, weights, aim.frame)
    quoted = _describe_project(retrieval.query, passages, finder)
    if not quoted:
        more = [further for passage in passages for further in read_more(passage, read_file)] if aim.measure else []
        places = aim.find_statements(documents, (*passages, *more), weights)
        least = LEAST_SUPPORT_UNSTATED if aim.measure and not places else LEAST_SUPPORT
        if passages and support.value + retrieval.quality.confidence >= least:
            names = frozenset(name.lower() for name in query.names)
            for passage in _choose_quoted(passages, names, weights, read_file)[: PASSAGES + 1 - len(places)]:
                places.setdefault(passage, line_asked_for(query, passage.path, passage.start_line, passage.text))
        quoted = [
            focus_passage(passage, finder, LATER_CHARS if place else PASSAGE_CHARS, line)
            for place, (passage, line) in enumerate(places.items())
        ]
    if not quoted:
        return _build_refusal(question, passages, support, retrieval.quality)
    chosen = Evidence().show(quoted)
    return Answer(
        question=question,
        text=f"{EXTRACTIVE}\n\n{quote_passages(chosen)}",
        kind="extractive",
        status="ok",
        citations=tuple(map(cite, chosen)),
        usage=AnswerUsage(evidence_tokens=estimate_tokens("".join(passage.text for passage in chosen))),
    )


def _choose_quoted(
    passages: Sequence[Passage], names: frozenset[str], weights: Mapping[str, float], read_file: ReadFile
) -> list[Passage]:
    """The passages to quote: definitions that the question names come first, then sections whose headings say all that
    is asked about. The best file has two, since its next one answers more often than another file's; passages with far
    fewer of the question's words than the others are dropped, except for the best, which may say it in other words."""

    def is_named(passage: Passage) -> bool:
        return not names.isdisjoint((passage.symbol.lower(), passage.symbol.rpartition(".")[2].lower()))

    def is_headed(passage: Passage) -> bool:
        heading = f"{passage.path.rpartition('/')[2]} {passage.section}"
        return bool(passage.section) and len(weights) > 1 and words_in(heading, weights) == weights.keys()

    def count_words(passage: Passage) -> float:
        return weigh_words(f"{passage.path} {passage.symbol} {passage.text}", weights)

    first = sorted(passages, key=lambda passage: (is_named(passage), is_headed(passage)), reverse=True)[:PASSAGES]
    least = LEAST_QUOTED * max(map(count_words, first))
    best, *others = first
    candidates = (best, *read_more(best, read_file), *others)
    return [p for p in candidates if p is passages[0] or is_named(p) or count_words(p) >= least]


def read_more(passage: Passage, read_file: ReadFile) -> list[Passage]:
    """The next good chunks of its file, unless that changed since the search."""
    try:
        return [read_file(f"{passage.root}/{passage.path}", *span) for span in passage.more]
    except CodeInfoError:
        return []


def support_of(passages: Sequence[Passage], weights: Mapping[str, float], frame: frozenset[str]) -> Support:
    """Words of the `frame` say how it is asked: no passage is expected to have them."""
    if not (whole := sum(weights.values())):
        return Support(0.0, ())
    content = weights.keys() - frame
    in_text = [words_in(f"{passage.path} {passage.symbol} {passage.text}", content) for passage in passages]
    in_name = [words_in(f"{passage.path.rpartition('/')[2]} {passage.symbol}", content) for passage in passages]
    value = (_largest_weight(in_text, weights) + NAME_WEIGHT * _largest_weight(in_name, weights)) / whole
    absent = sorted(content - set().union(*in_text), key=lambda word: -weights[word])
    return Support(value, tuple(absent))


def _largest_weight(word_sets: Sequence[set[str]], weights: Mapping[str, float]) -> float:
    return max((sum(weights[word] for word in words) for words in word_sets), default=0.0)


def _build_refusal(question: str, passages: Sequence[Passage], support: Support, quality: Quality) -> Answer:
    text = "The indexed files do not seem to answer this"
    whole = {
        part: token for token in identifiers(question) for part in split_identifier(token) if part != token.lower()
    }
    absent = tuple(dict.fromkeys(whole.get(word, word) for word in support.absent))[:5]  # GraphQL, not ql and graph
    if absent:
        text += f". {'The best results lack' if passages else 'Not found'}: {', '.join(absent)}."
    else:
        text += f": {'; '.join(quality.reasons)}." if quality.reasons else "."
    if passages:
        places = (
            passage.place if passage.section else f"{passage.place} {passage.symbol}".rstrip()
            for passage in passages[:PASSAGES]
        )
        text += "\n\nThe nearest places:\n" + "\n".join(f"- {place}" for place in places)
    elif quality.hint:
        text += f" {quality.hint}."
    return Answer(question, text, "extractive", "abstained", missing=absent or (question,))


# --- the uses of a name ----------------------------------------------------------------------------------------------

USING_FILES, LINES_OF_FILE = 12, 5  # listed in an answer about uses
DEFINITIONS, TESTS = 3, 6
CODE_CHARS = 120  # of a line
_ASKS_FOR_TESTS = re.compile(r"\W*(?:which|what) tests?\b", re.IGNORECASE)
_WAYS_OF_USE = {"calls": "is called", "imports": "is imported", "subtypes": "is extended or implemented"}


class UsePlace(Struct, frozen=True):
    path: str
    line: int
    within: str = ""  # the definition around it
    via: str = ""  # the file through which it uses another one


class Uses(Struct, frozen=True):
    """The uses of a name or a file, as `UsageQuestion` asks for them; `step` lists all."""

    root: str
    asks: str
    definitions: tuple[SymbolInfo, ...]
    places: list[UsePlace]
    step: Step
    notes: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()  # of a file, in a question about a change


def list_uses(question: str, name: str, uses: Uses, read_file: ReadFile) -> Answer:
    """Where a name is defined and used, one line for each file; the product comes before its tests."""
    by_file = group_by_key((place.path, place) for place in uses.places)
    tests = [path for path in by_file if file_kind(path) is FileKind.TEST]
    product = [path for path in by_file if path not in tests and not (tests and _ASKS_FOR_TESTS.match(question))]
    listed = [by_file[path] for path in (*product, *tests)[:USING_FILES]]
    definitions = [
        Passage(uses.root, symbol.path, symbol.start_line, symbol.end_line, symbol.signature, symbol=symbol.qualified)
        for symbol in uses.definitions[:DEFINITIONS]
    ]
    first_uses = [read_file(f"{uses.root}/{first.path}", first.line, first.line) for first, *_ in listed]
    shown = Evidence().show((*definitions, *first_uses))
    places = [f"{passage.path}:{passage.start_line} [{passage.number}]" for passage in shown[: len(definitions)]]
    if more := len(uses.definitions) - len(definitions):
        places.append(f"{more} more")
    subject = f"`{name}` ({', '.join(places)})" if places else f"`{name}`"
    lines = [f"{NO_MODEL} {subject} {_count_uses(uses, len(by_file))}{':' if listed else '.'}", ""]
    numbers = {(passage.path, passage.start_line): passage.number for passage in shown}
    for uses_in_file, passage in zip(listed, first_uses, strict=True):
        number, code = numbers[passage.path, passage.start_line], passage.text.strip()
        lines.append(f"- [{number}] {_list_places(uses_in_file, code)}")
    if left_out := len(product) + len(tests) - len(listed):
        lines += ["", f"{quantity(left_out, 'more file')}: {uses.step.command()} lists all."]
    if uses.asks == "change" and (tests := [*(uses.tests or tests)]):
        lines += ["", f"Tests to run: {', '.join(tests[:TESTS])}{', …' if len(tests) > TESTS else ''}"]
    return Answer(
        question=question,
        text="\n".join(lines).rstrip(),
        kind="extractive",
        status="ok",
        citations=tuple(map(cite, shown)),
        notes=uses.notes,
        usage=AnswerUsage(evidence_tokens=estimate_tokens("".join(passage.text for passage in shown))),
    )


def _count_uses(uses: Uses, files: int) -> str:
    way = _WAYS_OF_USE.get(uses.asks, "is used")
    if not uses.places:
        return f"{way} nowhere in the indexed code"
    where = f"{quantity(len(uses.places), 'place')} in {quantity(files, 'file')}"
    return f"{way} in {where}" + (", which a change may affect" if uses.asks == "change" else "")


def _list_places(places: Sequence[UsePlace], code: str) -> str:
    """The first use in a file and the lines of the others. An import says nothing beyond the file it is of."""
    first, *others = places
    text = f"{first.path}:{first.line}"
    if first.within:
        text += f" in {first.within}"
    if first.via:
        text += f" through {first.via}"
    elif code:
        text += f": {_code_span(code)}"
    also = [str(place.line) for place in others[:LINES_OF_FILE]]
    if len(others) > LINES_OF_FILE:
        also.append(f"{len(others) - LINES_OF_FILE} more")
    return f"{text}; also {', '.join(also)}" if also else text


def _code_span(code: str) -> str:
    """As Markdown: between more backticks than the code has in a row."""
    code = f"{code[:CODE_CHARS]}…" if len(code) > CODE_CHARS else code
    mark = "`"
    while mark in code:
        mark += "`"
    return f"`{code}`" if mark == "`" else f"{mark} {code} {mark}"


# --- how tests are run, and what changed last ------------------------------------------------------------------------

_CHANGED_LAST = re.compile(
    r"(?:what(?:'s| has| have| was| were)?(?: been)? (?:changed|new|done|happened) (?:lately|recently|last)"
    r"|(?:\w+ ){0,4}?(?:recent|latest|last|newest) (?:changes|commits))"
    r"(?: (?:in|to|of|at) (?P<path>[\w./@-]+[\w/]))?\W*",
    re.IGNORECASE,
)


def changed_place(question: str) -> str | None:
    """The path whose latest changes are asked for, "." for all; None for other questions."""
    match = _CHANGED_LAST.fullmatch(question.strip())
    return (match["path"] or ".") if match else None


def state_test_command(question: str, root: str, tests: TestSetup, read_file: ReadFile) -> Answer:
    """The command and the lines that show what the tests are written with."""
    places = [place.rpartition(":") for place in tests.evidence[:PASSAGES]]
    shown = Evidence().show(read_file(f"{root}/{path}", int(line), int(line)) for path, _, line in places)
    written = f" They use {', '.join(tests.frameworks)}:" if shown else ""
    lines = [f"{NO_MODEL} `{tests.command}` runs the tests, {quantity(tests.files, 'file')}.{written}", ""]
    lines += [f"- [{p.number}] {p.path}:{p.start_line}: {_code_span(p.text.strip())}" for p in shown]
    return Answer(question, "\n".join(lines).rstrip(), "extractive", "ok", citations=tuple(map(cite, shown)))


def list_commits(question: str, place: str, commits: Sequence[str]) -> Answer:
    newest = "The newest commits" if place == "." else f"The newest commits of {place}"
    listed = "\n".join(f"- {commit}" for commit in commits)
    return Answer(question, f"{NO_MODEL} {newest}:\n\n{listed}", "extractive", "ok")


# --- what a project is -----------------------------------------------------------------------------------------------

_README = re.compile(r"(?:.*/)?readme", re.IGNORECASE)
_MARKUP = re.compile(r"<[^>]{0,300}>|!?\[(?P<label>[^\]]{0,200})\](?:\([^)]{0,300}\)|\[[^\]]{0,200}\])|[*_`]")
_HEADING = re.compile(r"#{1,6} |={3,}\s*\Z")
_DEFINITION = re.compile(r"\W*\w[\w.+-]*(?: [\w.()+-]+){0,3} (?:is|are) (?:an?|the)\b")
_NO_PROSE = ("#", "- ", "* ", "+ ", "---", ">", "|", "=", "..", ":", "```", "[!", "![")
_DESCRIPTION = re.compile(r"(?m)^[ \t]*\W?(?:\w+\.)?(?:description|summary)\W{1,8}\w.{15,}")
HEAD_LINES = 60  # of a README or a manifest
_LEAST_WORDS = 4  # of a sentence that describes a project


def _describe_project(query: str, passages: Sequence[Passage], finder: Finder) -> list[Passage]:
    """The passages of the files that say it where the question is about the project, otherwise none."""
    read = read_query(query)
    manifest = [passage for passage in passages[:1] if read.is_overview and kind_of_manifest(passage.path)]
    set_up = manifest or [passage for passage in passages if read.is_set_up_by(passage.path)][:PASSAGES]
    return [
        _describe(passage).cut(PASSAGE_CHARS)
        if file_kind(passage.path) is FileKind.DOCS
        else focus_passage(passage, finder, PASSAGE_CHARS, _description_line(passage.text) if manifest else None)
        for passage in set_up
    ]


def describes(manifest: str) -> bool:
    return _DESCRIPTION.search(manifest) is not None


def _description_line(manifest: str) -> int | None:
    line = _DESCRIPTION.search(manifest)
    return manifest.count("\n", 0, line.start()) if line else None


def _describe(passage: Passage) -> Passage:
    """A README from the sentence on that says what it describes, below title, badges and notices."""
    if not _README.match(passage.path):
        return passage
    lines = passage.text.split("\n")
    plain = [_without_markup(line) for line in lines]
    prose = [at for at, line in enumerate(lines) if line and not line.startswith(_NO_PROSE)]
    start = next((at for at in prose if _DEFINITION.match(plain[at])), None)
    if start is None:
        title = next((at for at, line in enumerate(lines) if _HEADING.match(line)), 0)
        start = next((at for at in prose if at > title and len(plain[at].split()) >= _LEAST_WORDS), title)
    return replace(passage, start_line=passage.start_line + start, text="\n".join(lines[start:]))


def _without_markup(text: str) -> str:
    return _MARKUP.sub(lambda mark: mark["label"] or "", text)


# --- what a question aims at -----------------------------------------------------------------------------------------

_NUMBER_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|ninety|"
    "hundred|thousand|million|half|dozen|once|twice"
)
_NUMBER = rf"(?<![\w.#-])(?:\d[\d.,_]*[kKmM]?|(?:{_NUMBER_WORDS})\b)(?!\.\d)"
_PERIOD = (
    r"(?:[mµn]?s|(?:milli)?seconds?|minutes?|hours?|(?:business |working )?days?|nights?|weeks?|months?|quarters?"
    r"|years?)\b"
)
_TIME = re.compile(
    rf"{_NUMBER}[ -]?{_PERIOD}|\b(?:an?|one|every|each|per) (?:\w+ )?{_PERIOD}"
    rf"|\b(?:hourly|daily|nightly|weekly|monthly|quarterly|yearly|annually)\b"
    rf"|\bat (?:noon|midnight|(?:half past |quarter (?:to|past) )?{_NUMBER})|\d{{1,2}}:\d\d"
    r"|\d{4}-\d\d|\b(?:next|same) (?:day|morning|week|month)|(?<![!=])[=:] ?\d+(?:\.\d+)?\b"
    r"|\b(?:on |every )(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(_NUMBER, re.IGNORECASE)
_MEASURE = re.compile(
    r"\b(?:how (?P<time>long|often|soon|fast|quick(?:ly)?|frequent(?:ly)?|old|late)|(?P<when>when|(?:at )?what time)"
    r"|how (?:(?P<times>many times)|much|many|(?P<size>big|large|small|heavy|wide|tall|high|deep|far|expensive))"
    r"|(?:what|which)(?: is| are)?(?: the)?(?: \w+)? (?:port|limit|maximum|minimum|number|price|size|default))\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\bwhat(?:'s| is| are| was| has| have|)(?: been)? (?:new|changed|different|added|removed|deprecated|fixed)\b"
    r"|\b(?:change ?logs?|release notes|breaking changes?|changes? (?:in|of|since|between))\b"
    r"|\b(?:when|since|(?:which|what) (?:version|release))\b.{0,200}"
    r"\b(?:released?|added|removed|deprecated|introduced|renamed|dropped)\b",
    re.IGNORECASE,
)
_CHANGE_WORDS = frozenset("change changed changes different new release released version versions notes".split())
_VERSION = re.compile(r"\bv?(\d+(?:\.\d+)+)")
_LINK_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)?\s*\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])?\s*[,.:|]?\s*\Z")
_MOST_LINKS = 0.8  # of a passage's lines: beyond, it is a table of contents
_SENTENCE_END = re.compile(r"[.!?][*_`\"')]*\s+(?=[A-Z\"'*`])|\n(?=[ \t]*(?:[-*|] |\n|#))")
_LINE_END = re.compile(r"\n")
_LONGEST_SENTENCE = 400  # characters: longer ones are tables and code
_LEAST_STATED = 0.6  # share of the question's words, by rarity, in a sentence and the names of its place
_NEAR_BEST = 0.8  # of the best sentence's share
_LEAST_IN_SENTENCE = 0.3  # share in the sentence itself


class Aim(Struct, frozen=True):
    """What a question asks for beyond its words: a measure, which sentences state, or changes, which changelogs list.
    No passage needs the words of the `frame`: "long" of "how long"."""

    measure: re.Pattern[str] | None = None
    asks_changes: bool = False
    versions: tuple[str, ...] = ()
    frame: frozenset[str] = frozenset()

    @property
    def kind(self) -> FileKind | None:
        """Files of this kind may state the answer where the best results are others."""
        return FileKind.DOCS if self.measure or self.asks_changes else None

    def may_quote(self, passage: Passage) -> bool:
        """Changelogs mention everything, and tables of contents name it: neither answers."""
        lines = [line for line in passage.text.split("\n") if line.strip() and not line.startswith("#")]
        links = sum(_LINK_ITEM.match(line) is not None for line in lines)
        return (self.asks_changes or not _lists_changes(passage.path)) and links <= _MOST_LINKS * len(lines)

    def find_statements(
        self, documents: Sequence[Passage], passages: Sequence[Passage], weights: Mapping[str, float]
    ) -> dict[Passage, int | None]:
        """The passages that state what is asked for, at most `PASSAGES`, each with the line that does, best first."""
        if self.versions:
            return dict.fromkeys(documents, 0)  # each begins with the heading of a version
        content = {word: weight for word, weight in weights.items() if word not in self.frame}
        if not content or self.kind is None:
            return {}
        distinct: dict[tuple[str, str, int], Passage] = {}
        for passage in (*passages, *documents):
            if self.may_quote(passage) and file_kind(passage.path) is not FileKind.TEST:
                distinct[passage.root, passage.path, passage.start_line] = passage
        stated = [(passage, *self._find_statement(passage, content)) for passage in distinct.values()]
        ranked = sorted(stated, key=lambda entry: -entry[1])[:PASSAGES]
        least = max(_LEAST_STATED, _NEAR_BEST * ranked[0][1]) if ranked else 0.0
        return {passage: line for passage, share, line in ranked if share >= least}

    def _find_statement(self, passage: Passage, content: Mapping[str, float]) -> tuple[float, int | None]:
        """The share of the words that its best statement has, and the line where that begins."""
        names = words_in(f"{passage.path.rpartition('/')[2]} {passage.symbol} {passage.section}", content)

        def share(words: set[str]) -> float:
            return sum(content[word] for word in words) / sum(content.values())

        if self.measure is None:
            return share(names | words_in(passage.text, content)) if is_changelog(passage.path) else 0.0, None
        best, best_line = 0.0, 0
        if passage.path.endswith(".proto"):  # its numbers are those of fields
            return best, best_line
        for line, sentence in _split_sentences(passage):
            if self.measure.search(_without_markup(sentence)):
                words = words_in(sentence, content)
                if share(words) >= _LEAST_IN_SENTENCE and share(words | names) > best:
                    best, best_line = share(words | names), line
        return best, best_line


def read_aim(question: str) -> Aim:
    versions = tuple(match[1] for match in _VERSION.finditer(question))
    if _CHANGE.search(question):
        digits = {part for version in versions for part in version.split(".")}
        return Aim(asks_changes=True, versions=versions, frame=_CHANGE_WORDS | digits)
    if (form := _MEASURE.search(question)) is None:
        return Aim()
    frame = frozenset(filter(None, (form["time"], form["size"], "times" if form["times"] else None)))
    return Aim(_TIME if form["time"] or form["when"] else _AMOUNT, frame=frozenset(map(str.lower, frame)))


def _lists_changes(path: str) -> bool:
    return is_changelog(path) or (file_kind(path) is FileKind.DOCS and lists_changes(path))


def is_changelog(path: str) -> bool:
    name = path.rpartition("/")[2]
    return file_kind(path) is FileKind.DOCS and any(map(CHANGELOG.match, (name, name.partition("-")[2])))


def _split_sentences(passage: Passage) -> Iterator[tuple[int, str]]:
    """The sentences of prose, or the lines of code, each with the line where it begins."""
    text, start = passage.text, 0
    breaks = _SENTENCE_END if passage.section or file_kind(passage.path) is FileKind.DOCS else _LINE_END
    for end in (*(match.end() for match in breaks.finditer(text)), len(text)):
        if end - start <= _LONGEST_SENTENCE:
            yield text.count("\n", 0, start), text[start:end]
        start = end
