//! How the mocks read the text commands of tests. Each has commands of its own; its `README.md` lists them.

use std::str::{FromStr, SplitWhitespace};
use std::time::Duration;

/// How long a `wait` waits if it names no time.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a list of commands, separated by `;` or newlines, each with `one`, which has to take all its words.
///
/// # Errors
/// The command that was not understood.
pub fn parse<C>(text: &str, one: impl Fn(&mut Words<'_>) -> Option<C>) -> Result<Vec<C>, String> {
    let read = |command: &str| {
        let mut words = Words(command.split_whitespace());
        one(&mut words).filter(|_| words.word().is_none()).ok_or_else(|| command.to_owned())
    };
    text.split([';', '\n']).map(str::trim).filter(|command| !command.is_empty()).map(read).collect()
}

/// The words of a command. Whatever is asked for here is `None` where the words are not that.
#[derive(Clone, Debug)]
pub struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    /// The next word.
    pub fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<&'a str> {
        self.0.clone().next()
    }

    /// `NUMBER`
    pub fn number<N: FromStr>(&mut self) -> Option<N> {
        self.word()?.parse().ok()
    }

    /// `NUMBER`, or nothing.
    pub fn number_or_nothing<N: FromStr>(&mut self) -> Option<Option<N>> {
        self.word().map_or(Some(None), |word| word.parse().ok().map(Some))
    }

    /// `NUMBER` or `off`
    pub fn number_or_off<N: FromStr>(&mut self) -> Option<Option<N>> {
        match self.word()? {
            "off" => Some(None),
            number => number.parse().ok().map(Some),
        }
    }

    /// `KEY NUMBER`, or nothing.
    pub fn option<N: FromStr>(&mut self, key: &str) -> Option<Option<N>> {
        match self.word() {
            None => Some(None),
            Some(word) if word == key => self.number().map(Some),
            Some(_) => None,
        }
    }

    /// `on` or `off`
    pub fn switch(&mut self) -> Option<bool> {
        match self.word()? {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }

    /// `timeout_ms NUMBER`, or nothing: how long to wait.
    pub fn patience(&mut self) -> Option<Duration> {
        Some(self.option("timeout_ms")?.map_or(PATIENCE, Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart_and_have_to_be_used_up() {
        let one = |words: &mut Words<'_>| words.number::<u32>();
        assert_eq!(parse(" 1;2\n 3 ;;\n", one), Ok(vec![1, 2, 3]));
        assert_eq!(parse("", one), Ok(Vec::new()));
        assert_eq!(parse("1; 2 3 ;x", one), Err("2 3".to_owned()));
    }

    #[test]
    fn words_are_what_they_are_asked_to_be_or_nothing() {
        let words = |text: &'static str| Words(text.split_whitespace());
        assert_eq!(
            (words("7 8").peek(), words("7").number::<u8>(), words("256").number::<u8>()),
            (Some("7"), Some(7), None)
        );
        let optional = ["", "7", "x"].map(|text| words(text).number_or_nothing::<u8>());
        assert_eq!(optional, [Some(None), Some(Some(7)), None]);
        assert_eq!(
            ["", "7", "off", "x"].map(|text| words(text).number_or_off::<u8>()),
            [None, Some(Some(7)), Some(None), None]
        );
        let after = ["", "after 3", "after", "before 3"].map(|text| words(text).option::<u8>("after"));
        assert_eq!(after, [Some(None), Some(Some(3)), None, None]);
        assert_eq!(["on", "off", "maybe", ""].map(|text| words(text).switch()), [Some(true), Some(false), None, None]);
        let waits = ["", "timeout_ms 20", "timeout 20"].map(|text| words(text).patience());
        assert_eq!(waits, [Some(PATIENCE), Some(Duration::from_millis(20)), None]);
    }
}
