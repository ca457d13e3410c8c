"""A corpus of secrets: random valid keys of every kind, inside the files that people leave them in.

Nothing in this file is a key: each is drawn from a seed when the corpus is made.
"""

from __future__ import annotations

import base64
import json
import random
import re
import sqlite3
import string
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

_LETTERS_AND_DIGITS = string.ascii_letters + string.digits
_ALPHABETS = {
    "A": _LETTERS_AND_DIGITS,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "w": _LETTERS_AND_DIGITS + "_-",
    "h": "0123456789abcdef",
    "d": string.digits,
    "b": _LETTERS_AND_DIGITS + "+/",
    "B": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",  # bech32
    "s": _LETTERS_AND_DIGITS + "!@%^*_+=~-",
}
_DRAWN = re.compile(r"\{([AaUwhdbBs])(\d+)\}")


class Sample(NamedTuple):
    name: str  # of the variable that holds it, "" for a phrase that stands by itself
    text: str  # what is written
    secrets: tuple[str, ...]  # what must not be seen of it


class Case(NamedTuple):
    kind: str
    path: str
    text: str
    secrets: tuple[str, ...]


def draw(shape: str, rng: random.Random) -> str:
    """`{A36}` becomes 36 letters and digits, and so on; the rest stays."""
    return _DRAWN.sub(lambda m: "".join(rng.choices(_ALPHABETS[m[1]], k=int(m[2]))), shape)


# --- keys with a format of their own -------------------------------------------------------------------------------

SHAPES = {
    "aws-key": "AKIA{U16}",
    "aws-session-key": "ASIA{U16}",
    "google-key": "AIza{w35}",
    "google-oauth-secret": "GOCSPX-{w28}",
    "google-oauth-token": "ya29.{w160}",
    "alibaba-key": "LTAI{A20}",
    "tencent-key": "AKID{A32}",
    "digitalocean-token": "dop_v1_{h64}",
    "heroku-key": "HRKU-AA{w58}",
    "fly-token": "fo1_{w43}",
    "netlify-token": "nfp_{A40}",
    "cloudflare-origin-key": "v1.0-{h24}-{h146}",
    "openshift-token": "sha256~{w43}",
    "github-personal": "ghp_{A36}",
    "github-oauth": "gho_{A36}",
    "github-app": "ghs_{A36}",
    "github-refresh": "ghr_{A36}",
    "github-fine-grained": "github_pat_{A22}_{A59}",
    "gitlab-personal": "glpat-{w20}",
    "gitlab-runner": "glrt-{w20}",
    "gitlab-deploy": "gldt-{w20}",
    "gitlab-trigger": "glptt-{h40}",
    "gitlab-job": "glcbt-{h2}_{w20}",
    "bitbucket-token": "ATBB{A32}",
    "npm-token": "npm_{A36}",
    "pypi-token": "pypi-AgEIcHlwaS5vcmc{w140}",
    "rubygems-key": "rubygems_{h48}",
    "nuget-key": "oy2{a43}",
    "crates-token": "cio{A32}",
    "clojars-token": "CLOJARS_{h60}",
    "docker-token": "dckr_pat_{w27}",
    "artifactory-key": "AKCp{A69}",
    "buildkite-token": "bkua_{h40}",
    "circleci-token": "CCIPAT_{A22}_{h40}",
    "sonar-token": "sqp_{h40}",
    "sourcegraph-token": "sgp_{h16}_{h40}",
    "postman-key": "PMAK-{h24}-{h34}",
    "pulumi-token": "pul-{h40}",
    "vault-token": "hvs.{w95}",
    "vault-batch-token": "hvb.{w150}",
    "terraform-token": "{A14}.atlasv1.{w67}",
    "doppler-token": "dp.pt.{A43}",
    "1password-key": "A3-{U6}-{U11}-{U5}-{U5}-{U5}",
    "age-key": "AGE-SECRET-KEY-1{B58}",
    "openai-project": "sk-proj-{w74}T3BlbkFJ{w74}",
    "openai-service": "sk-svcacct-{w58}T3BlbkFJ{w58}",
    "openai-legacy": "sk-{A20}T3BlbkFJ{A20}",
    "anthropic-key": "sk-ant-api03-{w93}AA",
    "anthropic-admin": "sk-ant-admin01-{w93}AA",
    "openrouter-key": "sk-or-v1-{h64}",
    "hexadecimal-sk": "sk-{h32}",
    "hugging-face-token": "hf_{A34}",
    "replicate-token": "r8_{A37}",
    "groq-key": "gsk_{A52}",
    "perplexity-key": "pplx-{A48}",
    "xai-key": "xai-{A80}",
    "nvidia-key": "nvapi-{w64}",
    "langsmith-key": "lsv2_pt_{h32}_{h10}",
    "slack-bot": "xoxb-{d12}-{d13}-{A24}",
    "slack-user": "xoxp-{d12}-{d12}-{d13}-{h32}",
    "slack-app": "xapp-1-A{U10}-{d13}-{h64}",
    "slack-hook": "https://hooks.slack.com/services/T{U10}/B{U10}/{A24}",
    "discord-token": "M{A25}.{w6}.{w38}",
    "discord-hook": "https://discord.com/api/webhooks/{d18}/{w68}",
    "telegram-token": "{d10}:AA{w33}",
    "sendgrid-key": "SG.{w22}.{w43}",
    "mailgun-key": "key-{h32}",
    "mailchimp-key": "{h32}-us21",
    "brevo-key": "xkeysib-{h64}-{A16}",
    "twilio-key": "SK{h32}",
    "stripe-live": "sk_live_{A24}",
    "stripe-restricted": "rk_live_{A99}",
    "webhook-secret": "whsec_{A32}",
    "shopify-token": "shpat_{h32}",
    "shopify-secret": "shpss_{h32}",
    "square-token": "sq0atp-{w22}",
    "databricks-token": "dapi{h32}",
    "supabase-token": "sbp_{h40}",
    "planetscale-token": "pscale_tkn_{w43}",
    "grafana-service": "glsa_{A32}_{h8}",
    "new-relic-key": "NRAK-{U27}",
    "sentry-user": "sntryu_{h64}",
    "dynatrace-token": "dt0c01.{U24}.{U64}",
    "atlassian-token": "ATATT3xFfGF0{w170}={U8}",
    "linear-key": "lin_api_{A40}",
    "notion-token": "ntn_{d11}{A35}",
    "figma-token": "figd_{w40}",
    "airtable-token": "pat{A14}.{h64}",
    "azure-client-secret": "{A3}8Q~{w34}",
    "azure-devops-token": "{A76}AZDO{A4}",
    "jwt": "eyJ{A33}.eyJ{A80}.{w43}",
}

