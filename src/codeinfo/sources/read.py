"""A file's text: read once, safely; decoded; secrets masked; generated and minified files recognised."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from codeinfo.files import NotRegular, Reader, TooLarge, read_regular, state_of
from codeinfo.languages import file_kind, language_of
from codeinfo.languages.model import is_config
from codeinfo.model import UNREADABLE, FileKind, Skip, SourceFile, Text
from codeinfo.sources.ignore import IgnoreFile, overrides_above

MAX_READ_BYTES = 64_000_000  # a guard for files that grew after the walk, which has the real limit


class Loaded(NamedTuple):
    data: bytes
    sha256: str


def load(root: Path, file: SourceFile) -> Loaded | Skip:
    try:
        data = read_regular(str(root), file.path, MAX_READ_BYTES)
    except FileNotFoundError:
        return Skip(file.path, "vanished", "deleted since the walk")
    except NotRegular:
        return Skip(file.path, "special-file", "replaced by a link or a special file since the walk")
    except TooLarge as error:
        return Skip(file.path, "too-large", error.strerror or "", matters=True)
    except OSError as error:
        return Skip(file.path, UNREADABLE, error.strerror or "", matters=True)
    return Loaded(data, hashlib.sha256(data).hexdigest())


class Files(Protocol):
    """Where the contents of a tree's files come from."""

    @property
    def exact(self) -> bool:
        """Whether contents are the raw bytes of the files rather than what an index stores."""

    def load(self, files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, Loaded | Skip]]: ...

    def open(self, paths: Iterable[str]) -> AbstractContextManager[FileReader]:
        """A reader for these files, one by one, in this order."""

    def find(self, path: str) -> SourceFile | None:
        """A regular file, whatever the rules say."""

    def brings_back(self, path: str) -> bool:
        """Whether a `.codeinfoignore` re-includes a file that its content would exclude."""


class FileReader(Protocol):
    def read(self, path: str, limit: int) -> bytes:
        """Raises OSError if it cannot be read or is larger than `limit`."""


class FolderFiles(Struct, frozen=True):
    root: Path
    exact: bool = True
    _overrides: dict[str, IgnoreFile | None] = field(default_factory=dict)  # by folder, read once

    def load(self, files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, Loaded | Skip]]:
        return ((file, load(self.root, file)) for file in files)

    def open(self, paths: Iterable[str]) -> Reader:
        return Reader(str(self.root))

    def find(self, path: str) -> SourceFile | None:
        try:
            status = os.lstat(self.root / path)
        except OSError:
            return None
        return SourceFile(path, *state_of(status)) if stat.S_ISREG(status.st_mode) else None

    def brings_back(self, path: str) -> bool:
        return overrides_above(str(self.root), path, self._overrides).brings_back(path)


def read_text(contents: Files, file: SourceFile) -> Text | Skip:
    ((_, loaded),) = contents.load([file])
    if isinstance(loaded, Skip):
        return loaded
    if (text := decode(loaded.data)) is None:
        return Skip(file.path, "binary", "not text, by its content")
    return skip_unless_overridden(contents, file.path, text.content) or text


# --- decoding ------------------------------------------------------------------------------------------------------

# UTF-32 little-endian begins with the BOM of UTF-16 little-endian, so it is tried first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_PROBE_BYTES = 8192
# Compressed data without a NUL is rare, but one byte in eight is a control character: of small files fewer, by chance.
_MAX_CONTROL_SHARE = 0.1
_MAX_CONTROL_SHARE_INVALID = 0.03  # of text in old encodings 1 % at most, of git's small loose objects 5 % and more
_WINDOWS_ONLY = re.compile(rb"[\x80-\x9f]")  # letters and quotes in Windows-1252, control characters in Latin-1


def decode(data: bytes, *, mask: bool = True) -> Text | None:
    """UTF-8, UTF-16 and UTF-32 by their BOM, otherwise Latin-1 or Windows-1252; None for binary. Secrets are masked,
    line ends become `\\n`; the notes say what was replaced. `mask` may be off only if the caller masks the content."""
    if (decoded := _decode(data)) is None:
        return None
    content, encoding = decoded
    notes: list[str] = []
    if encoding.startswith("utf") and "\ufffd" in content:
        replaced = content.count("\ufffd") - data.count("\ufffd".encode(encoding))
        if replaced > 0:
            notes.append(f"{replaced} invalid byte sequences replaced")
    if "\r" in content:
        content = content.replace("\r\n", "\n").replace("\r", "\n")
    if mask:
        from codeinfo.sources import masking  # late: its expressions compile slowly

        content, masked = masking.mask(content)
        notes += masking.mask_notes(masked)
    return Text(content, encoding, tuple(notes))


