"""Databases: connection pooling, transactions, and errors of SQLite and the disk as CodeInfo's own, so that no shell
sees SQLite's."""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import apsw
from msgspec import Struct, msgpack
from msgspec.structs import astuple

from codeinfo.errors import Busy, IndexDamaged, OutOfSpace, UsageError, too_large
from codeinfo.files import touch_private, write_private
from codeinfo.model import Chunk, Definition, Import, NextStep, msgpack_decoder, to_run
from codeinfo.ports import Extent


class Damage(Exception):
    """Stored bytes that do not match their checksum or size: a flipped bit, a truncated file."""


class VectorsGone(Damage):
    """A vector file that the database lists does not exist."""


# The errors that reading damaged rows may raise, besides what SQLite itself detects: another type, another length,
# invalid UTF-8, or data that cannot be decompressed.
READ_ERRORS: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    apsw.SQLError,
    apsw.TooBigError,
    zlib.error,
)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_NO_WRITE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
_MARK = "damaged"  # in a build that some process found damaged: the next to open it need not find out again


class BuildDamaged(IndexDamaged):
    """Names the build, so that only that one is set aside."""

    def __init__(self, folder: Path, problem: object) -> None:
        step = NextStep("Run ", to_run("index"), " to rebuild it")
        super().__init__(f"the index in {folder} is damaged: {problem}", next_step=step)
        self.folder = folder
        self.problem = str(problem)


class Replaced(Busy):
    """The build was removed while it was being opened: another one is current now."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the index in {folder} was just replaced", next_step="Try again in a moment")


def refuse_marked(folder: Path) -> None:
    try:
        problem = (folder / _MARK).read_text("utf-8", "replace")
    except OSError:
        return
    raise BuildDamaged(folder, problem)


SCALE_BYTES = 4  # of a stored vector, after its numbers of one byte each


def vector_bytes(rows: int, dimension: int) -> int:
    return rows * (dimension + SCALE_BYTES)


def check_vector_file(path: Path, rows: int, dimension: int) -> None:
    try:
        if path.stat().st_size != vector_bytes(rows, dimension):
            raise Damage(f"{path.name} has the wrong size")
    except FileNotFoundError as error:
        raise VectorsGone(f"{path.name} is missing") from error


class Place(Struct, frozen=True):
    """One of our folders, as named in errors, and the setting that moves it."""

    name: str
    setting: str


INDEX = Place("index", "CODEINFO_CACHE_DIR")
DATA = Place("data", "CODEINFO_DATA_DIR")


@contextmanager
def translate_errors(folder: Path, place: Place = INDEX, name: str = "index.db") -> Iterator[None]:
    """Turn database and file errors raised inside into CodeInfo's, naming the folder, or the database `name` in it."""
    try:
        yield
    except apsw.FullError as error:
        raise _no_room(folder, place) from error
    except apsw.NoMemError as error:
        raise OutOfSpace(
            f"memory ran out while working on the {place.name}", "Close other programs and retry"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SchemaChangeError, Damage) as error:
        raise _damage_error(folder / name, place, error) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        if not folder.exists():
            raise _removed(place) from error
        if isinstance(error, apsw.ReadOnlyError) and is_writable(folder, name):
            raise _damage_error(folder / name, place, error) from error  # the header claims a format from the future
        if isinstance(error, apsw.CantOpenError) and os.access(folder, os.W_OK):
            raise _disk_error(folder, place, error) from error  # or too many open files
        raise _no_write(folder, place, error) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        what = f"the {place.name} is being written by another process"
        raise Busy(what, "Try again in a moment") from error
    except apsw.IOError as error:
        if not folder.exists():
            raise _removed(place) from error
        if _is_full(folder):  # SQLite found no room for its shared memory
            raise _no_room(folder, place) from error
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE and _is_size_limited():
            raise too_large(folder) from error
        raise _disk_error(folder, place, error) from error
    except ConnectionError:
        raise  # from a pipe or socket used while reading: the disk is not to blame
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise _no_room(folder, place) from error
        if error.errno == errno.EFBIG:
            raise too_large(folder) from error
        if error.errno in _NO_WRITE:
            raise _no_write(folder, place, error) from error
        raise _disk_error(folder, place, error.strerror) from error


def _is_full(folder: Path) -> bool:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < _SHARED_BYTES


def _is_size_limited() -> bool:
    import resource  # imported late: after an error only

    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def _removed(place: Place) -> Busy:
    return Busy(f"another process has just removed the {place.name}", "Try again")


def is_writable(folder: Path, name: str = "index.db") -> bool:
    return all(os.access(path, os.W_OK) for path in (folder, folder / name))


