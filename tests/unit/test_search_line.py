"""The search line over a real index of a small project: filters, refills, budgets, explanations."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from codeinfo.config import Config
from codeinfo.engine import Engine
from codeinfo.errors import NotFound, UsageError
from codeinfo.globs import match_globs
from codeinfo.model import Hit, SearchResult
from codeinfo.operations.answers import AskRequest
from codeinfo.operations.search import SearchRequest, SimilarRequest
from codeinfo.ports import Snapshot
from codeinfo.search.line import Ranked, best_first
from codeinfo.search.query import read_query
from codeinfo.search.weights import QUESTION
from codeinfo.tokens import CHARS_PER_TOKEN

Search = Callable[..., SearchResult]

FILES = {
    "src/retry.py": '''"""Retries of requests that failed."""


class RetryPolicy:
    """How often a failed request is tried again, and how long to wait in between."""

    attempts = 3

    def should_retry(self, attempt: int, error: Exception) -> bool:
        return attempt < self.attempts and not isinstance(error, ValueError)


def retry_request(request, policy):
    """Send a request again until the policy gives up."""
    while policy.should_retry(request.attempt, request.error):
        request.send()
''',
    "src/pool.py": '''"""Connections that are kept open."""


class ConnectionPool:
    def acquire(self):
        """An open connection, or a new one when none is idle."""
        return self.idle.pop() if self.idle else self.connect()''',
    "src/backoff.py": '''def retry_delay(attempt, base):
    """Seconds to wait before a failed request is tried again."""
    return base * 2 ** attempt
''',
    "web/client.ts": """export class HttpClient {
  // Sends a request; a failed one is retried.
  async send(request: Request): Promise<Response> {
    return await this.transport.deliver(request);
  }
}
""",
    "tests/test_retry.py": """from src.retry import RetryPolicy


def test_failed_request_is_retried():
    assert RetryPolicy().should_retry(1, OSError())