def searchable(data: bytes) -> bytes | None:
    """The content as UTF-8 with `\\n` line ends, secrets included; None for binary. Unlike `decode` it leaves a
    carriage return within a line alone, so that lines have the numbers other tools give them."""
    if (decoded := _decode(data)) is None:
        return None
    content, encoding = decoded
    is_plain = encoding == "utf-8" and "\ufffd" not in content and not data.startswith(codecs.BOM_UTF8)
    plain = data if is_plain else content.encode("utf-8", "surrogatepass")
    return plain.replace(b"\r\n", b"\n") if b"\r\n" in plain else plain


def _decode(data: bytes) -> tuple[str, str] | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            content = data[len(mark) :].decode(encoding, "replace")
            return None if "\0" in content else (content, encoding)
    probe = data[:_PROBE_BYTES]
    control_share = (len(probe) - len(probe.translate(None, _CONTROL_BYTES))) / max(len(probe), 1)
    if b"\0" in data or control_share > _MAX_CONTROL_SHARE:
        return None
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return None if control_share > _MAX_CONTROL_SHARE_INVALID else _decode_invalid(data)


def _decode_invalid(data: bytes) -> tuple[str, str]:
    """Bytes that are not UTF-8: damaged UTF-8 if most of the non-ASCII is valid, otherwise a Western encoding."""
    content = data.decode("utf-8", "replace")
    replaced = content.count("\ufffd")
    valid = len(content) - replaced - len(data.translate(None, bytes(range(128, 256))))
    if valid > replaced:
        return content, "utf-8"
    if not _WINDOWS_ONLY.search(data):
        return data.decode("latin-1"), "latin-1"
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        return content, "utf-8"


# --- content that nobody wrote -------------------------------------------------------------------------------------

_HEAD_CHARS = 3000
_LONGEST_HEAD_CHARS = 20_000  # to the end of its last line: Go's generators write their whole command line
_GENERATED = re.compile(
    r"^// Code generated .* DO NOT EDIT\.$"  # Go's own definition
    r"|@generated\b|\bgenerated by (?:a tool|Bundler|RubyGems|unplugin-\w+)\b|\bauto[- ]generated by\b|<auto-generated>"
    r"|\b(?:auto)?generated\b[^\n]{0,200}\b(?:do not|never) (?:edit|modify|change)\b"
    r"|\bdo not (?:edit|modify)\b[^\n]{0,200}\b(?:auto)?generated\b",
    re.IGNORECASE,
)
# In a template these words are about what is made from it.
_TEMPLATES = (".tpl", ".gotmpl", ".njk", ".ftl", ".vm", ".stg", ".tt", ".in")
_SCRIPTS = (".js", ".mjs", ".cjs")
_COMMENT_STARTS = ("//", "/*", "*", "#", "--", ";", "%", "<!--", "<?", "(*", "{-", "'")
_BLOCKS = (("/*", "*/"), ("<!--", "-->"), ("(*", "*)"), ("{-", "-}"))
# What webpack and browserify write before the modules that they put into one file, below a licence.
_BUNDLED = re.compile(
    r"^/\*{6}/.*webpackBootstrap|^\(function webpackUniversalModuleDefinition\("
    r"|^!?\(function\(f\)\{if\(typeof exports===\"object\""
    r"|^(?:require=)?!?\(function(?: \w)?\((?:\w,\w,\w)?\)\{function \w\(\w,\w(?:,\w)?\)\{",
    re.MULTILINE,
)
# What Sass, Less and PostCSS write as the last line of a style sheet.
_COMPILED_STYLES = re.compile(r"/\*# sourceMappingURL=[^\n*]*\*/\s*\Z")
_MINIFIED_MIN_CHARS = 5000
_MINIFIED_LINE_CHARS = 400  # average; hand-written code stays below 60


