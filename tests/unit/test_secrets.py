"""Secrets of every kind in every container: masked, and nowhere in what the program stores or shows."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from patience import is_quick
from secret_corpus import CONTAINERS, KINDS, SHAPES, Case, cases, draw, leaked, unpacked_values

from codeinfo.index.chunk import ChunkSettings
from codeinfo.index.plain import document_parse
from codeinfo.knowledge.history import History
from codeinfo.sources.masking import mask
from codeinfo.sources.read import decode

SEED = 20261115
LEAST_MASKED = 0.99
SEEN = 12  # so many characters of a secret in a row are a leak


def rate(kind: str, each: int, seed: int = SEED) -> tuple[float, list[str]]:
    found = [(case, leaked(case, mask(case.text)[0])) for case in cases(seed, each, (kind,))]
    missed = [f"{case.path}: {case.text}" for case, part in found if part]
    return 1 - len(missed) / len(found), missed


def test_the_corpus_is_large_enough() -> None:
    assert len(KINDS) >= 60
    assert len({path.rpartition(".")[2] for path in CONTAINERS}) >= 8
    assert list(cases(SEED, 1)) == list(cases(SEED, 1))
    assert list(cases(SEED, 1)) != list(cases(SEED + 1, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_masked_in_every_container(kind: str) -> None:
    masked, missed = rate(kind, each=12)
    assert masked >= LEAST_MASKED, missed[:3]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_many_more_of_every_kind() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rates = {kind: rate(kind, each=200, seed=seed)[0] for kind in KINDS}
    assert min(rates.values()) >= LEAST_MASKED, sorted(rates.items(), key=lambda item: item[1])[:5]


@pytest.mark.parametrize("kind", KINDS)
def test_notebooks_stay_valid_and_lines_stay(kind: str) -> None:
    for case in cases(SEED, 3, (kind,)):
        masked = mask(case.text)[0]
        assert masked.count("\n") == case.text.count("\n")
        if case.path.endswith((".ipynb", ".json")):
            json.loads(masked)
        assert mask(masked) == (masked, 0), "masking twice changes nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_notebooks_as_documents(kind: str) -> None:
    for case in cases(SEED, 4, (kind,)):
        if case.path.endswith(".ipynb"):
            parsed = document_parse(case.path, case.text.encode(), ChunkSettings())
            assert not leaked(case, "\n".join(chunk.text for chunk in parsed.chunks))
            assert any("secrets masked" in note for note in parsed.notes)


def test_a_long_output_is_masked_before_it_is_cut() -> None:
    key = draw(SHAPES["github-personal"], random.Random(SEED))
    output = {"output_type": "stream", "text": ["." * 1980 + " " + key]}
    cell = {"cell_type": "code", "source": ["show()"], "outputs": [output]}
    notebook = json.dumps({"cells": [cell], "metadata": {}}).encode()
    chunks = document_parse("a.ipynb", notebook, ChunkSettings()).chunks
    assert all(key[:12] not in chunk.text for chunk in chunks)


def test_a_title_is_masked() -> None:
    key = draw(SHAPES["gitlab-personal"], random.Random(SEED))
    parsed = document_parse("a.html", f"<title>Use {key}</title><p>Text</p>".encode(), ChunkSettings())
    assert all(key not in chunk.text + chunk.breadcrumb for chunk in parsed.chunks)


@pytest.mark.parametrize(
    "frame",
    [
        '{{"config": "{{\\"password\\": \\"{}\\"}}"}}',  # JSON in JSON
        "<password>{}</password>",
        "tool --api-key={} --verbose",
        "tool --token {} --verbose",
        "machine git.internal login deploy password {}",
        "Ocp-Apim-Subscription-Key: {}",
        'os.environ.setdefault("API_KEY", "{}")',
        "kind: Secret\nstringData:\n  login: {}\n",
        '{{"kind": "Secret", "stringData": {{"login": "{}"}}}}',
        "password: >-\n  {}\n",
        "spring.datasource.password={}",
        "client-secret: {}",
        "ENV APP_TOKEN={}",
    ],
)
@pytest.mark.parametrize("shape", [SHAPES["github-personal"], "{h32}", "{A24}"])
def test_a_name_gives_a_value_away(frame: str, shape: str) -> None:
    key = draw(shape, random.Random(SEED))
    masked, count = mask(frame.format(key))
    assert count == 1, masked
    assert key not in masked


@pytest.mark.parametrize(
    "frame", ['["run\\n{}\\n"]', 'text = "first\\n{}\\nlast"', "https://host/?next=a%3D{}", "({})"]
)
@pytest.mark.parametrize("kind", ["github-personal", "vault-token", "telegram-token", "aws-key", "anthropic-key"])
def test_a_format_gives_a_key_away(frame: str, kind: str) -> None:
    key = draw(SHAPES[kind], random.Random(SEED))
    masked, count = mask(frame.format(key))
    assert count == 1, masked
    assert key not in masked


@pytest.mark.parametrize(
    "text",
    [
        "password = os.environ['DB_PASSWORD_2024']",
        "password: ${DB_PASSWORD}",
        "password: changeme-2024-now",
        "api_key = process.env.API_KEY_V2",
        "api_key = '<your-api-key-here-1>'",
        'api_key: "xxxxxxxxxxxxxxxxxxxxxxxx"',
        "token = generate_token_v2(user)",
        "token = base64UrlEncodeV2",
        "token: AbstractTokenStreamV2",
        "secret_name: payments-database-credentials-v2",
        "secret = hashlib.sha256(data1).hexdigest()",
        'token_url = "https://auth.internal/oauth2/token"',
        "password_hash_algorithm = 'pbkdf2_sha256_v2'",
        "curl -u admin:password https://localhost",
        "docker run -u 1000:1000 image",
        "Authorization: Bearer <token>",
        "Authorization: Basic dXNlcjpwYXNz",
        "redis://:@localhost:6379/0",
        "https://user:pass@host/",
        "{{ .Values.password | b64enc }}",
        "tokens = ['alpha', 'beta', 'gamma_delta_2']",
        'forgot_password: "パスワードをお忘れですか？"',
        '"secret": "\\u5bc6\\u94a5\\u4e2a\\u4eba"',
        "[`swagger-ui.css`](https://cdn.jsdelivr.net/npm/swagger-ui-dist@5/swagger-ui.css)",
        "xoxb-not-a-real-token",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ],
)
def test_placeholders_references_and_code_stay(text: str) -> None:
    assert mask(text) == (text, 0)


def test_overlapping_finds_leave_nothing_between_them() -> None:
    key = draw(SHAPES["github-personal"], random.Random(SEED))
    text = f'password = "{key}+{key[:3]}9aZ-tail7Q"'
    assert mask(text) == ('password = "[masked:github-token]"', 1)


@pytest.mark.parametrize(
    "piece",
    ["kind: Secret\ndata:\n a: ", "{\\n\",\n\"", "data:\n ", "hook", "hooks/1", "Q~", ".a", "a.", "1:AA", "key,",
     "\\n" + "a" * 20, "%3D" + "a" * 20, "-u a:", "bearer ", "basic YTpi", "auth: YTpi", "sig=", "pass: |\n",
     "pass='", "pass=\\\""],
)  # fmt: skip
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    assert is_quick(lambda: mask(text), 5)
    assert is_quick(lambda: mask("{" + text), 5)


# --- from end to end -----------------------------------------------------------------------------------------------

END_TO_END = (
    "aws-key", "aws-secret-key", "github-fine-grained", "gitlab-runner", "anthropic-key", "openrouter-key", "slack-app",
    "vault-token", "discord-token", "telegram-token", "azure-client-secret", "azure-signature", "password",
    "password-in-url", "basic-header", "curl-user", "npm-auth-token", "docker-auth", "private-key", "kubernetes-secret",
)  # fmt: skip


def test_no_secret_reaches_the_index_a_result_or_json(codeinfo: Any, own_folders: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    written: list[Case] = []
    for case in cases(SEED, 1, END_TO_END):
        folder = project / case.kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / case.path).write_text(case.text)
        written.append(case)
    indexed = codeinfo("index", "--json", cwd=project)
    assert indexed.returncode == 0, indexed.stderr
    results = [indexed.stdout]
    for question in ("connect client", "password secret value"):
        for form in (("--json", "--full-text"), ("--full-text",)):
            results.append(codeinfo("search", question, "-n", "50", *form, cwd=project).stdout)
    assert "[masked:" in results[1]
    files = [path for path in own_folders.rglob("*") if path.is_file()]
    stored = [path.read_bytes() for path in files]
    stored += [value for path in files for value in unpacked_values(path)]
    assert any(b"[masked:" in data for data in stored), "the texts of chunks are among them"
    shown = "\n".join(results) + "\n".join(data.decode("latin-1") for data in stored)
    windows = {shown[at : at + SEEN] for at in range(len(shown))}
    windows |= {secret for case in written for secret in case.secrets if len(secret) < SEEN and secret in shown}
    assert not [case for case in written if leaked(case, "\n".join(windows & parts_of(case)))]


def parts_of(case: Case) -> set[str]:
    return {secret[at : at + SEEN] for secret in case.secrets for at in range(max(1, len(secret) - SEEN + 1))}


def test_commit_messages_are_masked(tmp_path: Path) -> None:
    key = draw(SHAPES["github-personal"], random.Random(SEED))

    def git(*arguments: str) -> None:
        subprocess.run(
            ("git", "-c", "user.name=a", "-c", "user.email=a@localhost", *arguments), cwd=tmp_path, check=True
        )

    git("init", "-q")
    (tmp_path / "a.py").write_text(f"a = '{key}'\n")
    git("add", ".")
    git("commit", "-q", "-m", f"fix: rotate password={key}")
    history = History(tmp_path)
    ((commit, message, paths),) = history.commits()
    assert (commit, paths) == (history.head(), ("a.py",))
    assert key not in message + history.memory_log(time.time())


def test_decode_says_how_many() -> None:
    key = draw(SHAPES["vault-token"], random.Random(SEED))
    text = decode(f"a = '{key}'\nb = '{key}'\n".encode())
    assert text is not None
    assert text.notes == ("2 secrets masked",)
