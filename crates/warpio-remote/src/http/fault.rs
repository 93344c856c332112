use std::fmt;
use std::io;
use std::sync::Arc;

/// How a request failed below the level of status codes.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    kind: FaultKind,
    message: String,
    cause: Option<Arc<io::Error>>,
}

/// What a [`Fault`] means for whoever might try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// No connection came about, so nothing was sent.
    Connect,
    /// The certificate does not prove what it must; another try would not either.
    Certificate,
    /// The connection broke.
    Broken,
    /// The connection ended before the reply did.
    Ended,
    /// Nothing came for too long.
    Stalled,
    /// What came is no HTTP, or contradicts itself.
    Malformed,
    /// The request itself cannot be sent.
    Request,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    pub(super) fn caused(kind: FaultKind, message: impl Into<String>, cause: io::Error) -> Self {
        Self { kind, message: message.into(), cause: Some(Arc::new(cause)) }
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Malformed, message)
    }

    /// An error of the socket, or of the TLS above it.
    pub(super) fn from_io(error: io::Error) -> Self {
        if let Some(reason) = certificate_error(&error) {
            return Self::new(FaultKind::Certificate, format!("the server's certificate is refused: {reason}"));
        }
        let kind = match error.kind() {
            io::ErrorKind::UnexpectedEof => FaultKind::Ended,
            _ => FaultKind::Broken,
        };
        Self::caused(kind, "the connection broke", error)
    }

    pub(crate) fn kind(&self) -> FaultKind {
        self.kind
    }
}

fn certificate_error(error: &io::Error) -> Option<String> {
    use tokio_rustls::rustls::Error;
    match error.get_ref()?.downcast_ref::<Error>()? {
        error @ (Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Some(error.to_string()),
        _ => None,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}