def is_marked_generated(text: str) -> bool:
    """Whether the opening comments of the file say that a tool generated it. Further down the words may belong to a
    generator's own templates, or to one generated part of a file."""
    head = text[: max(_HEAD_CHARS, text.find("\n", _HEAD_CHARS, _LONGEST_HEAD_CHARS))]
    if "<!DOCTYPE TS>" in head:  # messages that Qt's tools collect for translators, in a file called `.ts`
        return True
    if "generated" not in head.lower():
        return False
    closing = ""
    for line in map(str.strip, head.split("\n")):
        if not closing and line and not line.startswith(_COMMENT_STARTS):
            return False
        if _GENERATED.search(line):
            return True
        if not closing:
            closing = next((close for start, close in _BLOCKS if line.startswith(start)), "")
        if closing and closing in line:
            closing = ""
    return False


# Markers in the head of pages made by documentation generators; hand-written pages have none of them.
_GENERATED_PAGE = (
    r"<!-- (?:Generated|Generator) (?:by|using) (?:javadoc|doxygen|groovydoc|yard|dokka|ddoc)"
    r"|<!--[^>]{0,80}\b(?:Javadoc|Doxygen|JSDoc|ScalaDoc|pdoc) ?[\d.]*[^>]{0,80}generat"
    r"|<meta name=[\"']?generator[\"']?,? content=[\"']?"
    r"(?:javadoc|doxygen|docutils|sphinx|typedoc|rustdoc|pdoc|pydoctor|mkdocs|docfx|jsdoc|yard|exdoc|haddock|dokka|docusaurus)"
    r"|Generated by (?:javadoc|Doxygen|JSDoc|TypeDoc|docfx|ExDoc|pdoc|Haddock|Sandcastle)\b"
    r"|css/jazzy\.css|DOCUMENTATION_OPTIONS\s*=|_static/documentation_options\.js|_static/sphinx_javascript"
)
_PAGE_ENDINGS = (".html", ".htm", ".xhtml")


def is_generated_page(path: str, text: str) -> bool:
    """Whether an HTML file is the output of a documentation generator such as javadoc, doxygen or Sphinx."""
    # Compiled for the first page, since that takes a millisecond; `re` caches it.
    return path.lower().endswith(_PAGE_ENDINGS) and bool(re.search(_GENERATED_PAGE, text[:_HEAD_CHARS], re.IGNORECASE))


CONTENT_RULES = ("generated-documentation", "generated", "minified")


# What others import from here is known by these files alone: they only pass names on.
_PACKAGE = re.compile(r"(?:.*/)?(?:__init__\.pyi?|index\.[cm]?[jt]s)")
_DEFINING = re.compile(
    r"(?m)^(?:(?:export|default|declare|async)[^\S\n]+)*(?:class|def|function|const|enum|interface)\s"
)


def skip_by_content(path: str, text: str) -> Skip | None:
    """Why the content alone excludes the file."""
    documentation, tool, packed = CONTENT_RULES
    if is_generated_page(path, text):
        return Skip(path, documentation, "its head says that a documentation generator wrote it")
    if file_kind(path) is FileKind.DOCS:
        return None  # documents have long lines, and their heads may mention generated things
    is_list = _PACKAGE.fullmatch(path) is not None and not _DEFINING.search(text)
    if is_marked_generated(text) and not (is_list or _is_template(path) or is_config(path)):
        return Skip(path, tool, "its first lines say that a tool wrote it")
    if path.endswith(_SCRIPTS) and _BUNDLED.search(text[:_HEAD_CHARS]):
        return Skip(path, tool, "a bundler put several modules into it")
    if path.endswith(".css") and _COMPILED_STYLES.search(text[-_HEAD_CHARS:]):
        return Skip(path, tool, "its last line says that it was compiled from other style sheets")
    if len(text) >= _MINIFIED_MIN_CHARS and len(text) > _MINIFIED_LINE_CHARS * (text.count("\n") + 1):
        return Skip(path, packed, "its lines are far longer than anyone writes")
    return None


def _is_template(path: str) -> bool:
    language = language_of(path)
    return path.endswith(_TEMPLATES) if language is None else language.is_template or language.name == "template"


def skip_unless_overridden(contents: Files, path: str, text: str) -> Skip | None:
    """Why the content excludes the file, unless `.codeinfoignore` re-includes it."""
    skip = skip_by_content(path, text)
    return None if skip and contents.brings_back(path) else skip
