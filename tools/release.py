"""What a release is made of.

    python tools/release.py share   # packaging/share: the man page and the shells' completions, which wheels carry
    python tools/release.py build   # dist/: wheel and sdist, built twice to see that they are the same, and the notes

Nothing is uploaded: the last line says how.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from click.shell_completion import get_completion_class

from codeinfo.shells.cli import cli

REPOSITORY = Path(__file__).resolve().parent.parent
SHARE = REPOSITORY / "packaging" / "share"
COMPLETIONS = {
    "bash": "bash-completion/completions/codeinfo",
    "zsh": "zsh/site-functions/_codeinfo",
    "fish": "fish/vendor_completions.d/codeinfo.fish",
}


def main() -> None:
    if sys.argv[1:] == ["share"]:
        write_share()
    elif sys.argv[1:] == ["build"]:
        build()
    else:
        sys.exit(__doc__)


def write_share() -> None:
    write(SHARE / "man/man1/codeinfo.1", man_page())
    for shell, path in COMPLETIONS.items():
        kind = get_completion_class(shell)
        assert kind is not None
        write(SHARE / path, kind(cli, {}, "codeinfo", "_CODEINFO_COMPLETE").source().strip() + "\n")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# --- the man page ----------------------------------------------------------------------------------------------------


def man_page() -> str:
    with click.Context(cli, info_name="codeinfo", terminal_width=10_000) as context:
        lines = [
            f'.TH CODEINFO 1 "" "codeinfo {version()}"',
            *(".SH NAME", r"codeinfo \- find the few places in a codebase that matter"),
            *(".SH SYNOPSIS", ".B codeinfo", r"[\fIcommand\fR] [\fIoptions\fR] [\fIarguments\fR]"),
            *(".SH DESCRIPTION", *paragraphs(cli.help)),
            ".SH COMMANDS",
        ]
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            if command is not None and not command.hidden:
                lines += command_lines(command, f"codeinfo {name}", context)
    lines += [".SH EXIT STATUS", *paragraphs(cli.epilog)]
    lines += [".SH SEE ALSO", r"The settings: \fBcodeinfo config show\fR."]
    return "\n".join(lines) + "\n"


def command_lines(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    with click.Context(command, info_name=name.rpartition(" ")[2], parent=parent, terminal_width=10_000) as context:
        usage = " ".join(command.collect_usage_pieces(context))
        yield from (".SS " + escaped(f"{name} {usage}"), *paragraphs(command.help))
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            if record is not None:
                yield from (".TP", rf"\fB{escaped(record[0])}\fR", escaped(record[1]) or r"\&")
        if isinstance(command, click.Group):
            for part in command.list_commands(context):
                inner = command.get_command(context, part)
                if inner is not None and not inner.hidden:
                    yield from command_lines(inner, f"{name} {part}", context)


def paragraphs(text: str | None) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", (text or "").replace("\b", "").strip()):
        yield from (".PP", escaped(" ".join(block.split())))


def escaped(text: str) -> str:
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + plain if plain[:1] in {".", "'"} else plain


# --- wheel and sdist --------------------------------------------------------------------------------------------------


def version() -> str:
    return str(tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"])


def build() -> None:
    if git("status", "--porcelain"):
        sys.exit("the working tree has changes that are not committed")
    tag = f"v{version()}"
    if tag not in git("tag", "--points-at", "HEAD").split():
        sys.exit(f"this commit is not tagged: run `git tag {tag}`, or change the version in pyproject.toml")
    notes = release_notes(version())
    if not notes:
        sys.exit(f"CHANGELOG.md has no section [{version()}]")
    write_share()
    dist = REPOSITORY / "dist"
    with TemporaryDirectory() as again:
        made, repeated = built(dist), built(Path(again))
    if made != repeated:
        sys.exit(f"two builds differ: {made} and {repeated}")
    (dist / "notes.md").write_text(notes)
    for name, digest in made.items():
        print(f"{digest}  dist/{name}")
    print("Notes: dist/notes.md. To publish: upload the files of dist/ that are listed above with twine.")


def built(folder: Path) -> dict[str, str]:
    """Hash of each file by its name; times in the archives are those of the commit."""
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct")}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, check=True, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("codeinfo-*"))}


def release_notes(released: str) -> str:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    match = re.search(rf"^## \[{re.escape(released)}\].*?\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return match[1].strip() + "\n" if match else ""


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], check=True, cwd=REPOSITORY, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
