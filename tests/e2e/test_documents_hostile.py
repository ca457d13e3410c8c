"""Broken, encrypted and hostile files are refused with a reason, in bounded time and memory, and the rest goes on."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from document_tools import FIXTURES, add, ask, engine
from patience import is_quick, within

from codeinfo.collections import pack, read_manifest, safe_path, unpack
from codeinfo.errors import CodeInfoError, UsageError
from codeinfo.index import pool
from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.plain import document_parse
from codeinfo.index.pool import ParsePool, ParseTask
from codeinfo.operations.documents import DocsSyncRequest
from codeinfo.sources.documents import MAX_TEXT_CHARS, Refused, as_markdown, convert, open_office_file

GOOD = "# Good\n\nThe lantern is lit at dusk.\n"


def zipped(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def encrypted_pdf() -> bytes:
    """The header of a PDF whose trailer names an encryption that needs a password."""
    objects = [
        b"1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n",
        b"2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n",
        b"3 0 obj<</Filter/Standard/V 2/R 3/Length 128/P -1/O<" + b"41" * 32 + b">/U<" + b"42" * 32 + b">>>endobj\n",
    ]
    body, places = b"%PDF-1.4\n", []
    for item in objects:
        places.append(len(body))
        body += item
    table = b"xref\n0 4\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in places)
    trailer = b"trailer<</Size 4/Root 1 0 R/Encrypt 3 0 R/ID[<00><00>]>>\nstartxref\n%d\n%%%%EOF" % len(body)
    return body + table + trailer


def hostile_files() -> dict[str, tuple[bytes, str]]:
    """Name → content, and what the reason must say."""
    laughs = (
        b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><w:document>&b;</w:document>'
    )
    docx = (FIXTURES / "handbook.docx").read_bytes()
    with zipfile.ZipFile(io.BytesIO(docx)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return {
        "bomb.docx": (zipped({**parts, "word/media/zeros.bin": bytes(310_000_000)}), "unpacked"),
        "laughs.docx": (zipped({**parts, "word/document.xml": laughs}), "entities"),
        "laughs.xlsx": (zipped({"xl/workbook.xml": laughs}), "entities"),
        "cut.docx": (docx[: len(docx) // 2], "broken"),
        "cut.pdf": ((FIXTURES / "handbook.pdf").read_bytes()[:3000], "broken"),
        "locked.pdf": (encrypted_pdf(), "password"),
        "locked.xlsx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "password"),
        "nothing.pptx": (b"", "broken"),
        "deep.docx": (zipped({**parts, "word/document.xml": b"<a>" * 200_000}), ""),
        "deep.ipynb": (b"[" * 200_000, "broken"),
        "text.ipynb": (b'{"a": 1}', "cells"),
        "binary.md": (b"\x00\x01\x02" * 100, "not text"),
        "huge.html": (b"<p>" + b"x" * 11_000_000, "dump"),
        "cells.csv": (b",".join([b"1"] * 1_100_000), "cells"),
        "jagged.csv": (b",".join([b"x"] * 50_000) + b"\n1,2" * 50_000, "50,001 rows and 50,000 columns"),
    }


def test_hostile_files_are_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text(GOOD)
    wanted = {}
    for name, (content, reason) in hostile_files().items():
        (tmp_path / name).write_bytes(content)
        wanted[name] = reason
    with engine() as facade:
        with within(300):
            report = add(facade, tmp_path)
        refused = {skip.path: skip.detail for skip in report.skipped if skip.rule == "refused"}
        assert refused.keys() == wanted.keys()
        for name, reason in wanted.items():
            assert reason in refused[name], (name, refused[name])
        assert report.documents == 1
        assert ask(facade, "when is the lantern lit")[0].document == "good.md"
        with within(100):
            (again,) = facade.documents.sync(DocsSyncRequest()).reports  # remembered: none of them is converted again
        assert {skip.path for skip in again.skipped if skip.matters} == wanted.keys()


def test_fifty_thousand_levels_of_html_cost_nothing(tmp_path: Path) -> None:
    page = "<div><ul><li><table><tr><td>" * 50_000 + "the needle" + "</td></tr></table></li></ul></div>" * 50_000
    (tmp_path / "deep.html").write_text(page)
    with within(200), engine() as facade:
        report = add(facade, tmp_path)
        assert report.documents == 1
        assert "needle" in ask(facade, "the needle")[0].content


COSTLY_HTML = {
    "nested navigation": "<nav>" * 50_000 + "</p>" * 50_000 + "</nav>" * 50_000,
    "tags that do not end": "<a " * 100_000,
    "quotes that do not end": "<a x='" * 100_000,
    "comments that do not end": "<!--" * 100_000,
    "declarations that do not end": "<![CDATA[" * 50_000,
    "a cell that ends often": "<table><tr><td>" + "x</td>" * 100_000 + "</table>",
    "a title that goes on": "<title>" + "a<b>" * 100_000 + "</title>",
    "a character with a long number": "&#" + "9" * 100_000 + ";",
}


@pytest.mark.parametrize("markup", COSTLY_HTML.values(), ids=COSTLY_HTML)
def test_hostile_html_takes_no_more_time_than_other(markup: str) -> None:
    page = f"<h1>Apples</h1><p>They are in the cellar.</p>{markup}".encode()

    def read() -> None:
        blocks = convert("a.html", page).blocks
        assert [block.text for block in blocks[:2]] == ["Apples", "They are in the cellar."]

    assert is_quick(read, 5)


MAIL = "From: Ann Bee <ann@shop.example>\nSubject: Apples\n"
COSTLY_MAIL = {
    "an address": MAIL + "To: " + '"' * 20_000 + "\n\nThey are in the cellar.",
    "a type": MAIL + "Content-Type: text/plain; " + "a=b; " * 20_000 + "\n\nThey are in the cellar.",
}


@pytest.mark.parametrize("message", COSTLY_MAIL.values(), ids=COSTLY_MAIL)
def test_hostile_mail_takes_no_more_time_than_other(message: str) -> None:
    def read() -> None:
        document = convert("a.eml", message.encode())
        assert document.title == "Apples"
        assert document.blocks[0].text.startswith("From: Ann Bee <ann@shop.example>")
        assert document.blocks[1].text == "They are in the cellar."

    assert is_quick(read, 5)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (MAIL + "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nx\n" * 300, "more than 250 parts"),
        (MAIL + "Content-Type: multipart/mixed; boundary=b\n\n" * 3000, "too many lines"),
        (MAIL + "Content-Type: text/plain; charset=punycode\n\n" + "a" * 1000, "character set"),
    ],
)
def test_mail_that_costs_more_than_it_holds_is_refused(message: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        convert("a.eml", message.encode())


def test_a_conversion_that_never_ends_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "time_limit_s", lambda text, settings: 0.05)
    tasks = [ParseTask(f"{n}.html", b"<p>x" * 2_000_000, "html") for n in range(2)]
    with ParsePool(ChunkSettings(), workers=1) as workers:
        results = list(workers.run(tasks))
    assert [bool(result.refusal) for result in results] == [True, True]
    assert "gave up" in results[0].refusal


def test_passages_of_a_table_do_not_each_repeat_a_huge_header() -> None:
    wide = ",".join(f"column{number}" for number in range(1000))
    data = f"{wide}\n{(','.join(['1'] * 1000) + chr(10)) * 300}".encode()
    narrow = document_parse("a.csv", b"name,wage\n" + b"ann,1200\n" * 1000, ChunkSettings())
    assert all("| name | wage |" in chunk.text for chunk in narrow.chunks)
    assert sum(len(chunk.text) for chunk in document_parse("a.csv", data, ChunkSettings()).chunks) < 20 * len(data)


def test_of_a_table_that_is_too_long_the_beginning_is_indexed() -> None:
    text, notes = as_markdown(convert("a.csv", b"name,wage\n" + f"ann,{'x' * 100_000}\n".encode() * 101))
    assert len(text) == MAX_TEXT_CHARS
    assert "only the beginning" in notes[0]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_a_document_that_takes_too_much_memory_is_said_so() -> None:
    program = """if True:
        import mmap, pathlib
        from codeinfo.index import worker
        def answer(rows): return worker._answer(worker.CONVERT, ["a.csv", b"name,wage\\n" * rows], settings)
        settings = worker.ChunkSettings()
        assert answer(10)[0]
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        worker.MEMORY_LIMIT = pages * mmap.PAGESIZE + 50_000_000
        worker._limit_memory()
        print(*answer(400_000))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert re.fullmatch(r"False more than [\d,]+ bytes of memory\n", done.stdout), done.stderr


