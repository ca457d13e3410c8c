"""How Go is written."""

from __future__ import annotations

from codeinfo.knowledge.detector import detectors


def _import(path: str) -> str:
    """An import line; the match starts before the string, so that it counts as code."""
    return rf"^(?:import )?\s*(?:[\w.]+ )?(?=\"){chr(34)}{path}{chr(34)}"


DETECTORS = detectors(
    "go",
    {
        ("dependency injection", "how dependencies are put together"): (
            ("constructor functions", "func New", r"^func New\w*\([^)\n]+\)", "func NewServer(s Store) *Server {"),
            ("google/wire", "wire.", r"\bwire\.(?:Build|NewSet)\(", "wire.Build(NewA)"),
            ("uber/fx", "fx.", r"\bfx\.(?:New|Provide|Module)\(", "fx.New()"),
            ("package init", "func init()", r"^func init\(\)", "func init() {"),
        ),
        ("state management", "how shared state is guarded"): (
            ("mutexes", "sync.", r"\bsync\.(?:RW)?Mutex\b", "mu sync.Mutex"),
            ("channels", "chan ", r"\bmake\(chan\b", "c := make(chan int)"),
            ("atomics", "atomic.", r"\batomic\.\w+", "var n atomic.Int64"),
            ("sync.Map", "sync.Map", r"\bsync\.Map\b", "var m sync.Map"),
        ),
        ("error handling", "how errors are wrapped"): (
            ("fmt.Errorf with %w", "Errorf(", r"\bfmt\.Errorf\([^\n]*%w", 'fmt.Errorf("read: %w", err)'),
            ("pkg/errors", "errors.Wrap", r"\berrors\.(?:Wrapf?|WithStack|WithMessage)\(", 'errors.Wrap(err, "a")'),
            ("Errorf with %v", "Errorf(", r"\bfmt\.Errorf\([^\n]*%[vs]\"[^\n]*\berr\)", 'fmt.Errorf("a: %v", err)'),
        ),
        ("error handling", "how errors are told apart"): (
            ("errors.Is and errors.As", "errors.", r"\berrors\.(?:Is|As)\(", "errors.Is(err, io.EOF)"),
            ("comparison", "err", r"\berr\s*[!=]=\s*[A-Za-z_.]*(?:Err[A-Z]\w*|EOF)\b", "if err == io.EOF {"),
        ),
        ("error handling", "what happens when it cannot go on"): (
            ("returned error", "return", r"\breturn (?:[^\n]*, )?err$", "return nil, err"),
            ("panic", "panic(", r"(?<![\w.])panic\(", "panic(err)"),
            ("log.Fatal", "log.Fatal", r"\blog\.Fatal", "log.Fatal(err)"),
        ),
        ("async style", "how work runs side by side"): (
            ("errgroup", "errgroup", r"\berrgroup\.\w+", "g, ctx := errgroup.WithContext(ctx)"),
            ("WaitGroup", "WaitGroup", r"\bsync\.WaitGroup\b", "var wg sync.WaitGroup"),
            ("bare goroutines", "go", r"^\s*go func\b", "go func() {"),
        ),
        ("testing", "how results are checked"): (
            ("plain testing", "t.", r"\bt\.(?:Errorf|Fatalf|Error|Fatal)\(", 't.Errorf("a")'),
            (
                "testify",
                "testify",
                _import(r"github\.com/stretchr/testify/\w+"),
                '\t"github.com/stretchr/testify/assert"',
            ),
            ("Ginkgo", "ginkgo", _import(r"github\.com/onsi/ginkgo[\w/]*"), '\t. "github.com/onsi/ginkgo/v2"'),
        ),
        ("testing", "how cases are listed"): (
            (
                "table-driven tests",
                "struct",
                r"\b(?:tests|cases|testCases|tcs|tt) := (?:\[\]|map\[\w+\])struct",
                "tests := []struct {",
            ),
            (
                "one function a case",
                "func Test",
                r"^func Test\w+_\w+\(t \*testing\.T\)",
                "func TestAdd_Zero(t *testing.T) {",
            ),
        ),
        ("testing", "how test doubles are made"): (
            ("gomock", "gomock", r"\bgomock\.\w+", "gomock.NewController(t)"),
            ("testify mock", "mock.Mock", r"\bmock\.Mock\b", "mock.Mock"),
            ("hand-written fakes", "type fake", r"^type (?:fake|stub|Fake|Stub)\w* struct", "type fakeStore struct {"),
        ),
        ("data access", "how the database is reached"): (
            ("database/sql", "database/sql", _import("database/sql"), '\t"database/sql"'),
            ("GORM", "gorm", _import(r"gorm\.io/gorm"), '\t"gorm.io/gorm"'),
            ("sqlx", "sqlx", _import(r"github\.com/jmoiron/sqlx"), '\t"github.com/jmoiron/sqlx"'),
            ("pgx", "pgx", _import(r"github\.com/jackc/pgx[\w/]*"), '\t"github.com/jackc/pgx/v5"'),
            ("ent", "entgo", _import(r"entgo\.io/ent[\w/]*"), '\t"entgo.io/ent"'),
        ),
        ("validation", "how input is checked"): (
            ("validator tags", "validate:", r"`[^`\n]*\bvalidate:\"", '  Name string `validate:"required"`'),
            (
                "ozzo-validation",
                "ozzo",
                _import(r"github\.com/go-ozzo/ozzo-validation[\w/]*"),
                '\t"github.com/go-ozzo/ozzo-validation/v4"',
            ),
            ("Validate methods", "Validate()", r"^func \([^)\n]*\) Validate\(\)", "func (u User) Validate() error {"),
        ),
        ("logging", "how messages are written"): (
            ("log/slog", "slog.", r"\bslog\.(?:Info|Error|Warn|Debug|New|With|Default)\w*\(", 'slog.Info("a")'),
            ("zap", "zap.", r"\bzap\.\w+\(", "zap.NewProduction()"),
            ("logrus", "logrus", r"\blogrus\.\w+\(|" + _import(r"github\.com/sirupsen/logrus"), 'logrus.Info("a")'),
            ("zerolog", "zerolog", r"\bzerolog\.\w+|" + _import(r"github\.com/rs/zerolog[\w/]*"), "zerolog.New(w)"),
            ("standard log", "log.Print", r"\blog\.Print(?:f|ln)?\(", 'log.Printf("a")'),
            ("fmt.Print", "fmt.Print", r"\bfmt\.Print(?:f|ln)?\(", 'fmt.Println("a")'),
        ),
        ("configuration", "where settings come from"): (
            ("os.Getenv", "os.", r"\bos\.(?:Getenv|LookupEnv)\(", 'os.Getenv("A")'),
            ("viper", "viper", r"\bviper\.\w+\(", 'viper.GetString("a")'),
            ("flag package", "flag.", r"\bflag\.(?:String|Int|Bool|Duration)\w*\(", 'flag.String("a", "", "")'),
            ("env struct tags", "env:", r"`[^`\n]*\benv(?:config)?:\"", '  Port int `env:"PORT"`'),
        ),
        ("component style", "how routes are declared"): (
            ("net/http", "http.", r"\bhttp\.(?:HandleFunc|Handle|NewServeMux)\(", 'http.HandleFunc("/", f)'),
            ("chi", "chi.", r"\bchi\.NewRouter\(", "chi.NewRouter()"),
            ("gin", "gin.", r"\bgin\.(?:Default|New)\(", "gin.Default()"),
            ("echo", "echo.", r"\becho\.New\(", "echo.New()"),
            ("gorilla/mux", "mux.", r"\bmux\.NewRouter\(", "mux.NewRouter()"),
        ),
        ("component style", "how any value is spelled"): (
            ("any", "any", r"(?<![\w.\"])any\b(?=[\s,)}\]])", "func f(a any) {"),
            ("interface{}", "interface{}", r"\binterface\{\}", "func f(a interface{}) {"),
        ),
    },
)
