"""Several roots are one search: rarity, scores and budgets are those of all of them; paths are each root's own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import UsageError
from codeinfo.model import SearchResult
from codeinfo.operations.clients import VectorSearchRequest
from codeinfo.operations.search import GrepRequest, IndexRequest, SearchRequest
from codeinfo.ports import PostingList, StoredSymbol
from codeinfo.search import line
from codeinfo.search.joined import Part, join_parts
from codeinfo.search.line import SearchOptions, search
from codeinfo.store.snapshot import SqliteSnapshot
from codeinfo.tokens import CHARS_PER_TOKEN

RETRIES = '''"""Retries of requests that failed."""


class RetryPolicy:
    """How often a failed request is tried again, and how long to wait in between."""

    attempts = 3

    def should_retry(self, attempt: int, error: Exception) -> bool:
        return attempt < self.attempts
'''
INVOICES = """class Invoice:
    def total(self) -> int:
        return sum(line.cents for line in self.lines)


def request_invoice(customer):
    return Invoice()
"""
# The folder's own name looks like one of tests: what it is called says nothing about the files in it.
ROOTS = {
    "billing": {"invoice.py": INVOICES, "deep/er/still/report.py": "def report():\n    return 'request'\n"},
    "tests": {"src/retry.py": RETRIES, "web/client.ts": "export class HttpClient {\n  send() {}\n}\n"},
    "letters": {"src/retry.py": "def post_again():\n    return 'stamp'\n", "guide.md": "# Stamps\n\nHow to post.\n"},
}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("several")
    for root, files in ROOTS.items():
        for name, text in files.items():
            path = top / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return {root: top / root for root in ROOTS}


@pytest.fixture(scope="module", params=["builtin", "none"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    cache = tmp_path_factory.mktemp("cache")
    settings = {"embedding.provider": request.param, "paths.cache_dir": str(cache)}
    with Engine(Config.load(settings, cache)) as opened:
        yield opened


def ask(engine: Engine, query: str, *roots: Path, **options: Any) -> SearchResult:
    return engine.search(SearchRequest(query, tuple(map(str, roots)), **options))


def test_vector_search_tells_repositories_of_one_name_apart(tmp_path: Path) -> None:
    places = [tmp_path / side / "bank" for side in ("left", "right")]
    for place in places:
        place.mkdir(parents=True)
        (place / "retry.py").write_text(RETRIES)
    config = Config.load({"paths.cache_dir": str(tmp_path / "cache")}, tmp_path)
    with Engine(config) as engine:
        engine.index(IndexRequest(tuple(map(str, places))))
        found = engine.searches.vector_search(VectorSearchRequest("when to try a failed request again"))
    assert {match.hostPath for match in found.results} == {str(place / "retry.py") for place in places}


def test_all_that_is_indexed_here_is_one_search(tmp_path: Path, roots: dict[str, Path]) -> None:
    config = Config.load({"paths.cache_dir": str(tmp_path / "cache")}, tmp_path)
    with Engine(config) as engine:
        with pytest.raises(UsageError, match="no indexed project"):
            engine.search(SearchRequest("request", all_projects=True))
        some = tuple(str(roots[name]) for name in ("billing", "tests"))
        engine.index(IndexRequest(some))
        found = engine.search(SearchRequest("failed request", all_projects=True))
        named = engine.search(SearchRequest("failed request", some, refresh=False))
        assert {hit.root for hit in found.hits} == set(some)
        assert [(hit.root, hit.path, hit.score) for hit in found.hits] == [
            (hit.root, hit.path, hit.score) for hit in named.hits
        ]
        assert found.notes[0] == "2 projects were searched completely"
        assert found.notes[1].startswith("results are from /")
        lines = engine.grep(GrepRequest("request", all_projects=True))
        assert {match.root for match in lines.matches} == set(some)
        with pytest.raises(UsageError, match="takes no paths"):
            engine.search(SearchRequest("request", some, all_projects=True))
    words_only = Config.load({"paths.cache_dir": str(tmp_path / "cache"), "embedding.provider": "none"}, tmp_path)
    with Engine(words_only) as engine:
        engine.index(IndexRequest((str(roots["letters"]),)))
    with Engine(config) as engine:
        found = engine.search(SearchRequest("how to post a letter", all_projects=True))
    assert {hit.root for hit in found.hits} <= set(some)
    assert "1 more are not indexed yet, or with another model, and were left out" in found.notes


def test_a_root_without_an_answer_does_not_take_the_first_place(engine: Engine, roots: dict[str, Path]) -> None:
    for order in (("billing", "tests"), ("letters", "billing", "tests")):
        first = ask(engine, "how often is a failed request tried again", *(roots[name] for name in order)).hits[0]
        assert (first.root, first.path) == (str(roots["tests"]), "src/retry.py")


def test_an_exact_name_defined_in_the_second_root_comes_first(engine: Engine, roots: dict[str, Path]) -> None:
    found = ask(engine, "RetryPolicy", roots["letters"], roots["tests"], explain=True)
    assert (found.hits[0].root, found.hits[0].path) == (str(roots["tests"]), "src/retry.py")
    assert found.hits[0].symbol == "RetryPolicy"
    assert found.hits[0].ranks["symbol"] == 1
    # The same path in the other root is another file, which defines nothing of the kind.
    assert all("symbol" not in hit.ranks for hit in found.hits[1:])


def test_factors_are_those_of_the_path_in_its_own_root(engine: Engine, roots: dict[str, Path]) -> None:
    def factors(*asked: Path) -> dict[tuple[str, str], dict[str, float]]:
        found = ask(engine, "request again", *asked, explain=True)
        return {
            (hit.root, hit.path): {one.name: one.value for one in hit.signals if one.factor and one.name != "length"}
            for hit in found.hits
        }

    together = factors(*roots.values())
    alone = {place: named for root in roots.values() for place, named in factors(root).items()}
    shared = together.keys() & alone.keys()
    assert (str(roots["tests"]), "src/retry.py") in shared
    assert {place: together[place] for place in shared} == {place: alone[place] for place in shared}


def test_one_root_joined_alone_is_searched_as_itself(engine: Engine, roots: dict[str, Path]) -> None:
    for root in roots.values():
        index_manager = engine.indexes.of(root)
        store = engine.indexes.open(index_manager).store
        for query in ("RetryPolicy", "how often is a failed request tried again", "src/retry.py", "stamps"):
            with store.snapshot() as view:
                options = SearchOptions(root=str(root), explain=True)
                alone = search(query, view, index_manager.embedder, options)
                together = search(query, join_parts([Part(str(root), view)]), index_manager.embedder, options)
            assert together.hits == alone.hits
            assert (together.quality, together.dropped) == (alone.quality, alone.dropped)


REPORT = """Failed requests are not retried