# --- secrets that their surroundings give away ---------------------------------------------------------------------


def _named(name: str, shape: str) -> Callable[[random.Random], Sample]:
    def make(rng: random.Random) -> Sample:
        value = draw(shape, rng)
        return Sample(name, value, (value,))

    return make


def _phrase(frame: str, shape: str) -> Callable[[random.Random], Sample]:
    def make(rng: random.Random) -> Sample:
        value = draw(shape, rng)
        return Sample("", frame.format(value), (value,))

    return make


def _login(frame: str) -> Callable[[random.Random], Sample]:
    """Base64 of user and password."""

    def make(rng: random.Random) -> Sample:
        value = base64.b64encode(draw("deploy:{A24}", rng).encode()).decode()
        return Sample("", frame.format(value), (value,))

    return make


def _uuid(rng: random.Random) -> Sample:
    value = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return Sample("", f"//registry.example.org/:_authToken={value}", (value,))


def _signature(rng: random.Random) -> Sample:
    value = base64.b64encode(rng.randbytes(32)).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    return Sample(
        "", f"https://store.blob.core.windows.net/c/f.txt?sv=2024-11-04&se=2030-01-01&sr=b&sp=r&sig={value}", (value,)
    )


def _block(label: str) -> Callable[[random.Random], Sample]:
    def make(rng: random.Random) -> Sample:
        body = base64.b64encode(rng.randbytes(600)).decode()
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        text = "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"))
        return Sample("", text, tuple(line for line in lines if len(line) >= 16))

    return make


def _kubernetes(rng: random.Random) -> Sample:
    value = base64.b64encode(draw("{s20}", rng).encode()).decode()
    text = f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: site\ntype: Opaque\ndata:\n  login: {value}"
    return Sample("", text, (value,))


_IN_CONTEXT: dict[str, Callable[[random.Random], Sample]] = {
    "aws-secret-key": _named("aws_secret_access_key", "{b40}"),
    "password": _named("db_password", "{A20}"),
    "password-with-signs": _named("smtp_password", "{A1}{s15}"),
    "api-key": _named("api_key", "{h32}"),
    "client-secret": _named("client_secret", "{w40}"),
    "access-token": _named("access_token", "{A40}"),
    "django-secret-key": _named("SECRET_KEY", "{A50}"),
    "password-in-url": _phrase("postgresql://app:{}@db.internal:5432/app", "{A16}"),
    "password-without-user": _phrase("redis://:{}@cache.internal:6379/0", "{A24}"),
    "azure-storage-key": _phrase("AccountName=site;AccountKey={};EndpointSuffix=core.windows.net", "{b86}=="),
    "azure-signature": _signature,
    "connection-string": _phrase("Server=db;Database=app;User Id=app;Password={};Encrypt=true", "{A20}"),
    "bearer-header": _phrase("Authorization: Bearer {}", "{A40}"),
    "basic-header": _login("Authorization: Basic {}"),
    "curl-user": _phrase("curl -u deploy:{} https://api.internal/v1", "{A20}"),
    "npm-auth-token": _uuid,
    "npm-auth": _login("//registry.example.org/:_auth={}"),
    "docker-auth": _login('{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}'),
    "private-key": _block("RSA PRIVATE KEY"),
    "openssh-key": _block("OPENSSH PRIVATE KEY"),
    "pgp-key": _block("PGP PRIVATE KEY BLOCK"),
    "kubernetes-secret": _kubernetes,
}  # fmt: skip

