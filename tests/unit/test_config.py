"""Settings: where each comes from, what is refused, and what a repository may not decide."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from patience import is_quick

from codeinfo.config import Config, parse_toml, refuses_colour, user_file
from codeinfo.errors import UsageError
from codeinfo.settings import SETTINGS

CONTRACT = {
    "CODEINFO_RETRIEVAL_DISTANCE_CUTOFF": ("retrieval.distance_cutoff", 1.4),
    "CODEINFO_RETRIEVAL_CUTOFF_DISABLED": ("retrieval.cutoff_disabled", False),
    "CODEINFO_RETRIEVAL_FALLBACK_CHUNKS": ("retrieval.fallback_chunks", 2),
    "CODEINFO_TOOL_CHUNK_MAX_CHARS": ("retrieval.chunk_max_chars", 5000),
    "CODEINFO_TOOL_MAX_CHARS": ("retrieval.max_chars", 40_000),
}


def project(folder: Path, text: str) -> Path:
    (folder / ".codeinfo.toml").write_text(text)
    return folder


def user(home: Path, text: str) -> Path:
    path = home / "config" / "codeinfo" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(("env", "expected"), CONTRACT.items())
def test_contract_settings_have_their_names_and_defaults(
    env: str, expected: tuple[str, object], tmp_path: Path
) -> None:
    key, default = expected
    assert SETTINGS[key].env == env
    assert Config.load(cwd=tmp_path, env={}).value(key) == default


@pytest.mark.parametrize(
    ("env", "raw"),
    [
        ("CODEINFO_RETRIEVAL_DISTANCE_CUTOFF", "-0.1"),
        ("CODEINFO_RETRIEVAL_DISTANCE_CUTOFF", "nan"),
        ("CODEINFO_RETRIEVAL_DISTANCE_CUTOFF", "close"),
        ("CODEINFO_RETRIEVAL_FALLBACK_CHUNKS", "0"),
        ("CODEINFO_RETRIEVAL_FALLBACK_CHUNKS", "1.5"),
        ("CODEINFO_TOOL_CHUNK_MAX_CHARS", "0"),
        ("CODEINFO_TOOL_CHUNK_MAX_CHARS", "-5"),
        ("CODEINFO_TOOL_MAX_CHARS", "lots"),
    ],
)
def test_invalid_contract_values_give_way_to_the_default_and_say_so(env: str, raw: str, tmp_path: Path) -> None:
    key, default = CONTRACT[env]
    config = Config.load(cwd=tmp_path, env={env: raw})
    assert config.value(key) == default
    assert config.origins[key] == "default"
    assert any(env in note for note in config.notes)


def test_zero_is_a_valid_cutoff(tmp_path: Path) -> None:
    assert Config.load(cwd=tmp_path, env={"CODEINFO_RETRIEVAL_DISTANCE_CUTOFF": "0"}).retrieval.distance_cutoff == 0


def test_a_variable_that_is_misspelt_is_noted(tmp_path: Path) -> None:
    env = {"CODEINFO_INDEX_WRKERS": "2", "CODEINFO_HOME": str(tmp_path), "CODEINFO_CODEX_HOME": "/another/program"}
    (note,) = Config.load(cwd=tmp_path, env=env).notes
    assert "CODEINFO_INDEX_WRKERS" in note
    assert "Did you mean CODEINFO_INDEX_WORKERS?" in note


def test_flag_beats_environment_beats_project_beats_user_beats_default(own_folders: Path, tmp_path: Path) -> None:
    env = dict(os.environ)
    key = "index.chunk_chars"
    seen = [(Config.load(cwd=tmp_path, env=env).value(key), Config.load(cwd=tmp_path, env=env).origins[key])]
    file = user(own_folders, "[index]\nchunk_chars = 500\n")
    seen.append((Config.load(cwd=tmp_path, env=env).value(key), Config.load(cwd=tmp_path, env=env).origins[key]))
    project(tmp_path, "[index]\nchunk_chars = 600\n")
    seen.append((Config.load(cwd=tmp_path, env=env).value(key), Config.load(cwd=tmp_path, env=env).origins[key]))
    env["CODEINFO_INDEX_CHUNK_CHARS"] = "700"
    seen.append((Config.load(cwd=tmp_path, env=env).value(key), Config.load(cwd=tmp_path, env=env).origins[key]))
    flagged = Config.load({key: "800"}, tmp_path, env)
    seen.append((flagged.value(key), flagged.origins[key]))
    assert seen == [
        (1200, "default"),
        (500, f"user file {file}"),
        (600, f"project file {tmp_path / '.codeinfo.toml'}"),
        (700, "environment CODEINFO_INDEX_CHUNK_CHARS"),
        (800, "flag"),
    ]


def test_project_file_is_found_from_below_but_not_past_the_repository(tmp_path: Path) -> None:
    project(tmp_path, "[index]\nchunk_chars = 600\n")
    inner = tmp_path / "inner" / "deep"
    inner.mkdir(parents=True)
    assert Config.load(cwd=inner, env={}).index.chunk_chars == 600
    (tmp_path / "inner" / ".git").mkdir()
    assert Config.load(cwd=inner, env={}).index.chunk_chars == 1200


def test_each_root_has_its_own_project_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    project(two, "[index]\nchunk_chars = 600\n")
    config = Config.load({"index.workers": "3"}, one, {})
    assert config.index.chunk_chars == 1200
    assert config.for_root(two).index.chunk_chars == 600
    assert config.for_root(two).index.workers == 3


@pytest.mark.parametrize(
    "line",
    [
        '[embedding]\nbase_url = "http://evil.example"',
        '[embedding]\nprovider = "openai"',
        '[embedding]\napi_key_env = "AWS_SECRET_ACCESS_KEY"',
        '[paths]\ncache_dir = "/tmp/evil"',
        '[trust]\nprojects = ["."]',
        "[index]\nworkers = 200",
    ],
)
def test_a_repository_cannot_redirect_text_keys_or_files(line: str, tmp_path: Path) -> None:
    plain = Config.load(cwd=tmp_path, env={"HOME": str(tmp_path)})
    config = Config.load(cwd=project(tmp_path, line), env={"HOME": str(tmp_path)})
    assert all(config.value(key) == plain.value(key) for key in SETTINGS)
    (note,) = config.notes
    assert "may not decide" in note


def test_a_repository_that_the_user_trusts_can(own_folders: Path, tmp_path: Path) -> None:
    user(own_folders, f'[trust]\nprojects = ["{tmp_path}"]\n')
    project(tmp_path, '[embedding]\nprovider = "none"\n')
    config = Config.load(cwd=tmp_path)
    assert config.embedding.provider == "none"
    assert config.notes == ()


@pytest.mark.parametrize("named", ['["", "."]', '["."]', '["a\\u0000b"]', '["~nobody-here/x"]'])
def test_only_an_absolute_path_is_trusted(
    own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    user(own_folders, f"[trust]\nprojects = {named}\n")
    project(tmp_path, '[embedding]\nprovider = "none"\n')
    config = Config.load(cwd=tmp_path)
    assert config.embedding.provider != "none"
    assert "absolute path" in config.notes[0]


@pytest.mark.parametrize("address", ["https://[", "http://id.example:99999"])
def test_an_address_that_cannot_be_parsed_is_refused_with_its_place(
    own_folders: Path, tmp_path: Path, address: str
) -> None:
    user(own_folders, f'[web]\npublic_url = "{address}"\n')
    with pytest.raises(UsageError, match=r"web.public_url = .* is not an address: .*line 2"):
        Config.load(cwd=tmp_path)


@pytest.mark.parametrize("named", ["5", "[5]", "[[]]", "{a = 1}"])
def test_what_is_no_list_of_folders_is_refused_with_its_place(own_folders: Path, tmp_path: Path, named: str) -> None:
    user(own_folders, f"[trust]\nprojects = {named}\n")
    project(tmp_path, '[embedding]\nprovider = "none"\n')
    with pytest.raises(UsageError, match=r"trust.projects = .* a list of strings .*line 2"):
        Config.load(cwd=tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("index = 5\n", r"index in .* is not a section, line 1.*Write \[index\] on a line of its own"),
        ('[index]\nchunk_chars = "many"\n', r"index.chunk_chars = 'many' is refused: .*whole number.*line 2"),
        ("[index]\nchunk_chars = true\n", r"whole number"),
        ("[index]\nchunk_chars = 5\n", r"at least 100"),
        ("[index]\nsubmodules = 3\n", r"true or false"),
        ("[index\n", r"not valid TOML.*line 1"),
    ],
)
def test_mistakes_in_a_file_are_refused_with_place_and_remedy(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        Config.load(cwd=project(tmp_path, text), env={})
    assert re.search(says, str(caught.value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[index]\nchunk_char = 5\n", r"unknown setting 'index.chunk_char' .*line 2.*Did you mean index.chunk_chars\?"),
        ("[indx]\na = 5\n", r"unknown section 'indx' .*line 1.*Did you mean index\?"),
        ("chunk_chars = 5\n", r"unknown section 'chunk_chars'"),
    ],
)
def test_an_unknown_name_stops_the_users_file_but_not_one_of_a_project(
    own_folders: Path, tmp_path: Path, text: str, says: str
) -> None:
    """Everyone who works on a project reads its file, with older releases too."""
    (note,) = Config.load(cwd=project(tmp_path, text)).notes
    assert re.search(says.replace("line 2", "line 2: not used by this release"), note)
    user(own_folders, text)
    with pytest.raises(UsageError) as caught:
        Config.load(cwd=tmp_path)
    assert re.search(says, str(caught.value))


def test_known_settings_beside_unknown_ones_apply(tmp_path: Path) -> None:
    text = "[index]\nsubmodules = true\nof_tomorrow = 1\nnext_year = 2\n\n[tomorrow]\nx = 1\n"
    config = Config.load(cwd=project(tmp_path, text), env={})
    assert config.index.submodules
    assert ["nor are 2 others there" in note for note in config.notes] == [True]


@pytest.mark.parametrize(
    ("env", "raw", "says"),
    [
        ("CODEINFO_EMBEDDING_PROVIDER", "magic", "one of builtin, openai, scripted, none"),
        ("CODEINFO_CACHE_DIR", "relative/path", "absolute"),
        ("CODEINFO_INDEX_WORKERS", "two", "whole number"),
        ("CODEINFO_RETRIEVAL_CUTOFF_DISABLED", "maybe", "true or false"),
    ],
)
def test_mistakes_in_the_environment_name_the_variable(env: str, raw: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        Config.load(cwd=tmp_path, env={env: raw})
    assert env in str(caught.value)


def test_unknown_flags_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Did you mean index\.workers"):
        Config.load({"index.worker": "1"}, tmp_path, {})


def test_folders_follow_the_platform_and_home(tmp_path: Path) -> None:
    xdg = Config.load(cwd=tmp_path, env={"XDG_CACHE_HOME": "/x/cache", "HOME": "/h"})
    assert xdg.paths.cache_dir == Path("/x/cache/codeinfo")
    relative = Config.load(cwd=tmp_path, env={"XDG_CACHE_HOME": "x", "HOME": "/h"})  # to be ignored, says the standard
    assert relative.paths.cache_dir == Path("/h/.cache/codeinfo")
    moved = Config.load(cwd=tmp_path, env={"CODEINFO_HOME": "/c"})
    assert moved.paths.cache_dir == Path("/c/cache")


def test_folders_are_those_of_platformdirs() -> None:
    import platformdirs

    assert Config.load().paths.cache_dir == platformdirs.user_cache_path("codeinfo", appauthor=False)
    assert user_file(os.environ).parent == platformdirs.user_config_path("codeinfo", appauthor=False)


def test_keys_are_looked_up_by_name_and_never_shown(tmp_path: Path) -> None:
    config = Config.load(cwd=tmp_path, env={"MY_KEY": "s3cret", "CODEINFO_EMBEDDING_API_KEY_ENV": "MY_KEY"})
    assert config.secret(config.embedding.api_key_env) == "s3cret"
    assert config.secret("") == ""
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ada:s3cret@db:5432,two:5432/code", "postgres://ada:***@db:5432,two:5432/code"),
        ("postgres://db/code?user=ada&password=s3cret&x=1", "postgres://db/code?user=ada&password=***&x=1"),
        ("host=db password=s3cret dbname=code", "host=db password=*** dbname=code"),
        ("postgres://ada:s3/cr@t@db/code", "postgres://ada:***@db/code"),
        ("host=db password = 's3 cr\\' et' user=ada", "host=db password = *** user=ada"),
        ("postgres://db/code?sslpassword=s3cret&x=1", "postgres://db/code?sslpassword=***&x=1"),
        ("https://host/v1?api_key=s3cret", "https://host/v1?api_key=***"),
        ("http://:s3cret@host/v1", "http://:***@host/v1"),
        ("https://host/v1?key=s3cret", "https://host/v1?key=***"),
        ("http://localhost:1234/v1", "http://localhost:1234/v1"),
        ("https://ada@host:8443/v1", "https://ada@host:8443/v1"),
    ],
)
def test_passwords_in_addresses_are_not_shown(url: str, shown: str, tmp_path: Path) -> None:
    config = Config.load({"store.url": url}, tmp_path, env={})
    assert config.store.url == url
    assert config.shown("store.url") == shown


@pytest.mark.parametrize(
    ("no_colour", "term", "refused"), [("1", "xterm", True), ("", "dumb", True), ("", "xterm", False)]
)
def test_no_color(no_colour: str, term: str, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", term)
    assert refuses_colour() is refused


def test_bom_and_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / ".codeinfo.toml").write_bytes(b"\xef\xbb\xbf[index]\nchunk_chars = 600\n")
    assert Config.load(cwd=tmp_path, env={}).index.chunk_chars == 600
    (tmp_path / ".codeinfo.toml").write_bytes(b"\xff\xfe[")
    with pytest.raises(UsageError, match="cannot read"):
        Config.load(cwd=tmp_path, env={})


@pytest.mark.parametrize("size", [1_000_001, 1 << 30])
def test_a_huge_settings_file_is_refused_unread(tmp_path: Path, size: int) -> None:
    """A repository may bring a sparse file of a gigabyte: nothing near its size is read."""
    import tracemalloc

    with open(tmp_path / ".codeinfo.toml", "wb") as sink:
        sink.truncate(size)
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="more than 1,000,000 bytes"):
            Config.load({}, tmp_path, {"HOME": str(tmp_path)})
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "key", ["a." * 500_000 + "b", '"a b" . ' * 100_000 + "b", "[" + "'x'." * 200_000 + "b]\n" + "c = 1\n" * 2]
)
def test_a_key_that_the_parser_would_take_an_hour_for_is_refused(key: str) -> None:
    def parse() -> None:
        with pytest.raises(UsageError, match="more than 100 parts"):
            parse_toml(f"{key} = 1", Path("a.toml"))

    assert is_quick(parse, 5)


def test_many_dots_are_no_long_key() -> None:
    text = "a.b.c = [" + "1.0, " * 1000 + "]\nd = '" + "one. two three. " * 1000 + "'\n" + "x" * 500_000 + " = 1"
    assert len(parse_toml(text, Path("a.toml"))) == 3
