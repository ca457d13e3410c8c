"""Tokens, and what a query is read as, with values worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import is_quick

from codeinfo import tokens
from codeinfo.model import Intent
from codeinfo.search.query import (
    EXPANSIONS,
    MAX_NAMES,
    MAX_TERMS,
    QUOTED_WEIGHT,
    STOP_WORDS,
    TITLE_WEIGHT,
    Shape,
    extract_definition_target,
    read_query,
    read_usage_question,
)
from codeinfo.tokens import folder_terms, identifier_terms, stem, stem_terms

# --- tokens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("parser", "pars"),
        ("parsing", "pars"),
        ("logger", "log"),
        ("writer", "writ"),
        ("url", "url"),
        ("straße", "straße"),
    ],
)
def test_doers_meet_their_deeds(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_a_compound_is_indexed_by_its_parts_and_as_a_whole() -> None:
    assert identifier_terms("connectionPool") == ("connect", "pool", "connectionpool")
    assert identifier_terms("connection_pool") == identifier_terms("ConnectionPool")
    assert identifier_terms("pool") == ("pool",)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("src/wheel/mod.rs", ("mod", "wheel")),
        ("web/Button/index.ts", ("index", "button")),
        ("http/src/__init__.py", ("init", "http")),  # src says nothing, so the folder above it speaks
        ("src/lib.rs", ("lib",)),
        ("a/.eslintrc.js", ("eslintrc",)),
        ("x/retry.test.ts", ("retri", "test")),
    ],
)
def test_files_that_stand_for_their_folder_are_named_after_it(path: str, names: tuple[str, ...]) -> None:
    assert stem_terms(path) == names


def test_folders_are_terms_of_their_own() -> None:
    assert folder_terms("src/wheel/mod.rs") == ("src", "wheel")
    assert folder_terms("mod.rs") == ()


# --- reading a query -----------------------------------------------------------------------------------------------


def test_stop_words_carry_nothing_and_earlier_words_weigh_more() -> None:
    query = read_query("where is the connection pooling of the async client")
    assert query.words == ("connection", "pooling", "async", "client")
    singles = [query.terms[term] for term in ("connect", "pool", "async", "client")]
    assert singles == pytest.approx([1, 1 / 1.2, 1 / 1.4, 1 / 1.6])


def test_a_query_of_stop_words_only_is_still_a_query() -> None:
    query = read_query("the other file")
    assert query.words == ("the", "other", "file")
    assert query.terms["other"] == pytest.approx(1 / 1.2)
    assert read_query("main").terms == {"main": 1.0}, "one word is a name, whatever it is"


def test_neighbours_count_as_one_identifier_at_half_the_lesser_weight() -> None:
    terms = read_query("read header lines").terms
    assert terms["readheader"] == pytest.approx(0.5 / 1.2)
    assert terms["headerlines"] == pytest.approx(0.5 / 1.4)


def test_a_compound_with_a_stop_word_is_one_word_as_well() -> None:
    terms = read_query("compile v-for directive").terms
    assert terms["vfor"] == terms["v"] > terms["direct"]


def test_expansions_are_few_and_weigh_a_quarter() -> None:
    terms = read_query("open database").terms
    assert terms["db"] == pytest.approx(0.25 / 1.2)
    assert max(map(len, EXPANSIONS.values())) <= 3
    everything = read_query("please " + " ".join(EXPANSIONS))
    assert len(everything.terms) <= MAX_TERMS


def test_the_projects_own_name_weighs_less() -> None:
    terms = read_query("acme routing table", project_words=frozenset({stem("acme")})).terms
    assert terms["acm"] == pytest.approx(0.3)
    assert terms["rout"] == pytest.approx(1 / 1.2)


def test_a_report_has_a_title_that_counts_twice_and_loses_weight_slowly() -> None:
    details = " ".join(f"word{chr(97 + i)}x" for i in range(26))
    query = read_query(f"Retry hangs\n\n{details} `quotedname`")
    assert query.shape is Shape.REPORT
    assert query.terms["retri"] == pytest.approx(2)
    assert query.terms["hang"] == pytest.approx(2 / 1.03)
    assert query.terms["wordbx"] == pytest.approx(1 / 1.09)
    assert query.terms["quotednam"] == pytest.approx(1.5 / (1 + 0.03 * 28))


@pytest.mark.parametrize(
    ("text", "shape", "scope"),
    [
        ("RetryPolicy", Shape.NAME, set()),
        ("where are retries counted", Shape.QUESTION, set()),
        ("Fix retries of the upload queue", Shape.TASK, set()),
        ("adjust audio volume", Shape.QUESTION, set()),
        ("Fix memory leak", Shape.TASK, set()),
        ("Don't retry uploads that were cancelled", Shape.TASK, set()),
        ("do not retry cancelled uploads", Shape.TASK, set()),
        ("do cancelled uploads stop the queue", Shape.QUESTION, set()),
        ("upload queue doesn't survive a restart", Shape.TASK, set()),
        ("upload queue and how retries are counted", Shape.QUESTION, set()),
        ("masking of tokens before text is stored", Shape.QUESTION, set()),
        ("keys in a file that others cannot read", Shape.QUESTION, set()),
        ("which uploads are not retried", Shape.QUESTION, set()),
        ("http client: retry on 503", Shape.TASK, {"http", "client"}),
        ("fix(router): keep the query string", Shape.TASK, {"rout"}),
        ("what does this mean: a retry", Shape.QUESTION, set()),
        ("-Refactored enum name writing -Tests", Shape.TASK, set()),
        ("Minor improvement to retries of uploads", Shape.TASK, set()),
        ("Propagate errors of cancelled uploads", Shape.TASK, set()),
    ],
)
def test_questions_tasks_and_reports_are_distinguished(text: str, shape: Shape, scope: set[str]) -> None:
    query = read_query(text)
    assert query.shape == shape
    assert query.scope == scope


def test_what_is_left_of_a_negation_is_no_word() -> None:
    assert not {"don", "doesn", "isn"} & read_query("Don't retry if a queue isn't there or doesn't answer").terms.keys()


def test_the_verb_that_opens_a_task_finds_no_file_of_that_name() -> None:
    terms = read_query("Add retries to uploads").terms
    assert terms["add"] == pytest.approx(0.3)
    assert terms["retri"] == pytest.approx(1), "the next word takes its place"


def test_only_the_title_says_that_a_report_is_about_tests_or_docs() -> None:
    details = "the docs say that every test of the suite passes " * 5
    query = read_query(f"Pool leaks connections\n\n{details}")
    assert not query.about_tests
    assert not query.about_docs
    assert "test" not in query.title
    assert read_query(f"Tests of the pool leak\n\n{details}").about_tests


@pytest.mark.parametrize(
    "text",
    [
        "How do I upload a file?",
        "how to stream a large download",
        "Can I use fake timers?",
        "Is it possible to run without a server?",
        "Which option do I have to set for a proxy?",
        "When should I use a pool?",
        "Do I need to close the session?",
        "what does --retry do",
        "what does the pool option do?",
        "what does everysec mean",
    ],
)
def test_a_question_about_use_is_recognised(text: str) -> None:
    assert read_query(text).asks_usage


@pytest.mark.parametrize(
    "text",
    [
        "how do requests end",
        "How do we retry failed jobs?",
        "Where do I find the retry loop?",
        "can a request be cancelled",
        "show how to do lists",
        "what does parse_options return",
        "Add a way to upload files",
    ],
)
def test_a_question_about_the_code_is_none_about_its_use(text: str) -> None:
    assert not read_query(text).asks_usage


def test_what_templates_and_tools_write_into_a_report_is_dropped() -> None:
    report = """Parser drops the last row

