"""The built-in model: what ships loads quickly, keeps its promises and finds what it should."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import is_quick

from codeinfo.errors import ProviderError
from codeinfo.models import MODEL, BuiltinEmbedder, read_safetensors
from codeinfo.models.encoder import Vocabulary
from codeinfo.ports import Embedder

CHUNKS = {
    "pool": "class ConnectionPool:\n    def acquire(self): return self._free.pop() if self._free else connect()",
    "json": "func DecodeJSON(r io.Reader, v any) error { return json.NewDecoder(r).Decode(v) }",
    "retry": "async fn retry_with_backoff(attempts: u32) { for i in 0..attempts { sleep(2u64.pow(i)).await; } }",
    "colour": "export function hexToRgb(hex: string): Rgb { return parseColor(hex) }",
}


@pytest.fixture(scope="module")
def model() -> BuiltinEmbedder:
    return BuiltinEmbedder()


def test_it_is_an_embedder_with_its_own_id(model: BuiltinEmbedder) -> None:
    assert isinstance(model, Embedder)
    assert model.model_id == f"codeinfo-words-2-{model.dimension}"
    assert model.dimension == 256


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:-1],
        lambda data: (1 << 40).to_bytes(8, "little") + data[8:],
        lambda data: data.replace(b'"vectors"', b'"vectora"', 1),
        lambda data: None,
    ],
    ids=["empty", "cut header", "cut data", "huge header", "wrong header", "missing"],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes | None]) -> None:
    """As an installation leaves it that met a full disk."""
    path = tmp_path / "model.safetensors"
    if (data := damage(MODEL.read_bytes())) is not None:
        path.write_bytes(data)
    with pytest.raises(ProviderError, match="is damaged") as caught:
        BuiltinEmbedder(path)
    assert "Install CodeInfo again" in caught.value.next_step


def test_damaged_numbers_and_words_are_noticed(tmp_path: Path) -> None:
    data = MODEL.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, bad in {
        "nan": data[:start] + b"\xff" * 4 + data[start + 4 :],
        "huge": data[:start] + b"\x7f" * 4 + data[start + 4 :],
        "a line more": data[:-3] + b"\n" + data[-2:],
        "no text": data[:-3] + b"\xff" + data[-2:],
    }.items():
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(ProviderError, match="is damaged"):
            BuiltinEmbedder(tmp_path / name).embed_query("pool")


def test_doctor_compares_every_byte(tmp_path: Path) -> None:
    data = bytearray(MODEL.read_bytes())
    data[-200_000] ^= 1  # within a vector
    (tmp_path / "flipped").write_bytes(data)
    flipped = BuiltinEmbedder(tmp_path / "flipped")
    flipped.embed_query("pool")
    with pytest.raises(ProviderError, match="its checksum does not match"):
        flipped.verify()
    BuiltinEmbedder().verify()


def test_the_file_is_small_and_says_what_it_is() -> None:
    tensors, metadata = read_safetensors(MODEL)
    assert MODEL.stat().st_size <= 8_000_000
    assert metadata["licence"] == "MIT"
    assert "Apache-2.0" in metadata["notice"]
    assert tensors["vectors"].dtype == np.int8
    assert tensors["vocabulary"].tobytes().decode().count("\n") + 1 == len(tensors["vectors"])


def test_rows_have_unit_length_even_without_words(model: BuiltinEmbedder) -> None:
    rows = model.embed_documents([*CHUNKS.values(), "", "…", "x" * 5000])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.linalg.norm(model.embed_query("")) == pytest.approx(1)
    assert model.embed_documents([]).shape == (0, 256)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("where are database connections reused", "pool"),
        ("parse a JSON body", "json"),
        ("try again after a failure, waiting longer each time", "retry"),
        ("convert hexadecimal colors", "colour"),
    ],
)
def test_a_query_finds_the_chunk_it_is_about(model: BuiltinEmbedder, query: str, wanted: str) -> None:
    cosines = model.embed_documents(list(CHUNKS.values())) @ model.embed_query(query)
    assert list(CHUNKS)[int(cosines.argmax())] == wanted


def test_a_vector_depends_on_its_own_text_only(model: BuiltinEmbedder) -> None:
    together = model.embed_documents(list(CHUNKS.values()) * 100)
    alone = model.embed_documents([CHUNKS["retry"]])[0]
    np.testing.assert_allclose(together[2], alone, atol=1e-6)
    np.testing.assert_allclose(together[-2], alone, atol=1e-6)


def test_unknown_words_are_split_into_known_pieces() -> None:
    known = Vocabulary(["head", "header", "parser", "er", "a"])
    texts = ("headerparser", "HeadParsers", "xxerer", "zq", "a", "a head-er")
    assert [list(known.ids_in(text)) for text in texts] == [[1, 2], [0, 2], [3, 3], [], [4], [4, 0, 3]]


def load_training(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "training" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_training_reads_the_shipped_table(model: BuiltinEmbedder) -> None:
    table = load_training("tables").Table.load(MODEL)
    assert table.query("cookie jar").tobytes() == model.embed_query("cookie jar").tobytes()
    one, both = table.weighted([[("cookie", 1.0)], [("cookie", 1.0), ("jar", 0.2)]])
    np.testing.assert_allclose(np.linalg.norm(both), 1, atol=1e-5)
    assert one @ both > one @ table.weighted([[("cookie", 1.0), ("jar", 1.0)]])[0]


def test_training_splits_words_as_the_encoder_does() -> None:
    pairs = load_training("pairs")
    known = read_safetensors(MODEL)[0]["vocabulary"].tobytes().decode().split("\n")
    others = ["deserializer", "unmarshal", "xyzzy", "kubernetesclient", "q", "aaaaaaaaaaaa", "websocketpool"]
    encoder = Vocabulary(known)
    for word, ids in zip([*known, *others], pairs.split_unknown([*known, *others], len(known)), strict=True):
        assert list(encoder.ids_in(word)) == list(ids), word


def test_a_query_can_weigh_its_words(model: BuiltinEmbedder) -> None:
    asked, same = model.embed_words([("cookie", 2.0), ("jar", 2.0)])
    assert asked.tobytes() == model.embed_query("cookie jar").tobytes()
    np.testing.assert_allclose(same, model.embed_query("cookie jar"), atol=1e-6)
    leaning = model.embed_words([("cookie", 1.0), ("jar", 0.1)])[1]
    assert leaning @ model.embed_query("cookie") > same @ model.embed_query("cookie")
    assert [np.linalg.norm(row) for row in model.embed_words([])] == pytest.approx([1, 1])


def test_a_path_is_near_a_query_about_its_words(model: BuiltinEmbedder) -> None:
    paths = ["src/http/client.py", "src/http/server.py", "src/http/cookies.py"]
    rows = model.embed_paths(paths)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    cosines = rows @ model.embed_query("cookies")
    assert int(cosines.argmax()) == 2


def test_it_is_quick(model: BuiltinEmbedder) -> None:
    """Far below the figures of docs/model.md, so that a busy machine passes too."""
    texts = [text * 6 for text in CHUNKS.values()] * 250
    assert is_quick(BuiltinEmbedder, 0.5)
    assert is_quick(lambda: model.embed_documents(texts), 2)
    assert is_quick(lambda: [model.embed_query("how does the connection pool work") for _ in range(200)], 1)


def test_it_reads_a_copy_elsewhere(tmp_path: Path, model: BuiltinEmbedder) -> None:
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(MODEL.read_bytes())
    np.testing.assert_array_equal(BuiltinEmbedder(copy).embed_query("http"), model.embed_query("http"))
