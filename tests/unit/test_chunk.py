"""Chunks: whole definitions where they fit, every line once, sizes bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from codeinfo.index.chunk import COMMENT_WEIGHT, ChunkSettings, weighted_terms
from codeinfo.index.parse import parse_file
from codeinfo.languages import GRAMMARS
from codeinfo.model import Chunk, ParsedFile

SETTINGS = ChunkSettings()
SMALL = ChunkSettings(code_chars=60, code_max_chars=100)
SNIPPETS = {
    file.stem: file.read_text("utf-8").partition("=== definitions\n")[0]
    for file in (Path(__file__).parents[1] / "snippets").glob("*.txt")
}


def parse(
    text: str, language: str = "python", chunking: ChunkSettings = SETTINGS, *, syntax: bool = True
) -> ParsedFile:
    return parse_file("file", text, language, chunking, syntax=syntax)[0]


def spans(chunks: tuple[Chunk, ...]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks]


def assert_every_line_once(text: str, parsed: ParsedFile, chunking: ChunkSettings) -> None:
    lines = text.split("\n")
    covered: list[int] = []
    for chunk in parsed.chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        whole = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        if chunk.text != whole:  # only pieces of one giant line may differ
            assert chunk.start_line == chunk.end_line
            assert chunk.text in whole
            if covered and covered[-1] == chunk.start_line:
                continue
        assert chunk.text.strip()
        covered += range(chunk.start_line, chunk.end_line + 1)
    assert covered == sorted(set(covered))
    missing = set(range(1, len(lines) + 1)) - set(covered)
    assert not any(lines[line - 1].strip() for line in missing)
    assert len(parsed.terms) == len(parsed.chunks)
    assert all(len(chunk.text) <= chunking.code_max_chars * 3 // 2 for chunk in parsed.chunks)


FUNCTION = "def {name}(x):\n    # doubles\n    return x * 2\n"


def test_small_siblings_share_a_chunk_up_to_the_target_size() -> None:
    text = "\n\n".join(FUNCTION.format(name=f"f{number}") for number in range(6))
    parsed = parse(text, chunking=replace(SETTINGS, code_chars=120, code_max_chars=200))
    assert spans(parsed.chunks) == [(1, 8), (11, 18), (21, 28)]
    assert [chunk.breadcrumb for chunk in parsed.chunks] == ["f0, f1", "f2, f3", "f4, f5"]


def test_a_definition_that_fits_is_never_cut() -> None:
    body = "".join(f"    step_{number}()\n" for number in range(5))
    text = f"def first():\n{body}\n\ndef second():\n{body}"
    parsed = parse(text, chunking=SMALL)
    assert [(chunk.symbol, chunk.start_line, chunk.end_line) for chunk in parsed.chunks] == [
        ("first", 1, 6),
        ("second", 9, 14),
    ]


def test_a_long_body_is_cut_between_statements() -> None:
    statement = "    if ready({n}):\n        go({n})\n"
    text = "def long():\n" + "".join(statement.format(n=number) for number in range(8))
    parsed = parse(text, chunking=SMALL)
    assert len(parsed.chunks) > 2
    assert all(chunk.text.lstrip().startswith(("def", "if")) for chunk in parsed.chunks)
    assert {chunk.symbol for chunk in parsed.chunks} == {"long"}
    assert {chunk.breadcrumb for chunk in parsed.chunks} == {"long()"}


def test_comments_decorators_and_attributes_stay_with_their_definition() -> None:
    rust = f"fn before() {{ {'a' * 40}(); }}\n\n/// Doc.\n#[test]\nfn after() {{ {'b' * 13}(); }}\n"
    assert [chunk.text.split("\n")[0] for chunk in parse(rust, "rust", SMALL).chunks][1] == "/// Doc."
    python = f"x = {'a' * 40}\n\n# why\n@cached\ndef after():\n    return {'b' * 20}\n"
    assert parse(python, "python", SMALL).chunks[1].text.startswith("# why\n@cached\ndef after")


@pytest.mark.parametrize(
    ("language", "head", "method", "end"),
    [
        ("python", "class Large:\n\n", "    def m{n}(self):\n        return self.{word}\n\n", ""),
        ("java", "public class Large\n    extends Base {\n", "    void m{n}() {{\n        {word}();\n    }}\n", "}\n"),
        ("cpp", "class Large\n{\n", "    void m{n}() {{\n        {word}();\n    }}\n", "};\n"),
        ("rust", "impl Large {\n", "    fn m{n}() {{\n        {word}();\n    }}\n", "}\n"),
        ("typescript", "export class Large {\n", "    m{n}() {{\n        {word}();\n    }}\n", "}\n"),
    ],
)
def test_the_head_of_a_large_class_stays_with_its_beginning(language: str, head: str, method: str, end: str) -> None:
    before = {"python": "x = 1\n\n", "rust": "const X: i32 = 1;\n\n", "java": "class X {}\n\n"}.get(
        language, "let x;\n\n"
    )
    text = before + head + "".join(method.format(n=number, word="a" * 40) for number in range(4)) + end
    parsed = parse(text, language, replace(SMALL, code_max_chars=130))
    assert_every_line_once(text, parsed, SETTINGS)
    (first,) = [chunk for chunk in parsed.chunks if "Large" in chunk.text]
    assert first.text.startswith(head.rstrip())
    assert "m0" in first.text


def test_a_large_function_begins_a_chunk_with_the_comment_above_it() -> None:
    before = "".join(f"links.push(format({n}, '{'x' * 60}'));\n" for n in range(8))
    body = "".join(f"  this.set({n}, '{'y' * 70}');\n" for n in range(30))
    text = f"{before}\n/**\n * Sends a response.\n */\n\nres.send = function send(body) {{\n{body}}};\n"
    chunks = parse(text, "javascript").chunks
    assert chunks[0].text == before.rstrip("\n")
    assert chunks[1].text.startswith(
        "/**\n * Sends a response.\n */\n\nres.send = function send(body) {\n  this.set(0,"
    )
    small = parse(text.replace(before, "links.clear();\n"), "javascript").chunks
    assert small[0].text.startswith("links.clear();\n\n/**"), "a line or two do not stand alone"


def test_a_large_method_of_dart_begins_a_chunk_with_its_signature() -> None:
    """The body is a node beside the signature."""
    before = "".join(f"  void set{n}() => links.push(format({n}, '{'x' * 60}'));\n" for n in range(7))
    body = "".join(f"    this.set({n}, '{'y' * 70}');\n" for n in range(30))
    text = f"class Page {{\n{before}\n  /// Sends.\n  Future<void> send(Body body) async {{\n{body}  }}\n}}\n"
    chunks = parse(text, "dart").chunks
    assert chunks[1].text.startswith("  /// Sends.\n  Future<void> send(Body body) async {\n    this.set(0,")
    assert {(one.symbol, one.breadcrumb) for one in chunks[1:]} == {("Page.send", "Page > send(Body body)")}


def test_a_method_knows_its_class_and_signature() -> None:
    method = "    def {name}(self, x: int) -> str:\n        return self.other(x) + 'aaaaaaaaaaaaaaaaaaaa'\n\n"
    text = "class Greeter:\n" + method.format(name="hello") + method.format(name="bye")
    last = parse(text, chunking=replace(SMALL, code_max_chars=130)).chunks[-1]
    assert (last.kind, last.symbol, last.breadcrumb) == ("method", "Greeter.bye", "Greeter > bye(self, x: int) -> str")


def test_closing_braces_do_not_make_chunks_of_their_own() -> None:
    methods = "".join(f"  int method{n}() {{ return compute({n}, {n}, {n}, {n}); }}\n" for n in range(6))
    chunks = parse(f"class A {{\n{methods}}}\n", "java", SMALL).chunks
    assert chunks[-1].text.endswith("}\n}")


def test_a_giant_line_is_cut_and_only_its_beginning_kept() -> None:
    chunking = replace(SETTINGS, line_max_chars=5000)
    parsed = parse("x = [" + "1, " * 10_000 + "]\n", chunking=chunking)
    assert sum(len(chunk.text) for chunk in parsed.chunks) <= 6000
    assert spans(parsed.chunks) == [(1, 1)] * len(parsed.chunks)
    assert parsed.notes == ("1 line longer than 5,000 characters, cut there",)


def test_without_syntax_and_for_other_languages_chunks_are_lines() -> None:
    text = "key: value\n" * 120
    parsed = parse(text, "yaml")
    assert spans(parsed.chunks) == [(1, 50), (51, 100), (101, 120)]
    assert {chunk.kind for chunk in parsed.chunks} == {"text"}
    plain = parse(FUNCTION.format(name="f"), syntax=False)
    assert (plain.definitions, plain.chunks[0].kind) == ((), "text")


def test_a_file_too_large_for_a_tree_says_so() -> None:
    parsed = parse("x = 1\n" * 100, chunking=replace(SETTINGS, syntax_max_chars=100))
    assert parsed.notes == ("larger than 100 characters: indexed as text",)


@pytest.mark.parametrize("text", ["", "\n", "   \n\t\n", "\r\n\r\n"])
def test_nothing_in_nothing_out(text: str) -> None:
    for language in (*GRAMMARS, "markdown", "rst", "yaml"):
        assert parse(text, language).chunks == ()


@pytest.mark.parametrize("language", sorted(SNIPPETS))
def test_every_line_is_in_one_chunk(language: str) -> None:
    for chunking in (SETTINGS, SMALL, replace(SMALL, code_chars=20, code_max_chars=30)):
        assert_every_line_once(SNIPPETS[language], parse(SNIPPETS[language], language, chunking), chunking)


FRAGMENTS = st.sampled_from([line for text in SNIPPETS.values() for line in text.split("\n")])


@settings(max_examples=150)
@given(
    lines=st.lists(FRAGMENTS | st.text(max_size=200), max_size=60),
    language=st.sampled_from(sorted(GRAMMARS)),
    chunking=st.sampled_from([SETTINGS, SMALL]),
    syntax=st.booleans(),
)
def test_every_line_is_in_one_chunk_whatever_the_file(
    lines: list[str], language: str, chunking: ChunkSettings, syntax: bool
) -> None:
    text = "\n".join(lines)
    assert_every_line_once(text, parse(text, language, chunking, syntax=syntax), chunking)


def test_a_changed_setting_changes_the_fingerprint() -> None:
    assert SETTINGS.fingerprint() == ChunkSettings().fingerprint()
    assert SETTINGS.fingerprint() != SMALL.fingerprint()


def test_terms_weigh_code_more_than_comments_and_see_strings() -> None:
    terms = parse("# compute quietly\ndef compute():\n    return 'loudly'\n").terms[0]
    assert terms["quiet"] == COMMENT_WEIGHT
    assert terms["loud"] == 1.0
    assert terms["comput"] == pytest.approx(1.0 + COMMENT_WEIGHT)


def test_doc_strings_are_comments() -> None:
    assert parse('def f():\n    """Sings."""\n').terms[0]["sing"] == COMMENT_WEIGHT


def test_terms_of_identifiers_are_their_parts_and_the_whole() -> None:
    terms = weighted_terms("parseTable parse_table")
    assert (terms["pars"], terms["tabl"], terms["parsetable"]) == (2.0, 2.0, 2.0)