def _damage_error(database: Path, place: Place, error: Exception) -> IndexDamaged:
    if place is INDEX:
        return BuildDamaged(database.parent, error)
    return IndexDamaged(
        f"{database} is damaged: {error}",
        "Put a copy from a backup in its place, or move it away to start again; nothing was deleted",
    )


def _no_room(folder: Path, place: Place) -> OutOfSpace:
    return OutOfSpace(
        f"the disk under {folder} is full; what was committed before is kept",
        f"Free some space, or set {place.setting} to a folder on another disk, and run it again",
    )


def _no_write(folder: Path, place: Place, error: Exception) -> UsageError:
    return UsageError(
        f"the {place.name} folder {folder} cannot be written: {error}",
        f"Make it writable, or set {place.setting} to a folder that is",
        code="READ_ONLY",
    )


def _disk_error(folder: Path, place: Place, problem: object) -> OutOfSpace:
    return OutOfSpace(
        f"the disk under {folder} failed: {problem}",
        f"Check the disk, or set {place.setting} to a folder on another one",
        code="IO_FAILED",
    )


# --- connections ---------------------------------------------------------------------------------------------------

BUSY_MS = 10_000  # how long a statement waits for another process's short transaction
_MOST_IDLE = 4  # each maps the database and caches up to 16 MB of it
_PAGE_BYTES = 8192  # blocks of chunks and posting lists fill them better than pages of 4096
_SPARSE_BYTES = 32 << 20  # free, and a quarter of the file: worth the time to rewrite the rest
_SHARED_BYTES = 65_536  # minimum that SQLite needs beside a database to open it


