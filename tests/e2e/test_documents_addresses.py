"""Which addresses a project, a package or a redirect may have asked: real servers on this machine, which see no request
unless the user allows it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from document_tools import add, ask
from git_server import delta_bomb, serving, serving_pack
from msgspec import Struct
from patience import within

from codeinfo import downloads
from codeinfo.collections import Collection, Kind
from codeinfo.config import Config
from codeinfo.downloads import AddressRefused, DownloadFailed, Host, HostPolicy, host_of, is_public
from codeinfo.engine import Engine
from codeinfo.errors import CodeInfoError, ProviderError, UsageError
from codeinfo.model import dumps, hide_user
from codeinfo.operations.documents import DocsAddRequest, DocsListRequest, DocsPackRequest, DocsSyncRequest
from codeinfo.sources.git import Remote, fetch_files

SERVER = """
import http.server, pathlib, sys, urllib.parse

class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[2], "a") as log:
            log.write(f"{self.headers['Host']}{self.path}\\n")
        parts = urllib.parse.urlsplit(self.path)
        if "moved?" in self.path:  # git appends its own path and query
            self.send_response(302)
            self.send_header("Location", self.path.partition("moved?")[2])
            self.end_headers()
        elif parts.path == "/to":
            self.send_response(302)
            self.send_header("Location", urllib.parse.unquote(parts.query))
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Handler(*a, directory=sys.argv[1]))
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Web(Struct):
    port: int
    folder: Path
    log: Path

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{path}"

    def asked(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    folder, log = tmp_path / "web", tmp_path / "log"
    folder.mkdir()
    command = [sys.executable, "-c", SERVER, str(folder), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Web(int(process.stdout.readline()), folder, log)
        process.terminate()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def engine(*hosts: str) -> Engine:
    return Engine(Config.load({"embedding.provider": "scripted", "index.workers": 1, "trust.private_hosts": hosts}))


def name_collection(project: Path, url: str, **more: str) -> None:
    (project / "context.json").write_text(json.dumps({"collections": {"docs": {"url": url, **more}}}))


def pack(facade: Engine, web: Web, name: str = "fruit.tar.gz") -> None:
    notes = web.folder.parent / "notes"
    notes.mkdir(exist_ok=True)
    (notes / "a.md").write_text("# Apples\n\nApples are in the cellar.\n")
    facade.documents.pack(DocsPackRequest(str(notes), name="fruit", out=str(web.folder / name)))


def sync(facade: Engine, project: Path) -> tuple[str, ...]:
    (report,) = facade.documents.sync(DocsSyncRequest(path=str(project))).reports
    return report.plan.added


def commit(folder: Path, content: str = "The password is swordfish.") -> Path:
    folder.mkdir()
    (folder / "secret.md").write_text(f"# Secret\n\n{content}\n")
    identity = ("-c", "user.name=x", "-c", "user.email=x@x.example", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)
    return folder


# --- a project --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["git+file://{}", "file://{}", "pkg:git+file://{}", "{}"])
@pytest.mark.parametrize("ref", ["", "main"])
def test_a_project_cannot_have_repositories_of_this_machine_fetched(
    tmp_path: Path, project: Path, source: str, ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = commit(tmp_path / "private")
    name_collection(project, source.format(secret), ref=ref)
    monkeypatch.chdir(project)
    with engine() as facade:
        listed = facade.documents.list(DocsListRequest(path=str(project)))
        assert listed.collections == ()
        assert "docs is not used" in listed.notes[0]
        assert facade.documents.sync(DocsSyncRequest(path=str(project))).reports == ()


def test_a_pipe_in_place_of_a_project_s_package_is_not_waited_for(project: Path) -> None:
    os.mkfifo(project / "docs.tar.gz")
    name_collection(project, "docs.tar.gz")
    with engine() as facade, pytest.raises(UsageError, match="not a regular file"):
        facade.documents.sync(DocsSyncRequest(path=str(project)))


def test_a_repository_inside_a_project_that_points_outside_is_not_fetched(tmp_path: Path, project: Path) -> None:
    secret = commit(tmp_path / "private")
    (project / "handbook").mkdir()
    (project / "handbook" / ".git").write_text(f"gitdir: {secret / '.git'}\n")
    name_collection(project, "handbook", ref="main")
    with engine() as facade:
        listed = facade.documents.list(DocsListRequest(path=str(project)))
        assert listed.collections == ()
        assert "a repository on this machine" in listed.notes[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0"])
@pytest.mark.parametrize("path", ["fruit.tar.gz", "manifest.json", "fruit.git"])
def test_a_project_cannot_have_this_machine_asked(web: Web, project: Path, host: str, path: str) -> None:
    with engine() as facade:
        name_collection(project, web.url(path, host))
        with pytest.raises(AddressRefused, match="not a public address") as refused:
            sync(facade, project)
    assert "trust.private_hosts" in refused.value.next_step
    assert web.asked() == []


def test_a_password_in_an_address_is_shown_nowhere(web: Web, project: Path) -> None:
    address = web.url("fruit.git").replace("://", "://me:hunter2@")
    known = Collection("private", Kind.GIT, "git+https://me:hunter2@docs.example/fruit.git")
    with engine() as facade:
        with pytest.raises(ProviderError, match="cannot be fetched") as failed:
            add(facade, f"git+{address}")
        assert "hunter2" not in str(failed.value)
        with pytest.raises(UsageError, match="only fetched without user and password") as refused:
            add(facade, address.replace(".git", ".tar.gz"))
        assert "hunter2" not in str(refused.value)
        for given in (f"git+{address}", "ssh://git:hunter2@docs.example/fruit.git"):
            with pytest.raises(UsageError, match="must not hold a password"):
                facade.documents.add(DocsAddRequest((given,), project=True, path=str(project)))
        for given in ("git+https://me:hunt/hunter2@docs.example/x", f"{web.url('none.tar.gz')}?token=hunter2"):
            with pytest.raises(CodeInfoError, match=r"is not an address|could not be fetched") as told:
                add(facade, given)
            assert "hunter2" not in str(told.value)
        facade.documents.collections.add(known, project)
        (listed,) = facade.documents.list(DocsListRequest(path=str(project))).collections
    assert (listed.id, listed.url) == ("pkg:git+https://docs.example/fruit.git", "git+https://docs.example/fruit.git")
    assert hide_user("ssh://git@host.example/x.git") == "ssh://git@host.example/x.git"  # no secret, and needed
    assert hide_user("ssh://git:b@c@host.example/x.git") == "ssh://git@host.example/x.git"
    assert hide_user("https://a:b@c@host.example/x@1") == "https://host.example/x@1"


def test_a_token_in_an_address_is_shown_nowhere(web: Web, project: Path, tmp_path: Path) -> None:
    """After the path, in an address that works, is listed, synced again, cannot be reached, and is not one."""
    with engine() as facade:
        pack(facade, web)
        report = add(facade, f"{web.url('fruit.tar.gz')}?token=hunter2")
        other = add(facade, f"{web.url('fruit.tar.gz')}?token=hunter3", name="other")
        assert (report.plan.added, report.name) == (("a.md",), "fruit")
        assert report.collection != other.collection
        listed = facade.documents.list(DocsListRequest(path=str(project)))
        assert [item.url for item in listed.collections] == [f"{web.url('fruit.tar.gz')}?…"] * 2
        by_id = facade.documents.sync(DocsSyncRequest((report.collection,), path=str(project)))
        shown = dumps([report, other, listed, by_id, ask(facade, "apples", path=str(project))])
        for given in ("none.tar.gz?token=hunter2", "x y.tar.gz?token=hunter2", "git+{}?token=hunter2"):
            address = given.format(web.url("fruit.git")) if "{}" in given else web.url(given)
            with pytest.raises(CodeInfoError) as refused:
                add(facade, address, name="broken")
            shown += str(refused.value)
        with pytest.raises(UsageError, match="must not hold a password"):
            facade.documents.add(DocsAddRequest((f"{web.url('fruit.tar.gz')}?token=hunter2",), "p", project=True))
    assert "hunter" not in shown


def test_a_list_that_an_earlier_release_wrote_is_read(web: Web, project: Path) -> None:
    """Its ids contain what follows the path, and so do the names of the folders."""
    address = f"{web.url('fruit.tar.gz')}?token=hunter2"
    collection = Collection("fruit", Kind.PACKAGE, address)
    with engine() as facade:
        facade.documents.collections.add(collection, project)
        text = (Config.load().paths.data_dir / "collections.json").read_text()
        assert json.loads(text)["collections"][0]["id"] == f"pkg:{address}"
        assert facade.documents.collections.all(project)[0] == [collection]


def test_a_password_is_on_no_command_line(tmp_path: Path) -> None:
    """Others on the machine can read the command line of git, and of what git starts."""
    (tmp_path / "served").mkdir()
    commit(tmp_path / "served" / "fruit")
    with serving(tmp_path / "served", "me:hunter2") as host:
        address = host.url("fruit").replace("://", "://me:hunter2@")
        assert "hunter2" not in Remote(address).address
        with fetch_files(address, "", lambda path: True, 10_000, 10_000, local=True) as (_, files):
            assert [path for path, _ in files] == ["secret.md"]


def test_the_user_allows_a_host(web: Web, project: Path) -> None:
    with engine("127.0.0.1") as facade:
        pack(facade, web)
        name_collection(project, web.url("fruit.tar.gz"))
        assert sync(facade, project) == ("a.md",)
        assert "cellar" in ask(facade, "apples", path=str(project))[0].content


def test_what_the_user_added_is_fetched_even_if_others_name_it(web: Web, project: Path) -> None:
    with engine() as facade:
        pack(facade, web)
        add(facade, web.url("fruit.tar.gz"))
        name_collection(project, web.url("fruit.tar.gz"))
        facade.documents.sync(DocsSyncRequest(path=str(project)))
    assert len(web.asked()) == 2


def test_a_project_cannot_allow_a_host_itself(web: Web, project: Path) -> None:
    (project / ".codeinfo.toml").write_text('[trust]\nprivate_hosts = ["127.0.0.1"]\n')
    name_collection(project, web.url("fruit.tar.gz"))
    config = Config.load({"embedding.provider": "scripted", "index.workers": 1}, project)
    with Engine(config) as facade, pytest.raises(AddressRefused):
        sync(facade, project)
    assert web.asked() == []


# --- redirects and manifests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", ["http://localhost:{}/fruit.tar.gz", "http://[::1]:{}/x.tar.gz", "http://10.0.0.1/x"]
)
def test_each_hop_of_a_redirect_is_checked(web: Web, project: Path, target: str) -> None:
    with engine("127.0.0.1") as facade:
        pack(facade, web)
        name_collection(project, web.url(f"to?{target.format(web.port)}#.tar.gz"))
        with pytest.raises(AddressRefused, match="not a public address"):
            sync(facade, project)
    assert len(web.asked()) == 1  # the redirect itself


def test_redirects_of_what_the_user_added_are_checked_too(web: Web) -> None:
    with engine() as facade:
        pack(facade, web)
        with pytest.raises(AddressRefused, match=r"localhost \("):
            add(facade, web.url(f"to?{web.url('fruit.tar.gz', 'localhost')}#.tar.gz"))
        assert add(facade, web.url(f"to?{web.url('fruit.tar.gz')}#.tar.gz"), name="a").plan.added == ("a.md",)


def test_a_manifest_cannot_name_other_private_hosts(web: Web) -> None:
    files = [{"url": web.url("a.md", "localhost"), "path": "a.md"}]
    (web.folder / "a.md").write_text("# A\n\nwords\n")
    (web.folder / "m.json").write_text(json.dumps({"name": "m", "version": "1", "sources": {"files": files}}))
    with engine() as facade, pytest.raises(AddressRefused, match=r"localhost \("):
        add(facade, web.url("m.json"))
    assert [line.partition("/")[2] for line in web.asked()] == ["m.json"]


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::7f00:1", False),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("fec0::1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://docs.example/a", ("docs.example", 443)),
        ("http://user@docs.example:8080/a", ("docs.example", 8080)),
        ("http://[::1]/a", ("::1", 80)),
        ("ssh://git@docs.example/a.git", ("docs.example", 22)),
        ("git@docs.example:a.git", ("docs.example", 22)),
        ("git@[::1]:a.git", ("::1", 22)),
        ("git@[::1]:a@[2606:4700::1]:b", ("::1", 22)),  # git takes the first one
    ],
)
def test_the_host_of_an_address(url: str, host: tuple[str, int]) -> None:
    found = host_of(url)
    assert (found.name, found.port) == host


@pytest.mark.parametrize("url", ["http:///a", "http://docs.example:99999/", "https://[::1/"])
def test_an_address_without_a_host_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        HostPolicy().resolve(host_of(url))


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SLOW = {
    "head": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    "size of a chunk": (CHUNKED, b"1"),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"A: b\r\n"),
}


