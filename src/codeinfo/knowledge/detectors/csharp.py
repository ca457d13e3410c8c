"""How C# is written."""

from __future__ import annotations

from codeinfo.knowledge.detector import detectors

DETECTORS = detectors(
    "csharp",
    {
        ("dependency injection", "how dependencies reach a class"): (
            (
                "constructor injection",
                "public ",
                r"^\s*public [A-Z]\w*\([^)]{0,400}?\bI[A-Z]\w+(?:<[^>\n]*>)? \w+",
                "public Users(IStore store)",
            ),
            (
                "primary constructors",
                "class ",
                r"\b(?:class|struct) [A-Z]\w*(?:<[^>\n]*>)?\([^)]{0,400}?\bI[A-Z]\w+(?:<[^>\n]*>)? \w+",
                "class Users(IStore store)",
            ),
            (
                "service locator",
                "GetService GetRequiredService",
                r"\.Get(?:Required)?Service[<(]",
                "sp.GetRequiredService<IStore>()",
            ),
        ),
        ("state management", "how data classes are written"): (
            ("records", "record ", r"\brecord (?:struct |class )?[A-Z]\w*", "public record User(string Name);"),
            ("init-only properties", "init;", r"\{ get; init; \}", "public string Name { get; init; }"),
            ("settable properties", "set;", r"\{ get; set; \}", "public string Name { get; set; }"),
        ),
        ("error handling", "what is caught"): (
            (
                "specific exceptions",
                "catch",
                r"\bcatch \((?!Exception\b|System\.Exception\b)[A-Z]\w+",
                "catch (IOException e)",
            ),
            ("catch of Exception", "catch", r"\bcatch \((?:System\.)?Exception\b", "catch (Exception e)"),
            ("bare catch", "catch", r"\bcatch\s*\{", "catch {"),
        ),
        ("error handling", "how arguments are guarded"): (
            (
                "ThrowIfNull",
                "ThrowIf",
                r"\bThrowIf(?:Null|NullOrEmpty|NullOrWhiteSpace|Negative|Zero)\w*\(",
                "ArgumentNullException.ThrowIfNull(a);",
            ),
            (
                "throw new ArgumentNullException",
                "ArgumentNullException",
                r"\bthrow new ArgumentNullException\(",
                "throw new ArgumentNullException(nameof(a));",
            ),
        ),
        ("async style", "how code waits"): (
            ("async Task", "async ", r"\basync (?:Value)?Task\b", "public async Task RunAsync()"),
            (
                "blocking on tasks",
                ".Result .Wait( .GetResult(",
                r"\.Result\b(?!\w)|\.Wait\(\)|\.GetAwaiter\(\)\.GetResult\(",
                "f().Wait()",
            ),
            ("async void", "void", r"\basync void\b", "async void OnClick()"),
            ("raw threads", "Thread(", r"\bnew Thread\(", "new Thread(f)"),
        ),
        ("testing", "test framework"): (
            ("xUnit", "Xunit", r"^\s*(?:global )?using Xunit\b", "using Xunit;"),
            ("NUnit", "NUnit", r"^\s*(?:global )?using NUnit\b", "using NUnit.Framework;"),
            (
                "MSTest",
                "VisualStudio",
                r"^\s*(?:global )?using Microsoft\.VisualStudio\.TestTools\b",
                "using Microsoft.VisualStudio.TestTools.UnitTesting;",
            ),
        ),
        ("testing", "how results are checked"): (
            ("FluentAssertions", ".Should()", r"\.Should\(\)", "a.Should().Be(1)"),
            ("Assert", "Assert.", r"\bAssert\.\w+\(", "Assert.Equal(1, a)"),
            ("Shouldly", ".ShouldBe", r"\.ShouldBe\w*\(", "a.ShouldBe(1)"),
        ),
        ("testing", "how test doubles are made"): (
            ("Moq", "Mock<", r"\bnew Mock<", "new Mock<IStore>()"),
            ("NSubstitute", "Substitute.For", r"\bSubstitute\.For<", "Substitute.For<IStore>()"),
            ("FakeItEasy", "A.Fake", r"\bA\.Fake<", "A.Fake<IStore>()"),
        ),
        ("data access", "how the database is reached"): (
            ("Entity Framework", "DbContext DbSet<", r"\bDbContext\b|\bDbSet<", "class Db : DbContext"),
            ("Dapper", "Dapper", r"^\s*using Dapper\b", "using Dapper;"),
            ("ADO.NET", "SqlCommand(", r"\bnew \w*SqlCommand\(", "new SqlCommand(q)"),
        ),
        ("validation", "how input is checked"): (
            ("FluentValidation", "AbstractValidator", r"\bAbstractValidator<", "class V : AbstractValidator<User>"),
            (
                "data annotations",
                "[Required [StringLength [Range",
                r"\[(?:Required|StringLength|Range|EmailAddress|MaxLength)\b",
                "[Required]",
            ),
        ),
        ("logging", "how messages are written"): (
            ("ILogger", "ILogger", r"\bILogger(?:<|\b)", "ILogger<Users> log"),
            (
                "Serilog static",
                "Log.",
                r"(?<![\w.])Log\.(?:Information|Warning|Error|Debug|Fatal)\(",
                'Log.Information("a")',
            ),
            ("Console", "Console.Write", r"\bConsole\.Write(?:Line)?\(", 'Console.WriteLine("a")'),
        ),
        ("configuration", "where settings come from"): (
            ("options pattern", "IOptions", r"\bIOptions(?:Snapshot|Monitor)?<", "IOptions<Mail> mail"),
            ("IConfiguration", "IConfiguration", r"\bIConfiguration\b", "IConfiguration config"),
            (
                "environment variables",
                "GetEnvironmentVariable",
                r"\bGetEnvironmentVariable\(",
                'Environment.GetEnvironmentVariable("A")',
            ),
        ),
        ("component style", "how endpoints are declared"): (
            ("minimal APIs", ".Map", r"\.Map(?:Get|Post|Put|Delete|Patch)\(", 'app.MapGet("/", f)'),
            ("controllers", "Controller", r"\[ApiController\]|:\s*Controller(?:Base)?\b", "class A : ControllerBase"),
        ),
        ("component style", "how namespaces are written"): (
            ("file-scoped namespaces", "namespace", r"^namespace [\w.]+;", "namespace A.B;"),
            ("block namespaces", "namespace", r"^namespace [\w.]+\s*\{?$", "namespace A.B\n{"),
        ),
    },
)