<!-- Thank you for
your contribution -->
## Steps to reproduce
See https://example.org/blob/main/unrelated/page.html for more
- [x] I have read the contributing guide
- Python: 3.11.4
Signed-off-by: Somebody <nobody@example.org>
The tokenizer forgets the buffer
"""
    terms = read_query(report).terms
    assert {"pars", "row", "token", stem("buffer")} <= terms.keys()
    assert terms.keys().isdisjoint({"thank", "contribut", "reproduc", "unrelat", "sign", "python", "guid"})
    assert read_query("<!-- how are comments parsed -->").words, "one line is taken as it is typed"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("snake_case_name", ("snake_case_name",)),
        ("Session", ("Session",)),
        ("`Session()`", ("Session",)),
        ("Session.send", ("send", "Session")),
        ("std::vec::push", ("push", "std", "vec")),
        ("Widget#draw", ("draw", "Widget")),
        ("list->next", ("next", "list")),
        ("save!", ("save",)),
        ("x", ()),
    ],
)
def test_one_identifier_is_a_name_to_find(text: str, names: tuple[str, ...]) -> None:
    query = read_query(text)
    assert query.intent is Intent.EXACT_NAME
    assert query.names == names, "the last part first, then what qualifies it"
    assert all(weight == 1.0 for weight in query.terms.values())


def test_in_a_sentence_only_what_looks_like_code_is_a_name() -> None:
    query = read_query("How does the RetryPolicy handle connection_pool errors in Session.send for Django")
    assert query.names == ("RetryPolicy", "connection_pool", "send", "Session", "Django")
    assert read_query("why is self.pool empty in RetryPolicy::wait").names == ("pool", "wait", "RetryPolicy")
    assert read_query("Retry failed requests").names == (), "the first word is capital anyway"


@pytest.mark.parametrize(
    "text",
    [
        "[SHOP-1234] Retries of uploads in the pool",
        "[SHOP-1234] - Retries of uploads in the pool",
        "DEV: Retries of uploads in the pool",
        "SECURITY: Retries of uploads in the pool",
    ],
)
def test_the_key_of_a_ticket_or_the_kind_of_a_change_says_nothing_about_the_code(text: str) -> None:
    query = read_query(text)
    assert query.shape is Shape.TASK
    assert query.words == ("retries", "uploads", "pool")
    assert query.title == read_query("Retries of uploads in the pool").title


def test_what_only_looks_like_a_ticket_stays() -> None:
    assert "utf" in read_query("UTF-8 decoding of names").terms
    assert read_query("[SHOP-1234]").words


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("look at src/app.py.", ("src/app.py",)),
        ("crash in ./lib/x.ts, line 3", ("lib/x.ts",)),
        ("../a/b.go and /abs/c.rs", ("a/b.go", "abs/c.rs")),
        ("button.test.ts fails", ("button.test.ts",)),
        (".eslintrc.js is ignored", (".eslintrc.js",)),
        ("since version 1.2 or 3.x it fails", ()),
    ],
)
def test_paths_are_read_as_an_index_has_them(text: str, paths: tuple[str, ...]) -> None:
    assert read_query(text).paths == paths


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("src/app.py:42", [("src/app.py", 42)]),
        ("./src/app.ts:42:7 and app.ts(43,7)", [("src/app.ts", 42), ("app.ts", 43)]),
        ("https://host/blob/main/src/app.go#L42", [("host/blob/main/src/app.go", 42)]),
        ('File "/usr/lib/pkg/a.py", line 30, in send\n  File "b.py", line 4', [("usr/lib/pkg/a.py", 30), ("b.py", 4)]),
        ("what is at line 300 of app.py, or on app.rs line 12", [("app.rs", 12)]),
        ("app.py: 3 errors, since 1.2:30", []),
    ],
)
def test_lines_of_files_are_read(text: str, places: list[tuple[str, int]]) -> None:
    assert [tuple(place) for place in read_query(text).locations] == places


def test_an_acronym_is_one_word_whatever_its_ending() -> None:
    assert read_query("how are URLs of documents OCRed").words == ("url", "documents", "ocr")
    assert read_query("URLs").names == ("URLs",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what happens when a user logs in", ("user", "login")),
        ("Logged out after signing up", ("logout", "signup")),
        ("where the request timed out, falling back to the cache", ("request", "timeout", "fallback", "cache")),
        ("fix the case that a request timed out", ("fix", "case", "request", "timed")),
        ("read the log in the folder", ("read", "log", "folder")),
        ("log errors in the worker", ("log", "errors", "worker")),
    ],
)
def test_a_verb_and_its_particle_are_one_word(text: str, words: tuple[str, ...]) -> None:
    assert read_query(text).words == words


@pytest.mark.parametrize(
    ("text", "asks", "name"),
    [
        ("who calls CreateRepository?", "calls", "CreateRepository"),
        ("who calls send?", "calls", "send"),
        ("who calls the send method?", "calls", "send"),
        ("show me all callers of `send` in src", "calls", "send"),
        ("where do we call fetchUser()?", "calls", "fetchUser"),
        ("where is Session.send used", "uses", "Session.send"),
        ("which files import src/app/models.py", "imports", "src/app/models.py"),
        ("is parse_query still used?", "uses", "parse_query"),
        ("all implementations of the Notifier interface", "subtypes", "Notifier"),
        ("what extends Base", "subtypes", "Base"),
        ("what breaks if I change Session.send?", "change", "Session.send"),
        ("what would be affected by renaming the resolve method", "change", "resolve"),
        ("what breaks if I change total", "change", "total"),
        ("impact of changing lib/utils.ts", "change", "lib/utils.ts"),
        ("can I safely remove OldThing?", "change", "OldThing"),
    ],
)
def test_a_question_about_the_uses_of_a_name_is_recognised(text: str, asks: str, name: str) -> None:
    asked = read_usage_question(text)
    assert asked is not None
    assert (asked.asks, asked.name) == (asks, name)


@pytest.mark.parametrize(
    "text",
    [
        "how does CreateRepository work",
        "Use CreateRepository where a repository is made",
        "Where is the config used by HttpClient loaded?",
        "what does Session use to send",
        "what calls do we make to stripe",
        "what happens when I remove items from the cart",
        "what happens if I delete users",
        "who uses the cache",
        "who calls it?",
        "what changed lately?",
    ],
)
def test_other_questions_are_not_about_the_uses_of_a_name(text: str) -> None:
    assert read_usage_question(text) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fields of struct Document", "Document"),
        ("the Mode enum", "Mode"),
        ("Constructor of the Editor", "Editor"),
        ("where is Session.send defined?", "Session.send"),
        ("where is `send` defined", "send"),
        ("show me the function read_body()", "read_body"),
        ("Session", ""),  # a name already
        ("the retry policy", ""),
        ("API type", ""),
        ("what is the type", ""),
        ("where is authentication defined", ""),
        ("how does the Mode enum work", ""),
        ("Notifier interface of the server", ""),
    ],
)
def test_who_asks_for_a_definition_in_words_asks_for_its_name(text: str, name: str) -> None:
    assert extract_definition_target(text) == name


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("environment options of the server", Intent.CONFIG),
        ("register a provider", Intent.WIRING),
        ("how does a request reach the handler", Intent.FLOW),
        ("request lifecycle", Intent.FLOW),
        ("parsing of dates", Intent.CONCEPTUAL),
        ("parse_dates", Intent.EXACT_NAME),
    ],
)
def test_intents(text: str, intent: Intent) -> None:
    assert read_query(text).intent is intent
    assert read_query(text, intent=Intent.FLOW).intent is Intent.FLOW, "what the caller says wins"


def test_a_query_about_tests_says_so() -> None:
    assert read_query("tests of the retry policy").about_tests
    assert not read_query("the retry policy").about_tests


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tests of the retry policy", True),
        ("where is the retry policy tested", True),
        ("unit test for retries", True),
        ("test_retries_back_off", True),  # by its name
        ("how does the test client retry", False),
        ("test runner for commands in isolation", False),
        ("run tests with tags excluded", False),  # what a test framework does
        ("select tests by keyword expression", False),
        ("run jobs inline in tests", False),  # what helps those who write them
        ("restore global variables between tests", False),
    ],
)
def test_a_query_that_speaks_of_tests_need_not_want_them(text: str, wanted: bool) -> None:
    query = read_query(text)
    assert (query.about_tests, query.wants_tests) == (True, wanted)


@pytest.mark.parametrize("mark", ["'", "’"])
def test_the_end_of_a_contraction_is_no_word(mark: str) -> None:
    assert {"t", "s"}.isdisjoint(read_query(f"couldn{mark}t resolve the user{mark}s module").terms)
    assert "t" in read_query("the type parameter T of 't'").terms


def test_a_short_message_that_begins_with_a_contraction_is_looked_for_verbatim() -> None:
    assert [quoted.text for quoted in read_query("couldn't resolve module/action").quotations] == [
        "couldn't resolve module/action"
    ]


HOSTILE = (
    "a",
    "a-",
    "a.",
    "a/",
    "a->b#",
    "::",
    ".",
    "../",
    "é",
    "7",
    "A_b ",
    "\0",
    "\n",
    "\ud800",
    "FooBar.baz ",
    "A",
    "GET /a ",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hundred_thousand_characters_are_read_in_bounded_time(piece: str) -> None:
    text = piece * (100_000 // len(piece)) + "!"

    def read() -> None:
        extract_definition_target(text)
        read_usage_question(text)
        assert len(read_query(text).terms) <= MAX_TERMS

    assert is_quick(read, 5), "linear: a quadratic reader needs minutes"


def test_a_pasted_file_asks_for_no_more_names_than_a_question_could_have() -> None:
    query = read_query(" ".join(f"Name{i}Of d{i}/f{i}.py" for i in range(5_000)))
    assert len(query.names) == len(query.paths) == MAX_NAMES
    assert len(query.terms) == MAX_TERMS


@given(st.text(max_size=300))
def test_any_text_is_a_query(text: str) -> None:
    query = read_query(text)
    assert all(0 <= weight <= TITLE_WEIGHT * QUOTED_WEIGHT for weight in query.terms.values())
    stop_words = STOP_WORDS & set(query.words)
    # `iF` is one, with the parts i and f.
    is_all_there_is = all(token.lower() in STOP_WORDS for token in tokens.identifiers(text))
    assert query.bare_name or not stop_words or stop_words == set(query.words) or is_all_there_is


@pytest.mark.parametrize(
    "line", [" " * 100_000, "#" + " " * 100_000 + "x", "- " * 50_000, "a " * 50_000 + ":", "<!-- " * 20_000]
)
def test_reading_a_report_stays_linear(line: str) -> None:
    assert is_quick(lambda: read_query(f"title\n{line}\nmore"), 5), "linear: a quadratic reader needs minutes"


@given(st.text(st.one_of(st.sampled_from("aZ_09:. \t\n\x1c\x00"), st.characters())))
def test_ascii_is_split_as_any_text_is(text: str) -> None:
    found = [name for name in tokens._IDENTIFIER.findall(text) if len(name) <= tokens.MAX_TOKEN]
    assert tokens.identifiers(text) == found
    assert tokens.terms(text) == [term for name in found for term in tokens.identifier_terms(name)]


def test_a_question_asks_for_the_verb_of_an_irregular_form() -> None:
    weights = read_query("where is the mail sent").terms
    assert weights["send"] == weights["sent"]
    assert "find" not in read_query("where are peers found").terms
    assert "send" not in read_query("Fix mails that are sent twice").terms, "a task describes what happens"
    assert "bind" in read_query("arrows Bound to shapes").terms
    assert "send" not in read_query("server-sent events parser").terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bump netty from 4.2.12 to 4.2.14", True),
        ("chore(deps): update react to v19", True),
        ("Upgrade to Hibernate ORM 7.2.24", True),
        ("netty 4.2.14 (was 4.2.12)", True),
        ("Update queries to support the new keyword of Lua 5.5", False),
        ("upgrade http to 2 levels", False),
        ("how is the connection upgraded to HTTP/1.1", False),
    ],
)
def test_an_update_of_a_dependency_is_recognised(text: str, expected: bool) -> None:
    query = read_query(text)
    assert query.updates_dependency is expected
    assert not (expected and query.asks_usage)
    assert not expected or not any(term.isdigit() and term != "19" for term in query.terms), "versions are no words"
