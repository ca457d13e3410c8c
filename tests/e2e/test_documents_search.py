"""Searching documents: filters at the store, distances, several questions, code beside documents, links, sections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import RunCli
from document_tools import add, ask, engine

from codeinfo.engine import Engine
from codeinfo.errors import NotFound, UsageError
from codeinfo.operations.documents import DocsOutlineRequest, DocsRelatedRequest, DocsSearchRequest, DocsSectionRequest
from codeinfo.search.joined import Joined, Part


@pytest.fixture
def facade(place: Path) -> Iterator[Engine]:
    with engine() as opened:
        add(opened, place)
        yield opened


def many(folder: Path, word: str, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nAbout the {word} and the harbour, part {number}.\n")
    return folder


def test_a_collection_filter_restricts_before_the_limit(facade: Engine, tmp_path: Path) -> None:
    """Forty better matches elsewhere must not use up the places of the one collection that was asked for."""
    many(tmp_path / "others", "harbour harbour harbour", 40)
    add(facade, tmp_path / "others")
    add(facade, many(tmp_path / "few", "mill", 3), name="few")
    found = ask(facade, "harbour", collections=("few",), limit=3)
    assert len(found) == 3
    assert len({hit.collection for hit in found}) == 1
    with pytest.raises(NotFound, match="nothing"):
        ask(facade, "harbour", collections=("nothing",))


def test_several_collections_are_ranked_as_one(facade: Engine, tmp_path: Path) -> None:
    add(facade, many(tmp_path / "mills", "mill", 5))
    found = ask(facade, "unexploded ordnance near the buoy")
    assert found[0].document == "dredging.pptx"
    assert found[0].score == 1.0
    elsewhere = [hit for hit in found if hit.collection != found[0].collection]
    assert all(hit.score < 0.9 for hit in elsewhere)


def test_code_and_documents_together_each_saying_what_it_is(facade: Engine, tmp_path: Path) -> None:
    code = tmp_path / "project"
    code.mkdir()
    (code / "crane.py").write_text("def crane_operator_rota():\n    return 'telephone of the crane operator'\n")
    found = ask(facade, "telephone of the crane operator", code=(str(code),))
    kinds = {hit.document: hit.kind for hit in found}
    assert kinds["crane.py"] == "code"
    assert kinds["tariffs.xlsx"] == "document"
    alone = ask(facade, "telephone of the crane operator")
    assert all(hit.kind == "document" for hit in alone)


def test_distance_is_cosine_and_its_limit_really_limits(facade: Engine) -> None:
    everything = ask(facade, "key to the foam cabinet", limit=50)
    distances = [hit.distance for hit in everything if hit.distance is not None]
    assert distances
    assert all(0 <= distance <= 2 for distance in distances)
    middle = sorted(distances)[len(distances) // 2]
    near = ask(facade, "key to the foam cabinet", limit=50, max_distance=middle)
    assert near
    assert all(hit.distance is not None and hit.distance <= middle + 1e-4 for hit in near)
    assert ask(facade, "key to the foam cabinet", max_distance=0.0) == []


def test_meaning_alone_is_ordered_by_distance(facade: Engine) -> None:
    found = ask(facade, "ice reports frequency", hybrid=False, limit=20)
    distances = [hit.distance for hit in found]
    assert distances == sorted(distances)  # type: ignore[type-var]
    assert found[0].document == "guides/ice.adoc"


def test_several_questions_at_once(facade: Engine) -> None:
    queries = ("telephone of the crane operator", "icebreaker convoys")
    response = facade.documents.search(DocsSearchRequest(queries, limit=2))
    assert [search.query for search in response.searches] == list(queries)
    assert [search.results[0].document for search in response.searches] == ["tariffs.xlsx", "guides/ice.adoc"]
    for bad in ((), ("x",) * 11, (" ",)):
        with pytest.raises(UsageError):
            facade.documents.search(DocsSearchRequest(bad))


def test_what_is_not_available_is_said(place: Path) -> None:
    with engine("none") as facade:
        add(facade, place)
        request = DocsSearchRequest(("icebreaker",), rerank=True, max_distance=0.5, hybrid=False)
        response = facade.documents.search(request)
        assert response.searches[0].results[0].distance is None
        for word in ("reranking", "max_distance", "meaning alone", "keyword search only"):
            assert any(word in note for note in response.notes), word


def test_a_collection_that_is_gone_does_not_hide_the_others(facade: Engine, tmp_path: Path) -> None:
    gone = many(tmp_path / "gone", "mill", 1)
    add(facade, gone)
    (gone / "0.md").unlink()
    gone.rmdir()
    response = facade.documents.search(DocsSearchRequest(("icebreaker",)))
    assert response.searches[0].results[0].document == "guides/ice.adoc"
    assert any("left out" in note for note in response.notes)


# --- one document --------------------------------------------------------------------------------------------------


def test_outline(facade: Engine) -> None:
    pdf = facade.documents.outline(DocsOutlineRequest("harbour", "handbook.pdf"))
    assert [entry.title for entry in pdf.entries if entry.level == 2] == ["Page 1", "Page 2", "Page 3"]
    sheets = facade.documents.outline(DocsOutlineRequest("harbour", "tariffs.xlsx"))
    assert [entry.title for entry in sheets.entries] == ["Sheet Tariffs", "Sheet Staff"]
    with pytest.raises(NotFound, match=r"no document 'handbok\.pdf'.*Did you mean handbook\.pdf\?"):
        facade.documents.outline(DocsOutlineRequest("harbour", "handbok.pdf"))
    with pytest.raises(NotFound, match=r"no document 'xyz\.pdf'.*`codeinfo docs list harbour` shows them"):
        facade.documents.outline(DocsOutlineRequest("harbour", "xyz.pdf"))


def test_section(facade: Engine) -> None:
    ask_for = facade.documents.section
    fees = ask_for(DocsSectionRequest("harbour", "pilots.md", "fees"))
    assert fees.content.startswith("## Fees\n\n| Length |")
    assert "lee side" not in fees.content
    page = ask_for(DocsSectionRequest("harbour", "handbook.pdf", "Page 2"))
    assert "foam cabinet" in page.content
    assert "cradle" not in page.content
    assert "Neap tides" in ask_for(DocsSectionRequest("harbour", "tides.rst")).content
    with pytest.raises(NotFound, match="Did you mean 'Fees'"):
        ask_for(DocsSectionRequest("harbour", "pilots.md", "fess"))
    with pytest.raises(NotFound, match=r"`codeinfo docs outline harbour pilots\.md` shows its headings"):
        ask_for(DocsSectionRequest("harbour", "pilots.md", "xyzzy"))


def test_a_whole_document_is_given_back_as_it_was(facade: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    rows = "\n".join(f"| {number} | berth number {number} |" for number in range(200))
    text = f"# Long\n\n{'A paragraph of many words. ' * 20}\n\n| a | b |\n| --- | --- |\n{rows}\n\n## End\n\nDone.\n"
    (folder / "long.md").write_text(text)
    add(facade, folder)
    assert facade.documents.section(DocsSectionRequest("long", "long.md")).content == text.strip("\n")


def test_related_follows_links_in_both_directions(facade: Engine) -> None:
    related = facade.documents.related(DocsRelatedRequest("harbour", "pilots.md")).related
    by_document = {item.document: item.relations for item in related}
    assert "links to" in by_document["guides/tides.rst"]
    assert "links to" in by_document["Night passage.mdx"]
    back = facade.documents.related(DocsRelatedRequest("harbour", "guides/tides.rst")).related
    assert "linked from" in {item.document: item.relations for item in back}["pilots.md"]


def test_related_finds_what_is_alike(facade: Engine) -> None:
    related = facade.documents.related(DocsRelatedRequest("harbour", "handbook.docx", limit=2)).related
    assert {item.document for item in related} == {"handbook.pdf", "sources/handbook.html"}
    assert all("similar" in item.relations for item in related)


def test_related_without_vectors(place: Path) -> None:
    with engine("none") as facade:
        add(facade, place)
        related = facade.documents.related(DocsRelatedRequest("harbour", "handbook.docx")).related
        assert related[0].document in ("handbook.pdf", "sources/handbook.html")
        assert related[0].distance is None


# --- joined views --------------------------------------------------------------------------------------------------


def test_a_joined_view_is_what_its_parts_are(facade: Engine, tmp_path: Path) -> None:
    add(facade, many(tmp_path / "mills", "mill", 4))
    keepers = [facade.documents.index_of(item) for item in facade.documents.collections.all(tmp_path)[0]]
    stores = [index_manager.live_store() for index_manager in keepers]
    assert all(store is not None for store in stores)
    with stores[0].snapshot() as first, stores[1].snapshot() as second:  # type: ignore[union-attr]
        view = Joined([Part("a", first), Part("b", second)])
        assert list(view.paths) == [*first.paths, *second.paths]
        assert list(view.roots) == ["a"] * len(first.paths) + ["b"] * len(second.paths)
        assert len(view.row_file) == len(first.row_file) + len(second.row_file)
        rows = range(len(view.row_file))
        chunks = view.chunks(rows)
        assert [view.paths[view.row_file[row]] for row in rows] == [chunk.path for chunk in chunks]
        assert [view.part_of_row(row) for row in rows] == [0] * len(first.row_file) + [1] * len(second.row_file)
        postings = view.postings(["mill", "harbour"])
        for row in postings["mill"][0]:
            assert "mill" in chunks[row].text.lower()
        assert np.all(np.diff(postings["harbour"][0]) > 0)
        for root, path in zip(view.roots, view.paths, strict=True):
            for row in view.rows_of(root, path):
                chunk = chunks[row]
                assert view.row_of(root, path, (chunk.start_line, chunk.end_line)) is not None


# --- the command line ----------------------------------------------------------------------------------------------


def test_the_commands_work_as_documented(codeinfo: RunCli, place: Path) -> None:
    scripted = ("--set", "embedding.provider=scripted")
    added = codeinfo("docs", "add", str(place), *scripted, cwd=place)
    assert added.returncode == 0, added.stderr
    assert "13 documents" in added.stdout or "documents" in added.stdout
    found = codeinfo("docs", "search", "telephone of the crane operator", "-n", "1", *scripted, cwd=place)
    assert "tariffs.xlsx#sheet=Staff" in found.stdout
    assert re.search(r"^\d+% sure .*· 1 passage · \d+ ms$", found.stdout, re.MULTILINE)
    as_json = codeinfo("docs", "search", "icebreaker", "tide", "--json", *scripted, cwd=place)
    searches = json.loads(as_json.stdout)["searches"]
    assert len(searches) == 2
    assert searches[0]["results"][0].keys() >= {"id", "document", "collection", "content", "distance", "score"}
    for arguments in (
        ("list",),
        ("list", "harbour"),
        ("sync", "--dry-run"),
        ("outline", "harbour", "pilots.md"),
        ("section", "harbour", "pilots.md", "Fees"),
        ("related", "harbour", "pilots.md"),
        ("pack", ".", "--name", "harbour"),
        ("remove", "harbour", "--yes"),
    ):
        done = codeinfo("docs", *arguments, *scripted, cwd=place)
        assert done.returncode == 0, (arguments, done.stderr)
        assert done.stdout
        if arguments == ("sync", "--dry-run"):
            assert "would not change" in done.stdout
    assert (place / "harbour-1.0.0.tar.gz").exists()
    assert codeinfo("docs", "search", "x", cwd=place).returncode == 2