KINDS: dict[str, Callable[[random.Random], Sample]] = {
    **{kind: _named("value", shape) for kind, shape in SHAPES.items()},
    **_IN_CONTEXT,
}


# --- containers ----------------------------------------------------------------------------------------------------


def _indented(text: str, by: str = "    ") -> str:
    return "\n".join(by + line for line in text.split("\n"))


def _python(sample: Sample) -> str:
    if sample.name:
        return (
            f'import os\n\n{sample.name} = "{sample.text}"\n\n\ndef connect():\n    return open_client({sample.name})\n'
        )
    return f"def connect():\n    return run('''\n{sample.text}\n''')\n"


def _markdown(sample: Sample) -> str:
    shown = f"{sample.name}: {sample.text}" if sample.name else sample.text
    return f"# Set-up\n\nPut this into the settings of the service:\n\n```\n{shown}\n```\n\nThen start it.\n"


def _config(sample: Sample) -> str:
    if sample.name:
        return f"[service]\nhost = db.internal\n{sample.name} = {sample.text}\ntimeout = 30\n"
    return f"[service]\nhost = db.internal\nnotes =\n{_indented(sample.text)}\n"


def _yaml(sample: Sample, block: bool = False) -> str:
    if sample.name and not block:
        return f"service:\n  host: db.internal\n  {sample.name}: {sample.text}\n  timeout: 30\n"
    return f"service:\n  host: db.internal\n  {sample.name or 'notes'}: |\n{_indented(sample.text)}\n  timeout: 30\n"


def _yaml_block(sample: Sample) -> str:
    return _yaml(sample, block=True)


def _notebook(sample: Sample) -> str:
    source = _python(sample).splitlines(keepends=True)
    printed = {"output_type": "stream", "name": "stdout", "text": [f"{line}\n" for line in sample.text.split("\n")]}
    if sample.name:
        printed["text"] = [f"{sample.name}='{sample.text}'\n"]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Set-up\n", "Read the data."]},
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [printed], "source": source},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _json(sample: Sample) -> str:
    content = {"service": {"host": "db.internal", sample.name or "notes": sample.text, "timeout": 30}}
    return json.dumps(content, indent=2).replace("/", "\\/")


def _environment(sample: Sample) -> str:
    if sample.name:
        return f"HOST=db.internal\n{sample.name.upper()}={sample.text}\nTIMEOUT=30\n"
    return f"HOST=db.internal\n{sample.text}\nTIMEOUT=30\n"


def _shell(sample: Sample) -> str:
    if sample.name:
        return f"#!/bin/sh\nset -e\nexport {sample.name.upper()}='{sample.text}'\nexec ./serve\n"
    return f"#!/bin/sh\nset -e\ncat <<END\n{sample.text}\nEND\n"


CONTAINERS: dict[str, Callable[[Sample], str]] = {
    "settings.py": _python,
    "setup.md": _markdown,
    "service.cfg": _config,
    "service.yaml": _yaml,
    "blocks.yaml": _yaml_block,
    "analysis.ipynb": _notebook,
    "service.json": _json,
    "environment.txt": _environment,
    "start.sh": _shell,
}


def cases(seed: int, each: int, kinds: tuple[str, ...] = tuple(KINDS)) -> Iterator[Case]:
    """`each` random secrets of every kind in every container; the same for the same seed."""
    rng = random.Random(seed)
    for kind in kinds:
        for path, write in CONTAINERS.items():
            for _ in range(each):
                sample = KINDS[kind](rng)
                yield Case(kind, path, write(sample), sample.secrets)


def leaked(case: Case, text: str, seen: int = 12) -> str:
    """A part of the secret that `text` still shows, "" where it shows none. Fixed prefixes are no secret."""
    plain = text.replace("\\/", "/")
    for secret in case.secrets:
        for at in range(max(1, len(secret) - seen + 1)):
            part = secret[at : at + seen]
            if part in plain and not any(part in fixed for fixed in _FIXED):
                return part
    return ""


_FIXED = tuple(part for shape in SHAPES.values() for part in _DRAWN.split(shape) if len(part) >= 12)


def unpacked_values(path: Path) -> Iterator[bytes]:
    """What a database holds compressed, behind a checksum or not."""
    if path.read_bytes()[:6] != b"SQLite":
        return
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        values = (value for table in tables for row in db.execute(f'SELECT * FROM "{table}"') for value in row)
        for value in values:
            for start in (0, 4):
                with suppress(zlib.error, TypeError):
                    yield zlib.decompress(value[start:])
