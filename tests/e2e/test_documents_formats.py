"""Each format, written by the program that people use, is found and cited where it says what was asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from document_tools import FIXTURES, add, ask, engine, harbour

from codeinfo.engine import Engine
from codeinfo.engine.collections import CONVERTERS_VERSION, CollectionSource
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.line import Changes
from codeinfo.index.plain import document_parse
from codeinfo.model import PASSAGE, passage_text
from codeinfo.operations.documents import DocsSyncRequest
from codeinfo.sources import documents as formats
from codeinfo.sources.converters import html_document
from codeinfo.sources.documents import Block, BlockKind, Document, as_markdown, convert

QUESTIONS = [
    # question, document, what the passage says, where it opens
    ("how high is the pilot ladder rigged", "pilots.md", "one metre above the water", "pilots.md:"),
    ("what do three short blasts mean", "Night passage.mdx", "going astern", "Night passage.mdx:"),
    ("gauge at the lock at spring tide", "guides/tides.rst", "4.2 metres", "tides.rst:4"),
    ("which icebreaker escorts convoys", "guides/ice.adoc", "Polarfuchs", "ice.adoc:3"),
    ("where is the spare lamp for the buoy", "notes.txt", "locker nineteen", "notes.txt:"),
    ("correction for the draught of the survey boat", "soundings.ipynb", "0.35 metres", "soundings.ipynb"),
    ("yellow buoy with a bell, last inspection", "moorings.csv", "2024-11-30", "moorings.csv"),
    ("when is the hydraulic pump of the west gate replaced", "closure.eml", "Thursday", "closure.eml"),
    ("telephone of the crane operator", "tariffs.xlsx", "4417", "tariffs.xlsx#sheet=Staff"),
    ("deposit of a research vessel", "tariffs.xlsx", "1200", "tariffs.xlsx#sheet=Tariffs"),
    ("unexploded ordnance diver team", "dredging.pptx", "buoy 7", "dredging.pptx#slide=3"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return harbour(tmp_path_factory.mktemp("documents"))


@pytest.fixture
def facade(place: Path) -> Iterator[Engine]:
    with engine() as opened:
        report = add(opened, place)
        assert not [skip for skip in report.skipped if skip.matters]
        yield opened


def test_every_format_answers_and_opens_at_the_right_place(facade: Engine) -> None:
    for question, document, answer, opens in QUESTIONS:
        best = ask(facade, question)[0]
        assert best.document == document, question
        assert answer in best.content, question
        assert opens in best.opens, question


@pytest.mark.parametrize(
    ("document", "opens"),
    [
        ("handbook.pdf", "handbook.pdf#page=2"),
        ("handbook.docx", "handbook.docx#fuel-and-fire"),
        ("sources/handbook.html", "handbook.html#fuel-and-fire"),
    ],
)
def test_the_same_handbook_opens_at_page_or_heading(place: Path, document: str, opens: str) -> None:
    with engine() as facade:
        add(facade, place / document)
        best = ask(facade, "who keeps the key to the foam cabinet")[0]
        assert "duty officer" in best.content
        assert best.opens.endswith(opens)
        assert "Fuel and fire" in best.section
        assert best.title == "Harbour Handbook"


def test_structure_survives_word(place: Path) -> None:
    text, _ = as_markdown(formats.convert("handbook.docx", (place / "handbook.docx").read_bytes()))
    assert "## Berthing\n" in text
    assert "- Moor with at least four lines." in text
    assert "| Methanol | West | 9,500 litres |" in text


def test_a_long_table_repeats_its_header_in_every_passage() -> None:
    rows = "\n".join(f"{number},berth {number},{number * 3} metres of quay" for number in range(300))
    parsed = document_parse("berths.csv", f"Number,Berth,Length\n{rows}\n".encode(), ChunkSettings())
    assert len(parsed.chunks) > 5
    for chunk in parsed.chunks:
        assert chunk.text.count("| Number | Berth | Length |\n| --- | --- | --- |\n") == 1
        assert len(chunk.text) < 1300
    lines = [line for chunk in parsed.chunks for line in chunk.text.split("\n") if line.startswith("| 2")]
    assert any(line.startswith("| 299 |") for line in lines)


def test_title_and_section_are_embedded_and_not_stored() -> None:
    data = b"# Guide\n\nIntro.\n\n## Fees\n\nA fee is due.\n" + b"\nMore text about the fee and how to pay it.\n" * 40
    chunk = document_parse("guide.md", data, ChunkSettings()).chunks[-1]
    assert chunk.kind == PASSAGE
    assert passage_text(chunk).startswith("Document: Guide\nSection: Fees\n\n")
    assert "Document:" not in chunk.text


def test_a_document_without_headings_has_its_name_as_title() -> None:
    (chunk,) = document_parse("a/meeting notes.txt", b"We agreed on blue.", ChunkSettings()).chunks
    assert chunk.breadcrumb == "meeting notes"


def test_front_matter_names_the_title() -> None:
    data = b"---\ntitle: 'The right name'\n---\n\n## Part\n\nText.\n"
    (chunk, *_) = document_parse("x.md", data, ChunkSettings()).chunks
    assert chunk.breadcrumb.startswith("The right name")


def test_links_become_edges_and_those_in_code_do_not() -> None:
    data = b"See [a](b.md#x), [[Other page|that]], <https://x.example>.\n\n```\n[no](no.md)\n```\n[web](https://w.example)\n"
    links = document_parse("x.md", data, ChunkSettings()).imports
    assert [(link.module, link.alias) for link in links] == [("b.md", "link"), ("Other page", "wiki")]


def test_secrets_are_masked_in_converted_documents() -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    parsed = document_parse("a.html", f"<p>aws_access_key_id = {key}</p>".encode(), ChunkSettings())
    assert all(key not in chunk.text for chunk in parsed.chunks)


OWN_FORMATS = ("closure.eml", "moorings.csv", "soundings.ipynb")  # the other converters are libraries
PAGE = """<title>T</title><nav><a href=x>menu</a></nav><h1>A &amp; B</h1><script>bad()</script>
  <p>One <a href="two.html">two</a> <code>three()</code><br>four</p><ol><li>x<ul><li>y</ul><li>z</ol>
  <pre>a\n  b</pre><table><tr><th>h<th>i<tr><td>1<td>2|3</table>"""


def test_html_keeps_what_is_read_and_drops_what_is_not() -> None:
    document = html_document(PAGE)
    text, _ = as_markdown(document)
    assert document.title == "T"
    assert "menu" not in text
    assert "bad" not in text
    for part in ("# A & B", "[two](two.html) `three()`\nfour", "- x\n  - y\n- z", "```\na\n  b\n```", "| 1 | 2\\|3 |"):
        assert part in text, part


def test_documents_are_converted_again_when_a_converter_changed() -> None:
    """If the digest differs, raise CONVERTERS_VERSION: documents that were converted before would stay as they are."""
    odd = f"{PAGE}<!-- x --><svg>no</svg><p>a < b &#65; &copy<![CDATA[c]]><a title='>' href='#x'>d</a><img alt=e><b"
    read = [html_document(odd), *(convert(name, (FIXTURES / name).read_bytes()) for name in OWN_FORMATS)]
    digest = hashlib.sha256("".join(as_markdown(document)[0] for document in read).encode()).hexdigest()[:16]
    assert (CONVERTERS_VERSION, digest) == (3, "9764009ebaee6089")


def test_a_new_version_of_the_converters_converts_what_is_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine() as facade, monkeypatch.context() as earlier:
        earlier.setattr(CollectionSource, "versions", (CONVERTERS_VERSION - 1,))
        add(facade, place / "closure.eml")
    with engine() as facade:
        (index,) = facade.documents.indexes(["."])
        assert index.find_pending() is None  # everything is converted again
        assert facade.documents.sync(DocsSyncRequest()).reports[0].plan.unchanged == 1
        assert index.find_pending() == Changes((), (), (), 1)


def test_a_paragraph_does_not_become_a_heading() -> None:
    text, _ = as_markdown(Document("", (Block(BlockKind.PARAGRAPH, "# not a heading"),)))
    assert text == "\\# not a heading"


def test_a_missing_library_is_said_with_the_command(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        return None if name == "pypdfium2" else object()

    monkeypatch.setattr(formats, "find_spec", find)
    with engine() as facade:
        report = add(facade, place)
        (skip,) = [skip for skip in report.skipped if skip.matters]
        assert skip.path == "handbook.pdf"
        assert "pip install 'codeinfo[docs]'" in skip.detail


def test_a_library_that_is_gone_takes_no_document_with_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine() as facade:
        before = add(facade, place)
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    (place / "handbook.pdf").touch()
    with engine() as facade:
        (report,) = facade.documents.sync(DocsSyncRequest()).reports
        assert (report.documents, report.chunks, report.plan.removed) == (before.documents, before.chunks, ())
        assert any(skip.path == "handbook.pdf" and "install" in skip.detail for skip in report.skipped)
        assert "handbook.pdf" in {hit.document for hit in ask(facade, "handbook", limit=50)}


def test_fixtures_have_every_format() -> None:
    endings = {path.suffix for path in FIXTURES.rglob("*")}
    assert endings >= set(".md .mdx .rst .adoc .txt .html .ipynb .pdf .docx .pptx .xlsx .csv .eml".split())
