"""How Rust is written."""

from __future__ import annotations

from codeinfo.knowledge.detector import detectors

DETECTORS = detectors(
    "rust",
    {
        ("dependency injection", "how dependencies are abstracted"): (
            ("generic parameters", "where impl<", r"\bimpl<\w+: [A-Z]\w*", "impl<S: Store> Server<S> {"),
            ("trait objects", "dyn ", r"\b(?:Box|Arc|Rc)<dyn [A-Z]\w*", "store: Arc<dyn Store>"),
        ),
        ("state management", "how state is shared"): (
            ("Arc<Mutex>", "Mutex<", r"\bArc<(?:\w+::)*Mutex<", "Arc<Mutex<u32>>"),
            ("Arc<RwLock>", "RwLock<", r"\bArc<(?:\w+::)*RwLock<", "Arc<RwLock<u32>>"),
            ("channels", "channel", r"\bmpsc::\w+|\bbroadcast::channel\(", "mpsc::channel(1)"),
            ("atomics", "Atomic", r"\bAtomic(?:Bool|U\d+|I\d+|Usize)\b", "AtomicBool"),
            (
                "lazy globals",
                "lazy_static OnceLock OnceCell LazyLock",
                r"\blazy_static!|\b(?:OnceLock|OnceCell|LazyLock)\b",
                "static A: OnceLock<u8>",
            ),
        ),
        ("error handling", "how error types are made"): (
            ("thiserror", "thiserror", r"\bthiserror::Error\b|^use thiserror\b", "use thiserror::Error;"),
            ("anyhow", "anyhow", r"\banyhow::\w+|\banyhow!\(|\bbail!\(", "anyhow::Result<()>"),
            ("Box<dyn Error>", "dyn ", r"\bBox<dyn (?:std::error::)?Error\b", "Result<(), Box<dyn Error>>"),
            ("eyre", "eyre", r"\b(?:color_)?eyre::\w+", "eyre::Result<()>"),
        ),
        ("error handling", "what is done with a failure"): (
            ("? operator", "?", r"\)\?(?=[;,.)\s])", "let a = b()?;"),
            ("unwrap", ".unwrap()", r"\.unwrap\(\)", "a.unwrap()"),
            ("expect", ".expect(", r"\.expect\(\s*\"", 'a.expect("b")'),
        ),
        ("async style", "how code waits"): (
            ("tokio", "tokio", r"\btokio::\w+|#\[tokio::", "tokio::spawn(f())"),
            ("async-std", "async_std", r"\basync_std::\w+", "async_std::task::spawn(f())"),
            ("threads", "thread::spawn", r"\bthread::(?:spawn|scope)\(", "thread::spawn(f)"),
            ("rayon", "rayon par_iter", r"\brayon::\w+|\.par_iter\(", "a.par_iter()"),
        ),
        ("testing", "how cases are listed"): (
            ("#[test]", "#[test]", r"#\[test\]", "#[test]\nfn adds() {}"),
            ("rstest", "rstest", r"#\[rstest\]", "#[rstest]"),
            ("proptest", "proptest!", r"\bproptest!", "proptest! {"),
            ("tokio::test", "tokio::test", r"#\[tokio::test\b", "#[tokio::test]"),
        ),
        ("data access", "how the database is reached"): (
            ("sqlx", "sqlx", r"\bsqlx::\w+", "sqlx::query(q)"),
            ("Diesel", "diesel", r"\bdiesel::\w+", "use diesel::prelude::*;"),
            ("SeaORM", "sea_orm", r"\bsea_orm::\w+", "use sea_orm::entity::*;"),
            ("rusqlite", "rusqlite", r"\brusqlite::\w+", "use rusqlite::Connection;"),
        ),
        ("data access", "how HTTP is called"): (
            ("reqwest", "reqwest", r"\breqwest::\w+", "reqwest::get(u)"),
            ("hyper", "hyper", r"\bhyper::\w+", "use hyper::Client;"),
            ("ureq", "ureq", r"\bureq::\w+", "ureq::get(u)"),
        ),
        ("validation", "how input is checked"): (
            ("validator derive", "validate", r"#\[validate\(", "#[validate(email)]"),
            ("garde", "garde", r"#\[garde\(", "#[garde(email)]"),
            ("TryFrom", "TryFrom<", r"\bimpl TryFrom<", "impl TryFrom<&str> for Name {"),
        ),
        ("logging", "how messages are written"): (
            ("tracing", "tracing", r"\btracing::\w+|#\[(?:tracing::)?instrument\b", 'tracing::info!("a")'),
            ("log macros", "log::", r"(?<!\w)log::(?:info|warn|error|debug|trace)\b|^use log::", 'log::info!("a")'),
            ("println", "print", r"\be?println!\(", 'println!("a")'),
        ),
        ("configuration", "where settings come from"): (
            ("env::var", "env::var", r"\benv::var(?:_os)?\(", 'env::var("A")'),
            ("clap", "clap", r"^use clap\b|#\[derive\([^)\n]*\bParser\b", "use clap::Parser;"),
            ("config crate", "config::", r"(?<!\w)config::Config\b", "config::Config::builder()"),
            ("figment", "figment", r"\bfigment::\w+", "figment::Figment::new()"),
        ),
        ("component style", "how routes are declared"): (
            ("axum", "axum", r"\baxum::\w+", "axum::Router::new()"),
            ("actix-web", "actix_web", r"\bactix_web::\w+", "use actix_web::web;"),
            ("Rocket", "rocket", r"\brocket::\w+", "use rocket::get;"),
            ("warp", "warp", r"\bwarp::\w+", "warp::path(p)"),
        ),
        ("component style", "how text is put together"): (
            ("inlined arguments", "format!(", r"\bformat!\(\s*\"[^\"\n]*\{\w+", 'format!("{name}")'),
            ("positional arguments", "format!(", r"\bformat!\(\s*\"[^\"\n{]*\{[:}]", 'format!("{}", name)'),
        ),
    },
)
