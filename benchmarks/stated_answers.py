"""Answers without a model to questions whose form says what the answer looks like: how long, how many, what changed,
what is NAME. Each is asked of the repository that states the answer, and foreign ones of all repositories.

    python benchmarks/stated_answers.py TREES

TREES has the repositories httpx, requests, click, sidekiq, ripgrep and gin, or some of them. Right is an answer that
quotes a passage of one of the files with the expected words.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from codeinfo import Config, Engine
from codeinfo.operations.answers import AskRequest

# question, files that state the answer, words of the passage
QUESTIONS = {
    "httpx": [
        ("what is httpx?", r"README.md|docs/index.md", "fully featured HTTP client"),
        ("what does httpx do?", r"README.md|docs/index.md", "fully featured HTTP client"),
        ("how long is the default timeout?", r"timeouts.md|quickstart.md", "(5|five) seconds|5s timeout"),
        (
            "how long does httpx wait for network inactivity by default?",
            r"timeouts.md|quickstart.md",
            r"five\s+seconds|5",
        ),
        ("how many keep-alive connections are allowed?", r"resource-limits.md|_config.py|api.md", "20"),
        ("how long are idle keep-alive connections kept?", r"resource-limits.md", "Default 5"),
        ("how many connections are allowed at most?", r"resource-limits.md", "Default 100"),
        ("what changed in 0.28?", r"CHANGELOG.md", "0.28"),
        ("how many redirects are followed?", r"_client.py|_config.py|api.md", "max_redirects"),
    ],
    "requests": [
        ("what is requests?", r"README.md|docs/index.rst", "HTTP library"),
        ("how many redirects are allowed?", r"sessions.py|models.py|api.rst|quickstart", "30|REDIRECT|redirect"),
        (
            "how many redirects are followed at most?",
            r"sessions.py|models.py|api.rst|quickstart",
            "30|REDIRECT|redirect",
        ),
        ("how many downloads per week?", r"README.md", "300M"),
        ("when was requests 2.32.0 released?", r"HISTORY.md", "2.32.0"),
    ],
    "click": [
        ("what is click?", r"README.md|docs/index.md", "Python package for creating"),
        ("how wide is the help text wrapped?", r"documentation.md", "80 characters"),
        ("how many arguments does a parameter take by default?", r"parameters.md|arguments.md|options.md", "1"),
        ("what changed in version 8.2.0?", r"CHANGES.md", "8.2.0"),
    ],
    "sidekiq": [
        ("what is sidekiq?", r"README.md", "background processing for Ruby"),
        ("how long does sidekiq wait on shutdown?", r"6.0-Upgrade.md|sidekiq.rb|cli.rb|Changes", "25|timeout"),
        ("how many times is a failed job retried?", r"job_retry.rb", "25"),
        ("how long are dead jobs kept?", r"job_retry.rb|sidekiq.rb|api.rb", "6 months|dead_timeout"),
        (
            "how many threads are used by default?",
            r"cli.rb|manager.rb|sidekiq.rb|Upgrade.md|Changes.md",
            "10|concurrency",
        ),
        ("what changed in 6.2?", r"Changes.md", "6.2"),
    ],
    "ripgrep": [
        ("what is ripgrep?", r"README.md|GUIDE.md", "line-oriented search tool"),
        ("what does ripgrep do?", r"README.md|GUIDE.md", "line-oriented search tool"),
        ("how many bytes of a file are read to detect the encoding?", r"GUIDE.md", "three bytes"),
        ("when was ripgrep 14.0.0 released?", r"CHANGELOG.md", "14.0.0"),
        ("how much faster is ripgrep than grep?", r"README.md|FAQ.md|GUIDE.md", "faster"),
    ],
    "gin": [
        ("what is gin?", r"README.md", "high-performance HTTP web framework"),
        ("how big is the memory limit for multipart forms?", r"docs/doc.md|gin.go", "32"),
        ("how much faster is gin than martini?", r"README.md|BENCHMARKS.md", "40 times"),
        ("what changed in 1.9.0?", r"CHANGELOG.md", "1.9.0"),
        ("on which port does it listen by default?", r"doc.md|README.md|utils.go", "8080"),
    ],
}
FOREIGN = """
    how many seats does the plane have; when does the museum open; how much does a train ticket cost; how often
    is payroll run; how old must a driver be; how big is the parking garage; how long does the flight to Rome
    take; how many players are on a team; how long is the warranty; when is the rent due; how are invoices
    rendered as PDF; what is kubernetes; what is the capital of France; how do I bake bread; what is
    photosynthesis; how is a blood sample stored; how often should plants be watered; how many calories are in
    an apple; how does the garbage collector compact the heap; how long do eggs boil; what is postgres; how many
    floors does the tower have; when was the bridge built; how fast does the elevator go; how long do refunds
    take; how much vacation do employees have; how heavy may a parcel be
"""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trees", type=Path, help="a folder with the repositories")
    trees = [tree for name in QUESTIONS if (tree := arguments.parse_args().trees / name).is_dir()]
    foreign = [" ".join(question.split()) + "?" for question in FOREIGN.split(";")]
    count = right = first = refused = answered = 0
    with tempfile.TemporaryDirectory() as home:
        for tree in trees:
            env = {"CODEINFO_HOME": home, "HOME": home}
            with Engine(Config.load({"llm.discover": "false", "llm.provider": "none"}, tree, env=env)) as engine:
                for question, files, words in QUESTIONS[tree.name]:
                    answer = engine.answers.ask(AskRequest(question, (str(tree),)))
                    quotes = re.split(r"\n\n(?=\[\d+\] )", answer.text)[1:]
                    stated = [place for place, text in enumerate(quotes) if re.search(files, text.split("\n")[0])]
                    stated = [place for place in stated if re.search(words, quotes[place])]
                    count, right = count + 1, right + bool(stated)
                    first, refused = first + (0 in stated), refused + (answer.status == "abstained")
                    if not stated:
                        print(f"{tree.name}: {question}  {answer.status}")
                for question in foreign:
                    answer = engine.answers.ask(AskRequest(question, (str(tree),)))
                    answered += answer.status == "ok"
                    if answer.status == "ok":
                        print(f"{tree.name}, foreign: {question}  {answer.citations[0].path}")
    print(f"{count} questions: {right} right, {first} of them first, {refused} refused")
    print(f"{len(foreign) * len(trees)} foreign: {answered} answered")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