@contextmanager
def sending(begins: bytes, goes_on: bytes, pause_s: float = 0.1) -> Iterator[str]:
    """The address of a host that sends this to the first client, until it goes away."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def send() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.sendall(begins)
                while True:
                    connection.sendall(goes_on)
                    time.sleep(pause_s)

        threading.Thread(target=send, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


@pytest.mark.parametrize("part", SLOW)
def test_a_host_that_sends_a_byte_now_and_then_is_given_up(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "TOTAL_S", 1.0)
    with sending(*SLOW[part]) as address, within(30), pytest.raises(DownloadFailed, match="could not be fetched"):
        downloads.download(address, 1000, HostPolicy(frozenset({"127.0.0.1"})))


def test_the_body_of_a_redirect_is_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        target = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
    redirect = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n\r\n".encode()
    with (
        sending(redirect, b"x" * 1000, 0.01) as address,
        within(30),
        pytest.raises(DownloadFailed, match="refused"),
    ):
        downloads.download(address, 1000, HostPolicy(frozenset({"127.0.0.1"})))


def test_a_long_list_of_files_is_given_up_at_the_limit_of_a_collection(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeinfo.engine.collections.MAX_FETCHED_BYTES", 2500)
    files = [{"url": web.url(f"a.md?{number}"), "path": f"{number}.md"} for number in range(10)]
    (web.folder / "a.md").write_text("x" * 1000)
    (web.folder / "m.json").write_text(json.dumps({"name": "m", "version": "1", "sources": {"files": files}}))
    with engine() as facade, pytest.raises(UsageError, match="more than 2,500 bytes"):
        add(facade, web.url("m.json"))
    assert len(web.asked()) == 1 + 3
    monkeypatch.setattr("codeinfo.engine.collections.MAX_FETCH_S", -1.0)
    with engine() as facade, pytest.raises(ProviderError, match="took more than"):
        add(facade, web.url("m.json"))
    assert len(web.asked()) == 1 + 3 + 1


@pytest.mark.parametrize(("host", "is_followed"), [("127.0.0.1", True), ("localhost", False)])
def test_a_git_repository_that_moved_is_followed_to_public_hosts_only(
    tmp_path: Path, web: Web, host: str, is_followed: bool
) -> None:
    commit(tmp_path / "repositories")
    with serving(tmp_path) as server, engine() as facade:
        moved = server.url("repositories/.git").replace("127.0.0.1", host)
        address = f"git+{web.url(f'moved?{moved}')}"
        if is_followed:
            assert add(facade, address, name="moved").plan.added == ("secret.md",)
        else:
            with pytest.raises(AddressRefused, match=r"localhost \("):
                add(facade, address, name="moved")
            assert server.requests == []


@pytest.mark.parametrize("host", ["b\u00fccher.example", "docs%2eexample"])
def test_a_host_that_git_reads_in_another_way_is_not_pinned(host: str) -> None:
    """It would look up what it reads, such as xn--bcher-kva.example, without the address that was checked."""
    with pytest.raises(AddressRefused, match="in different ways"):
        HostPolicy(frozenset({host})).pin(f"https://{host}/a.git")


def test_ssh_is_led_to_the_address_that_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would look the name up again."""
    program, log = tmp_path / "bin" / "ssh", tmp_path / "log"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {log}\nexit 255\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with (
        pytest.raises(ProviderError, match="cannot be fetched"),
        fetch_files(
            "ssh://git@docs.example/a.git", "", lambda _: True, 1, 9999, local=False, pinned="docs.example:22:192.0.2.7"
        ),
    ):
        pass
    assert "-oHostName=192.0.2.7" in log.read_text()


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def test_a_repository_at_an_ipv6_address_is_checked_and_needs_no_pin(tmp_path: Path) -> None:
    """Curl cannot parse such a pin, and has nothing to look up."""
    assert HostPolicy().pin("https://[2606:4700::1111]/a.git") == ""
    with pytest.raises(AddressRefused, match="not a public address"):
        HostPolicy().pin("https://[::1]/a.git")
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    commit(tmp_path / "repository")
    with serving(tmp_path, host="::1") as server:
        url = server.url("repository/.git")
        pinned = HostPolicy(frozenset({"::1"})).pin(url)
        with fetch_files(url, "", lambda _: True, 1000, 10**6, local=False, pinned=pinned) as (_, files):
            assert [path for path, _ in files] == ["secret.md"]