The policy of retries says how often a request that failed is tried again, and it waits in between. Here the customer of
an invoice got an error after one attempt, though three attempts are allowed; the total of the lines was never sent.
"""


def test_most_terms_of_a_long_text_are_read_where_the_best_files_are(
    engine: Engine, roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere = tuple(roots.values())
    exact = ask(engine, REPORT, *everywhere).hits
    read = _count_terms_read(monkeypatch)
    few = {"LONG_QUERY": 6, "FIRST_TERMS": 4, "UNSEEN_TERMS": 2, "BEST": 1, "KEPT_USES": 0}
    for name, value in {"LARGE": 1, "MANY_PARTS": 3, "SAMPLED_PARTS": 1, **few}.items():
        monkeypatch.setattr(line, name, value)
    found = ask(engine, REPORT, *everywhere, explain=True).hits
    assert (found[0].root, found[0].path) == (exact[0].root, exact[0].path) == (str(roots["tests"]), "src/retry.py")
    assert found[0].score == exact[0].score
    terms = [sum(len(some) for some in read[root]) for root in roots]
    assert terms[0] > 6, "the first root is the sample that says how rare they are"
    assert terms[1] > 6, "it has the best file"
    assert terms[2] <= 6, "nothing else is read of it"


def test_light_terms_and_common_names_of_a_long_text_are_left_out_of_many_indexes(
    engine: Engine, roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: set[str] = set()
    definitions = SqliteSnapshot.definitions

    def note(view: SqliteSnapshot, names: Sequence[str], first_file: int = 0) -> list[StoredSymbol]:
        looked_up.update(names)
        return definitions(view, names, first_file)

    monkeypatch.setattr(SqliteSnapshot, "definitions", note)
    report = f"{REPORT}\nSee `RetryPolicy`."
    exact = ask(engine, report, *roots.values()).hits
    assert "RetryPolicy" in looked_up
    looked_up.clear()
    read = _count_terms_read(monkeypatch)
    for name, value in {"LARGE": 1, "MANY_PARTS": 3, "MOST_TERMS": 20, "COMMON_NAME": 0, "KEPT_USES": 0}.items():
        monkeypatch.setattr(line, name, value)
    found = ask(engine, report, *roots.values())
    assert (found.hits[0].root, found.hits[0].path) == (exact[0].root, exact[0].path)
    assert found.quality.status == "ok", "what was left out does not count as unknown"
    assert len({term for asked in read.values() for terms in asked for term in terms}) <= 20
    assert "RetryPolicy" not in looked_up
    for name, value in {"LONG_QUERY": 1, "FIRST_TERMS": 0, "UNSEEN_TERMS": 0, "COMMON_WORD": 0}.items():
        monkeypatch.setattr(line, name, value)
    ask(engine, report, *roots.values())
    assert "RetryPolicy" not in looked_up, "that it is common says the sample too"
    ask(engine, "Fix retries of RetryPolicy", *roots.values())
    assert "RetryPolicy" in looked_up, "in a short text a common name says more"


def _count_terms_read(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Sequence[str]]]:
    """What is asked for in each root, by its name."""
    asked: dict[str, list[Sequence[str]]] = {root: [] for root in ROOTS}
    lists = SqliteSnapshot.posting_lists

    def count(view: SqliteSnapshot, terms: Sequence[str], first_row: int = 0) -> Iterator[PostingList]:
        asked[next(root for root, files in ROOTS.items() if set(files) == set(view.paths))].append(terms)
        return lists(view, terms, first_row)

    monkeypatch.setattr(SqliteSnapshot, "posting_lists", count)
    return asked


def test_terms_of_some_files_are_those_of_their_roots(engine: Engine, roots: dict[str, Path]) -> None:
    with ExitStack() as opened:
        stores = [engine.indexes.open(engine.indexes.of(root)).store for root in roots.values()]
        view = join_parts(
            [
                Part(str(root), opened.enter_context(store.snapshot()))
                for root, store in zip(roots.values(), stores, strict=True)
            ]
        )
        asked, all_files = ["request", "retri"], np.arange(len(view.paths))
        every = {term: one.rows.tolist() for term, one in view.postings(asked).items()}
        assert every == {term: one.rows.tolist() for term, one in view.postings(asked, all_files).items()}
        assert view.count_rows(asked, all_files) == {term: len(rows) for term, rows in every.items()}
        file = np.array([view.paths.index("invoice.py")])
        some = view.postings(asked, file)
        assert list(some) == ["request"]
        assert {view.roots[owner] for owner in view.row_file[some["request"].rows]} == {str(roots["billing"])}
        share = np.mean([view.roots[owner] == str(roots["billing"]) for owner in view.row_file])
        assert view.count_rows(asked, file) == {"request": pytest.approx(len(some["request"].rows) / share)}


def test_filters_apply_to_the_paths_of_each_root(engine: Engine, roots: dict[str, Path]) -> None:
    everywhere = tuple(roots.values())
    by_glob = ask(engine, "post again request", *everywhere, globs=("src/*.py",))
    assert {(hit.root, hit.path) for hit in by_glob.hits} == {
        (str(roots["tests"]), "src/retry.py"),
        (str(roots["letters"]), "src/retry.py"),
    }
    assert {hit.path for hit in ask(engine, "send", *everywhere, languages=("typescript",)).hits} == {"web/client.ts"}
    missing = ask(engine, "send", *everywhere, languages=("cobol",))
    assert any("no file here is cobol; there are: markdown, python, typescript" in note for note in missing.notes)


def test_changed_files_are_those_of_each_root(engine: Engine, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        root = tmp_path / name
        root.mkdir()
        for file in ("a.py", "b.py"):
            (root / file).write_text(f"def stamp_{file[0]}():\n    return 1\n")
        commands = (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "start"))
        for command in commands:
            identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
            subprocess.run(["git", *identity, *command], cwd=root, check=True, capture_output=True)
        made.append(root)
    (made[0] / "a.py").write_text("def stamp_a():\n    return 2\n")
    (made[1] / "b.py").write_text("def stamp_b():\n    return 2\n")
    found = ask(engine, "stamp", *made, changed_since="HEAD")
    assert {(hit.root, hit.path) for hit in found.hits} == {(str(made[0]), "a.py"), (str(made[1]), "b.py")}


def test_a_token_budget_is_one_for_all_roots(engine: Engine, roots: dict[str, Path]) -> None:
    for most in (20, 60, 200):
        found = ask(engine, "request tried again", *roots.values(), max_tokens=most)
        assert found.hits
        assert sum(len(hit.text) for hit in found.hits) <= most * CHARS_PER_TOKEN


def test_what_was_left_out_names_its_root(engine: Engine, roots: dict[str, Path]) -> None:
    found = ask(engine, "request again", *roots.values(), limit=1, explain=True)
    assert found.dropped
    assert {one.root for one in found.dropped} <= {str(root) for root in roots.values()}


def test_an_edit_in_either_root_is_seen(engine: Engine, tmp_path: Path) -> None:
    made = [tmp_path / "one", tmp_path / "two"]
    for root in made:
        root.mkdir()
        (root / "a.py").write_text("def start():\n    return 1\n")
    assert "new.py" not in {hit.path for hit in ask(engine, "zebra_crossing", *made).hits}
    (made[1] / "new.py").write_text("def zebra_crossing():\n    return 1\n")
    first = ask(engine, "zebra_crossing", *made).hits[0]
    assert (first.root, first.path) == (str(made[1]), "new.py")


def test_vectors_of_another_model_are_named_and_left_out(roots: dict[str, Path], tmp_path: Path) -> None:
    cache = {"paths.cache_dir": str(tmp_path / "cache")}
    with Engine(Config.load({"embedding.provider": "scripted", **cache}, tmp_path)) as other:
        other.index(IndexRequest((str(roots["letters"]),)))
    with Engine(Config.load({"embedding.provider": "builtin", **cache}, tmp_path)) as engine:
        engine.index(IndexRequest((str(roots["tests"]),)))
        found = ask(engine, "RetryPolicy", roots["letters"], roots["tests"], refresh=False)
        assert (found.hits[0].root, found.hits[0].path) == (str(roots["tests"]), "src/retry.py")
        assert {hit.distance for hit in found.hits} == {None}
        assert any(str(roots["letters"]) in note and "another embedding model" in note for note in found.notes)
        repaired = ask(engine, "RetryPolicy", roots["letters"], roots["tests"])
        assert repaired.hits[0].distance is not None
        assert not repaired.notes
