"""How Python code is written."""

from __future__ import annotations

from codeinfo.knowledge.detector import detectors

_LOGGER = r"\b(?:logging|logger|log|_logger|_log|LOG|LOGGER)"
_LEVEL = r"\.(?:debug|info|warning|warn|error|exception|critical)\("

DETECTORS = detectors(
    "python",
    {
        ("dependency injection", "how dependencies reach the code"): (
            ("FastAPI Depends", "Depends(", r"\bDepends\(", "def read(db=Depends(get_db)):"),
            (
                "constructor injection",
                "__init__",
                r"\bdef __init__\(\s*self,[^)]{0,300}?\w: [A-Z]\w*[a-z]\w*",
                "    def __init__(self, store: Store) -> None:",
            ),
            ("injector container", "@inject", r"^\s*@inject\b", "@inject\ndef f(): ..."),
            ("module globals", "global ", r"^\s+global \w", "    global _client"),
        ),
        ("state management", "how records are written"): (
            ("dataclass", "@dataclass @dataclasses", r"^\s*@(?:dataclasses\.)?dataclass\b", "@dataclass(frozen=True)"),
            ("pydantic model", "pydantic", r"^\s*(?:from|import) pydantic\b", "from pydantic import BaseModel"),
            ("attrs class", "@define @frozen @attr", r"^\s*@(?:attrs?\.|define\b|frozen\b)", "@attr.s"),
            ("NamedTuple", "NamedTuple", r"^\s*class \w+\([^)\n]*\bNamedTuple\b", "class Point(NamedTuple):"),
            ("TypedDict", "TypedDict", r"^\s*class \w+\([^)\n]*\bTypedDict\b", "class Options(TypedDict):"),
        ),
        ("error handling", "what is caught"): (
            ("specific exceptions", "except", r"^\s*except (?!\(?(?:Base)?Exception\b)[\w.(]", "except ValueError:"),
            ("broad except", "except", r"^\s*except \(?(?:Base)?Exception\b", "except Exception as error:"),
            ("bare except", "except:", r"^\s*except:", "except:"),
        ),
        ("error handling", "how an expected error is ignored"): (
            ("contextlib.suppress", "suppress(", r"\bsuppress\(", "with suppress(OSError):"),
            ("except: pass", "except", r"^\s*except\b[^\n]*:\s*\n\s+pass\b", "except OSError:\n    pass"),
        ),
        ("async style", "how code waits"): (
            ("async/await", "async", r"\basync def \w", "async def main():"),
            ("thread pool", "Executor(", r"\bThreadPoolExecutor\(", "with ThreadPoolExecutor() as pool:"),
            ("threads", "Thread(", r"\b(?:threading\.)?Thread\(", "threading.Thread(target=f)"),
            ("gevent", "gevent", r"^\s*(?:import|from) gevent\b", "import gevent"),
        ),
        ("testing", "test framework"): (
            ("pytest functions", "test_", r"^(?:async )?def test_\w+\(", "def test_adds():"),
            ("unittest.TestCase", "TestCase", r"^\s*class \w+\([^)\n]*TestCase\b", "class T(unittest.TestCase):"),
        ),
        ("testing", "how test doubles are made"): (
            ("pytest monkeypatch", "monkeypatch", r"\bmonkeypatch\.\w+\(", "monkeypatch.setattr(a, 'b', 1)"),
            (
                "unittest.mock",
                "patch Mock(",
                r"\b(?:mock\.)?patch(?:\.object)?\(|\bMagicMock\(|\bMock\(",
                "patch('a.b')",
            ),
            ("hand-written fakes", "Fake Stub", r"^\s*class _?(?:Fake|Stub)\w*", "class FakeStore:"),
        ),
        ("testing", "how cases are listed"): (
            (
                "pytest.mark.parametrize",
                "parametrize",
                r"@pytest\.mark\.parametrize\(",
                "@pytest.mark.parametrize('a', [1])",
            ),
            ("subTest", "subTest(", r"\bself\.subTest\(", "with self.subTest(i=i):"),
        ),
        ("data access", "how the database is reached"): (
            ("SQLAlchemy select()", "select(", r"\bselect\(\s*[A-Z]\w*", "session.scalars(select(User))"),
            ("SQLAlchemy Query", ".query(", r"\bsession\.query\(", "session.query(User).all()"),
            ("Django ORM", ".objects.", r"\b[A-Z]\w*\.objects\.\w+", "User.objects.filter(id=1)"),
            (
                "raw SQL",
                ".execute",
                r"\.execute(?:many)?\(\s*[rf]?[\"']{1,3}\s*(?i:select|insert|update|delete|create|with)\b",
                'db.execute("SELECT 1")',
            ),
        ),
        ("data access", "how HTTP is called"): (
            (
                "requests",
                "requests",
                r"\brequests\.(?:get|post|put|patch|delete|request|Session)\(",
                "requests.get(url)",
            ),
            ("httpx", "httpx", r"\bhttpx\.\w+", "httpx.Client()"),
            ("aiohttp", "aiohttp", r"\baiohttp\.ClientSession\(", "aiohttp.ClientSession()"),
            ("urllib", "urlopen", r"\burlopen\(", "urllib.request.urlopen(url)"),
        ),
        ("validation", "how input is checked"): (
            (
                "pydantic validators",
                "_validator @validator",
                r"@(?:field_validator|model_validator|validator)\(",
                "@validator('a')",
            ),
            ("marshmallow", "marshmallow", r"^\s*(?:import|from) marshmallow\b", "from marshmallow import Schema"),
            ("jsonschema", "jsonschema", r"\bjsonschema\.validate\(", "jsonschema.validate(a, b)"),
            (
                "isinstance checks",
                "isinstance",
                r"\bif not isinstance\([^\n]*:\s*\n\s+raise\b",
                "if not isinstance(a, int):\n    raise E",
            ),
        ),
        ("logging", "how messages are written"): (
            ("logging module", "log", _LOGGER + _LEVEL, "logger.info('x')"),
            ("print", "print(", r"^\s*print\(", "    print('x')"),
            ("structlog", "structlog", r"\bstructlog\.get_logger\(", "log = structlog.get_logger()"),
            ("loguru", "loguru", r"^\s*from loguru import\b", "from loguru import logger"),
        ),
        ("logging", "how log text is put together"): (
            (
                "lazy % arguments",
                "log",
                _LOGGER + _LEVEL + r"\s*[\"'][^\"'\n]*%[sdrfi][^\"'\n]*[\"'],",
                "log.info('a %s', b)",
            ),
            ("f-string in the call", "log", _LOGGER + _LEVEL + r"\s*f[\"']", "log.info(f'a {b}')"),
        ),
        ("configuration", "where settings come from"): (
            ("os.environ", "environ getenv", r"\bos\.(?:environ\b|getenv\()", "os.environ['A']"),
            ("pydantic settings", "pydantic", r"^\s*(?:from|import) pydantic_settings\b", "import pydantic_settings"),
            ("dotenv", "dotenv", r"\bload_dotenv\(", "load_dotenv()"),
            ("configparser", "ConfigParser(", r"\bConfigParser\(", "configparser.ConfigParser()"),
            ("TOML files", "tomllib", r"\btomllib\.loads?\(", "tomllib.load(f)"),
            ("decouple", "decouple", r"^\s*from decouple import\b", "from decouple import config"),
        ),
        ("component style", "how optional types are written"): (
            ("X | None", "|", r"\b[\w\]]+ \| None\b", "def f(a: int | None) -> None:"),
            ("Optional[X]", "Optional[", r"\bOptional\[", "def f(a: Optional[int]):"),
        ),
        ("component style", "how paths are handled"): (
            ("pathlib", "Path(", r"\bPath\(", "Path('a') / 'b'"),
            ("os.path", "os.path.", r"\bos\.path\.\w+", "os.path.join('a', 'b')"),
        ),
        ("component style", "how text is put together"): (
            ("f-strings", "f\" f'", r"(?<![\w\"'])[rR]?f[\"']", "f'a {b}'"),
            ("str.format", ".format(", r"(?<=[\"'])\.format\(", "x = 'a {}'.format(b)"),
            ("% formatting", "%", r"(?<=[\"']) % [\w(]", "x = 'a %s' % b"),
        ),
        ("component style", "how interfaces are declared"): (
            ("Protocol", "Protocol", r"^\s*class \w+\([^)\n]*\bProtocol\b", "class Store(Protocol):"),
            ("abstract base class", "ABC", r"^\s*class \w+\([^)\n]*\bABC(?:Meta)?\b", "class Store(ABC):"),
        ),
        ("component style", "how commands are built"): (
            ("argparse", "ArgumentParser(", r"\bArgumentParser\(", "argparse.ArgumentParser()"),
            ("click", "@click", r"@click\.(?:command|group)\b", "@click.command()"),
            ("typer", "Typer(", r"\bTyper\(", "typer.Typer()"),
        ),
    },
)