""",
    "docs/retries.md": "# Retries\n\nA failed request is tried again as the retry policy says.\n",
    "config.toml": "[retry]\nattempts = 3  # of a failed request\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def make_engine(root: Path, provider: str = "builtin") -> Engine:
    return Engine(Config.load({"embedding.provider": provider}, root))


def searcher(engine: Engine, *roots: Path) -> Search:
    def search(query: str, **options: Any) -> SearchResult:
        return engine.search(SearchRequest(query, tuple(map(str, roots)), **options))

    return search


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("project"), FILES)


@pytest.fixture
def engine(project: Path) -> Iterator[Engine]:
    with make_engine(project) as engine:
        yield engine


@pytest.fixture
def search(engine: Engine, project: Path) -> Search:
    return searcher(engine, project)


def paths(result: SearchResult) -> list[str]:
    return [hit.path for hit in result.hits]


# --- what comes first ----------------------------------------------------------------------------------------------


def test_a_name_is_found_where_it_is_defined(search: Search) -> None:
    for query in ("RetryPolicy", "retrypolicy", "RetryPolicy.should_retry", "should_retry"):
        assert paths(search(query))[0] == "src/retry.py", query
    best = search("ConnectionPool").hits[0]
    assert (best.path, best.symbol, best.score) == ("src/pool.py", "ConnectionPool", 1.0)


def test_each_file_once_with_its_second_place_as_more(tmp_path: Path) -> None:
    body = "".join(f"    total = total + retry_{i} * {i}\n" for i in range(40))
    many = "\n\n".join(f"def retry_{name}(total):\n{body}    return total" for name in ("one", "two", "three"))
    root = write(tmp_path / "many", {"retries.py": many, "other.py": "def other():\n    return 1\n"})
    with make_engine(root) as engine:
        result = searcher(engine, root)("retry total two")
    assert paths(result).count("retries.py") == 1
    hit = result.hits[0]
    assert len(hit.more) == 1
    assert hit.more[0] != (hit.start_line, hit.end_line)


def test_what_is_left_at_the_end_of_a_file_is_not_shown_for_it(tmp_path: Path) -> None:
    rows = "".join(
        f'      <Row label="step {at}" value={{props.values[{at}]}} onChange={{props.change}} />\n' for at in range(24)
    )
    component = f"const TwoFactorModal = (props) => {{\n  return (\n    <Modal>\n{rows}    </Modal>\n  );\n}};\n"
    text = f"import {{ Row }} from './row'\n\n{component}\nexport default TwoFactorModal;\n"
    with make_engine(write(tmp_path, {"src/TwoFactorModal.tsx": text})) as engine:
        hit = searcher(engine, tmp_path)("two factor").hits[0]
    assert hit.start_line < hit.end_line < text.count("\n"), "the last line is a chunk of its own"


def test_the_function_that_answers_is_shown_before_what_declares_its_words(tmp_path: Path) -> None:
    fields = "".join(f"    {letter * 9}_of_the_holder: int = 1\n" for letter in "abcdefghijklmnopqrstuvwxyz")
    settings = f"class LeaseSettings:\n    grace: int = 3  # of a lease that has expired\n{fields}"
    steps = "".join(f"    notify(holder, step_{at})\n" for at in range(40))
    function = f"def revoke(lease, holder):\n    lease.drop()  # it has expired\n{steps}"
    with make_engine(write(tmp_path, {"src/lease.py": f"{settings}\n\n{function}"})) as engine:
        hits = [
            searcher(engine, tmp_path)(query).hits[0]
            for query in ("what happens when a lease has expired", "which type has the grace of an expired lease")
        ]
    assert [hit.symbol for hit in hits] == ["revoke", "LeaseSettings"]


QUOTED = {
    "src/server.py": "def read_body(request):\n    raise Error(400, 'There was an error parsing the body')\n",
    "src/body.py": 'class Body:\n    """The parsed body. Parsing errors are errors of the body parser."""\n',
    "src/errors.py": "# TODO: parse the body lazily\nclass ParseError(Exception):\n    pass\n",
    "src/parse_body.py": "def parse_body(body):\n    # to do: parse it lazily, with its parser\n    return body\n",
    "src/settings.py": "LIMIT = int(os.environ['BODY_LIMIT_BYTES'])\n",
    "src/body_limit.py": "class BodyLimit:\n    bytes: int  # BODY_LIMIT_BYTES: the limit of a body in bytes\n",
    "src/body/errors.py": "class New:\n    # body.errors.new is made here\n    pass\n",
    "config/server.properties": "# of the server\nworker.queue.depth=100\nworker.queue.depth.soft=50\n",
    "web/locale/en.json": '{\n  "limits": "Limits of a job",\n  "depth": "Depth of a job"\n}\n',
    "src/worker/queue.py": "class Queue:\n    # the depth of the queue of a worker\n    most = 100\n",
    "src/pages.py": "def title(translate):\n    return translate('body.errors.new'), 'Body size limits'\n",
    "tests/test_server.py": "def test_parse():\n    assert detail == 'There was an error parsing the body'\n",
    "tests/lazy.spec.ts": "describe('parse lazily', () => {\n  it('waits', () => parse())\n})\n",
    "docs/release-notes.md": "# Changes\n\n- Parse the body of errors twice\n- `BODY_LIMIT_BYTES` limits the body\n",
}


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("There was an error parsing the body", "src/server.py"),
        ("there was an error parsing the body", "src/server.py"),
        ("where is 'error parsing the body' raised", "src/server.py"),
        ("the page that says There was an error parsing the body", "src/server.py"),
        ("TODO: parse the body lazily", "src/errors.py"),
        ("BODY_LIMIT_BYTES", "src/settings.py"),
        ("body.errors.new", "src/pages.py"),
        ("worker.queue.depth", "config/server.properties"),
        ("the page that says Limits of a job", "web/locale/en.json"),
    ],
)
def test_what_stands_in_the_code_word_for_word_comes_first(tmp_path: Path, query: str, first: str) -> None:
    with make_engine(write(tmp_path, QUOTED)) as engine:
        found = engine.search(SearchRequest(query, paths=(str(tmp_path),), explain=True))
        assert found.hits[0].path == first
        assert any(signal.name == "exact_text" for signal in found.hits[0].signals)
        assert found.quality.status == "ok"
        assert found.quality.reasons == ("the first result contains the exact text",)


TRANSLATIONS = {
    "flat/lang/en.json": '{\n  "repo.diff": "Open a new pull request",\n  "repo.pulls.new": "New pull request"\n}\n',
    "flat/lang/de.json": '{\n  "repo.pulls.new": "New pull request"\n}\n',
    "nested/en.yml": "en:\n  invoices:\n    index:\n      other: Other\n      hint: Nothing is due yet\n",
    "strings/values/strings.xml": '<resources>\n  <string name="sync_now">Sync everything now</string>\n</resources>\n',
    "strings/Texts.resx": '<root>\n  <data name="SignInFailed">\n    <value>Wrong address</value>\n  </data>\n</root>',
    "php/lang/en/auth.php": "<?php\nreturn [\n    'throttled' => 'Too many attempts',\n];\n",
}
SHOWN = {
    "flat/compare.tmpl": '<p>{{.Locale.Tr "repo.diff"}}</p>\n',
    "flat/header.tmpl": '<a href="/x">a</a>\n' * 40 + '<b>{{.Locale.Tr "repo.pulls.new"}}</b>\n' + "<p>pull</p>\n" * 40,
    "nested/index.rb": "def empty_text\n  I18n.t('invoices.index.hint')\nend\n",
    "nested/other.rb": "def other_hint\n  'hint'\nend\n",
    "strings/Sync.kt": "fun button() = Text(stringResource(R.string.sync_now))\n",
    "strings/SignIn.cs": "class SignIn {\n  string Error() => Texts.SignInFailed;\n}\n",
    "php/Login.php": "<?php\nfunction fail() {\n    return trans('auth.throttled');\n}\n",
}


@pytest.mark.parametrize(
    ("text", "path", "key"),
    [
        ("New pull request", "flat/header.tmpl", "repo.pulls.new"),
        ("Nothing is due yet", "nested/index.rb", "invoices.index.hint"),
        ("Sync everything now", "strings/Sync.kt", "R.string.sync_now"),
        ("Wrong address", "strings/SignIn.cs", "Texts.SignInFailed"),
        ("Too many attempts", "php/Login.php", "auth.throttled"),
    ],
)
def test_a_translated_text_leads_to_the_code_that_shows_it(tmp_path: Path, text: str, path: str, key: str) -> None:
    with make_engine(write(tmp_path, TRANSLATIONS | SHOWN)) as engine:
        search = searcher(engine, tmp_path)
        found = search(f'where is the button that says "{text}"')
        assert found.hits[0].path == path
        assert key in found.hits[0].text
        assert found.quality.reasons == ("the first result shows the exact text, by its key",)
        assert {hit.path for hit in found.hits[1:3]} & TRANSLATIONS.keys()
        assert paths(search(f'Fix the color of "{text}"'))[0] == path


def test_a_key_that_many_files_use_is_no_place(tmp_path: Path) -> None:
    files = {f"src/page{n}.rb": "def title\n  I18n.t('pages.title')\nend\n" for n in range(9)}
    files["config/en.yml"] = "en:\n  pages:\n    title: Welcome home\n"
    with make_engine(write(tmp_path, files)) as engine:
        assert paths(searcher(engine, tmp_path)('the page that says "Welcome home"'))[0] == "config/en.yml"


def test_a_plain_word_is_the_key_of_a_text_in_translations_alone(tmp_path: Path) -> None:
    files = {
        "package.json": '{\n  "description": "A shop for boats"\n}\n',
        "app/values/strings.xml": '<resources>\n  <string name="saved">All is safe now</string>\n</resources>\n',
        "src/card.js": "export const card = (item) => item['description']\n",
        "src/Saved.kt": "fun saved() = Text(stringResource(R.string.saved))\n",
        "src/Other.kt": "class Other(val saved: Boolean)\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        search = searcher(engine, tmp_path)
        assert paths(search('where is the text "A shop for boats"'))[0] == "package.json"
        assert paths(search('where is the text "All is safe now"'))[:2] == ["src/Saved.kt", "app/values/strings.xml"]


def test_a_topic_shows_the_class_that_is_called_so(tmp_path: Path) -> None:
    fields = "".join(
        f"    private readonly Dictionary<string, QuickConnectResult> _of{n} = new();\n" for n in range(12)
    )
    calls = "        results[secret] = timers.Now;\n" * 12
    methods = "".join(
        f"    public QuickConnectResult {name}(string secret) {{\n        CheckQuickConnect(secret);\n{calls}    }}\n\n"
        for name in ("Check", "Authorize", "Expire", "Remove")
    )
    files = {"src/QuickConnectManager.cs": f"public class QuickConnectManager {{\n{fields}\n{methods}}}\n"}
    with make_engine(write(tmp_path, files)) as engine:
        assert searcher(engine, tmp_path)("quick connect").hits[0].symbol == "QuickConnectManager"


def test_a_dotted_name_is_a_key_only_if_no_definition_has_it(tmp_path: Path) -> None:
    files = {
        "src/body/errors.py": "def render(page):\n    return page\n",
        "src/patches.py": "def patch(replace):\n    replace('body.errors.render', str)\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        assert paths(searcher(engine, tmp_path)("body.errors.render"))[0] == "src/body/errors.py"


@pytest.mark.parametrize(
    "named", ["{}:{}", "{} line {}", 'File "/lib/site-packages/{}", line {}', "panicked at {}:{}:9"]
)
def test_the_line_that_a_query_names_is_shown(tmp_path: Path, named: str) -> None:
    body = "".join(f"    total = total + step_{at} * {at}\n" for at in range(60))
    steps = "\n\n".join(f"def run_{name}(total):\n{body}    return total" for name in ("one", "two", "three"))
    root = write(tmp_path / "project", {"src/app/steps.py": steps, "src/app/other.py": "def other():\n    return 1\n"})
    with make_engine(root) as engine:
        for line in (1, 64, 100, 125, 187):
            hit = searcher(engine, root)(named.format("app/steps.py", line)).hits[0]
            assert hit.path == "src/app/steps.py"
            assert hit.text_line <= line <= hit.text_line + hit.text.count("\n"), (line, hit.text)
            assert hit.symbol == f"run_{('one', 'two', 'three')[line // 63]}"
        assert searcher(engine, root)("src/app/steps.py:9999").hits[0].path == "src/app/steps.py"


def test_pasted_code_is_found_where_it_is(tmp_path: Path) -> None:
    body = "".join(
        f"    if load_{name}(issue) is None:\n        return None\n" for name in ("poster", "labels", "project")
    )
    others = "".join(
        f"def load_{name}(issue):\n    return issue.{name}\n\n\n" for name in ("poster", "labels", "project")
    )
    files = {
        "src/load.py": others + "\n" * 3 + "class Loaded:\n    poster = labels = project = issue = None\n" * 9,
        "src/issue.py": f"def load(issue):\n{body}    return issue\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        found = searcher(engine, tmp_path)(body)
        assert found.hits[0].path == "src/issue.py"
        assert found.quality.reasons == ("the first result contains the exact text",)
        report = (
            f"Loading fails\n\nIf a poster is gone, it fails for me.\nI have this:\n{body[:60]}\nAnd nothing helps."
        )
        assert not read_query(report).quotations


def test_a_definition_asked_for_in_words_is_the_first_result(search: Search) -> None:
    for query in ("fields of class RetryPolicy", "where is RetryPolicy defined", "the `RetryPolicy` class"):
        found = search(query)
        assert found.query == query
        assert (found.hits[0].symbol, found.intent, found.quality.status) == ("RetryPolicy", "EXACT_NAME", "ok")
    for query in ("where is RetryPolicies defined", "where is a.b defined"):
        assert search(query).intent != "EXACT_NAME", "nothing has that name"


def test_a_question_about_uses_leads_to_all_of_them(search: Search) -> None:
    assert search("how do I run the tests?").notes == ("`codeinfo metadata` says how the tests are run",)
    (impact,) = search("what breaks if I change src/retry.py?").notes
    assert impact == "`codeinfo impact src/retry.py` lists what a change of it may affect"
    assert search("who calls should_retry").notes == ("`codeinfo refs should_retry` lists every use of should_retry",)
    assert search("who calls should_rettry").notes == search("how does should_retry work").notes == ()


@pytest.mark.parametrize(
    "query",
    [
        "client: (28) Operation timed out after 5001 ms with 0 bytes received",
        'cannot send "a.txt": the remote end closed the door',
    ],
)
def test_the_code_that_says_a_message_is_found_whatever_was_filled_in(tmp_path: Path, query: str) -> None:
    files = {
        "src/watch.py": """def watch(ms, name):
    log(f"Operation timed out after {ms} ms with {0} bytes received")
    log("cannot send %s: the remote end closed the door", name)
