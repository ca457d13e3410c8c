"""The shape of a detector: one way of doing something, told by how it looks in code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

# Languages that share detectors, because their code answers the same questions in the same words.
FAMILY = {
    "python": "python",
    "javascript": "javascript",
    "typescript": "javascript",
    "tsx": "javascript",
    "vue": "javascript",
    "html": "javascript",  # Angular's templates
    "go": "go",
    "java": "java",
    "csharp": "csharp",
    "rust": "rust",
}


class Detector(Struct, frozen=True):
    """Patterns of one `question` compete. `needles` are words of which a file must hold one before the expression is
    tried: looking for a word is a hundred times cheaper. A match starts in code, unless it is meant `in_text`."""

    name: str
    category: str
    question: str
    language: str
    expression: str  # matched with MULTILINE
    needles: tuple[str, ...] = ()
    example: str = ""
    in_text: bool = False  # templates stand in strings
    within: tuple[str, ...] = ()  # the file holds one of these as well: a framework's words are others' words too
    paths: tuple[str, ...] = ()  # globs; () for every file of the language
    own: bool = False  # written by the project: matched line by line, where it can be stopped
    query: str = ""  # of the syntax, instead of an expression…
    grammar: str = ""  # …for files of this language alone: what nodes are called differs even within a family

    @property
    def spans_lines(self) -> bool:
        """Whether a match may go on to another line: white space in its middle, or a stretch of anything."""
        middle = self.expression.removeprefix(r"^\s*").removeprefix(r"^\s+")
        return any(part in middle for part in (r"\s", r"\n\s", "{0,"))


Row = tuple[str, str, str, str]  # name, needles with spaces between them, expression, example


def detectors(
    language: str,
    questions: Mapping[tuple[str, str], Sequence[Row]],
    *,
    in_text: bool = False,
    within: tuple[str, ...] = (),
) -> tuple[Detector, ...]:
    """Rows grouped by (category, question)."""
    return tuple(
        Detector(name, category, question, language, expression, tuple(needles.split()), example, in_text, within)
        for (category, question), rows in questions.items()
        for name, needles, expression, example in rows
    )
