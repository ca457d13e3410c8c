"""One typed `Config`, resolved once: flag > environment > project file > user file > default.

The only reader of environment variables and TOML files. The project file `.codeinfo.toml` comes with a repository, and
so is not trusted: it may set how that repository is cut and searched, never where text is sent, which key goes with it
or where files are written. The user's own file may name folders to trust.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from codeinfo.errors import UsageError
from codeinfo.files import read_user_file
from codeinfo.model import convert
from codeinfo.settings import SECTIONS, SETTINGS, Row, Sections

PROJECT_FILE = ".codeinfo.toml"
MAX_FILE_BYTES = 1_000_000  # of a settings file: a hundred patterns with long queries take half of it
TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off", ""})
LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names of this machine


class Layer(Struct, frozen=True):
    """The values from one source, as written, and its display name."""

    origin: str
    values: Mapping[str, Any]
    text: str = ""  # the TOML file's text, to report line numbers
    patterns: tuple[Mapping[str, Any], ...] = ()  # the file's [[patterns]], as written
    unknown: tuple[str, ...] = ()  # sections and settings that this release does not have


# In an address behind its user, up to the last @; as a parameter of it, or in a line of PostgreSQL's names and values.
_PASSWORD = re.compile(
    r"(:(?=[^/\s]))\S*(?=@)|(\b\w*(?:password|key|token|secret)\s*=\s*)(?:'(?:\\.|[^'\\])*'|[^&\s]+)", re.IGNORECASE
)


class Config(Sections, frozen=True):
    origins: Mapping[str, str]  # "section.field" → where its value comes from
    notes: tuple[str, ...] = ()  # values that were ignored, and why
    patterns: tuple[Mapping[str, Any], ...] = ()  # the project's own detectors, as written
    _layers: tuple[Layer, ...] = ()
    _project: Layer | None = None
    _env: Mapping[str, str] = {}

    @classmethod
    def load(
        cls, flags: Mapping[str, Any] | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Config:
        """Read every source that applies in `cwd`. `flags` maps "section.field" to a value or its text."""
        env = dict(os.environ if env is None else env)
        named = {key: env[row.env] for key, row in SETTINGS.items() if env.get(row.env)}
        user = _toml_layer("user file", user_file(env))
        layers = (Layer("flag", flags or {}), Layer("environment", named), user)
        return _resolve(layers, _project_layer(Path.cwd() if cwd is None else cwd), env)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{section}={getattr(self, section)!r}' for section in SECTIONS)})"

    def for_root(self, root: Path) -> Config:
        """The same sources with the project file that belongs to `root`, wherever the command was typed."""
        project = _project_layer(root)
        return self if project == self._project else _resolve(self._layers, project, self._env)

    def secret(self, name: str) -> str:
        """The value of the environment variable named by `api_key_env`, "" if unset."""
        return self._env.get(name, "") if name else ""

    def value(self, key: str) -> Any:
        section, _, name = key.partition(".")
        return getattr(getattr(self, section), name)

    def shown(self, key: str) -> Any:
        """The value without passwords: what a command prints ends up in reports and screenshots."""
        value = self.value(key)
        return _PASSWORD.sub(lambda match: f"{match[1] or match[2]}***", value) if isinstance(value, str) else value


def use_one_blas_thread() -> None:
    """Must run before numpy is imported. Scanning vectors gains less from more threads than waiting for busy cores
    costs, and idle BLAS threads spin, using nearly as much CPU as the search itself."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def refuses_colour() -> bool:
    """Whether the user asked for plain text (https://no-color.org) or the terminal has no colour."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def editor_command() -> str:
    """The editor the user configured for all programs, "" for none."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""


# --- sources -------------------------------------------------------------------------------------------------------


def _project_layer(folder: Path) -> Layer:
    path = find_upwards(folder, PROJECT_FILE)
    return _toml_layer("project file", path) if path is not None else Layer("project file", {})


def find_upwards(folder: Path, name: str) -> Path | None:
    """The nearest file of that name from `folder` upwards, within its repository."""
    folder = Path(os.path.abspath(folder))  # not resolved: a symlink must not lead to another project's file
    for place in (folder, *folder.parents):
        if os.path.isfile(place / name):
            return place / name
        if os.path.exists(place / ".git"):
            break
    return None


def _toml_layer(name: str, path: Path) -> Layer:
    if (text := read_user_file(path, MAX_FILE_BYTES)) is None:
        return Layer(name, {})
    text, origin = text.replace("\r\n", "\n"), f"{name} {path}"
    parsed = parse_toml(text, path)
    patterns = parsed.pop("patterns", [])
    if not isinstance(patterns, list):
        step = "Write [[patterns]] above each one"
        raise UsageError(f"patterns in {origin} is not a list{_line(text, 'patterns')}", step)
    values, unknown = _flatten(parsed, origin, text)
    return Layer(origin, values, text, tuple(patterns), unknown)