""",
        "src/operation.py": "class Operation:\n    # operation timed out after 28 ms: bytes received\n    ms = 28\n",
        "tests/test_watch.py": f"def test_watch():\n    assert said == {query!r}\n",
        "src/timed_client.py": "def send_bytes(remote, door):\n    return remote.closed(door).end\n",
        "docs/faq.md": "# Operation timed out after 5001 ms with 0 bytes received\n\nThe remote end closed the door.\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        found = engine.search(SearchRequest(query, paths=(str(tmp_path),), explain=True))
    assert found.hits[0].path == "src/watch.py"
    assert [hit.path for hit in found.hits if any(one.name == "exact_text" for one in hit.signals)] == ["src/watch.py"]
    assert "the first result contains the exact text" not in found.quality.reasons


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("--retry-delay", "src/options.py"),
        ("retry-delay", "src/options.py"),
        ("/api/jobs/{id}", "src/routes.py"),
        ("POST /api/jobs/{id}", "src/routes.py"),
        ("GET /api/users", "src/api/users.py"),
        ("Shop.Coupon.WrongCode", "src/Checkout.cs"),  # the key of a text, which no definition is called
        ("GET /shop/v2/orders/:id", "src/orders.js"),  # the first parts are those of the group
    ],
)
def test_an_option_or_a_route_is_found_where_it_is_declared(tmp_path: Path, query: str, first: str) -> None:
    files = {
        "src/options.py": """def options(parser):
    parser.add('--retry-delay', int)
    parser.add('retry-delay-max', int)
""",
        "src/retry_delay.py": """class RetryDelay:
    delay = 1  # retry-delay

    def retry(self):
        return self.delay, "see --retry-delay"
""",
        "src/routes.py": """def add(app):
    app.post('/api/jobs/{id}', read)
    app.get('/api/jobs/{id}/log', log)
""",
        "src/Checkout.cs": 'class Checkout { void Apply() { Say(Text("Shop.Coupon.WrongCode")); } }\n',
        "src/Shop/CouponCode.cs": "class CouponCode { string Wrong; string Code(Shop shop) { return shop.Code; } }\n",
        "src/orders.js": "const v2 = app.group('/shop/v2')\nv2.get('/orders/:id', show)\n",
        "src/shop/v2/orders.js": "// orders of the shop, v2, by id\nexport class Orders { get id() {} }\n",
        "src/api/users.py": "# operation: GET /api/users listUsers\nclass Users:\n    pass\n",
        "src/api/user.py": "# operation: GET /api/users/{id} getUser\nclass User:\n    id = 1  # of users\n",
        "src/api/jobs.py": """class Jobs:
    id = 1  # the id of a job of the api

    def post(self):
        return self.id
