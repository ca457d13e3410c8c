"""How Java is written."""

from __future__ import annotations

from codeinfo.knowledge.detector import detectors

DETECTORS = detectors(
    "java",
    {
        ("dependency injection", "how dependencies reach a class"): (
            (
                "constructor injection",
                "final",
                r"^\s*private final [A-Z]\w*(?:Service|Repository|Client|Gateway|Mapper|Factory|Dao|Provider)\b",
                "private final UserService users;",
            ),
            (
                "field injection",
                "@Autowired @Inject",
                r"@(?:Autowired|Inject)(?:\([^)\n]*\))?\s+(?:private|protected|public)?\s*[A-Z]\w*(?:<[^>\n]*>)?\s+\w+;",
                "@Autowired\n  private UserService users;",
            ),
            ("Guice modules", "AbstractModule", r"\bextends AbstractModule\b", "class M extends AbstractModule {"),
        ),
        ("state management", "how data classes are written"): (
            ("records", "record ", r"\brecord [A-Z]\w*(?:<[^>\n]*>)?\(", "public record User(String name) {}"),
            (
                "Lombok",
                "@Data @Value @Getter @Builder",
                r"^\s*@(?:Data|Value|Getter|Setter|Builder)\s*(?:\(\))?$",
                "@Data",
            ),
            (
                "hand-written getters",
                "get",
                r"^\s*public \w[\w<>\[\], ]* get[A-Z]\w*\(\)\s*\{\s*return\b",
                "public String getName() { return name; }",
            ),
        ),
        ("error handling", "how failures reach the caller"): (
            ("controller advice", "ControllerAdvice", r"@(?:Rest)?ControllerAdvice\b", "@RestControllerAdvice"),
            (
                "catch of Exception",
                "catch",
                r"\bcatch \((?:final )?(?:Exception|Throwable)\b",
                "} catch (Exception e) {",
            ),
            (
                "specific catch",
                "catch",
                r"\bcatch \((?:final )?(?!Exception\b|Throwable\b)[A-Z]\w+",
                "} catch (IOException e) {",
            ),
        ),
        ("error handling", "how absence is said"): (
            ("Optional", "Optional", r"\bOptional<", "Optional<User> find()"),
            ("return null", "null;", r"\breturn null;", "return null;"),
        ),
        ("async style", "how code waits"): (
            ("CompletableFuture", "CompletableFuture", r"\bCompletableFuture\b", "CompletableFuture<User> f"),
            ("reactive streams", "Mono Flux", r"\b(?:Mono|Flux)(?:<|\.)", "Mono<User> u"),
            (
                "virtual threads",
                "irtual",
                r"\bnewVirtualThreadPerTaskExecutor\(|\bThread\.ofVirtual\(",
                "Thread.ofVirtual()",
            ),
            ("executors", "Executors.", r"\bExecutors\.new(?!Virtual)\w+\(", "Executors.newFixedThreadPool(2)"),
            ("@Async", "@Async", r"@Async\b", "@Async"),
        ),
        ("testing", "test framework"): (
            ("JUnit 5", "jupiter", r"\bimport (?:static )?org\.junit\.jupiter\b", "import org.junit.jupiter.api.Test;"),
            (
                "JUnit 4",
                "org.junit.",
                r"\bimport (?:static )?org\.junit\.(?!jupiter|platform)\w",
                "import org.junit.Test;",
            ),
            ("TestNG", "testng", r"\bimport (?:static )?org\.testng\b", "import org.testng.annotations.Test;"),
        ),
        ("testing", "how results are checked"): (
            (
                "AssertJ",
                "assertj",
                r"\bimport static org\.assertj\b",
                "import static org.assertj.core.api.Assertions.*;",
            ),
            (
                "JUnit assertions",
                "assert",
                r"\bassert(?:Equals|True|False|Null|NotNull|Throws)\(",
                "assertEquals(1, a);",
            ),
            ("Hamcrest", "hamcrest", r"\bimport static org\.hamcrest\b", "import static org.hamcrest.Matchers.is;"),
        ),
        ("testing", "how test doubles are made"): (
            ("Mockito", "Mock mock(", r"@Mock\b|\bmock\([A-Z]\w*\.class\)", "@Mock"),
            ("Spring test beans", "@MockBean @MockitoBean", r"@Mock(?:ito)?Bean\b", "@MockBean"),
        ),
        ("data access", "how the database is reached"): (
            (
                "Spring Data repositories",
                "Repository<",
                r"\bextends (?:Jpa|Crud|PagingAndSorting|Mongo|ListCrud|R2dbc)\w*Repository<",
                "interface R extends JpaRepository<User, Long> {}",
            ),
            (
                "JdbcTemplate",
                "JdbcTemplate JdbcClient",
                r"\b(?:NamedParameter)?Jdbc(?:Template|Client)\b",
                "JdbcTemplate db;",
            ),
            ("EntityManager", "EntityManager", r"\bEntityManager\b", "EntityManager em;"),
            (
                "MyBatis",
                "@Mapper ibatis",
                r"\bimport org\.apache\.ibatis\b",
                "import org.apache.ibatis.annotations.Mapper;",
            ),
            ("jOOQ", "DSLContext", r"\bDSLContext\b", "DSLContext dsl;"),
        ),
        ("validation", "how input is checked"): (
            (
                "Bean Validation",
                "@Valid @Not @Size @Min @Max",
                r"@(?:Valid|NotNull|NotBlank|NotEmpty|Size|Min|Max|Email)\b",
                "@NotBlank String name",
            ),
            ("Objects.requireNonNull", "requireNonNull", r"\brequireNonNull\(", "Objects.requireNonNull(a);"),
            (
                "Guava Preconditions",
                "Preconditions check",
                r"\bPreconditions\.check\w+\(|\bcheck(?:NotNull|Argument|State)\(",
                "checkNotNull(a);",
            ),
        ),
        ("logging", "how messages are written"): (
            ("SLF4J", "slf4j @Slf4j", r"\bimport org\.slf4j\b|@Slf4j\b", "import org.slf4j.Logger;"),
            ("Log4j", "log4j", r"\bimport org\.apache\.(?:logging\.)?log4j\b", "import org.apache.log4j.Logger;"),
            (
                "java.util.logging",
                "java.util.logging",
                r"\bimport java\.util\.logging\b",
                "import java.util.logging.Logger;",
            ),
            ("System.out", "System.", r"\bSystem\.(?:out|err)\.print\w*\(", 'System.out.println("a");'),
        ),
        ("configuration", "where settings come from"): (
            ("@Value", "@Value(", r"@Value\(", '@Value("${a}")'),
            (
                "@ConfigurationProperties",
                "@ConfigurationProperties",
                r"@ConfigurationProperties\b",
                '@ConfigurationProperties("a")',
            ),
            ("System.getenv", "System.get", r"\bSystem\.(?:getenv|getProperty)\(", 'System.getenv("A")'),
        ),
        ("component style", "how collections are walked"): (
            ("streams", ".stream()", r"\.(?:parallelS|s)tream\(\)", "a.stream().map(f)"),
            ("for loops", "for", r"\bfor \((?:final )?[\w<>\[\], ?]+ \w+ :", "for (User u : users) {"),
        ),
        ("component style", "how endpoints are declared"): (
            ("@RestController", "@RestController", r"@RestController\b", "@RestController"),
            ("JAX-RS", "@Path(", r"@Path\(", '@Path("/a")'),
            ("@Controller", "@Controller", r"@Controller\b", "@Controller"),
        ),
    },
)
