"""The controllers and actions that a table of routes of Rails names, in the modules that its blocks put around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from codeinfo.model import Import

TABLE = re.compile(r"(?:\A|.*/)config/routes(?:/.*|\.rb)")
_COMMENT = re.compile(r"(?:\A|\s)#.*")
_OPENING = re.compile(r"\bdo(?:\s*\|[^|]*\|)?\Z|\A(?:if|unless|case|begin|while|def|class|module)\b(?!.*\bend\Z)")
_WORD = re.compile(r"(\w+)[ (]+(?=[\w:\"'%\[])(.*)")
_NAME = r"(?::\"?|[\"'])([\w/#-]+)[\"']?"
_NAMES = re.compile(rf"(?<![\w:]){_NAME}(?!\w|[\"']?\s*(?:=>|:))")
_OPTION = r"(?:\b{0}:|:{0}\s*=>)\s*(\[[^\]]*\]|%i[\[(][^\])]*|%w[\[(][^\])]*|[^,\s]+)"
_TARGET = re.compile(r"(?:=>|\bto:)\s*[\"']([\w/]+)#(\w+)[\"']")
_PATH = re.compile(r"/?(\w+)/(\w+)")  # says both
_VERBS = frozenset("get post put patch delete match root head options".split())
_ACTIONS = tuple("index show new edit create update destroy".split())


class _Frame(NamedTuple):
    module: str = ""
    controller: str = ""


def read_routes(text: str) -> Iterator[Import]:
    """`admin/carts#index,show` for `resources :carts, only: %i[index show]` in `namespace :admin`."""
    frames, statement, first = [_Frame()], "", 1
    for number, line in enumerate(text.split("\n"), 1):
        first = first if statement else number
        statement = f"{statement} {_COMMENT.sub('', line).strip()}".strip()
        if statement.endswith(","):
            continue
        if re.match(r"end\b", statement) and len(frames) > 1:
            frames.pop()
        inner = frames[-1]
        if written := _WORD.match(statement):
            inner, named = _read_statement(written[1], written[2], frames[-1])
            yield from (Import(f"{controller}#{','.join(actions)}", first) for controller, actions in named)
        if _OPENING.search(statement):
            frames.append(inner)
        statement = ""


def _read_statement(word: str, rest: str, around: _Frame) -> tuple[_Frame, list[tuple[str, list[str]]]]:
    """What holds in the block behind a statement, and the controllers that it names, each with its actions."""
    arguments = re.split(r",?\s*(?:\b\w+:(?!:)|:\w+\s*=>|[\"'][^\"']*[\"']\s*=>)", rest)[0]
    names, module = _NAMES.findall(arguments), _join(around.module, *_option(rest, "module"))
    chosen = _option(rest, "controller")
    if word in ("namespace", "scope", "controller"):
        if word == "namespace" and module == around.module:
            module = _join(module, *names[:1])
        inner = names[0] if word == "controller" and names else "".join(chosen)
        return _Frame(module, inner or around.controller if word != "namespace" else ""), []
    if word in ("resources", "resource"):
        actions = _option(rest, "only") or [one for one in _ACTIONS if one not in _option(rest, "except")]
        if word == "resource":
            actions = [one for one in actions if one != "index"]
            names = [f"{name}s" for name in names]
        controllers = chosen[:1] or names
        inner = controllers[0] if controllers else ""
        return _Frame(module, inner), [(_join(module, one), actions) for one in controllers]
    if word not in _VERBS:
        return around, []
    if target := _TARGET.search(rest):
        return around, [(_join(module, target[1]), [target[2]])]
    actions = _option(rest, "action") or _option(rest, "to") or [one for one in names if "/" not in one]
    controller = "".join(chosen[:1]) or around.controller
    if not controller and (path := _PATH.fullmatch("".join(names[:1]))):
        controller, actions = path[1], [path[2]]
    return around, [(_join(module, controller), actions)] if controller and actions else []


def _option(rest: str, name: str) -> list[str]:
    """The names in the value of an option: `only: %i[index show]`, `module: "v1"`."""
    found = re.search(_OPTION.format(name), rest)
    return re.findall(r"[\w/]+", re.sub(r"\A%[iw]", "", found[1])) if found else []


def _join(*parts: str) -> str:
    """A slash at the start leaves the modules around: `to: "/login#index"`."""
    return "/".join(filter(None, parts)).rpartition("//")[2]