""",
    }
    with make_engine(write(tmp_path, files)) as engine:
        found = engine.search(SearchRequest(query, paths=(str(tmp_path),), explain=True))
    assert found.hits[0].path == first
    assert [hit.path for hit in found.hits if any(one.name == "exact_text" for one in hit.signals)] == [first]


@pytest.mark.parametrize(
    ("query", "first", "line"),
    [
        ("/api/users/42", "web/src/app/api/users/[userId]/route.ts", "GET"),
        ("DELETE /api/users/42?force=1", "web/src/app/api/users/[userId]/route.ts", "DELETE"),
        ("/reports/weekly", "web/src/app/(main)/reports/[name]/page.tsx", "Page"),
        ("/blog/hello", "site/src/routes/blog/[slug]/+page.svelte", "slug"),
        ("GET /api/carts/7", "nuxt/server/api/carts/[id].get.ts", "eventHandler"),
        ("POST /api/upload", "routes/api.php", "upload"),
        ("GET /api/songs/42", "routes/api.php", "apiResource"),
        ("PATCH /api/v1/notes/n-81", "proto/note_service.proto", "patch"),
        ("POST /flows/9f0c/replay", "tool/web/app.py", "replay"),
        ("GET /entries/5.json", "src/Controller/EntryController.php", "entry"),
        ("GET /orders/42", "cmd/server.go", "orders"),
    ],
)
def test_the_code_that_serves_a_path_is_found_by_a_real_one(tmp_path: Path, query: str, first: str, line: str) -> None:
    files = {
        "web/src/app/api/users/[userId]/route.ts": """export async function GET(request) {
  return json(await users.one(request));
}

export async function DELETE(request) {
  return json(await users.remove(request));
}
""",
        "web/src/app/api/users/route.ts": "export async function GET() {\n  return json(await api.users.all());\n}\n",
        "web/src/app/(main)/reports/[name]/page.tsx": "export default function Page() {\n  return <Chart />;\n}\n",
        "web/src/app/(main)/reports/weekly-reports.tsx": "export function WeeklyReports() {\n  return <Week />;\n}\n",
        "site/src/routes/blog/[slug]/+page.svelte": "<script>\n  export let slug;\n</script>\n",
        "nuxt/server/api/carts/[id].get.ts": "export default eventHandler(read);\n",
        "web/src/client.ts": """export const upload = (file) => http.post("/api/upload", file);
export const song = (id) => http.get(`/api/songs/${id}`);
export const replay = (id) => http.post(`/flows/${id}/replay`);
export const order = (id) => http.get(`/orders/${id}`);
export const remove = (id) => http.delete(`/api/users/${id}`);
""",
        "routes/api.php": """<?php
Route::prefix('api')->group(function () {
    Route::get('uploads', ListUploads::class);
    Route::post('upload', Upload::class);
    Route::apiResource('songs', SongController::class);
});
""",
        "app/Models/Song.php": "<?php\n\nclass Song extends Model\n{\n    // a song of the api, 42\n}\n",
        "proto/note_service.proto": """service NoteService {
  rpc GetNote(GetNoteRequest) returns (Note) {
    option (google.api.http) = {get: "/api/v1/{name=notes/*}"};
  }
  rpc UpdateNote(UpdateNoteRequest) returns (Note) {
    option (google.api.http) = {
      patch: "/api/v1/{note.name=notes/*}"
    };
  }
}
""",
        "server/patch_notes.go": "package server\n\n// PatchNotes of the api, v1\nfunc PatchNotes() {}\n",
        "tool/web/app.py": """handlers = [
    (r"/flows(?:\\.json)?", Flows),
    (r"/flows/(?P<flow_id>[0-9a-f\\-]+)/replay", ReplayFlow),
]
""",
        "src/Controller/EntryController.php": """<?php

class EntryController
{
    #[Route(path: '/entries/{entry}.{_format}', methods: ['GET'])]
    public function entryAction() {}
}
""",
        "cmd/server.go": """package main

func routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /orders/{id}", show)
}
""",
    }
    with make_engine(write(tmp_path, files)) as engine:
        found = engine.search(SearchRequest(query, paths=(str(tmp_path),)))
    assert found.hits[0].path == first
    assert line in found.hits[0].text
    assert found.quality.status == "ok"


def test_a_result_begins_with_the_definition_that_it_is_called_after(tmp_path: Path) -> None:
    source = """package locks

// Acquire handles creating the one lock.
func (l *Controller) Acquire(w Writer) {
	lock, err := l.locker.Create()
	if err != nil {
		l.respond(w, "creating the lock failed", err)
		return
	}
	l.respond(w, "the lock was created", lock)
}

// Release handles giving the lock back.
// It does nothing without one.
func (l *Controller) Release(w Writer) {
	if err := l.locker.Delete(); err != nil {
		l.respond(w, "deleting the lock failed", err)
		return
	}
	l.respond(w, "the lock was deleted", nil)
}
"""
    with make_engine(write(tmp_path, {"locks/controller.go": source})) as engine:
        (hit,) = engine.search(SearchRequest("how does a writer release the lock", paths=(str(tmp_path),))).hits
    assert hit.symbol == "Controller.Release"
    assert hit.text.startswith("// Release handles giving")
    assert hit.text_line == 13


def test_whole_chunks_are_whole_for_a_name_too(tmp_path: Path) -> None:
    source = "def first():\n    return 1\n\n\ndef second():\n    return 2\n"
    with make_engine(write(tmp_path, {"steps.py": source})) as engine:
        (hit,) = engine.search(SearchRequest("second", paths=(str(tmp_path),), full_text=True)).hits
        answer = engine.answers.ask(AskRequest("second", (str(tmp_path),), provider="none"))
    assert (hit.symbol, hit.text, hit.text_line) == ("second", source.rstrip("\n"), 1)
    assert [(cited.start_line, cited.end_line) for cited in answer.citations] == [(1, 6)]


def test_a_path_that_nothing_serves_is_not_said_to_be_served(tmp_path: Path) -> None:
    files = {
        "routes/api.php": "<?php\n\nRoute::prefix('api')->group(fn () => Route::apiResource('songs', Songs::class));\n",
        "app/Lyrics.php": "<?php\n\nclass Lyrics\n{\n    public function ofSong(Song $song) {}\n}\n",
        "web/lyrics.ts": "export const lyrics = (id) => http.get(`/api/songs/${id}/lyrics`);\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        found = engine.search(SearchRequest("/api/songs/{song}/lyrics", paths=(str(tmp_path),)))
    assert found.hits[0].path == "web/lyrics.ts"  # which requests it
    assert "the first result serves this path" not in found.quality.reasons


@pytest.mark.parametrize(
    "query",
    [
        "Add support for parsing the body, twice",
        "Parse the body of errors twice",  # a task that only the release notes have
        "parsed body",  # a topic of a comment
        "parse lazily",  # and of a test
        "body size limits",  # and of a label
        "There was an error parsing the header",
        'Remove the page "Limits of a job" of workers',  # a change of code, not of the label
    ],
)
def test_a_task_or_a_topic_is_no_quotation(tmp_path: Path, query: str) -> None:
    with make_engine(write(tmp_path, QUOTED)) as engine:
        found = engine.search(SearchRequest(query, paths=(str(tmp_path),), explain=True))
        assert found.hits
        assert not any(signal.name == "exact_text" for hit in found.hits for signal in hit.signals)


def test_what_many_files_say_is_no_place(tmp_path: Path) -> None:
    said = {f"src/part{n}.py": f"def part{n}():\n    raise Gone('this part is no longer here')\n" for n in range(9)}
    with make_engine(write(tmp_path, said)) as engine:
        found = engine.search(SearchRequest("this part is no longer here", paths=(str(tmp_path),)))
        assert len(found.hits) == 9
        assert "the first result contains the exact text" not in found.quality.reasons


DECLARED = {
    "balance/weighted.ts": """export interface WeightedBalancer {
  weight: number;
  next(request: Request): Server;
}
""",
    "Weighted.java": """package shop;

