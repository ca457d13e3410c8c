"""A trained table → the file that ships: safetensors with vocabulary, id and licence in one.

python training/export.py TABLE.npz src/codeinfo/models/model.safetensors --id NAME
"""

from __future__ import annotations

import argparse
import json
import struct
import zlib
from pathlib import Path

import numpy as np

_TYPES = {"int8": "I8", "uint8": "U8", "float32": "F32"}
ORDER = ("scales", "query_weights", "vectors", "vocabulary")  # four-byte numbers first, so that all are aligned


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    head: dict[str, object] = {"__metadata__": metadata}
    at = 0
    for name in ORDER:
        value = tensors[name]
        head[name] = {
            "dtype": _TYPES[str(value.dtype)],
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    packed = json.dumps(head, separators=(",", ":")).encode()
    packed += b" " * (-len(packed) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(packed)) + packed)
        for name in ORDER:
            file.write(np.ascontiguousarray(tensors[name]).tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--id", required=True, help="name and version; another id makes indexes stale")
    args = parser.parse_args()
    arrays = np.load(args.table)
    words, dimension = arrays["vectors"].shape
    metadata = {
        "id": args.id, "dimension": str(dimension), "words": str(words), "metric": "squared L2 of unit vectors",
        "document": "sum of sqrt(count) * vector", "query": "sum of weight * vector", "licence": "MIT",
        "notice": "Distilled from a fine-tuned all-MiniLM-L6-v2 (Apache-2.0); see docs/model.md.",
    }  # fmt: skip
    write_safetensors(args.out, {name: arrays[name] for name in ORDER}, metadata)
    print(f"{args.out.name}: {args.out.stat().st_size:,} bytes, {words:,} words, {dimension} dimensions")
    print(f"CHECKSUM = {zlib.crc32(args.out.read_bytes()):#x}  # for src/codeinfo/models/__init__.py")


if __name__ == "__main__":
    main()
