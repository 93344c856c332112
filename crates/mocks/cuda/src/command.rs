//! The text commands of `mock_cuda_ctl`, as data. `README.md` lists them.

use std::{ffi::c_int, time::Duration};

use mock_commands::Words;

use crate::plan::{Failure, Sticky};

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Memory { device: usize, bytes: u64 },
    OomAfter(Option<u64>),
    PinnedLimit(Option<u64>),
    Sticky(Sticky),
    Delay { longest: Duration, seed: u64 },
    Hold,
    Release(Option<u64>),
    Fail(Failure),
    Attribute { device: usize, attribute: c_int, value: c_int },
    DriverVersion(c_int),
    Poison(u64),
    Strict(bool),
    Wait { condition: Condition, patience: Duration },
    Reset,
}

/// What `wait` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// So many streams stand with a copy at the gate.
    Held(u64),
    /// No stream has work left.
    Idle,
}

/// Reads a list of commands, separated by `;` or newlines. The error is the command that was not understood.
pub(crate) fn parse(text: &str) -> Result<Vec<Command>, String> {
    mock_commands::parse(text, parse_one)
}

fn parse_one(words: &mut Words<'_>) -> Option<Command> {
    Some(match words.word()? {
        "memory" => Command::Memory { device: words.number()?, bytes: words.number()? },
        "oom_after" => Command::OomAfter(words.number_or_off()?),
        "pinned_limit" => Command::PinnedLimit(words.number_or_off()?),
        "sticky" => Command::Sticky(Sticky {
            device: words.number()?,
            code: words.number()?,
            after: words.option("after")?.unwrap_or(0),
        }),
        "delay_us" => {
            Command::Delay { longest: Duration::from_micros(words.number()?), seed: words.option("seed")?.unwrap_or(0) }
        }
        "hold" => Command::Hold,
        "release" => Command::Release(words.number_or_nothing()?),
        "fail" => Command::Fail(failure(words)?),
        "attribute" => {
            Command::Attribute { device: words.number()?, attribute: words.number()?, value: words.number()? }
        }
        "driver_version" => Command::DriverVersion(words.number()?),
        "poison" => Command::Poison(words.number()?),
        "strict" => Command::Strict(words.switch()?),
        "wait" => Command::Wait { condition: condition(words)?, patience: words.patience()? },
        "reset" => Command::Reset,
        _ => return None,
    })
}

/// `NAME CODE [COUNT|forever] [after N]`
fn failure(words: &mut Words<'_>) -> Option<Failure> {
    let mut failure = Failure { name: words.word()?.to_owned(), code: words.number()?, after: 0, count: 1 };
    while let Some(word) = words.word() {
        match word {
            "after" => failure.after = words.number()?,
            "forever" => failure.count = u64::MAX,
            count => failure.count = count.parse().ok().filter(|count| *count > 0)?,
        }
    }
    Some(failure)
}

/// `held N|idle`
fn condition(words: &mut Words<'_>) -> Option<Condition> {
    Some(match words.word()? {
        "held" => Condition::Held(words.number()?),
        "idle" => Condition::Idle,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use mock_commands::PATIENCE;

    use super::*;

    #[test]
    fn commands_are_read() {
        let commands =
            parse("oom_after 1000000; memory 0 268435456\n sticky 1 700 after 3; delay_us 200 seed 7;").unwrap();
        assert_eq!(
            commands,
            [
                Command::OomAfter(Some(1_000_000)),
                Command::Memory { device: 0, bytes: 268_435_456 },
                Command::Sticky(Sticky { device: 1, code: 700, after: 3 }),
                Command::Delay { longest: Duration::from_micros(200), seed: 7 },
            ]
        );
    }

    #[test]
    fn a_failure_has_count_and_start() {
        let one = |text: &str| parse(text).unwrap().pop().unwrap();
        let failure = |count, after| Command::Fail(Failure { name: "cuMemAlloc".to_owned(), code: 2, after, count });
        assert_eq!(one("fail cuMemAlloc 2"), failure(1, 0));
        assert_eq!(one("fail cuMemAlloc 2 5 after 3"), failure(5, 3));
        assert_eq!(one("fail cuMemAlloc 2 forever"), failure(u64::MAX, 0));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for text in [
            "jump",
            "memory 0",
            "memory 0 1 2",
            "fail cuInit",
            "fail cuInit 2 0",
            "strict maybe",
            "release -1",
            "wait held",
            "sticky 0 700 before 2",
        ] {
            assert_eq!(parse(text), Err(text.to_owned()));
        }
    }

    #[test]
    fn waits_have_a_limit() {
        assert_eq!(
            parse("wait held 3 timeout_ms 20; wait idle").unwrap(),
            [
                Command::Wait { condition: Condition::Held(3), patience: Duration::from_millis(20) },
                Command::Wait { condition: Condition::Idle, patience: PATIENCE }
            ]
        );
    }
}