/** Chooses a server by its weight. */
public interface Weighted {
    /** The next server. */
    Server next(Request request);
}
""",
    "weighted.go": """package balance

// Weighted is a list of servers with weights.
type Weighted struct {
	Servers []Server
	Weight  int
}
""",
}
DOES = {
    "weighted.rb": """class Weighted < Balancer
  set :weight, 3
  on :request do |request|
    servers.rotate(weight).first
  end
end
""",
    "weighted.py": """class Weighted:
    def next(self, request):
        self.at += self.weight
        self.at %= len(self.servers)
        return self.servers[self.at]
""",
}


def factors_in(root: Path, query: str) -> dict[str, float]:
    with make_engine(root) as engine:
        found = engine.search(SearchRequest(query, paths=(str(root),), explain=True))
    named = {hit.path: {one.name: one.effect for one in hit.signals if one.factor} for hit in found.hits}
    return {path: factors.get("declarations", 1.0) for path, factors in named.items()}


def test_files_that_only_declare_types_weigh_less(tmp_path: Path) -> None:
    root = write(tmp_path / "balance", DECLARED | DOES)
    expected = dict.fromkeys(DECLARED, QUESTION.declarations) | dict.fromkeys(DOES, 1.0)
    assert factors_in(root, "how is the next server chosen by weight") == expected
    assert set(factors_in(root, "interface of a weighted server").values()) == {1.0}, "it may ask for them"
    assert set(factors_in(root, "WeightedBalancer").values()) == {1.0}, "it asks for a definition"
    assert set(factors_in(root, "Add weighted servers to the balancer").values()) == {1.0}, (
        "a task changes them as well"
    )


def test_files_that_are_as_good_are_in_the_order_of_their_paths() -> None:
    """Whatever the last digits say: these depend on the order in which an index adds them up."""
    view = cast(Snapshot, SimpleNamespace(paths=("b.py", "a.py", "c.py")))
    ranked = [Ranked(0, 0.5 + 1e-9, 1.0), Ranked(1, 0.5, 1.0), Ranked(2, 0.6, 1.0)]
    assert [view.paths[item.file] for item in best_first(ranked, view)] == ["c.py", "a.py", "b.py"]


def test_a_long_list_begins_as_a_short_one_does(tmp_path: Path) -> None:
    """Tests have most of the words, so that only a part of them and of the code are looked at."""
    files = {
        f"tests/test_{n}.py": "def test_retry_of_requests():\n    retry_request('retry', 'request')\n"
        for n in range(170)
    }
    files |= {f"src/part{n}.py": f"def part{n}():\n    return 'a request, {n}'\n" for n in range(60)}
    with make_engine(write(tmp_path, files), "none") as engine:
        short, long = (
            engine.search(SearchRequest("retry of requests", paths=(str(tmp_path),), limit=limit)).hits
            for limit in (10, 100)
        )
    assert [hit.path for hit in long[:10]] == [hit.path for hit in short]


def test_limit_and_scores(search: Search) -> None:
    scores = [hit.score for hit in search("failed request").hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert paths(search("failed request", limit=2)) == paths(search("failed request"))[:2]


def test_distances_carry_their_metric(search: Search) -> None:
    distances = [hit.distance for hit in search("failed request").hits]
    assert all(distance and distance.metric == "squared_l2" and 0 <= distance.value <= 4 for distance in distances)


def test_a_fresh_engine_ranks_as_a_warm_one(search: Search, project: Path) -> None:
    warm = [search("how is a failed request tried again").hits for _ in range(2)][-1]
    with make_engine(project) as fresh:
        assert searcher(fresh, project)("how is a failed request tried again").hits == warm


# --- filters -------------------------------------------------------------------------------------------------------


def test_languages(search: Search) -> None:
    assert paths(search("failed request", languages=("typescript",))) == ["web/client.ts"]
    assert paths(search("failed request", languages=("TypeScript",))) == ["web/client.ts"]
    unknown = search("failed request", languages=("cobol",))
    assert unknown.hits == ()
    assert any("no file here is cobol" in note and "python" in note for note in unknown.notes)


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (("src/**",), {"src/retry.py", "src/backoff.py", "src/pool.py"}),
        (("*.ts",), {"web/client.ts"}),
        (("*.py", "!tests/"), {"src/retry.py", "src/backoff.py", "src/pool.py"}),
        (("!*.py", "!*.ts"), {"docs/retries.md", "config.toml"}),
        (("src/r*.py", "config.toml"), {"src/retry.py", "config.toml"}),
    ],
)
def test_globs(search: Search, globs: tuple[str, ...], expected: set[str]) -> None:
    found = set(paths(search("failed request connection", globs=globs)))
    assert found <= expected
    assert match_globs(list(FILES), globs) == [path in expected for path in FILES]


def test_kinds_of_files(search: Search) -> None:
    assert paths(search("failed request", kinds=("tests",))) == ["tests/test_retry.py"]
    assert set(paths(search("failed request", kinds=("docs", "config")))) == {"docs/retries.md", "config.toml"}


def test_kinds_of_symbols(search: Search) -> None:
    found = search("retry a failed request", symbol_kinds=("function",), explain=True)
    assert found.hits
    assert {hit.symbol_kind for hit in found.hits} == {"function"}
    assert {dropped.rule for dropped in found.dropped} >= {"symbol_kind"}
    assert search("failed request", symbol_kinds=("nothing",)).hits == ()


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def test_changed_since_a_revision(tmp_path: Path) -> None:
    root = write(tmp_path / "repository", FILES)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    write(root, {"src/backoff.py": FILES["src/backoff.py"] + "\n\ndef failed_request():\n    pass\n"})
    git(root, "commit", "-qam", "second")
    write(root, {"src/fresh.py": "def failed_request_again():\n    pass\n"})
    with make_engine(root) as engine:
        search = searcher(engine, root)
        assert set(paths(search("failed request", changed_since="HEAD~1"))) == {"src/backoff.py", "src/fresh.py"}
        assert paths(search("failed request", changed_since="HEAD")) == ["src/fresh.py"]
        with pytest.raises(NotFound, match="not a commit"):
            search("failed request", changed_since="nowhere")


# --- a list is short only when there is nothing more ---------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 files of which every tenth has a class, and that not in its first three chunks."""
    root = tmp_path_factory.mktemp("crowd")
    lines = "".join(f"    widget = widget + {i}  # the widget of the line\n" for i in range(25))
    functions = "\n\n".join(f"def widget_{name}(widget):\n{lines}    return widget" for name in "abcd")
    for at in range(150):
        tail = f"\n\n\nclass Holder{at}:\n    size = {at}\n" + "    # holds\n" * 60 if at % 10 == 0 else ""
        (root / f"m{at:03}.py").write_text(functions + tail + "\n")
    return root