def test_a_document_has_a_time_limit_of_its_own() -> None:
    settings = ChunkSettings()
    assert pool.time_limit_s(b"", settings) > pool.time_limit_s("", settings)


def test_an_archive_with_too_many_parts_is_refused() -> None:
    with pytest.raises(Refused, match="parts"):
        open_office_file(zipped({f"{number}.txt": b"" for number in range(20_001)}))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("before", ["", f"<!-- {'x' * 5000} -->"], ids=["at once", "late"])
def test_entities_are_seen_wherever_they_are(encoding: str, before: str) -> None:
    with pytest.raises(Refused, match="entities"):
        open_office_file(zipped({"word/document.xml": f'{before}<!DOCTYPE x [<!ENTITY a "b">]>'.encode(encoding)}))


def test_a_row_that_no_workbook_can_have_is_refused() -> None:
    """All rows before it would be read as empty ones."""
    with zipfile.ZipFile(FIXTURES / "tariffs.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = next(name for name in parts if "worksheets/sheet" in name)
    row = b'<row r="3000000"><c r="A3000000"><v>1</v></c></row></sheetData>'
    parts[sheet] = re.sub(rb"</sheetData>|<sheetData\s*/>", row, parts[sheet])
    with pytest.raises(Refused, match="rows"):
        convert("tariffs.xlsx", zipped(parts))


# --- packages ------------------------------------------------------------------------------------------------------


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "name", ["../evil.md", "a/../../evil.md", "/etc/evil.md", "..\\evil.md", "C:/evil.md", "a\0b.md", ""]
)
def test_names_that_leave_the_package_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        safe_path(name)