def test_a_silent_git_host_is_asked_by_git_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.sources.git.SILENCE_S", 2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        engine() as facade,
        within(30),
        pytest.raises(ProviderError, match="too slow"),
    ):
        add(facade, f"git+http://127.0.0.1:{silent.getsockname()[1]}/a.git", name="silent")


def test_a_repository_of_more_than_a_collection_may_have_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path / "repository", content=os.urandom(1_000_000).hex())
    with serving(tmp_path) as server, engine() as facade:
        address = f"git+{server.url('repository/.git')}"
        monkeypatch.setattr("codeinfo.engine.collections.MAX_FETCHED_BYTES", 500_000)
        with pytest.raises(ProviderError, match="more than 500,000 bytes"):
            add(facade, address, name="big")
        monkeypatch.setattr("codeinfo.engine.collections.MAX_FETCHED_BYTES", 5_000_000)
        assert add(facade, address, name="big").plan.added == ("secret.md",)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_a_small_pack_that_unpacks_to_more_than_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeinfo.sources.git.FETCH_MEMORY_BYTES", 300_000_000)
    message = "takes more than 300,000,000 to unpack"
    with serving_pack(*delta_bomb(20)) as url, engine() as facade, pytest.raises(ProviderError, match=message):
        add(facade, f"git+{url}", name="bomb")
    with (
        serving_pack(*delta_bomb(2)) as url,
        fetch_files(url, "", lambda _: True, 50_000_000, 10**6, local=True) as (_, files),
    ):
        assert [(path, len(content)) for path, content in files] == [("big.md", 2 * 0xFFFFFF)]


def test_a_host_that_is_not_found_is_a_failed_download() -> None:
    with pytest.raises(DownloadFailed, match="cannot be looked up"):
        HostPolicy().resolve(Host("nowhere.invalid", 443))