def test_a_long_list_is_filled(crowd: Path) -> None:
    with make_engine(crowd, "none") as engine:
        search = searcher(engine, crowd)
        assert len(search("widget of the line", limit=120).hits) == 120
        assert len(search("widget of the line", limit=1000).hits) == 150
        assert len(search("widget of the line", limit=10, globs=("m14*.py",)).hits) == 10
        found = search("widget of the line", limit=12, symbol_kinds=("class",))
        assert len(found.hits) == 12
        assert {hit.symbol_kind for hit in found.hits} == {"class"}


# --- several roots -------------------------------------------------------------------------------------------------


def test_several_roots_share_list_limit_and_budget(engine: Engine, project: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", {"again.py": FILES["src/retry.py"], "far.py": FILES["src/backoff.py"]})
    both = searcher(engine, project, other)
    result = both("RetryPolicy failed request", limit=4)
    assert len(result.hits) == 4
    assert {hit.root for hit in result.hits} == {str(project), str(other)}
    assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)
    packed = both("RetryPolicy failed request", max_tokens=200)
    assert {hit.root for hit in packed.hits} == {str(project), str(other)}
    assert sum(len(hit.text) for hit in packed.hits) <= 200 * CHARS_PER_TOKEN
    twice = paths(searcher(engine, project, project)("RetryPolicy"))
    assert len(twice) == len(set(twice)), "a root named twice is searched once"


# --- text ----------------------------------------------------------------------------------------------------------


def shown_lines_are_of_the_file(hit: Hit, root: Path) -> bool:
    lines, shown = (root / hit.path).read_text().split("\n"), hit.text.split("\n")
    return lines[hit.text_line - 1 : hit.text_line - 1 + len(shown)] == shown


def test_full_text_shows_whole_chunks(search: Search, project: Path) -> None:
    for hit in search("failed request", full_text=True).hits:
        assert hit.text_line == hit.start_line
        assert len(hit.text.split("\n")) == hit.end_line - hit.start_line + 1
        assert shown_lines_are_of_the_file(hit, project)


def test_without_snippets_there_is_no_text(search: Search) -> None:
    assert {hit.text for hit in search("failed request", snippets=False).hits} == {""}


@pytest.mark.parametrize("max_tokens", [10, 25, 60, 150, 600, 5000])
def test_a_token_budget_is_never_exceeded(search: Search, max_tokens: int) -> None:
    hits = search("how is a failed request tried again", max_tokens=max_tokens).hits
    assert hits
    assert sum(len(hit.text) for hit in hits) <= max_tokens * CHARS_PER_TOKEN


def test_a_budget_too_small_for_anything_says_so(search: Search) -> None:
    result = search("failed request", max_tokens=3)
    assert (result.hits, any("too few" in note for note in result.notes)) == ((), True)


def test_long_chunks_are_cut_around_the_matching_lines(tmp_path: Path) -> None:
    filler = "".join(f"    value_{i} = compute(value_{i}, {i})\n" for i in range(12))
    text = f"def long_one():\n{filler}    zebra = paint(stripes)\n{filler}"
    root = write(tmp_path / "long", {"long.py": text, "other.py": "x = 1\n"})
    with make_engine(root, "none") as engine:
        hit = searcher(engine, root)("paint zebra stripes", max_tokens=30).hits[0]
    assert "zebra = paint(stripes)" in hit.text
    assert hit.start_line < hit.text_line <= 14
    assert shown_lines_are_of_the_file(hit, root)


# --- explanations --------------------------------------------------------------------------------------------------


def explained_score(hit: Hit) -> float:
    added = sum(signal.effect for signal in hit.signals if not signal.factor)
    return added * math.prod(signal.effect for signal in hit.signals if signal.factor)


@pytest.mark.parametrize("query", ["RetryPolicy", "how is a failed request tried again", "src/pool.py connection"])
def test_the_signals_make_up_the_score(search: Search, query: str) -> None:
    hits = search(query, explain=True).hits
    best = explained_score(hits[0])
    for hit in hits:
        assert explained_score(hit) / best == pytest.approx(hit.score, abs=0.002), hit.path


def test_an_explanation_changes_nothing(search: Search) -> None:
    plain = search("how is a failed request tried again", limit=3)
    explained = search("how is a failed request tried again", limit=3, explain=True)
    assert tuple(replace(hit, signals=(), ranks={}) for hit in explained.hits) == plain.hits
    assert plain.dropped == ()


def test_ranks_are_those_of_each_channel(search: Search) -> None:
    best = search("RetryPolicy", explain=True).hits[0]
    assert set(best.ranks) == {"keyword", "vector", "symbol"}
    assert best.ranks["symbol"] == 1
    assert all(rank >= 1 for hit in search("failed request", explain=True).hits for rank in hit.ranks.values())


def test_what_was_left_out_is_reported_with_its_rule(search: Search) -> None:
    result = search("failed request", limit=1, globs=("*.py",), explain=True)
    rules = {dropped.rule: dropped for dropped in result.dropped}
    assert set(rules) == {"limit", "filter"}
    assert rules["limit"].path.endswith(".py")
    assert not rules["filter"].path.endswith(".py")
    used_up = search("how is a failed request tried again", max_tokens=15, explain=True)
    assert "max_tokens" in {dropped.rule for dropped in used_up.dropped}


# --- similar places ------------------------------------------------------------------------------------------------


def test_similar_places_leave_out_the_file_itself(engine: Engine, project: Path) -> None:
    result = engine.searches.similar(SimilarRequest("src/backoff.py:1", str(project)))
    assert result.query.startswith("similar to src/backoff.py:1-")
    assert paths(result)[0] == "src/retry.py"
    assert "src/backoff.py" not in paths(result)


NO_PLACES = ("src/backoff.py", "src/backoff.py:", ":3", "src/backoff.py:x", "a.py:²", f"a.py:{'9' * 30}")


@pytest.mark.parametrize("place", NO_PLACES)
def test_what_is_no_place_is_a_usage_error(engine: Engine, project: Path, place: str) -> None:
    with pytest.raises(UsageError, match="is not a place"):
        engine.searches.similar(SimilarRequest(place, str(project)))


