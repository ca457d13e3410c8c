"""The built-in model as an embedder. Its name and dimension are known without loading it."""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from codeinfo.errors import ProviderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codeinfo.models.encoder import Encoder, Floats


MODEL = Path(__file__).parent / "model.safetensors"
CHECKSUM = 0xDABBC501  # its CRC-32; comparing it on each start would cost 3 ms
_TYPES = {"I8": "int8", "U8": "uint8", "F32": "float32"}  # safetensors → numpy
MAX_PATHS = 20_000  # cached path vectors, 1 KB each


class BuiltinEmbedder:
    """Implements the `Embedder` port over the table that ships with the package. The table is mapped on first use."""

    def __init__(self, path: Path = MODEL) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                head, _ = read_head(file)
            self.dimension = int(head["vectors"]["shape"][1])
            self.model_id = f"{head['__metadata__']['id']}-{self.dimension}"
        except (FileNotFoundError, LookupError, TypeError, ValueError, struct.error) as error:
            raise _damaged_model(path, error) from error
        self._paths: dict[str, Floats] = {}

    @cached_property
    def _encoder(self) -> Encoder:
        from codeinfo.models.encoder import Encoder

        try:
            return Encoder(read_safetensors(self._path)[0])
        except ValueError as error:
            raise _damaged_model(self._path, error) from error

    def verify(self) -> None:
        """Compare every byte: most damage only makes results worse."""
        if zlib.crc32(self._path.read_bytes()) != CHECKSUM:
            raise _damaged_model(self._path, "its checksum does not match")

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        return self._encoder.documents(texts)

    def embed_query(self, text: str) -> Floats:
        return self._encoder.query(text)

    def embed_words(self, words: Sequence[tuple[str, float]]) -> tuple[Floats, Floats]:
        return self._encoder.weighted_query(words)

    def knows(self, word: str) -> bool:
        return self._encoder.knows(word)

    def embed_paths(self, paths: Sequence[str]) -> Floats:
        """What each path says, its words weighted as in a query: independent of the rest of the index."""
        import numpy as np  # imported late: the model's name is known without it

        cached = self._paths
        new = [path for path in paths if path not in cached]
        if new:
            if len(cached) > MAX_PATHS:  # replaced rather than cleared: another thread may be reading this one
                cached = self._paths = {path: cached[path] for path in paths if path in cached}
            cached.update(zip(new, self._encoder.paths(new), strict=True))
        return np.array([cached[path] for path in paths], np.float32).reshape(len(paths), self.dimension)


def _damaged_model(path: Path, reason: object) -> ProviderError:
    step = "Install CodeInfo again: pip install --force-reinstall codeinfo"
    return ProviderError(f"the built-in model {path} is damaged: {reason}", step, code="MODEL_DAMAGED")


def read_head(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The JSON header of a safetensors file, and the offset of its data. The format: a length, the header, the data.
    Raises ValueError, or an error of its reader, for a file that is cut or something else."""
    length = os.fstat(file.fileno()).st_size
    start = 8 + struct.unpack("<Q", file.read(8))[0]
    head = json.loads(file.read(min(start - 8, length)))  # a wrong length may be larger than the memory
    if start + max(about["data_offsets"][1] for name, about in head.items() if name != "__metadata__") != length:
        raise ValueError(f"{length:,} bytes are not what its header says")
    return head, start


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Tensors as views of the mapped file, and its metadata."""
    import numpy as np  # imported late: the model's name is known without it

    with open(path, "rb") as file:
        head, start = read_head(file)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    metadata: dict[str, str] = head.pop("__metadata__", {})
    tensors: dict[str, NDArray[Any]] = {}
    for name, about in head.items():
        first, end = about["data_offsets"]
        kind = np.dtype(_TYPES[about["dtype"]])
        flat = np.frombuffer(mapped, kind, (end - first) // kind.itemsize, start + first)
        tensors[name] = flat.reshape(about["shape"])
    return tensors, metadata
