/// What a source or sink is, for errors, traces and `warpio info`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The path or URL, without secrets.
    pub name: String,
    /// The kind of source: `"file"`, `"memory"`, `"s3"`, …
    pub kind: &'static str,
    /// The engine that carries its transfers out.
    pub engine: &'static str,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// What a source or sink can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Reads of any range.
    pub read: bool,
    /// Writes at any offset.
    pub write_at: bool,
    /// Writes from the beginning to the end, each where the one before it ends.
    pub write_in_order: bool,
    /// Writes behind the end.
    pub append: bool,
    /// Changes of the length.
    pub set_len: bool,
}

impl Description {
    /// A description; `name` has its [secrets taken out](crate::redact).
    pub fn new(name: &str, kind: &'static str, engine: &'static str) -> Self {
        Self { name: crate::redact(name), kind, engine, capabilities: Capabilities::default() }
    }

    /// The same, with these capabilities.
    #[must_use]
    pub fn with_capabilities(mut self, set: impl FnOnce(&mut Capabilities)) -> Self {
        set(&mut self.capabilities);
        self
    }
}