def test_places_that_are_not_there(engine: Engine, project: Path) -> None:
    with pytest.raises(NotFound, match="not in the index"):
        engine.searches.similar(SimilarRequest("src/nowhere.py:1", str(project)))
    with pytest.raises(NotFound, match="no code at line"):
        engine.searches.similar(SimilarRequest("src/backoff.py:999", str(project)))


# --- when there is little to say -----------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_an_empty_query_is_a_usage_error(search: Search, query: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        search(query)


@pytest.mark.parametrize("query", ["?!", "zyxwvut qponml", "ZyxWvut", "\0\0", "ö" * 5000])
def test_nothing_found_is_low_confidence_with_a_hint(project: Path, query: str) -> None:
    with make_engine(project, "none") as engine:
        result = searcher(engine, project)(query)
    assert result.hits == ()
    assert (result.quality.status, bool(result.quality.reasons), bool(result.quality.hint)) == (
        "low_confidence",
        True,
        True,
    )


def test_a_single_result_is_not_compared_with_others(tmp_path: Path) -> None:
    with make_engine(write(tmp_path, {"src/pool.py": FILES["src/pool.py"]})) as engine:
        found = engine.search(SearchRequest("pool of things kept", paths=(str(tmp_path),)))
    assert len(found.hits) == 1
    assert found.quality.reasons == ("only one file has anything of it",)


def test_a_good_question_is_ok_and_a_foreign_one_is_not(search: Search) -> None:
    assert search("retry policy of a failed request").quality.status == "ok"
    assert search("kubernetes ingress certificate renewal").quality.status == "low_confidence"


@pytest.mark.parametrize("provider", ["builtin", "none"])
def test_a_query_that_points_at_the_first_file_is_surer(project: Path, provider: str) -> None:
    """By its path, by a part of the project it opens with, and less so where it has but the file's words."""
    with make_engine(project, provider) as engine:
        find = searcher(engine, project)
        plain, scoped, mentioned = (
            find(f"{opening}seconds to wait before a failed request is tried again")
            for opening in ("", "backoff: ", "src/backoff.py: ")
        )
    assert {result.hits[0].path for result in (plain, scoped, mentioned)} == {"src/backoff.py"}
    assert plain.quality.confidence < scoped.quality.confidence < mentioned.quality.confidence


def test_who_asks_for_tests_gets_them_before_what_they_test(tmp_path: Path) -> None:
    """The file itself says more about the pool than its tests do."""
    pool = 'class Pool:\n    """A pool of connections."""\n\n    def pool_size(self):\n        return len(self.pool)\n'
    tests = "from pool import Pool\n\n\ndef test_size():\n    assert Pool().pool_size() == 0\n"
    others = {f"src/other_{at}.py": f"def other_{at}():\n    return {at}\n" for at in range(8)}
    with make_engine(write(tmp_path, {"src/pool.py": pool, "tests/test_pool.py": tests, **others})) as engine:
        find = searcher(engine, tmp_path)
        assert paths(find("tests of the connection pool"))[:2] == ["tests/test_pool.py", "src/pool.py"]
        assert paths(find("size of the connection pool"))[0] == "src/pool.py"


