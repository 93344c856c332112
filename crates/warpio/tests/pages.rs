//! The pages that people read, held against what they speak of. Their examples are run as documentation tests.

use std::path::{Path, PathBuf};

use warpio::Runtime;
use warpio::config::{Config, MachineDefaults};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The cells of the first table of a page whose head begins with `first`, line by line.
fn table(page: &str, first: &str) -> Vec<Vec<String>> {
    let head = format!("| {first} |");
    page.lines()
        .skip_while(|line| !line.starts_with(&head))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

#[test]
fn every_setting_is_on_its_page_as_it_is_in_the_program() {
    let config = |threads, staging_budget| Config::new(MachineDefaults { threads, staging_budget }).rows();
    let (one, other) = (config(1, 64 << 20), config(2, 128 << 20));
    let want: Vec<Vec<String>> = one
        .iter()
        .zip(&other)
        .map(|(row, other)| {
            let key = row.key;
            let default = if row.value == other.value { code(&row.value) } else { "the machine's".to_owned() };
            let kvikio = key.kvikio.map_or("none".to_owned(), code);
            vec![code(key.name), code(key.variable), default, key.reason.to_owned(), kvikio]
        })
        .collect();
    let page = read("docs/guide/configuration.md");
    let found = table(&page, "key");
    for row in &want {
        assert!(found.contains(row), "the page on configuration lacks this row:\n| {} |", row.join(" | "));
    }
    assert_eq!(found, want, "the page has rows of its own, or another order");

    let values: String =
        table(&page.replace("| key | variable |", ""), "key").into_iter().map(|row| row[0].clone()).collect();
    let missing: Vec<_> = one.iter().filter(|row| !values.contains(&code(row.key.name))).collect();
    assert!(missing.is_empty(), "the table of values lacks {missing:?}");
}

#[tokio::test]
async fn a_runtime_has_the_settings_of_the_page() {
    let rt = Runtime::builder().ignore_environment().device(warpio::DeviceSpec::Host).build().unwrap();
    let names: Vec<_> = rt.config().rows().iter().map(|row| code(row.key.name)).collect();
    let page: Vec<_> =
        table(&read("docs/guide/configuration.md"), "key").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, page);
}

#[test]
fn every_kind_of_error_is_on_its_page() {
    let source = read("crates/warpio-core/src/error/kind.rs");
    let body = source.split_once("pub enum ErrorKind {").unwrap().1.split_once("\n}").unwrap().0;
    let kinds: Vec<_> = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//") && !line.starts_with('#') && line.ends_with(','))
        .map(|line| code(line.trim_end_matches(',')))
        .collect();
    assert!(kinds.contains(&code("NotFound")) && kinds.contains(&code("Io")), "{kinds:?}");
    let rows = table(&read("docs/guide/errors.md"), "kind");
    let found: Vec<_> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(found, kinds);
    assert!(rows.iter().all(|row| row.len() == 3 && row.iter().all(|cell| !cell.is_empty())), "{rows:#?}");
}

/// Every page of the repository, but for what tools made.
fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !name.starts_with("target") {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

fn anchors(page: &str) -> Vec<String> {
    let mut in_code = false;
    page.lines()
        .filter(|line| {
            in_code ^= line.starts_with("```");
            !in_code && line.starts_with('#')
        })
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut all = Vec::new();
    pages(&root(), &mut all);
    assert!(all.len() > 10, "{all:?}");
    let (mut broken, mut seen) = (Vec::new(), 0);
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let leads = target.exists()
                && (heading.is_empty()
                    || anchors(&std::fs::read_to_string(&target).unwrap()).contains(&heading.into()));
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(seen > 20, "only {seen} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_commands_of_the_readme_are_the_two_that_ci_runs() {
    let readme = read("README.md");
    let mut inside = false;
    let commands: Vec<_> = readme
        .lines()
        .filter(|line| {
            inside ^= line.starts_with("```");
            inside && line.starts_with("cargo ")
        })
        .collect();
    assert_eq!(commands, ["cargo run --release --bin warpio -- bench seq", "cargo test --workspace"]);
}
