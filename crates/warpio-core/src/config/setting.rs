use std::fmt;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default for this machine.
    Default,
    /// The environment variable of the key.
    Environment,
    /// The program: `Runtime::builder()` or a command-line option.
    Program,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Environment => "environment",
            Self::Program => "program",
        })
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    value: T,
    origin: Origin,
}

impl<T> Setting<T> {
    /// A value that nobody has set.
    pub fn default_value(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    /// The value.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Replaces the default, where nobody has set the value.
    pub fn set_default(&mut self, value: T) {
        if self.origin == Origin::Default {
            self.value = value;
        }
    }

    /// Sets the value in the name of the program, which beats every other origin.
    pub fn set(&mut self, value: T) {
        *self = Self { value, origin: Origin::Program };
    }

    pub(super) fn set_from_environment(&mut self, value: T) {
        if self.origin != Origin::Program {
            *self = Self { value, origin: Origin::Environment };
        }
    }
}
