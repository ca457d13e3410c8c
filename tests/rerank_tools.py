"""Shared by the tests of reranking: a tiny cross-encoder on disk, with a real graph and a real tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

SPECIAL = ("[UNK]", "[CLS]", "[SEP]")


def make_cross_encoder(
    folder: Path, vocabulary: str, *, kind: str = "int64", classes: int = 1, inputs: tuple[str, ...] = ()
) -> Path:
    """`model.onnx` compares every token of the query with every token of the text: its logit is the number of pairs
    that are equal, less one. `inputs` adds some that it declares and does not use."""
    pytest.importorskip("onnx", reason="needs the dev extra")
    pytest.importorskip("onnxruntime", reason="needs the rerank extra")
    pytest.importorskip("tokenizers", reason="needs the rerank extra")
    folder.mkdir(parents=True)
    _write_model(folder / "model.onnx", kind, classes, inputs)
    _write_tokenizer(folder / "tokenizer.json", vocabulary)
    return folder


def _write_model(path: Path, kind: str, classes: int, more: tuple[str, ...]) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    element = {"int64": TensorProto.INT64, "int32": TensorProto.INT32}[kind]
    names = ("input_ids", "attention_mask", "token_type_ids", *more)
    constants = {
        "row": np.array([1], np.int64),
        "column": np.array([2], np.int64),
        "last_special": np.array(len(SPECIAL) - 1, kind),
        "one": np.array(1, np.float32),
        "both": np.array([1, 2], np.int64),
        "shape": np.array([-1, 1], np.int64),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["input_ids", "column"], ["ids_down"]),
        helper.make_node("Unsqueeze", ["input_ids", "row"], ["ids_across"]),
        helper.make_node("Equal", ["ids_down", "ids_across"], ["equal"]),
        helper.make_node("Cast", ["equal"], ["equal_number"], to=TensorProto.FLOAT),
        helper.make_node("Greater", ["input_ids", "last_special"], ["is_word"]),
        helper.make_node("Cast", ["is_word"], ["word"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["word", "mask"], ["counted"]),
        helper.make_node("Cast", ["token_type_ids"], ["of_text"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["one", "of_text"], ["of_query"]),
        helper.make_node("Mul", ["counted", "of_query"], ["query_word"]),
        helper.make_node("Unsqueeze", ["query_word", "column"], ["query_down"]),
        helper.make_node("Unsqueeze", ["of_text", "row"], ["text_across"]),
        helper.make_node("Mul", ["equal_number", "query_down"], ["matches_of_query"]),
        helper.make_node("Mul", ["matches_of_query", "text_across"], ["matches"]),
        helper.make_node("ReduceSum", ["matches", "both"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["less_one"]),
        helper.make_node("Reshape", ["less_one", "shape"], ["logit"]),
        helper.make_node("Neg", ["logit"], ["against"]),
        helper.make_node("Concat", ["against", *["logit"] * (classes - 1)], ["logits"], axis=1)
        if classes > 1
        else helper.make_node("Identity", ["logit"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "cross_encoder",
        [helper.make_tensor_value_info(name, element, ["batch", "tokens"]) for name in names],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def _write_tokenizer(path: Path, vocabulary: str) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = dict.fromkeys(word for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(vocabulary.lower()))
    known = {word: number for number, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, known[name]) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.save(str(path))
