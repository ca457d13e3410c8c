"""Repositories over HTTP for tests: git's own `http-backend` behind a small server on the loopback address."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import struct
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@cache
def _backend() -> str:
    found = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{found}/git-http-backend"


class GitServer(ThreadingHTTPServer):
    """Serves the repositories below `folder`; with `credentials` ("user:password") only who sends them is answered."""

    daemon_threads = True

    def __init__(self, folder: Path, credentials: str = "", host: str = "127.0.0.1") -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), _Handler)
        self.host = f"[{host}]" if ":" in host else host
        self.folder = folder
        self.credentials = credentials
        self.requests: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """A git that was killed does not read its answer."""

    def url(self, name: str) -> str:
        return f"http://{self.host}:{self.server_port}/{name}"


class _Handler(BaseHTTPRequestHandler):
    server: GitServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("content-length", 0))))

    def _serve(self, body: bytes) -> None:
        self.server.requests.append(self.path)
        wanted = f"Basic {base64.b64encode(self.server.credentials.encode()).decode()}"
        if self.server.credentials and self.headers.get("authorization") != wanted:
            self._reply(401, [("www-authenticate", 'Basic realm="git"')], b"")
            return
        path, _, query = self.path.partition("?")
        variables = {
            "GIT_PROJECT_ROOT": str(self.server.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        done = subprocess.run([_backend()], input=body, capture_output=True, env=os.environ | variables)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode("latin-1").split("\r\n") if ": " in line]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        self._reply(status, [(name, value) for name, value in headers if name != "Status"], content)

    def _reply(self, status: int, headers: list[tuple[str, ...]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(folder: Path, credentials: str = "", host: str = "127.0.0.1") -> Iterator[GitServer]:
    server = GitServer(folder, credentials, host)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# --- a host that sends a pack of its own making ---

_PIECE = 0xFFFFFF  # the most that one command of a delta copies


def _object_head(kind: int, size: int) -> bytes:
    first, size, head = (kind << 4) | (size & 15), size >> 4, b""
    while size:
        head, first, size = head + bytes([first | 0x80]), size & 0x7F, size >> 7
    return head + bytes([first])


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7) if number > 0x7F else bytes([number])


def delta_bomb(pieces: int) -> tuple[bytes, str]:
    """A pack of 16 kB with one document of 16 MB for each of `pieces`, and its commit."""
    base, document = bytes(_PIECE), hashlib.sha1(b"blob %d\0" % (pieces * _PIECE))
    for _ in range(pieces):
        document.update(base)
    delta = _varint(_PIECE) + _varint(pieces * _PIECE) + b"\xf0\xff\xff\xff" * pieces
    tree = b"100644 big.md\0" + document.digest()
    tree_id = hashlib.sha1(b"tree %d\0" % len(tree) + tree).hexdigest()
    who = "a <a@example.org> 1700000000 +0000"
    commit = f"tree {tree_id}\nauthor {who}\ncommitter {who}\n\nBig\n".encode()
    pack = b"PACK" + struct.pack(">II", 2, 4) + _object_head(3, _PIECE) + zlib.compress(base, 9)
    pack += _object_head(7, len(delta)) + hashlib.sha1(b"blob %d\0" % _PIECE + base).digest() + zlib.compress(delta)
    pack += _object_head(2, len(tree)) + zlib.compress(tree) + _object_head(1, len(commit)) + zlib.compress(commit)
    return pack + hashlib.sha1(pack).digest(), hashlib.sha1(b"commit %d\0" % len(commit) + commit).hexdigest()


@contextmanager
def serving_pack(pack: bytes, commit: str) -> Iterator[str]:
    """The address of a repository whose only commit is sent as this pack."""

    def line(text: str) -> bytes:
        return f"{len(text) + 4:04x}{text}".encode()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            refs = line(f"{commit} HEAD\0shallow\n") + line(f"{commit} refs/heads/main\n")
            self._reply("advertisement", line("# service=git-upload-pack\n") + b"0000" + refs + b"0000")

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["content-length"]))
            last = line("NAK\n") + pack if asked.endswith(b"done\n") else b""
            self._reply("result", line(f"shallow {commit}") + b"0000" + last)

        def _reply(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", f"application/x-git-upload-pack-{kind}")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/a.git"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
