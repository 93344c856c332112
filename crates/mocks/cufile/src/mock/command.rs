//! The text commands of `mock_cufile_ctl`, as data. `README.md` lists them.

use std::time::Duration;

use mock_commands::Words;

use super::plan::{Action, Rule, When};

/// What the driver says, or truly does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything goes through host memory.
    #[default]
    Compat,
    /// nvidia-fs.
    Gds,
    /// Peer-to-peer DMA.
    P2p,
}

/// In which order entries complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// As their time comes.
    #[default]
    Due,
    /// Of those that wait to be told, the last first.
    Reversed,
    /// At random.
    Shuffled(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Mode(Mode),
    Truth(Option<Mode>),
    Rule(Rule),
    DeviceTime {
        each: Duration,
        parallel: usize,
    },
    Order(Order),
    Slab(Option<usize>),
    MaxBatch(u32),
    PinLimit {
        bytes: u64,
        code: i32,
    },
    Udev(bool),
    SettingsApply(bool),
    CancelEvents(bool),
    Hold,
    /// Lets so many held entries complete, or all and those that come.
    Complete(Option<usize>),
    /// Ends every `block`.
    Release,
    Abort(bool),
    Wait {
        condition: Condition,
        patience: Duration,
    },
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// So many calls stand at a `block`.
    Blocked(u64),
    /// So many entries are held.
    Held(u64),
    /// Nothing is under way.
    Idle,
}

/// Reads a list of commands, separated by `;` or newlines. The error is the command that was not understood.
pub(crate) fn parse(text: &str) -> Result<Vec<Command>, String> {
    mock_commands::parse(text, parse_one)
}

fn parse_one(words: &mut Words<'_>) -> Option<Command> {
    Some(match words.word()? {
        "mode" => Command::Mode(mode(words)?),
        "truth" => Command::Truth(match words.peek()? {
            "told" => words.word().map(|_| None)?,
            _ => Some(mode(words)?),
        }),
        "on" => Command::Rule(rule(words)?),
        "device_us" => Command::DeviceTime {
            each: Duration::from_micros(words.number()?),
            parallel: words.option("parallel")?.unwrap_or(usize::MAX),
        },
        "order" => Command::Order(match words.word()? {
            "due" => Order::Due,
            "reversed" => Order::Reversed,
            "shuffled" => Order::Shuffled(words.number()?),
            _ => return None,
        }),
        "slab" => Command::Slab(words.number_or_off()?),
        "max_batch" => Command::MaxBatch(words.number()?),
        "pin_limit" => Command::PinLimit { bytes: words.number()?, code: words.option("code")?.unwrap_or(5016) },
        "udev" => Command::Udev(words.switch()?),
        "settings_apply" => Command::SettingsApply(words.switch()?),
        "cancel_events" => Command::CancelEvents(words.switch()?),
        "hold" => Command::Hold,
        "complete" => Command::Complete(words.number_or_nothing()?),
        "release" => Command::Release,
        "abort" => Command::Abort(words.switch()?),
        "wait" => Command::Wait { condition: condition(words)?, patience: words.patience()? },
        "reset" => Command::Reset,
        _ => return None,
    })
}

fn mode(words: &mut Words<'_>) -> Option<Mode> {
    Some(match words.word()? {
        "compat" => Mode::Compat,
        "gds" => Mode::Gds,
        "p2p" => Mode::P2p,
        _ => return None,
    })
}

/// `CALL [fd N] [offset N] [size N] [nth N | every N | chance PERCENT SEED] [times N] ACTION…`
fn rule(words: &mut Words<'_>) -> Option<Rule> {
    let call = words.word()?.to_owned();
    let (mut fd, mut offset, mut size, mut when, mut left) = (None, None, None, When::Always, None);
    loop {
        match words.word()? {
            "fd" => fd = Some(words.number()?),
            "offset" => offset = Some(words.number()?),
            "size" => size = Some(words.number()?),
            "nth" => when = When::From(words.number()?),
            "every" => when = When::Every(words.number::<u64>().filter(|&n| n > 0)?),
            "chance" => when = When::Chance(words.number()?, words.number()?),
            "times" => left = Some(words.number::<u64>().filter(|&n| n > 0)?),
            name => {
                let action = action(name, words)?;
                // The n-th call means one call, unless it says otherwise.
                let usual = if matches!(when, When::From(_)) { 1 } else { u64::MAX };
                return Some(Rule { call, fd, offset, size, when, left: left.unwrap_or(usual), action, seen: 0 });
            }
        }
    }
}

fn action(name: &str, words: &mut Words<'_>) -> Option<Action> {
    Some(match name {
        "status" => Action::Status(words.number()?, words.number_or_nothing()?.unwrap_or(0)),
        "errno" => Action::Errno(words.number()?),
        "ret" => Action::Ret(words.number()?),
        "max" => Action::Max(words.number()?),
        "percent" => Action::Percent(words.number()?),
        "block" => Action::Block(words.number_or_nothing()?.map(Duration::from_millis)),
        "event" => Action::Event(words.number()?, words.number_or_nothing()?.unwrap_or(0)),
        "lose" => Action::Lose,
        "never" => Action::Never,
        "empty" => Action::Empty,
        _ => return None,
    })
}

/// `blocked N|held N|idle`
fn condition(words: &mut Words<'_>) -> Option<Condition> {
    Some(match words.word()? {
        "blocked" => Condition::Blocked(words.number()?),
        "held" => Condition::Held(words.number()?),
        "idle" => Condition::Idle,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        match parse(text).unwrap().remove(0) {
            Command::Rule(rule) => rule,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rules_are_read() {
        let read = rule("on Read fd 5 offset 4096 nth 3 errno 5017");
        assert_eq!((read.call.as_str(), read.fd, read.offset, read.size), ("Read", Some(5), Some(4096), None));
        assert_eq!((read.when, read.left, read.action), (When::From(3), 1, Action::Errno(5017)));
        let entry = rule("on entry every 2 times 4 event 64 -5");
        assert_eq!((entry.when, entry.left, entry.action), (When::Every(2), 4, Action::Event(64, -5)));
        assert_eq!(rule("on DriverOpen block").action, Action::Block(None));
        assert_eq!(rule("on BufRegister status 5011 201").action, Action::Status(5011, 201));
    }

    #[test]
    fn commands_come_in_rows() {
        let commands = parse("mode gds; device_us 500 parallel 32\n wait held 3 timeout_ms 50 ;; truth told").unwrap();
        assert_eq!(commands[0], Command::Mode(Mode::Gds));
        assert_eq!(commands[1], Command::DeviceTime { each: Duration::from_micros(500), parallel: 32 });
        let patience = Duration::from_millis(50);
        assert_eq!(commands[2], Command::Wait { condition: Condition::Held(3), patience });
        assert_eq!(commands[3], Command::Truth(None));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for wrong in ["mode fast", "on Read", "on Read nth x errno 5", "hold now", "slab", "on entry times 0 lose"] {
            assert_eq!(parse(&format!("hold;{wrong}")), Err(wrong.to_owned()));
        }
    }
}
