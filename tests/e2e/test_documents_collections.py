"""Collections of every kind: added, synced by content, listed, packed, removed."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from document_tools import add, ask, engine, harbour

from codeinfo.collections import Collection, Kind, unpack
from codeinfo.engine import Engine
from codeinfo.engine import documents as engine_documents
from codeinfo.errors import NotFound, UsageError
from codeinfo.operations.documents import (
    DocsAddRequest,
    DocsDeleteRequest,
    DocsListRequest,
    DocsPackRequest,
    DocsRemoveRequest,
    DocsSearchRequest,
    DocsSyncRequest,
    DocsUpdateRequest,
    SyncReport,
)


@pytest.fixture
def facade() -> Iterator[Engine]:
    with engine() as opened:
        yield opened


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Apples\n\nApples are stored in the cellar.\n")
    (folder / "b.md").write_text("# Pears\n\nPears are stored in the attic.\n")
    (folder / "code.py").write_text("def store(): ...\n")
    return folder


def sync(facade: Engine, **options: object) -> SyncReport:
    (report,) = facade.documents.sync(DocsSyncRequest(**options)).reports  # type: ignore[arg-type]
    return report


def test_a_new_collection_says_how_to_ask_about_it(codeinfo: Any, notes: Path) -> None:
    added = codeinfo("docs", "add", "notes", cwd=notes.parent).stdout
    assert added.endswith('\n  2 added\nAsk about it: codeinfo docs ask "…" --collection notes\n')
    (notes / "c.md").write_text("# Plums\n")
    assert codeinfo("docs", "sync", cwd=notes.parent).stdout.endswith("\n  1 added, 2 unchanged\n")


def test_a_folder_is_added_listed_and_removed(facade: Engine, notes: Path) -> None:
    report = add(facade, notes)
    assert report.collection.startswith("file:")
    assert (report.documents, report.plan.added) == (2, ("a.md", "b.md"))
    (listed,) = facade.documents.list(DocsListRequest(("notes",))).collections
    assert [item.document for item in listed.listing] == ["a.md", "b.md"]
    assert (listed.kind, listed.origin) == ("folder", "user")
    (removed,) = facade.documents.remove(DocsRemoveRequest(("notes",))).removed
    assert removed.bytes > 0
    assert facade.documents.list(DocsListRequest()).collections == ()
    assert (notes / "a.md").exists()
    with pytest.raises(NotFound):
        ask(facade, "apples")


APPLES = "# Apples\n\nApples are stored in the cellar.\n"


def test_documents_are_written_updated_and_deleted(facade: Engine) -> None:
    written = facade.documents.update(DocsUpdateRequest("wiki", "fruit/apples.md", APPLES))
    assert (written.changed, written.document, written.passages) == (True, "fruit/apples.md", 1)
    assert written.hash == hashlib.sha256(APPLES.encode()).hexdigest()
    facade.documents.update(DocsUpdateRequest("wiki", "pears.md", "# Pears\n\nPears are stored in the attic.\n"))
    assert facade.documents.update(DocsUpdateRequest("wiki", "fruit/apples.md", APPLES)).changed is False
    (listed,) = facade.documents.list(DocsListRequest(("wiki",))).collections
    assert listed.kind == "written"
    assert {item.document: item.hash for item in listed.listing}["fruit/apples.md"] == written.hash
    assert ask(facade, "where are apples")[0].document == "fruit/apples.md"

    moved = facade.documents.update(DocsUpdateRequest("wiki", "fruit/apples.md", APPLES.replace("cellar", "barn")))
    assert moved.changed
    assert moved.hash != written.hash
    assert "barn" in ask(facade, "where are apples")[0].content
    assert sync(facade).plan.unchanged == 2

    gone = facade.documents.delete(DocsDeleteRequest("wiki", ("fruit/apples.md",)))
    assert (gone.deleted, gone.documents) == (("fruit/apples.md",), 1)
    assert {hit.document for hit in ask(facade, "where are apples stored")} <= {"pears.md"}
    with pytest.raises(NotFound, match=r"no fruit/apples\.md; nothing was deleted"):
        facade.documents.delete(DocsDeleteRequest("wiki", ("pears.md", "fruit/apples.md")))
    assert ask(facade, "where are pears")[0].document == "pears.md"
    facade.documents.remove(DocsRemoveRequest(("wiki",)))
    assert facade.documents.list(DocsListRequest()).collections == ()


@pytest.mark.parametrize(
    "document",
    [
        "../a.md",
        "/etc/a.md",
        "",
        ".",
        "a/../../b.md",
        "picture.png",
        "node_modules/a.md",
        "é" * 120 + ".md",
        "a/" * 1500,
    ],
)
def test_a_document_that_cannot_be_taken_leaves_nothing_behind(facade: Engine, document: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be a document|not a path|for a name"):
        facade.documents.update(DocsUpdateRequest("wiki", document, APPLES))
    assert facade.documents.list(DocsListRequest()).collections == ()
    assert not list((facade.config.paths.data_dir / "collections").glob("*"))
    facade.documents.update(DocsUpdateRequest("wiki", "a.md", APPLES))
    with pytest.raises(UsageError):
        facade.documents.update(DocsUpdateRequest("wiki", document, APPLES))
    (listed,) = facade.documents.list(DocsListRequest(("wiki",))).collections
    assert [item.document for item in listed.listing] == ["a.md"]


def test_a_document_cannot_lie_in_another_one(facade: Engine) -> None:
    facade.documents.update(DocsUpdateRequest("wiki", "fruit/a.md", APPLES))
    for document in ("fruit/a.md/b.md", "fruit"):
        with pytest.raises(UsageError, match="Choose another name"):
            facade.documents.update(DocsUpdateRequest("wiki", document, APPLES))


def test_documents_of_a_folder_are_changed_in_the_folder(facade: Engine, notes: Path) -> None:
    add(facade, notes)
    with pytest.raises(UsageError, match="come from"):
        facade.documents.update(DocsUpdateRequest("notes", "a.md", "other"))
    with pytest.raises(UsageError, match="come from"):
        facade.documents.delete(DocsDeleteRequest("notes", ("a.md",)))
    assert "cellar" in (notes / "a.md").read_text()


def test_sync_does_only_what_changed(facade: Engine, notes: Path) -> None:
    add(facade, notes)
    assert sync(facade).plan.unchanged == 2
    (notes / "a.md").write_text("# Apples\n\nApples are now in the barn.\n")
    (notes / "b.md").unlink()
    (notes / "c.md").write_text("# Plums\n\nPlums are dried.\n")
    planned = sync(facade, dry_run=True)
    assert (planned.plan.added, planned.plan.changed, planned.plan.removed) == (("c.md",), ("a.md",), ("b.md",))
    assert "cellar" in ask(facade, "where are apples", refresh=False)[0].content
    done = sync(facade)
    assert done.plan == planned.plan
    assert "barn" in ask(facade, "where are apples")[0].content
    assert sync(facade).plan.unchanged == 2


def test_a_change_that_kept_size_and_time_is_noticed_by_sync(facade: Engine, notes: Path) -> None:
    os.utime(notes / "a.md", (1_000_000_000, 1_000_000_000))
    add(facade, notes)
    before = (notes / "a.md").stat()
    (notes / "a.md").write_text((notes / "a.md").read_text().replace("cellar", "garage"))
    os.utime(notes / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sync(facade, dry_run=True).plan.changed == ("a.md",)
    assert sync(facade).plan.changed == ("a.md",)
    assert "garage" in ask(facade, "where are apples")[0].content


def test_a_search_keeps_a_folder_fresh(facade: Engine, notes: Path) -> None:
    add(facade, notes)
    (notes / "new.md").write_text("# Quinces\n\nQuinces are candied.\n")
    assert ask(facade, "quinces")[0].document == "new.md"


def test_files_and_patterns(facade: Engine, notes: Path) -> None:
    assert add(facade, notes / "a.md", notes / "b.md", name="two").documents == 2
    assert add(facade, notes, name="some", globs=("*.md", "!b.md")).plan.added == ("a.md",)
    (notes / "b.md").unlink()
    (report,) = facade.documents.sync(DocsSyncRequest(("two",))).reports
    assert [skip.rule for skip in report.skipped if skip.matters] == ["missing"]


def test_a_collection_is_never_replaced_silently(facade: Engine, tmp_path: Path, notes: Path) -> None:
    add(facade, notes)
    other = tmp_path / "other" / notes.name
    other.mkdir(parents=True)
    (other / "a.md").write_text("# Another\n\nOther words.\n")
    with pytest.raises(UsageError, match=r"already exists, for .*"):
        add(facade, other)
    with pytest.raises(UsageError, match=f"is already the collection '{notes.name}'"):
        add(facade, notes, name="renamed")
    with pytest.raises(UsageError, match=r"already exists, for .*"):
        add(facade, other, project=True, path=str(tmp_path / "other"))
    again = add(facade, notes, globs=("*.md",))
    assert "its patterns were none before" in again.notes
    (listed,) = facade.documents.list(DocsListRequest()).collections
    assert listed.url == str(notes)


def test_a_list_that_could_not_be_read_again_is_not_written(facade: Engine, notes: Path, tmp_path: Path) -> None:
    add(facade, notes)
    known = facade.documents.collections
    files = tuple(f"/{'d' * 200}/{number}.md" for number in range(25_000))
    with pytest.raises(UsageError, match="would have 5,"):
        known.add(Collection("many", Kind.FILES, "/", files), tmp_path)
    assert [item.name for item in known.all(tmp_path)[0]] == ["notes"]


def test_what_a_newer_release_listed_is_not_lost(facade: Engine, notes: Path, tmp_path: Path) -> None:
    add(facade, notes)
    listed = facade.documents.collections.folder.with_suffix(".json")
    content = json.loads(listed.read_text())
    content["collections"][0]["schedule"] = "daily"
    listed.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="unknown field `schedule`"):
        facade.documents.collections.add(Collection("other", Kind.FOLDER, "/other"), tmp_path)
    assert json.loads(listed.read_text()) == content


def test_what_cannot_be_added_is_not_listed(facade: Engine, tmp_path: Path, notes: Path) -> None:
    with pytest.raises(UsageError):
        add(facade, tmp_path / "nowhere")
    with pytest.raises(UsageError):
        facade.documents.add(DocsAddRequest(()))
    add(facade, notes)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(UsageError, match="already exists"):
        add(facade, other, name="notes")
    assert len(facade.documents.list(DocsListRequest()).collections) == 1


# --- packages ------------------------------------------------------------------------------------------------------


def test_a_package_is_the_same_for_the_same_content_and_can_be_added(facade: Engine, tmp_path: Path) -> None:
    folder = harbour(tmp_path)
    request = DocsPackRequest(str(folder), name="harbour", version="2.1.0", out=str(tmp_path / "one.tar.gz"))
    packed = facade.documents.pack(request)
    again = facade.documents.pack(DocsPackRequest(str(folder), "harbour", "2.1.0", out=str(tmp_path / "two.tar.gz")))
    assert packed.sha256 == again.sha256
    report = add(facade, packed.file, name="packed")
    assert report.documents == packed.documents
    assert report.collection == f"pkg:{packed.file}"
    assert ask(facade, "telephone of the crane operator")[0].place == "sheet Staff"


@pytest.mark.parametrize(("limit", "value"), [("MAX_MEMBERS", 3), ("MAX_PACKED_BYTES", 10)])
def test_a_package_that_nobody_could_read_is_not_written(
    limit: str, value: int, facade: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "guide").mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / "guide" / name).write_text("# Apples\n")
    out = tmp_path / "guide.tar.gz"
    monkeypatch.setattr(f"codeinfo.collections.{limit}", value)
    with pytest.raises(UsageError, match="a package has fewer than"):
        facade.documents.pack(DocsPackRequest(str(tmp_path / "guide"), out=str(out)))
    assert not out.exists()


def test_hashes_of_a_package_are_verified(facade: Engine, notes: Path) -> None:
    packed = facade.documents.pack(DocsPackRequest(str(notes), out=str(notes.parent / "p.tar.gz")))
    folder = notes.parent / "unpacked"
    for path, content in unpack(Path(packed.file).read_bytes()).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    assert add(facade, folder, name="p").documents == 2
    (folder / "a.md").write_text("# Apples\n\nApples are poisonous.\n")
    report = sync(facade)
    (skip,) = [skip for skip in report.skipped if skip.matters]
    assert (skip.path, skip.rule) == ("a.md", "hash-mismatch")
    assert report.plan.removed == ("a.md",)
    assert all("poisonous" not in hit.content for hit in ask(facade, "apples"))


def test_a_changed_document_is_noticed_though_the_manifest_is_as_it_was(facade: Engine, notes: Path) -> None:
    manifest = {"name": "fruit", "version": "1", "sources": {"glob": ["**/*.md", "!b.md"]}}
    (notes / "manifest.json").write_text(json.dumps(manifest))
    report = add(facade, notes)
    assert report.plan.added == ("a.md",)
    (notes / "a.md").write_text("# Apples\n\nApples went to the market.\n")
    assert sync(facade).plan.changed == ("a.md",)
    assert "market" in ask(facade, "apples")[0].content


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", folder
        server.shutdown()


def test_packages_come_over_the_network_only_by_sync(facade: Engine, notes: Path, web: tuple[str, Path]) -> None:
    address, served = web
    facade.documents.pack(DocsPackRequest(str(notes), name="fruit", out=str(served / "fruit.tar.gz")))
    report = add(facade, f"{address}/fruit.tar.gz")
    assert report.collection == f"pkg:{address}/fruit.tar.gz"
    (notes / "a.md").write_text("# Apples\n\nApples are in the loft.\n")
    facade.documents.pack(DocsPackRequest(str(notes), name="fruit", out=str(served / "fruit.tar.gz")))
    assert "cellar" in ask(facade, "apples")[0].content
    assert sync(facade).plan.changed == ("a.md",)
    assert "loft" in ask(facade, "apples")[0].content
    (served / "fruit.tar.gz").write_bytes(b"broken")
    with pytest.raises(UsageError):
        sync(facade)
    assert "loft" in ask(facade, "apples")[0].content


def test_a_manifest_on_the_web_lists_files_beside_it(facade: Engine, web: tuple[str, Path]) -> None:
    address, served = web
    (served / "a.md").write_text("# Lamps\n\nLamps need oil.\n")
    manifest = {
        "name": "lamps",
        "version": "1",
        "sources": {"files": ["a.md", {"url": f"{address}/a.md", "path": "b.md"}]},
    }
    (served / "lamps.json").write_text(json.dumps(manifest))
    assert add(facade, f"{address}/lamps.json").plan.added == ("a.md", "b.md")


@pytest.mark.parametrize(("path", "document"), [("guide.html", "guide.html"), ("oil.md", "oil.md"), ("", "index.html")])
def test_a_page_on_the_web_is_a_collection_of_that_page(
    facade: Engine, web: tuple[str, Path], path: str, document: str
) -> None:
    address, served = web
    for name in {"index.html", "guide.html"}:
        (served / name).write_text("<html><body><h1>Lamps</h1><p>Lamps need oil.</p></body></html>")
    (served / "oil.md").write_text("# Lamps\n\nLamps need oil.\n")
    assert add(facade, f"{address}/{path}").plan.added == (document,)
    assert "need oil" in ask(facade, "what do lamps need")[0].content
    (served / document).write_text((served / document).read_text().replace("oil", "wicks"))
    assert sync(facade).plan.changed == (document,)
    assert "need wicks" in ask(facade, "what do lamps need")[0].content


def test_what_is_neither_a_page_nor_a_manifest_is_refused(facade: Engine, web: tuple[str, Path]) -> None:
    address, served = web
    (served / "lamps.json").write_text("<html>moved</html>")
    with pytest.raises(UsageError, match="the manifest is not valid"):
        add(facade, f"{address}/lamps.json")


# --- git -----------------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@x.example", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_repository_at_a_revision_is_read_without_running_anything_of_theirs(
    facade: Engine, notes: Path, tmp_path: Path
) -> None:
    (notes / ".gitattributes").write_text("*.md filter=evil\n")
    (notes / "out.md").symlink_to("/etc/passwd")
    git(notes, "init", "-q", "-b", "main")
    git(notes, "add", "-A")
    git(notes, "commit", "-qm", "first")
    git(notes, "tag", "v1")
    (notes / "a.md").write_text("# Apples\n\nApples are pressed.\n")
    git(notes, "commit", "-qam", "second")
    mark = tmp_path / "ran"
    hook = notes / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    git(notes, "config", "filter.evil.smudge", f"touch {mark}")
    report = add(facade, notes, ref="v1", name="first")
    assert report.plan.added == ("a.md", "b.md")
    assert report.collection.endswith("@v1")
    assert "cellar" in ask(facade, "apples", collections=("first",))[0].content
    add(facade, f"git+file://{notes}", name="newest")
    assert "pressed" in ask(facade, "apples", collections=("newest",))[0].content
    assert not mark.exists()
    for source in ("git+file:///nowhere.git", "git+ssh://-oProxyCommand=touch /x", "git@-evil:x.git"):
        with pytest.raises(Exception):  # noqa: B017 - whichever of ours it is, nothing runs
            add(facade, source, name="bad")
    assert not mark.exists()


def test_what_a_reply_shows_is_known_of_each_collection(facade: Engine, notes: Path, tmp_path: Path) -> None:
    own = add(facade, notes, name="own").collection
    source = tmp_path / "source"
    shutil.copytree(notes, source)
    git(source, "init", "-q", "-b", "main")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "first")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=source, check=True, capture_output=True, text=True).stdout
    copied = add(facade, f"git+file://{source}", name="copied").collection
    shown = [(own, "a.md"), (own, "b.md"), (copied, "a.md")]
    here, fetched = facade.collection_states(".", (), shown)
    assert (here.collection, here.commit, here.fetched_at, here.changed) == (own, "", "", ())
    assert (fetched.collection, fetched.commit) == (copied, head[:12])
    assert datetime.now(UTC) - datetime.fromisoformat(fetched.fetched_at) < timedelta(minutes=5)
    (notes / "b.md").write_text("# Other\n")
    assert facade.collection_states(".", (), shown)[0].changed == ("b.md",)
    assert [one.collection for one in facade.collection_states(".", (), [(copied, "a.md")])] == [copied]
    assert len(facade.collection_states(".", (), ())) == 2


# --- context.json --------------------------------------------------------------------------------------------------


def test_a_project_names_its_collections(facade: Engine, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = notes.parent
    monkeypatch.chdir(project)
    (project / "context.json").write_text('{"other": 1}')
    add(facade, "notes", project=True, path=str(project), name="fruit")
    content = json.loads((project / "context.json").read_text())
    assert content == {"other": 1, "collections": {"fruit": {"url": "notes"}}}
    (listed,) = facade.documents.list(DocsListRequest(path=str(project))).collections
    assert (listed.name, listed.origin) == ("fruit", "project")
    assert ask(facade, "apples", path=str(project))[0].document == "a.md"
    assert facade.documents.list(DocsListRequest(path=str(notes.parent.parent))).collections == ()
    facade.documents.remove(DocsRemoveRequest(("fruit",), path=str(project)))
    assert json.loads((project / "context.json").read_text()) == {"other": 1, "collections": {}}


def test_a_project_cannot_name_what_lies_outside(facade: Engine, notes: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    named = {"up": {"url": "../notes"}, "abs": {"url": str(notes)}, "link": {"url": "link"}}
    (project / "link").symlink_to(notes)
    (project / "context.json").write_text(json.dumps({"collections": named}))
    response = facade.documents.list(DocsListRequest(path=str(project)))
    assert response.collections == ()
    assert len(response.notes) == 3


def test_what_a_projects_list_links_to_is_not_copied_into_it(facade: Engine, notes: Path, tmp_path: Path) -> None:
    (tmp_path / "private.json").write_text('{"auths": "secret"}')
    project = tmp_path / "project"
    (project / "guide").mkdir(parents=True)
    (project / "guide" / "a.md").write_text("# Apples\n")
    (project / "context.json").symlink_to("../private.json")
    with pytest.raises(UsageError, match=r"context\.json: it is a link"):
        facade.documents.add(DocsAddRequest((str(project / "guide"),), project=True, path=str(project)))
    assert (project / "context.json").is_symlink()
    assert (tmp_path / "private.json").read_text() == '{"auths": "secret"}'


def test_a_source_is_named_from_where_the_project_begins(
    facade: Engine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = notes.parent
    (project / ".git").mkdir()
    monkeypatch.chdir(notes)
    add(facade, str(notes), project=True)
    add(facade, "a.md", project=True, name="one")
    named = json.loads((project / "context.json").read_text())["collections"]
    assert named == {"notes": {"url": "notes"}, "one": {"url": "notes/a.md"}}
    assert not (notes / "context.json").exists()


def test_what_a_project_may_not_name_is_not_written(facade: Engine, notes: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with pytest.raises(UsageError, match="is outside the project"):
        add(facade, notes, project=True, path=str(project))
    assert not (project / "context.json").exists()


def test_a_sync_repairs_a_fetched_document(facade: Engine, notes: Path, tmp_path: Path) -> None:
    packed = tmp_path / "notes.tar.gz"
    facade.documents.pack(DocsPackRequest(str(notes), name="notes", version="1", out=str(packed)))
    add(facade, packed, name="copied")
    (copy,) = facade.config.paths.data_dir.rglob("tree-*/a.md")
    whole = copy.read_bytes()
    copy.write_bytes(b"#" + whole[1:-3])
    facade.documents.sync(DocsSyncRequest(("copied",)))
    assert copy.read_bytes() == whole


def test_what_a_killed_add_leaves_is_listed_and_what_a_failed_one_leaves_is_removed(
    facade: Engine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise how

    for how, left in ((Killed(), ["kept"]), (OSError("gone"), [])):
        monkeypatch.setattr(engine_documents, "_mark_refusals", die)
        with pytest.raises(type(how)):
            add(facade, notes, name="kept")
        assert [one.name for one in facade.documents.list(DocsListRequest()).collections] == left
        assert bool([*facade.config.paths.cache_dir.glob("documents/indexes/*")]) is bool(left)
        for name in left:
            facade.documents.remove(DocsRemoveRequest((name,)))


def test_a_project_s_address_is_not_asked_by_a_search(facade: Engine, tmp_path: Path) -> None:
    (tmp_path / "context.json").write_text('{"collections": {"x": {"url": "https://docs.example/x.tar.gz"}}}')
    with pytest.raises(NotFound, match="never fetched"):
        facade.documents.search(DocsSearchRequest(("x",), path=str(tmp_path)))


# --- search ----------------------------------------------------------------------------------------------------------


def test_advice_about_documents_is_about_documents(facade: Engine, notes: Path) -> None:
    add(facade, notes)
    (found,) = facade.documents.search(DocsSearchRequest(("which apples for whom and why",))).searches
    assert found.quality is not None
    assert found.quality.status == "low_confidence"
    assert "class" not in found.quality.hint
    assert "documents" in found.quality.hint
