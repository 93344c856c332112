//! What went wrong, where, and what to do about it.

mod convert;
mod kind;
mod redact;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub use kind::ErrorKind;
pub use redact::redact;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed: a [kind](ErrorKind) to match on, the operation, the source with its secrets taken out, the range,
/// and the cause.
///
/// Cloning is cheap: one failure may have to be told to many waiters.
///
/// ```
/// use warpio_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::UnexpectedEof)
///     .with_operation("read")
///     .with_source_name("s3://key:secret@bucket/object?X-Amz-Signature=abc")
///     .with_range(4096, 512);
/// assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
/// let text = error.to_string();
/// assert!(text.contains("s3://bucket/object") && text.contains("offset 4096"));
/// assert!(!text.contains("secret") && !text.contains("Signature"));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone, Default)]
struct Inner {
    kind: ErrorKind,
    operation: Option<&'static str>,
    source_name: Option<Arc<str>>,
    offset: Option<u64>,
    len: Option<u64>,
    message: Option<Cow<'static, str>>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; the `with_…` methods add what is known about it.
    pub fn new(kind: ErrorKind) -> Self {
        Self(Arc::new(Inner { kind, ..Inner::default() }))
    }

    /// An [`InvalidInput`](ErrorKind::InvalidInput) error that says what was wrong with the input.
    pub fn invalid_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidInput).with_message(message)
    }

    /// An [`Unsupported`](ErrorKind::Unsupported) error that says what the source cannot do.
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported).with_message(message)
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Names the operation: a verb, such as `"read"`.
    #[must_use]
    pub fn with_operation(self, operation: &'static str) -> Self {
        self.with(|inner| inner.operation = Some(operation))
    }

    /// Names the source, a path or a URL. Credentials and query strings are [taken out](redact).
    #[must_use]
    pub fn with_source_name(self, name: &str) -> Self {
        self.with(|inner| inner.source_name = Some(redact(name).into()))
    }

    /// Gives the byte range that the operation was about.
    #[must_use]
    pub fn with_range(self, offset: u64, len: u64) -> Self {
        self.with(|inner| (inner.offset, inner.len) = (Some(offset), Some(len)))
    }

    /// Says what happened and what to do, in a sentence without a full stop.
    #[must_use]
    pub fn with_message(self, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        self.with(|inner| inner.message = Some(message))
    }

    /// Keeps the error that caused this one; it becomes [`source`](StdError::source).
    #[must_use]
    pub fn with_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let cause = Arc::from(cause.into());
        self.with(|inner| inner.cause = Some(cause))
    }

    /// Adds operation, source and range where they are not known yet: the innermost frame knows best.
    #[must_use]
    pub fn or_context(self, operation: &'static str, source: &str, offset: u64, len: u64) -> Self {
        self.with(|inner| {
            inner.operation.get_or_insert(operation);
            inner.source_name.get_or_insert_with(|| redact(source).into());
            inner.offset.get_or_insert(offset);
            inner.len.get_or_insert(len);
        })
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed, if known.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The path or URL, without secrets, if known.
    pub fn source_name(&self) -> Option<&str> {
        self.0.source_name.as_deref()
    }

    /// The offset in bytes, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The length in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        self.0.len
    }

    /// The operating system's error number, where the cause has one.
    pub fn os_error(&self) -> Option<i32> {
        let cause = self.0.cause.as_deref()?;
        match cause.downcast_ref::<Self>() {
            Some(error) => error.os_error(),
            None => cause.downcast_ref::<std::io::Error>()?.raw_os_error(),
        }
    }

    /// Whether the same call may succeed if it is made again, unchanged.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(operation) = inner.operation {
            write!(f, "{operation}")?;
            if let Some(source) = &inner.source_name {
                write!(f, " {source}")?;
            }
            match (inner.offset, inner.len) {
                (Some(offset), Some(len)) => write!(f, " (offset {offset}, {len} bytes)")?,
                (Some(offset), None) => write!(f, " (offset {offset})")?,
                _ => {}
            }
            write!(f, ": ")?;
        } else if let Some(source) = &inner.source_name {
            write!(f, "{source}: ")?;
        }
        match &inner.message {
            Some(message) => write!(f, "{message}")?,
            None => write!(f, "{}", inner.kind)?,
        }
        if let Some(cause) = &inner.cause {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &format_args!("{self}"))
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}
