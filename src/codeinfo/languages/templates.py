"""ERB, HEEx and Blade: pages with code of Ruby, Elixir or PHP in them. They define nothing, but use names."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from codeinfo.languages import model
from codeinfo.languages.ecmascript import show_code
from codeinfo.languages.modules import ELIXIR, RUBY
from codeinfo.languages.namespaces import PHP

# No tag contains the start of another one, so that nothing is read twice.
_TAGS = r"<%%|<%!--.*?--%>|<%-?\s*#.*?%>|<%[-=|/]{0,2}(?P<code>(?:[^%<-]++|-(?!%>)|%(?!>)|<(?!%))*+)-?%>"
_ERB = re.compile(_TAGS, re.DOTALL)
# Expressions and components: `<.button disabled={busy?(@job)}>`, `<Layout.page>`.
_HEEX = re.compile(
    rf"<!--.*?-->|{_TAGS}|\{{(?P<block>(?:[^{{}}]++|\{{[^{{}}]*+\}})*+)\}}|<\.(?P<name>\w+)|<(?P<tag>[A-Z][\w.]*)",
    re.DOTALL,
)
_ARGUMENTS = r"(?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+"
_BLADE = re.compile(
    r"\{\{--.*?--\}\}|@verbatim\b.*?@endverbatim|@php(?!\s*\()(?P<php>.*?)@endphp|<\?(?:php|=)(?P<code>.*?)\?>"
    r"|\{\{(?P<value>(?:[^{}]++|\}(?!\})|\{(?!\{))*+)\}\}|\{!!(?P<raw>(?:[^!{]++|!(?!!\})|\{(?!!!))*+)!!\}"
    rf"|@[a-z]\w*\s*\((?P<bound>{_ARGUMENTS})\)",
    re.DOTALL,
)
_BLADE_METHOD = re.compile(r"(?<![\w$>:])\$(?=[a-z]\w+\()")
_BLADE_TAG = re.compile(r"""<(?:x[-:]|livewire:)[\w.:-]+(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
_BLADE_ATTRIBUTE = re.compile(r"""\s:[\w.:-]+=(?P<quote>["'])(?P<bound>.*?)(?P=quote)""", re.DOTALL)


def _show_blade(text: str) -> str:
    """What follows `:name=` is code in components alone: elsewhere it is a script of the page. `$total()` calls a
    method of the component that the template belongs to."""
    text = _BLADE_METHOD.sub(" ", text)
    tags = (one for tag in _BLADE_TAG.finditer(text) for one in _BLADE_ATTRIBUTE.finditer(text, *tag.span()))
    return show_code(text, (*_BLADE.finditer(text), *tags))


def _template(
    name: str, extensions: str, language: model.Language, hide: Callable[[str], str], entry: str = "language"
) -> model.Language:
    assert language.syntax is not None
    syntax = replace(language.syntax, hide=hide, entry=entry, template=True)
    return model.Language(
        name, extensions, family=language.name, syntax=syntax, imports=language.imports, names=language.names
    )


LANGUAGES = (
    _template("erb", ".erb", RUBY, lambda text: show_code(text, _ERB.finditer(text))),
    _template("eex", ".eex .leex", ELIXIR, lambda text: show_code(text, _ERB.finditer(text))),
    _template("heex", ".heex", ELIXIR, lambda text: show_code(text, _HEEX.finditer(text))),
    _template("blade", ".blade.php", PHP, _show_blade, "language_php_only"),
)
