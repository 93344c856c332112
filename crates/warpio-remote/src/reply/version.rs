use std::fmt;

use super::facts::Facts;

/// What tells one state of an object from another, taken from the first reply. Later replies must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) etag: Option<String>,
    /// As the server writes it.
    pub(crate) modified: Option<String>,
    /// In bytes.
    pub(crate) total: Option<u64>,
}

impl Version {
    pub(crate) fn of(facts: &Facts, total: Option<u64>) -> Self {
        Self { etag: facts.etag.clone(), modified: facts.modified.clone(), total }
    }

    /// Checks that `later` is the same state, as far as both say.
    pub(crate) fn check(&self, later: &Self) -> Result<(), Difference> {
        if self.total.zip(later.total).is_some_and(|(a, b)| a != b) {
            return Err(Difference { what: "length", was: show(self.total), is: show(later.total) });
        }
        if self.etag.is_some() {
            // A server that has told the ETag once must tell it with every part (RFC 9110, 15.3.7).
            if self.etag != later.etag {
                return Err(Difference { what: "ETag", was: show(self.etag.as_ref()), is: show(later.etag.as_ref()) });
            }
            return Ok(());
        }
        if self.modified.is_some() && self.modified != later.modified {
            let (was, is) = (show(self.modified.as_ref()), show(later.modified.as_ref()));
            return Err(Difference { what: "time of modification", was, is });
        }
        Ok(())
    }

    /// Adds what `later` says and this one does not.
    pub(crate) fn complete(&mut self, later: &Self) {
        if self.etag.is_none() && self.modified.is_none() {
            self.etag.clone_from(&later.etag);
            self.modified.clone_from(&later.modified);
        }
        self.total = self.total.or(later.total);
    }
}

fn show(value: Option<impl fmt::Display>) -> String {
    value.map_or("none".to_owned(), |value| value.to_string())
}

/// In what two states of an object differ.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    what: &'static str,
    was: String,
    is: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its {} was {}, and now is {}", self.what, self.was, self.is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: &str, modified: &str, total: u64) -> Version {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Version { etag: text(etag), modified: text(modified), total: (total > 0).then_some(total) }
    }

    #[test]
    fn the_first_state_holds() {
        let first = version("a", "monday", 5);
        for same in [version("a", "monday", 5), version("a", "tuesday", 5), version("a", "", 0)] {
            assert_eq!(first.check(&same), Ok(()), "{same:?}");
        }
        for other in [version("b", "monday", 5), version("a", "monday", 6), version("", "monday", 5)] {
            assert!(first.check(&other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn without_an_etag_the_time_holds_and_without_both_the_length() {
        let timed = version("", "monday", 5);
        assert!(timed.check(&version("", "monday", 0)).is_ok());
        assert!(timed.check(&version("", "tuesday", 5)).is_err());
        assert!(version("", "", 5).check(&version("x", "y", 5)).is_ok());
        assert!(version("", "", 5).check(&version("", "", 4)).is_err());
    }

    #[test]
    fn what_is_learnt_later_holds_from_then_on() {
        let mut known = version("", "", 5);
        known.complete(&version("a", "monday", 0));
        assert_eq!(known, version("a", "monday", 5));
        known.complete(&version("b", "tuesday", 9));
        assert_eq!(known, version("a", "monday", 5));
    }
}