class Connections:
    """One connection per transaction, so that threads never share one; a few idle ones are reused."""

    def __init__(self, path: Path, problem: Callable[[apsw.Connection, Path], str]) -> None:
        self._path = path
        self._find_problem = problem
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._written = False
        self.damaged = False

    def create(self, recipe: str) -> None:
        touch_private(self._path)
        db = self._open(apsw.SQLITE_OPEN_READWRITE)
        try:
            db.execute(f"PRAGMA page_size = {_PAGE_BYTES}; PRAGMA journal_mode = WAL")
            with transaction(db):
                if not only_row(db, "PRAGMA user_version")[0]:
                    db.execute(schema())
                    first_rows = f"INSERT INTO meta VALUES({OF_BUILD}, 'layout', '0'), ({OF_BUILD}, 'recipe', ?)"
                    db.execute(first_rows, (recipe,))
                    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        finally:
            db.close()

    def check(self) -> None:
        """Detects a database that cannot be opened here rather than in a search."""
        self._release(self._acquire())

    def close(self) -> None:
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for db in idle:
            self._end(db)

    def _end(self, db: apsw.Connection) -> None:
        if not self._written:  # a reader leaves the log and its files to the writers
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.close()

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        with self._borrowed() as db:
            db.execute("BEGIN")
            yield db
            if db.in_transaction:
                db.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        self._written = True
        with self._borrowed() as db, transaction(db):
            yield db

    @contextmanager
    def _borrowed(self) -> Iterator[apsw.Connection]:
        """A connection, which is not used again after a failure."""
        with self._guarded():
            db = self._acquire()
            try:
                yield db
            except BaseException:
                db.close()
                raise
            self._release(db)

    def is_sparse(self) -> bool:
        with self.reading() as db:
            (free,), (pages,) = only_row(db, "PRAGMA freelist_count"), only_row(db, "PRAGMA page_count")
        return bool(free * _PAGE_BYTES > _SPARSE_BYTES and free * 4 > pages)

    def vacuum(self) -> None:
        self._written = True
        with self._guarded():
            db = self._acquire()
            try:
                # Not mapped: every page of the old file and the new one would count as memory of this process.
                db.execute("PRAGMA mmap_size = 0; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                db.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Failures as CodeInfo's errors. An unexpected one is damage if the index fails its check."""
        try:
            with translate_errors(self._path.parent):
                try:
                    yield
                except READ_ERRORS as error:
                    if problem := self._problem():
                        raise Damage(problem) from error
                    raise
        except BuildDamaged as damage:
            if damage.folder == self._path.parent:  # a question to several indexes passes through all of them
                self.damaged = True
                with suppress(OSError):
                    write_private(damage.folder / _MARK, damage.problem.encode("utf-8", "replace"))
            raise

    def _problem(self) -> str:
        db = self._acquire()
        try:
            return self._find_problem(db, self._path.parent)
        finally:
            db.close()

    def _open(self, flags: int, name: str = "") -> apsw.Connection:
        db = apsw.Connection(name or str(self._path), flags=flags)
        db.set_busy_timeout(BUSY_MS)
        db.execute("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000; PRAGMA mmap_size = 67108864")
        return db

    def _acquire(self) -> apsw.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return self._check(self._open(apsw.SQLITE_OPEN_READWRITE))
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError):
            if not self._can_only_be_read():
                raise
        uri = self._path.as_uri() + "?immutable=1"
        return self._check(self._open(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, uri))

    def _check(self, db: apsw.Connection) -> apsw.Connection:
        try:
            version = only_row(db, "PRAGMA user_version")[0]
            if version != SCHEMA_VERSION:
                raise Damage(f"it has schema {version} instead of {SCHEMA_VERSION}")
            if self._is_cut():
                raise Damage("its file is shorter than the pages it counts")
        except BaseException:
            db.close()
            raise
        return db

    def _is_cut(self) -> bool:
        """Whether the end of the file is missing, which SQLite reads as zeros; during a checkpoint it may be short."""
        if self._has_log():
            return False
        with open(self._path, "rb") as file:
            head = file.read(100)
            size = os.fstat(file.fileno()).st_size
        page_bytes = int.from_bytes(head[16:18]) if head[16:18] != b"\x00\x01" else 65_536
        counted = head[24:28] == head[92:96]  # otherwise the page count is from an older version
        return counted and size < page_bytes * int.from_bytes(head[28:32]) and not self._has_log()

    def _has_log(self) -> bool:
        log = Path(f"{self._path}-wal")
        return log.exists() and log.stat().st_size > 0

    def _can_only_be_read(self) -> bool:
        """Whether SQLite's shared memory has no room beside the database, and no log needs it."""
        if not self._path.exists() or self._has_log():
            return False
        return not is_writable(self._path.parent) or _is_full(self._path.parent)

    def _release(self, db: apsw.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(db)
                return
        self._end(db)


def library_version() -> str:
    return f"{apsw.sqlite_lib_version()} (bundled with apsw {apsw.apsw_version()})"


def only_row(db: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The only row of a query. All rows are fetched, so that no statement stays open."""
    return db.execute(query, values).fetchall()[0]


REVISION = "at-"  # prefix of trees that are not work trees
OF_BUILD = 0  # instead of a tree, where `meta` is about all of them


def load_meta(db: apsw.Connection, tree: int) -> dict[str, str]:
    """What the index records about a tree and its build, as far as readers rely on it."""
    meta = dict(db.execute("SELECT key, value FROM meta WHERE tree IN (?, ?)", (OF_BUILD, tree)))
    numbers = (meta.get("layout", ""), meta.get("generation", ""), meta.get("dimension", "0"))
    if not all(number.isdecimal() for number in numbers) or "recipe" not in meta:
        raise Damage("its metadata is inconsistent")
    return meta


class Version(NamedTuple):
    """Identifies the right arrays: a generation of the tree and a layout of the segments."""

    generation: int
    layout: int


def is_whole(db: apsw.Connection, tree: int) -> bool:
    """Whether the tree has every file of its build, as most do: then nothing must be left out."""
    query = "SELECT (SELECT count(*) FROM files) = (SELECT count(*) FROM entries WHERE tree = ?)"
    return bool(only_row(db, query, (tree,))[0])


@contextmanager
def transaction(db: apsw.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """A writing transaction takes its lock at the start, so that it can wait but never deadlock."""
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


SCHEMA_VERSION = 7


def schema() -> str:
    return Path(__file__).with_name("schema.sql").read_text("utf-8")


Row = tuple[str | int, ...]

# Names contain no line breaks, so a line break joins lists without quoting.
_JOIN = "\n"


def _split(value: str) -> tuple[str, ...]:
    return tuple(value.split(_JOIN)) if value else ()


# Chunks are stored in compressed blocks: eight take a third of the space, and reading one of them costs 40 µs. A
# chunk's id is made of its file's and its position in it; a block's id is that of its first chunk.
CHUNKS_PER_BLOCK = 8
_PLACE_BITS = 20
_FASTEST = 1


ChunkFields = tuple[int, int, str, str, str, str]  # of a `Chunk`, in their order


def chunk_id(file_id: int, place: int) -> int:
    return (file_id << _PLACE_BITS) + place


def block_of(chunk: int) -> int:
    return chunk - chunk % CHUNKS_PER_BLOCK


Block = tuple[int, int, int, bytes]  # a row of `chunks`


def chunk_blocks(file_id: int, path: str, chunks: Sequence[Chunk]) -> Iterator[Block]:
    for first in range(0, len(chunks), CHUNKS_PER_BLOCK):
        block = chunks[first : first + CHUNKS_PER_BLOCK]
        data = zlib.compress(msgpack.encode(list(map(astuple, block))), _FASTEST)
        lines = min(chunk.start_line for chunk in block), max(chunk.end_line for chunk in block)
        block_id = chunk_id(file_id, first)
        yield (block_id, *lines, _block_checksum(path, block_id, *lines, data) + data)


def read_block(path: str, block: Block) -> list[ChunkFields]:
    """SQLite does not detect a flipped bit inside a value: this does, before a text is shown as evidence. The path is
    part of the checksum: chunks that damage assigned to another file are detected as well."""
    first, start_line, end_line, stored = block
    data = memoryview(stored)[4:]
    if _block_checksum(path, first, start_line, end_line, data) != stored[:4]:
        raise Damage(f"chunks of {path} fail their checksum")
    return msgpack_decoder(list[ChunkFields]).decode(zlib.decompress(data))


def _block_checksum(path: str, block: int, start_line: int, end_line: int, data: bytes | memoryview) -> bytes:
    about = f"{path}\0{block}\0{start_line}\0{end_line}"
    return crc32(data, crc32(about.encode("utf-8", "surrogatepass"))).to_bytes(4, "little")


def read_chunks(db: apsw.Connection, file_id: int, path: str) -> list[Chunk]:
    query = "SELECT * FROM chunks WHERE id >= ? AND id < ? ORDER BY id"
    blocks = db.execute(query, (chunk_id(file_id, 0), chunk_id(file_id + 1, 0)))
    return [Chunk(*fields) for block in blocks for fields in read_block(path, block)]


DEFINITION = "name, qualified, kind, signature, doc, start_line, end_line, exported, bases"
IMPORT = "module, line, names, alias, reexport"


def symbols_checksum(definitions: Iterable[Row], imports: Iterable[Row], uses: bytes) -> int:
    """Over what a file defines, imports and uses; the rows as stored, without the file's id."""
    total = crc32(uses)
    for row in (*definitions, *imports):
        total = crc32("\0".join(map(str, row)).encode("utf-8", "surrogatepass"), total)
    return total


def check_symbols(db: apsw.Connection, file_id: int) -> None:
    """Raises Damage if what a file defines, imports and uses differs from what was stored."""
    definitions = f"SELECT ordinal, name_key, {DEFINITION} FROM definitions WHERE file_id = ? ORDER BY ordinal"
    imports = f"SELECT ordinal, {IMPORT} FROM imports WHERE file_id = ? ORDER BY ordinal"
    query = "SELECT path, coalesce(data, x''), checksum FROM files LEFT JOIN uses ON file_id = id WHERE id = ?"
    for path, uses, checksum in db.execute(query, (file_id,)):
        if symbols_checksum(db.execute(definitions, (file_id,)), db.execute(imports, (file_id,)), uses) != checksum:
            raise Damage(f"the symbols of {path} fail their checksum")


def definition_rows(definitions: tuple[Definition, ...]) -> Iterator[Row]:
    for ordinal, definition in enumerate(definitions):
        *plain, exported, bases = astuple(definition)
        yield (ordinal, definition.name.lower(), *plain, int(exported), _JOIN.join(bases))


def definition_from_row(*row: Any) -> Definition:
    """From the columns in `DEFINITION`."""
    *plain, exported, bases = row
    return Definition(*(*plain, bool(exported), _split(bases)))


def import_rows(imports: tuple[Import, ...]) -> Iterator[Row]:
    for ordinal, item in enumerate(imports):
        yield (ordinal, item.module, item.line, _JOIN.join(item.names), item.alias, int(item.reexport))


def import_from_row(module: str, line: int, names: str, alias: str, reexport: int) -> Import:
    """From the columns in `IMPORT`."""
    return Import(module, line, _split(names), alias, bool(reexport))


def read_definitions(db: apsw.Connection, file_id: int) -> list[Definition]:
    query = f"SELECT {DEFINITION} FROM definitions WHERE file_id = ? ORDER BY ordinal"
    return [definition_from_row(*row) for row in db.execute(query, (file_id,))]


def read_extents(db: apsw.Connection, file_id: int, first: int, last: int) -> list[Extent]:
    query = """SELECT qualified, kind, start_line, end_line FROM definitions
               WHERE file_id = ? AND start_line <= ? AND end_line >= ? ORDER BY ordinal"""
    return list(starmap(Extent, db.execute(query, (file_id, last, first))))
