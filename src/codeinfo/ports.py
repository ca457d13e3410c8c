"""The seams: small protocols that stores and providers implement, each with one contract suite in tests/contract."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, TypeVar, overload, runtime_checkable

from msgspec import Struct

from codeinfo.cache import group_by_key
from codeinfo.model import Chunk, Definition, Import, IndexedFile, SourceFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Made = TypeVar("Made")
Other = TypeVar("Other")


@runtime_checkable
class Embedder(Protocol):
    """Texts to unit-length float32 rows. The id names model and version: another id makes an index stale."""

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors: ...

    def embed_query(self, text: str) -> Vectors:
        """One row; providers that need an instruction prefix for queries add it here."""


@runtime_checkable
class Reranker(Protocol):
    """A cross-encoder: it reads a query and a text together and rates the text's relevance."""

    @property
    def model_id(self) -> str: ...

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One relevance per text, in the order of the texts, from 0 to 1: the sigmoid of the model's logit."""

    def close(self) -> None:
        """Release connections and memory; a running call ends soon."""


@runtime_checkable
class WordEmbedder(Protocol):
    """An embedder that works word by word: it can weight them, and embedding paths costs next to nothing."""

    def embed_words(self, words: Sequence[tuple[str, float]]) -> tuple[Vectors, Vectors]:
        """The row of a query as from `embed_query`, and the same with each word weighted as given."""

    def embed_paths(self, paths: Sequence[str]) -> Vectors:
        """One unit-length row per path."""

    def knows(self, word: str) -> bool:
        """Whether a lowercase word is in the vocabulary; others are split into pieces, which may mean nothing."""


def is_word_embedder(embedder: object) -> TypeGuard[WordEmbedder]:
    """Like `isinstance`, which is slow for protocols."""
    return hasattr(embedder, "embed_words")


class Message(Struct, frozen=True):
    role: str  # "system", "user", "assistant", "tool"
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


class ToolCall(Struct, frozen=True):
    id: str
    name: str
    arguments: str  # JSON, as the model wrote it


class ToolSpec(Struct, frozen=True):
    name: str
    description: str
    parameters: Mapping[str, Any]  # their schema


Messages = Sequence[Message]
Tools = Sequence[ToolSpec]
Schema = Mapping[str, Any]  # JSON schema