# For a key like a.a.a.… the parser takes the square of its length: an hour for the largest file that is read.
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """`path` is the text's origin, for error messages."""
    import tomllib

    if _LONG_KEY.search(text):
        raise UsageError(f"{path} has a key of more than 100 parts", "Shorten it.")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", "Fix that line.") from error


def _flatten(parsed: Mapping[str, Any], origin: str, text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values of known settings by "section.field", and the names that are not known."""
    unknown = [section for section in parsed if section not in SECTIONS]
    values: dict[str, Any] = {}
    for section, content in parsed.items():
        if section in unknown:
            continue
        if not isinstance(content, Mapping):
            step = f"Write [{section}] on a line of its own above its settings"
            raise UsageError(f"{section} in {origin} is not a section{_line(text, section)}", step)
        values |= {f"{section}.{name}": value for name, value in content.items()}
    unknown += values.keys() - SETTINGS.keys()
    return {key: values[key] for key in values if key in SETTINGS}, tuple(sorted(unknown))


def _first_unknown(layer: Layer) -> UsageError | None:
    if not layer.unknown:
        return None
    key = layer.unknown[0]
    what, known = ("setting", SETTINGS) if "." in key else ("section", SECTIONS)
    return _unknown_name(key, known, layer.origin, layer.text, what=what)


def _unknown_name(key: str, known: Mapping[str, object], origin: str, text: str, *, what: str) -> UsageError:
    import difflib

    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else "`codeinfo config show` lists them all."
    return UsageError(f"unknown {what} {key!r} in {origin}{_line(text, key)}", hint)


def _line(text: str, key: str) -> str:
    """ ", line N" for a key in a TOML text: found by spelling, good enough to jump to."""
    name = key.rpartition(".")[2]
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().lstrip("[").startswith(name):
            return f", line {number}"
    return ""


# --- folders -------------------------------------------------------------------------------------------------------


def user_file(env: Mapping[str, str]) -> Path:
    return _folder(env, "config") / "config.toml"


def _folder(env: Mapping[str, str], use: str) -> Path:
    """The user's folder for `use` ("cache", "config" or "data"); CODEINFO_HOME moves them all."""
    if home := env.get("CODEINFO_HOME"):
        return expand_user(home) / use
    if sys.platform.startswith("linux"):
        # The same folders as platformdirs, without the 20 ms its import adds to every search.
        variable, fallback = {
            "cache": ("XDG_CACHE_HOME", ".cache"),
            "config": ("XDG_CONFIG_HOME", ".config"),
            "data": ("XDG_DATA_HOME", ".local/share"),
        }[use]
        folder = env.get(variable, "")
        return (Path(folder) if os.path.isabs(folder) else expand_user(env.get("HOME") or "~") / fallback) / "codeinfo"
    import platformdirs

    folders = platformdirs.PlatformDirs("codeinfo", appauthor=False)
    return Path(getattr(folders, f"user_{use}_dir"))


def expand_user(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # an unknown user, or a user id without a passwd entry, as in containers
        step = "Set HOME, or set CODEINFO_HOME to a folder that can be written"
        raise UsageError(f"the user of {path} has no home folder", step, code="NO_HOME") from error


def user_folders() -> tuple[Path, Path, Path]:
    """The user's home, where desktop programs keep their configuration, and where programs do that use `.config` on
    every system."""
    home = expand_user(os.environ.get("HOME") or "~")
    if sys.platform == "darwin":
        return home, home / "Library" / "Application Support", home / ".config"
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    config = Path(folder) if os.path.isabs(folder) else home / ".config"
    return home, config, config


def runtime_folder() -> Path:
    """The folder for a user's sockets; its path is short, as socket paths must be."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(folder):
        return Path(folder, "codeinfo")
    import tempfile

    return Path(tempfile.gettempdir(), f"codeinfo-{os.geteuid()}")


# Besides settings: folders, keys, proxies and git.
_DECIDES = re.compile(r"CODEINFO_\w+|XDG_\w+|HOME|PATH|\w*(?:KEY|TOKEN)|(?i:\w+_proxy)|SSL_\w+|GIT_\w+|LANG|LC_\w+|TZ")


def deciding_environment() -> list[tuple[str, str]]:
    """The environment variables that affect answers: processes with equal ones give the same answers."""
    return sorted(item for item in os.environ.items() if _DECIDES.fullmatch(item[0]))


# --- resolving -----------------------------------------------------------------------------------------------------


_OF_SECTIONS = tuple(f"CODEINFO_{section.upper()}_" for section in SECTIONS)


def _resolve(layers: tuple[Layer, ...], file: Layer, env: Mapping[str, str]) -> Config:
    flags, environment, user = layers
    if unknown_flag := next((key for key in flags.values if key not in SETTINGS), None):
        raise _unknown_name(unknown_flag, SETTINGS, "--set", "", what="setting")
    if unknown := _first_unknown(user):
        raise unknown
    project, notes = _admit(file, layers)
    if unknown := _first_unknown(file):  # a newer release may have written a project's file, for the whole team
        others = f", nor are {len(file.unknown) - 1} others there" if len(file.unknown) > 1 else ""
        notes.append(f"{unknown.what}: not used by this release{others}. {unknown.next_step}")
    variables = {row.env: row for row in SETTINGS.values()}
    for name in (name for name in env if name.startswith(_OF_SECTIONS) and name not in variables):
        misspelt = _unknown_name(name, variables, "the environment", "", what="variable")
        notes.append(f"{misspelt.what}: not used. {misspelt.next_step}")
    values: dict[str, Any] = {"paths.cache_dir": _folder(env, "cache"), "paths.data_dir": _folder(env, "data")}
    origins = dict.fromkeys(SETTINGS, "default")
    for layer in (user, project, environment, flags):
        for key, raw in layer.values.items():
            row = SETTINGS[key]
            origin = f"{layer.origin} {row.env}" if layer is environment else layer.origin
            try:
                values[key] = _parse(row, raw)
                origins[key] = origin
            except ValueError as error:
                if not row.lenient:
                    what = f"{key} = {raw!r} is refused: {error} ({origin}{_line(layer.text, key)})"
                    raise UsageError(what, f"The setting means: {row.help}") from None
                values.pop(key, None)
                origins[key] = "default"
                notes.append(f"{key} = {raw!r} from {origin} is not used ({error}); {row.default} is used instead.")
    sections = {
        name: kind(**{key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{name}.")})
        for name, kind in SECTIONS.items()
    }
    return Config(
        **sections, origins=origins, notes=tuple(notes), patterns=file.patterns, _layers=layers, _project=file, _env=env
    )


def _admit(project: Layer, layers: tuple[Layer, ...]) -> tuple[Layer, list[str]]:
    """The project file's values that are allowed, and a note on those that are not."""
    refused = [key for key in project.values if not SETTINGS[key].project]
    path = Path(project.origin.removeprefix("project file "))
    if not refused or _is_trusted(path.parent, layers):
        return project, []
    note = f"{path} sets {', '.join(refused)}, which a repository may not decide: not used. "
    note += "If you trust it, add its absolute path to projects under [trust] in your own file."
    allowed = {key: value for key, value in project.values.items() if key not in refused}
    return Layer(project.origin, allowed, project.text), [note]


def _is_trusted(folder: Path, layers: tuple[Layer, ...]) -> bool:
    """Whether the user's own settings, never the project's, trust this folder. A relative path trusts nothing: it
    would trust each folder in which a command is typed."""
    named = next((layer.values["trust.projects"] for layer in layers if "trust.projects" in layer.values), ())
    try:
        places = filter(os.path.isabs, map(os.path.expanduser, _texts(named)))
        return any(os.path.realpath(place) == os.path.realpath(folder) for place in places)
    except ValueError:  # no list of strings, which is refused where its place is known, or one with a NUL
        return False


def _parse(row: Row, raw: Any) -> Any:
    """The typed value of a setting; ValueError says what was expected."""
    parse, expected = _PARSERS[row.kind]
    try:
        value: Any = parse(raw)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"it must be {expected}") from None
    if isinstance(value, str) and value.startswith(("http://", "https://")):
        try:
            _ = urlsplit(value).port
        except ValueError as error:
            raise ValueError(f"it is not an address: {error}") from None
    if row.choices and value not in row.choices:
        raise ValueError(f"it must be one of {', '.join(row.choices)}")
    if row.minimum is not None and value < row.minimum:
        raise ValueError(f"it must be at least {row.minimum}")
    if row.maximum is not None and value > row.maximum:
        raise ValueError(f"it must be at most {row.maximum}")
    return value


def _number(raw: Any, kind: type[float]) -> float:
    value = convert(raw.strip() if isinstance(raw, str) else raw, kind, strict=False)
    if not math.isfinite(value):
        raise ValueError
    return value


def _bool(raw: Any) -> bool:
    if isinstance(raw, str) and raw.strip().lower() in TRUE | FALSE:
        return raw.strip().lower() in TRUE
    return convert(raw, bool)


def _path(raw: Any) -> Path:
    path = Path(os.path.expanduser(raw))
    if not path.is_absolute():
        raise ValueError
    return path


def _texts(raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str):
        return tuple(part for part in raw.split(os.pathsep) if part)
    return convert(raw, tuple[str, ...])


_PARSERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "int": (partial(_number, kind=int), "a whole number"),
    "float": (partial(_number, kind=float), "a number"),
    "bool": (_bool, "true or false"),
    "str": (partial(convert, kind=str), "text in quotes"),
    "Path": (_path, "an absolute path"),
    "tuple[str, ...]": (_texts, "a list of strings"),
}