def test_an_update_of_a_dependency_finds_where_its_version_is_written(tmp_path: Path) -> None:
    files = {
        "package.json": '{"name": "shop", "dependencies": {"left-pad": "1.2.0"}}\n',
        "web/package.json": '{"name": "web", "dependencies": {"axios": "1.6.0"}}\n',
        "src/axios.ts": "import axios from 'axios'\n\nexport const axiosClient = axios.create()\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        find = searcher(engine, tmp_path)
        assert paths(find("Bump axios from 1.6.0 to 1.7.2"))[:2] == ["web/package.json", "src/axios.ts"]
        assert paths(find("where is the axios client created"))[0] == "src/axios.ts"


def test_keyword_search_only_says_so(project: Path) -> None:
    with make_engine(project, "none") as engine:
        result = searcher(engine, project)("retry policy", explain=True)
    assert any("keyword search only" in note for note in result.notes)
    assert all(hit.distance is None and "vector" not in hit.ranks for hit in result.hits)


def test_an_empty_folder_has_no_answers(tmp_path: Path) -> None:
    with make_engine(tmp_path) as engine:
        result = searcher(engine, tmp_path)("anything at all")
    assert result.hits == ()
    assert result.quality.status == "low_confidence"


# --- settings of the line ------------------------------------------------------------------------------------------

REPORT = "Failed request is retried forever\n\n" + "the retry policy never gives up on a connection of the pool " * 5


def test_fusion_by_rank_has_signals_of_its_own(project: Path) -> None:
    config = Config.load({"search.fusion": "rrf"}, project)
    with Engine(config) as engine:
        result = searcher(engine, project)("when is a failed request tried again", explain=True)
    assert result.hits[0].path == "src/retry.py"
    added = {signal.name: signal for signal in result.hits[0].signals if not signal.factor}
    assert set(added) <= {"keyword_rank", "meaning_rank"}
    assert added["keyword_rank"].value <= 1


def test_an_intent_that_is_named_shifts_words_and_meaning(search: Search) -> None:
    def effect(intent: str) -> float:
        hit = search("failed request policy", intent=intent, explain=True, limit=1).hits[0]
        return next(signal.effect / signal.value for signal in hit.signals if signal.name == "meaning")

    assert effect("CONCEPTUAL") > effect("FLOW") > effect("WIRING") > effect("EXACT_NAME")


def test_a_report_may_list_a_file_twice_and_a_question_may_not(tmp_path: Path) -> None:
    body = "\n".join(f"    retry_request_{n} = policy.wait(connection, pool, {n})  # tried again" for n in range(30))
    text = "\n\n".join(f"def failed_request_{n}(policy, connection, pool):\n{body}\n" for n in range(3))
    root = write(tmp_path / "project", {"retry.py": text, "other.py": "def other():\n    return 1\n"})
    for settings, query, most in (
        ({}, REPORT, 2),
        ({}, "failed request", 1),
        ({"search.results_per_file": "3"}, REPORT, 3),
    ):
        with Engine(Config.load(settings, root)) as engine:
            found = paths(searcher(engine, root)(query))
        assert found.count("retry.py") == most, (settings, query)


def test_a_report_shows_a_function_before_the_head_of_its_class(tmp_path: Path) -> None:
    fields = "\n".join(
        f"    policy_{n} = 'never retry a failed request forever on a connection of the pool'" for n in range(14)
    )
    body = "\n".join(f"        self.pool.retry_failed(policy, connection, request, forever={n})" for n in range(20))
    text = f"class Retry:\n{fields}\n\n    def give_up(self, request):\n{body}\n"
    root = write(tmp_path / "project", {"retry.py": text, "other.py": "def other():\n    return 1\n"})
    with Engine(Config.load({}, root)) as engine:
        hits = searcher(engine, root)(REPORT).hits
    assert [hit.symbol for hit in hits] == ["Retry.give_up", "Retry"]


def test_a_member_is_shown_where_it_is_defined(tmp_path: Path) -> None:
    """Not its class, which says the name of the owner most often, nor another class that has a member of this name."""
    about = "\n".join(f"    # A Session keeps cookies and sends with them, Session {number}." for number in range(60))
    other = "\n\n".join(f"    def step{number}(self):\n        return {number}" for number in range(60))
    members = f"{other}\n\n    def send(self, request):\n        return request\n"
    write(tmp_path, {"session.py": f"class Session:\n{about}\n\n{members}", "pool.py": f"class Pool:\n{members}"})
    with Engine(Config.load({}, tmp_path)) as engine:
        search = searcher(engine, tmp_path)
        for owner, path in (("Session", "session.py"), ("Pool", "pool.py")):
            first = search(f"{owner}.send").hits[0]
            assert (first.path, first.symbol) == (path, f"{owner}.send")
            assert first.text.startswith("    def send(")  # not with the member above


def test_the_chunk_with_most_of_the_words_is_shown_not_the_one_that_repeats_one(tmp_path: Path) -> None:
    """A sentence that names a class is about what the class does, and a few lines full of one word say little."""
    names = [f"redirect_{at}" for at in range(8)]
    repeating = "class Redirects:\n" + "".join(f"    {name} = redirect({at})\n" for at, name in enumerate(names))
    steps = "".join(f"    step_{at} = prepare_next_step(step_{at}, response.headers)\n" for at in range(24))
    answer = f"def follow(response):\n    # loop until no redirect is left, and stop at the limit\n{steps}"
    filler = "".join(f"def unrelated_{at}(value):\n    return value + {at}\n\n\n" for at in range(40))
    write(tmp_path, {"hops.py": f"{repeating}\n\n{filler}{answer}"})
    with make_engine(tmp_path, "none") as engine:
        (hit,) = searcher(engine, tmp_path)("when does the loop of Redirects stop at a limit of redirects").hits
    assert hit.symbol == "follow"


def test_tests_beside_the_code_come_after_it(tmp_path: Path) -> None:
    """As Rust has them: the file is product code, and the chunk that repeats the words of the query is a test."""
    steps = "\n".join(f"    steps.push({number});" for number in range(60))
    asserts = "\n".join(
        f"        assert_eq!(limit(columns), {number}); // the limit of columns" for number in range(40)
    )
    (tmp_path / "flags.rs").write_text(
        f"/// Limits columns.\npub fn limit(columns: usize) -> usize {{\n{steps}\n    80\n}}\n\n"
        f"#[cfg(test)]\nmod tests {{\n    #[test]\n    fn the_limit_of_columns() {{\n{asserts}\n    }}\n}}\n"
    )
    with Engine(Config.load({}, tmp_path)) as engine:
        search = searcher(engine, tmp_path)
        assert search("where is the limit of columns set").hits[0].symbol == "limit"
        assert search("tests of the limit of columns").hits[0].symbol == "tests.the_limit_of_columns"
        assert search("the limit of columns", symbol_kinds=("function",)).hits[0].symbol == "limit"


def test_the_methods_of_a_small_class_are_found_by_their_kind(tmp_path: Path) -> None:
    """It is one chunk, of the kind class."""
    (tmp_path / "users.py").write_text(
        "class UserService:\n    def login(self, name):\n        return name\n\n    def logout(self):\n        pass\n"
    )
    with Engine(Config.load({}, tmp_path)) as engine:
        search = searcher(engine, tmp_path)
        for kind, symbol in (("method", "UserService.login"), ("class", "UserService")):
            (hit,) = search("login", symbol_kinds=(kind,)).hits
            assert (hit.symbol, hit.symbol_kind) == (symbol, kind)
        assert not search("login", symbol_kinds=("function",)).hits


def test_test_blocks_come_after_the_code(tmp_path: Path) -> None:
    asserts = "\n".join(f"    try expectEqual(limit(columns), {number}); // limit of columns" for number in range(250))
    steps = "\n".join(f"    steps += {number};" for number in range(60))
    (tmp_path / "flags.zig").write_text(
        f"/// Limits columns.\npub fn limit(columns: usize) usize {{\n{steps}\n    return 80;\n}}\n\n"
        f'test "the limit of columns" {{\n    const columns = 90;\n{asserts}\n}}\n'
    )
    with make_engine(tmp_path) as engine:
        search = searcher(engine, tmp_path)
        assert search("where is the limit of columns set").hits[0].symbol == "limit"
        assert search("tests of the limit of columns").hits[0].symbol == "test"


def test_a_result_is_named_without_its_namespace(tmp_path: Path) -> None:
    files = {
        "Retries.cs": "namespace Acme.Net\n{\n  public class Retries\n  {\n    public int Count() => 3;\n  }\n}\n",
        "Waits.kt": "package org.acme.waits\n\nimport java.time.Duration\n" + "// of the package\n" * 200,
        "retry.cc": "namespace a {\nnamespace b {\nint Attempts() { return 1; }\n}\nint Backoff() { return 2; }\n}\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        names = {
            query: engine.search(SearchRequest(query, paths=(str(tmp_path),))).hits[0].symbol
            for query in ("Count", "Retries", "Attempts", "Backoff", "acme net", "org.acme.waits")
        }
    assert names == {
        "Count": "Retries.Count",
        "Retries": "Retries",
        "Attempts": "Attempts",
        "Backoff": "Backoff",
        "acme net": "Retries",
        "org.acme.waits": "",
    }


def test_what_defines_a_bare_name_comes_before_what_is_called_so(tmp_path: Path) -> None:
    files = {
        "services/retry/retry.go": "package retry\n\n// Retry of all\nfunc NewRetry() {}\nfunc FindRetry() {}\n",
        "services/retry/retry_list.go": "package retry\n\n// Retry by retry\nfunc ListRetry() {}\n",
        "models/jobs/job.go": "package jobs\n\ntype Job struct{}\n\ntype Retry struct {\n\tcount int\n}\n",
        "compat/old.go": "package compat\n\nfunc legacy_retry_count() int { return 0 }\n",
        "web/all.js": "exports.response = require('./response');\nexports.request = require('./request');\n",
        "web/response.js": "/** The response. */\nvar res = Object.create(base);\nres.send = (response) => {};\n",
    }
    with make_engine(write(tmp_path, files)) as engine:
        first = {
            query: engine.search(SearchRequest(query, paths=(str(tmp_path),))).hits[0].path
            for query in ("Retry", "legacy_retry_count", "response")
        }
    assert first == {
        "Retry": "models/jobs/job.go",
        "legacy_retry_count": "compat/old.go",
        "response": "web/response.js",
    }