class Usage(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Delta(Struct, frozen=True):
    """One event of a streamed reply; the last one carries `finish` and, if the endpoint counts, `usage`."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = ""  # "stop", "length", "tool_calls", "cut" (the stream broke off: the answer is partial)
    usage: Usage | None = None


class Llm(Protocol):
    """A chat model. `stream` yields deltas; closing the iterator cancels the request."""

    @property
    def model_id(self) -> str: ...

    def stream(
        self, messages: Messages, *, tools: Tools = (), schema: Schema | None = None, max_tokens: int | None = None
    ) -> Iterator[Delta]: ...


class ChunkRow(Struct, frozen=True, gc=False):
    chunk_id: int
    path: str
    language: str
    file_kind: str
    start_line: int
    end_line: int
    text: str
    kind: str
    symbol: str
    breadcrumb: str


class StoredSymbol(Struct, frozen=True, gc=False):
    """The part of a definition that ranking needs: a common name has thousands."""

    file: int  # its position in the snapshot's columns
    name: str
    qualified: str
    kind: str
    start_line: int


class FileSymbols(Struct, frozen=True):
    """What the parse found in one file; `references` stay packed until needed."""

    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]
    references: bytes


IN_STEM, IN_FOLDER = 1, 2  # bits of `Posting.path`


class Posting(NamedTuple):
    """Where a term occurs, column by column: one entry per row that has it in any field, rows ascending."""

    rows: NDArray[np.int32]
    tenths: NDArray[np.uint16]  # weighted uses in the text, in tenths; 0 if only a name or the path has it
    types: NDArray[np.uint8]  # names of types defined there that contain it
    names: NDArray[np.uint8]  # names of other definitions
    path: NDArray[np.uint8]  # IN_STEM: the file's own name has it, IN_FOLDER: its folders have

    def at(self, chosen: slice | NDArray[Any]) -> Posting:
        rows, tenths, types, names, path = self
        return Posting(rows[chosen], tenths[chosen], types[chosen], names[chosen], path[chosen])


class FileList(Protocol):
    paths: Sequence[str]
    languages: Sequence[str]
    kinds: Sequence[str]


class PostingList(Struct, frozen=True, gc=False):
    """A stored posting list, and where its rows are: renumbered by a map, if there is one, then shifted."""

    term: str
    data: bytes
    row_map: NDArray[np.int32] | None
    first_row: int


class Snapshot(FileList, Protocol):
    """A consistent, read-only view of one generation of an index, made of arrays that ranking can scan. Rows are the
    live chunks, those of one file contiguous; `row_file[row]` is a position in the file columns."""

    generation: int
    complete: bool  # False during a first build
    row_file: NDArray[np.int32]
    file_first: NDArray[np.int32]  # a file's rows are file_first[file] … + file_rows[file]
    file_rows: NDArray[np.int32]
    row_length: NDArray[np.float32]  # sum of term weights, for length normalisation
    part_count: int  # 1, or the number of indexes it is made of

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` computes from these files alone: computed once, kept as long as they are."""

    def postings(self, terms: Sequence[str], files: NDArray[np.integer] | None = None) -> Mapping[str, Posting]:
        """Of the terms that occur: everywhere, or in the parts that have one of these files."""

    def count_rows(self, terms: Sequence[str], files: NDArray[np.integer]) -> Mapping[str, float]:
        """About how many rows have each of the terms, judged by these parts."""

    def posting_lists(self, terms: Sequence[str], first_row: int = 0) -> Iterator[PostingList]:
        """The same as stored, rows counted from `first_row`: a list per term and segment."""

    def read_lists(self, lists: Iterable[PostingList]) -> Mapping[str, Posting]:
        """Decode stored postings, each term's in order, of this snapshot and of others like it."""

    def cosines(self, query: Vectors, rows: NDArray[np.integer] | None = None) -> NDArray[np.float32] | None:
        """The cosine of every row, or of some, with a unit-length query, or None for a keyword-only index."""

    def differing_signs(self, query: Vectors) -> NDArray[np.uint16] | None:
        """For every row, in how many dimensions the sign of its vector differs from the query's: roughly, the more,
        the farther. 20 times as fast as `cosines`, after the first time. None for a keyword-only index."""

    def file_fingerprints(self) -> NDArray[np.uint64]:
        """A fingerprint of every file from the signs of its vectors: the same in each index that has the file,
        wherever its rows are. Only for an index that has `differing_signs`."""

    def vectors(self, rows: Sequence[int] | NDArray[np.integer]) -> Vectors:
        """The stored vectors of some rows, in their order; only for an index that has `cosines`."""

    def chunks(self, rows: Sequence[int]) -> list[ChunkRow]: ...

    def row_at(self, file: int, line: int) -> int | None:
        """The row of a file that contains a line."""

    def extents(self, file: int, first: int, last: int) -> list[Extent]:
        """Definitions that overlap the lines `first` to `last`, in file order, outer ones first."""

    def definitions(self, names: Sequence[str], first_file: int = 0) -> list[StoredSymbol]:
        """Definitions whose name equals one of `names`, ignoring case, in any order; files count from `first_file`."""

    def definition_names(self) -> str:
        """The names of all definitions, lowercased, one per line: a single text, since creating as many strings
        takes five times as long, and searching it is fast."""


class Retention(Struct, frozen=True):
    """How long, in days, and up to which share of what is in use a store keeps files that no tree has any more."""

    days: float = 0
    share: float = 0


NOTHING_KEPT = Retention()


class StoredFile(Struct, frozen=True):
    """A file the store already has, for this tree or another one."""

    file_id: int
    skip: str
    brought_back: bool


Placed = Sequence[tuple[SourceFile, int]]  # places in a tree, each with the id of the stored file that goes there


def group_stored(rows: Iterable[Sequence[Any]]) -> dict[tuple[str, str], list[StoredFile]]:
    """Stored files by path and hash, from rows that begin with these."""
    return group_by_key(
        ((path, sha256), StoredFile(file_id, skip, bool(back))) for path, sha256, file_id, skip, back in rows
    )


class IndexTarget(Protocol):
    """What the index pipeline writes to: one tree of an index. Everything about a file is replaced in one
    transaction, so that readers never see half of it. A file, which is a path with a content, is stored once for all
    trees of a family. A target that is not a tree, and stores whatever it is given, inherits the defaults."""

    def hashes(self, paths: Sequence[str]) -> Mapping[str, str]:
        """The content hashes of those of `paths` that are in the index."""
        return {}

    def warm_up(self) -> None:
        """Load what writing needs, while the caller waits for something else."""
        return

    def find_stored(self, paths: Sequence[str]) -> Mapping[tuple[str, str], Sequence[StoredFile]]:
        """What is stored under these paths for other trees or earlier contents, by path and content hash."""
        return {}

    def apply(
        self, files: Iterable[IndexedFile], removed: Sequence[str], touched: Sequence[SourceFile], reused: Placed = ()
    ) -> None:
        """One transaction: replace `files`, which are taken while it is open, delete the paths in `removed`, refresh
        size and mtime of `touched`, and replace `reused` by files that are `stored`."""

    def vectors_by_hash(self, sha256: str) -> Vectors | None:
        """The vectors of a file with this content, so that a rename is not embedded again."""

    def earlier_version(self, path: str) -> tuple[Sequence[Chunk], Vectors] | None:
        """The chunks and vectors of a file as last stored, so that only what an edit changed is embedded."""


class CodeFile(Struct, frozen=True):
    """A file of the index for questions about code; a changed file gets a new id."""

    file_id: int
    path: str
    language: str
    kind: str
    size: int
    notes: str


class Extent(Struct, frozen=True, gc=False):
    """The lines of a definition, from 1."""

    qualified: str
    kind: str
    start_line: int
    end_line: int


class FileLines(Mapping[int, str]):
    """The lines of one file by number, from its pieces (first line and text, ascending). A piece is split on first
    access: a question about one name needs few of them."""

    __slots__ = ("_pieces", "_split", "_starts", "characters")

    def __init__(self, pieces: Iterable[tuple[int, str]]) -> None:
        first: dict[int, str] = {}
        for start, text in pieces:  # a giant line that was split is represented by its beginning
            first.setdefault(start, text)
        self._pieces = list(first.items())
        self._starts = list(first)
        self._split: dict[int, list[str]] = {}
        self.characters = sum(len(text) for _, text in self._pieces)

    def __getitem__(self, line: int) -> str:
        if (text := self.get(line)) is None:
            raise KeyError(line)
        return text

    @overload
    def get(self, line: int) -> str | None: ...
    @overload
    def get(self, line: int, default: str | Other) -> str | Other: ...
    def get(self, line: int, default: str | Other | None = None) -> str | Other | None:
        """Called for every use of a name, of which there may be thousands."""
        at = bisect_right(self._starts, line) - 1
        if at < 0:
            return default
        if (lines := self._split.get(at)) is None:
            lines = self._split[at] = self._pieces[at][1].split("\n")
        inside = line - self._starts[at]
        return lines[inside] if inside < len(lines) else default

    def __iter__(self) -> Iterator[int]:
        return (n for start, text in self._pieces for n in range(start, start + text.count("\n") + 1))

    def __len__(self) -> int:
        return sum(text.count("\n") + 1 for _, text in self._pieces)

    def whole_text(self) -> str:
        """The whole text; neighbouring pieces of documents share some lines, and lines in no piece are blank."""
        parts: list[str] = []
        line = 1  # the next one
        for start, text in self._pieces:
            if start < line:
                text = "\n".join(text.split("\n")[line - start :])
                if not text:
                    continue
            elif start > line:
                parts += [""] * (start - line)
            line = max(line, start) + text.count("\n") + 1
            parts.append(text)
        return "\n".join(parts)

    def mention(self, word: str) -> bool:
        return any(word in text for _, text in self._pieces)


class CodeFacts(Protocol):
    """What questions about code read from an index, all from one generation; made by one transaction."""

    generation: int

    def files(self) -> Sequence[CodeFile]: ...

    def outlines(self, file_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Definition]]:
        """Definitions that can matter to other files: no members and no locals. None: of all files."""

    def definitions(self, file_id: int) -> list[Definition]: ...

    def extents(self, file_id: int, first: int, last: int) -> list[Extent]:
        """Definitions that overlap the lines `first` to `last`."""

    def definitions_named(self, name: str) -> list[tuple[int, Definition]]: ...

    def check_symbols(self, file_ids: Iterable[int]) -> None:
        """Raises IndexDamaged if a file's definitions, imports or references fail their stored checksum."""

    def imports(self, file_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Import]]: ...

    def references(self, file_ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Packed references by file."""

    def files_with(self, terms: Sequence[str]) -> list[int]:
        """Files whose text has all of these index terms; some of them may be gone."""

    def lines(self, file_id: int) -> FileLines:
        """The text of a file by line number, as it was indexed."""