@pytest.mark.parametrize("kind", ["folder", "package", "repository"])
def test_a_name_that_is_not_utf_8_costs_only_its_document(tmp_path: Path, kind: str) -> None:
    folder, odd = tmp_path / "notes", "caf\udce9.md"
    folder.mkdir()
    for name in ("good.md", odd):
        (folder / name).write_text(GOOD)
    source = str(folder)
    if kind == "package":
        manifest = json.dumps({"name": "x", "version": "1", "sources": {"glob": ["*.md"]}}).encode()
        members = [(tarfile.TarInfo(name), GOOD.encode()) for name in ("good.md", odd)]
        source = str(tmp_path / "notes.tar.gz")
        Path(source).write_bytes(tar_of((tarfile.TarInfo("manifest.json"), manifest), *members))
    elif kind == "repository":
        identity = ("-c", "user.name=x", "-c", "user.email=x@x.example")
        for arguments in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "x")):
            subprocess.run(["git", *arguments], cwd=folder, check=True)
        source = f"git+file://{folder}"
    with engine() as facade:
        report = add(facade, source)
        assert (report.documents, [skip.path for skip in report.skipped if skip.matters]) == (1, [odd])
        assert add(facade, source).plan.unchanged == 1


@pytest.mark.parametrize("names", [("a", "a/b.md"), ("a/b.md", "a"), ("x" * 300 + ".md",), ("d" * 200 + "/",) * 30])
def test_names_that_no_folder_can_have_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    listed = names if len(names) < 3 else ("".join(names) + "a.md",)
    archive = tmp_path / "package.tar.gz"
    manifest = json.dumps({"name": "x", "version": "1", "sources": {"glob": ["**/*"]}}).encode()
    members = [(tarfile.TarInfo(name), GOOD.encode()) for name in listed]
    archive.write_bytes(tar_of((tarfile.TarInfo("manifest.json"), manifest), *members))
    with engine() as facade:
        with pytest.raises(UsageError, match="cannot be stored under this name"):
            add(facade, archive)
        assert not list(facade.documents.collections.folder.iterdir())


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../../evil.md"),
        tarfile.TarInfo("/tmp/evil.md"),
        link("docs", "/etc", tarfile.SYMTYPE),
        link("passwd.md", "/etc/passwd", tarfile.LNKTYPE),
        link("pipe", "", tarfile.FIFOTYPE),
    ],
    ids=lambda member: member.name,
)
def test_archives_that_reach_outside_are_refused(member: tarfile.TarInfo) -> None:
    with pytest.raises(UsageError):
        unpack(tar_of((tarfile.TarInfo("manifest.json"), b"{}"), (member, b"")))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_of_an_archive_cannot_fill_the_memory(kind: bytes) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 300_000_000
    packed = io.BytesIO()
    with gzip.open(packed, "wb", compresslevel=1) as sink:
        sink.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(30):
            sink.write(bytes(10_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="a header of 300,000,000 bytes"):
            unpack(packed.getvalue())
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("way", ["headers", "holes", "a map of holes"])
def test_archives_that_cost_more_than_they_hold_are_refused(way: str) -> None:
    member = tarfile.TarInfo("a.md")
    plain = io.BytesIO()
    if way == "headers":
        for _ in range(3000):
            plain.write(tarfile.TarInfo().create_pax_header({**member.get_info(), "name": "é"}, "utf-8")[:1024])
    elif way == "holes":
        member.type = tarfile.GNUTYPE_SPARSE
        plain.write(member.tobuf(tarfile.GNU_FORMAT))
    else:
        member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}
        member.size = 512
        plain.write(member.tobuf(tarfile.PAX_FORMAT) + b"999999999\n" + b"1\n" * 251)
    with pytest.raises(UsageError, match=r"the package is broken: (a file with holes|maximum recursion)"):
        unpack(gzip.compress(plain.getvalue() + bytes(10240)))


