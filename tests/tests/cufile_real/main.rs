//! The same calls to the real library and to the mock, and what each of them was seen to answer: the table in
//! `docs/cufile.md`. That record is what is expected, of both.
//!
//! The real library comes from a wheel (`.ci/cufile_wheel.sh`) and runs over the software GPU, in compatibility mode,
//! with files in memory. Every scenario has a process of its own: some of them leave a library that is good for nothing.

mod lab;
mod process;
mod record;
mod scenarios;

use process::{Subject, scenario_of_this_process};
use record::Record;

/// Runs every scenario with a library, and compares what came out with the record. In the process of a scenario, runs
/// that one.
fn compare(test: &str, subject: Option<Subject>) {
    if let Some(name) = scenario_of_this_process() {
        let scenario = scenarios::ALL.iter().find(|scenario| scenario.name == name).expect("a scenario of this name");
        println!("OUTCOME {}", (scenario.run)());
        // What a scenario leaves in the library may hold up the end of the process.
        // SAFETY: nothing of this process is needed any more; what was printed has been written with its newline.
        unsafe { libc::_exit(0) };
    }
    let Some(subject) = subject else { return };
    let record = Record::read();
    let mut wrong = Vec::new();
    for scenario in scenarios::ALL {
        let want = record.of(scenario.name, subject.column());
        if want == Some(record::NOT_HERE) {
            continue;
        }
        let found = subject.outcome(test, scenario.name);
        // For whoever keeps the record.
        println!("{} | {} | {found}", subject.column(), scenario.name);
        if Some(found.as_str()) != want {
            wrong.push(format!("{}\n  recorded: {}\n  found:    {found}", scenario.name, want.unwrap_or("nothing")));
        }
    }
    let names: Vec<_> = scenarios::ALL.iter().map(|scenario| scenario.name).collect();
    assert_eq!(record.names(), names, "the record has other scenarios, or another order");
    assert!(wrong.is_empty(), "{}:\n{}", subject.column(), wrong.join("\n"));
}

#[test]
fn the_mock_answers_as_recorded() {
    compare("the_mock_answers_as_recorded", Subject::mock());
}

#[test]
fn the_real_library_answers_as_recorded() {
    compare("the_real_library_answers_as_recorded", Subject::real());
}

/// Where the two differ, the record says so, and there are no more such rows than these.
#[test]
fn the_mock_differs_from_the_real_library_only_where_it_has_to() {
    let known: [&str; 0] = [];
    assert_eq!(Record::read().differences(), known);
}
