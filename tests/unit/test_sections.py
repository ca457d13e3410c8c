"""Documents: cut at headings, with breadcrumbs, overlap, and code blocks left whole."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.parse import parse_file
from codeinfo.model import ParsedFile

SETTINGS = ChunkSettings()
SMALL = ChunkSettings(doc_chars=100, doc_overlap=30)


def parse(text: str, language: str = "markdown", chunking: ChunkSettings = SETTINGS) -> ParsedFile:
    return parse_file("doc", text, language, chunking)[0]


def outline(parsed: ParsedFile) -> list[tuple[int, int, str]]:
    return [(chunk.start_line, chunk.end_line, chunk.breadcrumb) for chunk in parsed.chunks]


PROSE = "Enough words to stand alone, which is what keeps a section from being joined to the one that follows it. " * 3


def test_markdown_headings_make_sections_with_breadcrumbs() -> None:
    text = f"Intro.\n\n# Guide #\n\n{PROSE}\n\nSetup\n-----\n\n{PROSE}\n\n### Deep\n\n{PROSE}\n\n# Other\n\n{PROSE}\n"
    parsed = parse(text)
    assert outline(parsed) == [
        (1, 1, ""),
        (3, 5, "Guide"),
        (7, 10, "Guide > Setup"),
        (12, 14, "Guide > Setup > Deep"),
        (16, 18, "Other"),
    ]
    assert {chunk.kind for chunk in parsed.chunks} == {"section"}
    assert [
        (entry.name, entry.qualified, entry.signature, entry.start_line, entry.end_line) for entry in parsed.definitions
    ] == [
        ("Guide", "Guide", "level 1", 3, 15),
        ("Setup", "Guide > Setup", "level 2", 7, 15),
        ("Deep", "Guide > Setup > Deep", "level 3", 12, 15),
        ("Other", "Other", "level 1", 16, 19),
    ]


def test_a_heading_without_words_of_its_own_goes_with_its_first_section() -> None:
    assert outline(parse(f"# Guide\n\n## Setup\n\n{PROSE}\n")) == [(1, 5, "Guide > Setup")]


def test_restructured_text_levels_follow_their_order() -> None:
    text = f"=====\nTitle\n=====\n\n{PROSE}\n\nPart\n====\n\n{PROSE}\n\nSub\n---\n\n{PROSE}\n\nNext\n====\n\n{PROSE}\n"
    assert outline(parse(text, "rst")) == [
        (1, 5, "Title"),
        (7, 10, "Title > Part"),
        (12, 15, "Title > Part > Sub"),
        (17, 20, "Title > Next"),
    ]


def test_asciidoc_and_org_headings() -> None:
    assert outline(parse(f"= Title\n\n{PROSE}\n\n== Part\n\n{PROSE}\n", "asciidoc"))[1][2] == "Title > Part"
    assert outline(parse(f"* Title\n\n{PROSE}\n\n** Part\n\n{PROSE}\n", "org"))[1][2] == "Title > Part"


def test_headings_inside_code_and_metadata_are_none() -> None:
    text = "---\ntitle: x\n---\n\n# Real\n\n```sh\n# not a heading\n```\n\n~~~\n## neither\n~~~\n"
    assert [entry.name for entry in parse(text).definitions] == ["Real"]


def test_long_sections_overlap_by_whole_lines() -> None:
    sentences = "".join(f"Sentence number {number:02}.\n" for number in range(12))
    chunks = parse(f"# T\n\n{sentences}", chunking=SMALL).chunks
    assert len(chunks) > 2
    for earlier, later in pairwise(chunks):
        assert later.start_line <= earlier.end_line  # repeated
        assert later.end_line > earlier.end_line
    assert all(len(chunk.text) <= SMALL.doc_chars for chunk in chunks)


def test_code_blocks_and_tables_that_fit_stay_whole() -> None:
    code = "```py\nfirst()\n\nsecond()\n```"
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    filler = "Words that fill the space before the block begins, sixty or so.\n"
    chunks = parse(f"# T\n\n{filler}\n{code}\n\n{filler}\n{table}\n", chunking=SMALL).chunks
    assert any(code in chunk.text for chunk in chunks)
    assert any(table in chunk.text for chunk in chunks)


def test_plain_text_without_headings_is_cut_by_size() -> None:
    chunks = parse("A line of text.\n" * 40, "text", SMALL).chunks
    assert len(chunks) > 3
    assert chunks[-1].end_line == 40


def test_a_giant_line_is_bounded() -> None:
    parsed = parse("word " * 100_000, chunking=ChunkSettings(line_max_chars=10_000))
    assert sum(len(chunk.text) for chunk in parsed.chunks) == 10_000
    assert parsed.notes


@settings(max_examples=150)
@given(
    lines=st.lists(
        st.sampled_from(["# A", "## B", "T", "===", "---", "```", "~~~", "| x |", "", "  - item"])
        | st.text(max_size=300),
        max_size=50,
    ),
    language=st.sampled_from(["markdown", "rst", "asciidoc", "org", "text"]),
)
def test_no_line_is_lost_whatever_the_document(lines: list[str], language: str) -> None:
    text = "\n".join(lines)
    split = text.split("\n")
    parsed = parse(text, language, SMALL)
    covered = {line for chunk in parsed.chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert not [line for number, line in enumerate(split, 1) if line.strip() and number not in covered]
    for chunk in parsed.chunks:
        whole = "\n".join(split[chunk.start_line - 1 : chunk.end_line])
        assert chunk.text == whole or (chunk.start_line == chunk.end_line and chunk.text in whole)