def test_a_broken_archive_is_refused() -> None:
    data, _ = pack("a", "1", "", {"a.md": b"x" * 10_000})
    for broken in (b"", b"nonsense", data[:50]):
        with pytest.raises(UsageError):
            unpack(broken)


@pytest.mark.parametrize(
    "manifest",
    [
        "[]",
        "{",
        '{"name": "a"}',
        '{"name": "a", "version": "1", "sources": {}}',
        '{"name": "a", "version": "1", "sources": {"glob": "*.md"}}',
        '{"name": "a", "version": "1", "sources": {"glob": [], "files": []}}',
        '{"name": "a", "version": "1", "sources": {"files": ["../x.md"]}}',
        '{"name": "a", "version": "1", "sources": {"files": ["x.md", "x.md"]}}',
        '{"name": "a", "version": "1", "sources": {"files": [{"path": "x.md", "hash": "abc"}]}}',
        '{"name": "a", "version": "1", "sources": {"files": [{"url": "file:///etc/passwd"}]}}',
        '{"name": "a", "version": "1", "baseUrl": "file:///", "sources": {"files": []}}',
        '{"name": "a", "version": "1", "sources": {"files": ["\\ud800.md"]}}',
    ],
)
def test_bad_manifests_are_refused(manifest: str) -> None:
    with pytest.raises(UsageError):
        read_manifest(manifest)


@pytest.mark.parametrize("manifest", ["huge", "link"])
def test_a_manifest_in_a_folder_is_a_file_of_bounded_size(tmp_path: Path, manifest: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "a.md").write_text(GOOD)
    if manifest == "huge":
        with (package / "manifest.json").open("wb") as file:
            file.truncate(60_000_000)
    else:
        (tmp_path / "elsewhere.json").write_text('{"name": "a", "version": "1", "sources": {"glob": []}}')
        (package / "manifest.json").symlink_to(tmp_path / "elsewhere.json")
    with engine() as facade, pytest.raises(CodeInfoError, match="cannot be read"):
        add(facade, str(package))


def test_a_manifest_is_read_in_full() -> None:
    digest = "a" * 64
    files = ["a.md", {"path": "b.md", "hash": f"sha256:{digest}"}, {"url": "guide/c.md"}]
    text = {"name": "n", "version": "2", "baseUrl": "https://docs.example/v2/", "sources": {"files": files}}
    manifest = read_manifest(json.dumps(text))
    assert [file.path for file in manifest.files] == ["a.md", "b.md", "docs.example/v2/guide/c.md"]
    assert manifest.files[1].sha256 == digest
    assert manifest.files[2].url == "https://docs.example/v2/guide/c.md"
