use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;

use crate::failure::Failure;
use crate::http::{Body, Fault};
use crate::reply::Facts;

/// What became of a request that a library sent for us: it tells the library's caller an error, but not the headers,
/// and hands bodies on in its own buffers. So that our client notes both here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    inner: Arc<Mutex<Inner>>,
    takes_body: bool,
}

#[derive(Debug, Default)]
struct Inner {
    facts: Option<Facts>,
    body: Option<Body>,
    failed: Option<Failed>,
}

#[derive(Clone, Debug)]
enum Failed {
    Status { status: u16, headers: HeaderMap, code: Option<String> },
    Fault(Fault),
}

tokio::task_local! {
    static CURRENT: Note;
}

/// Runs a call of the library's whose requests take no note along, and notes the last of them.
pub(crate) async fn with_note<T>(note: &Note, call: impl Future<Output = T>) -> T {
    CURRENT.scope(note.clone(), call).await
}

impl Note {
    /// Keeps the body of a successful reply from the library.
    pub(super) fn taking_body() -> Self {
        Self { takes_body: true, ..Self::default() }
    }

    /// The note that belongs to this request: its own, or that of the call that it is made for.
    pub(super) fn of(extensions: &http::Extensions) -> Option<Self> {
        extensions.get().cloned().or_else(|| CURRENT.try_with(Clone::clone).ok())
    }

    pub(super) fn takes_body(&self) -> bool {
        self.takes_body
    }

    pub(super) fn succeeded(&self, facts: Facts, body: Option<Body>) {
        let old = {
            let mut inner = self.lock();
            std::mem::replace(&mut *inner, Inner { facts: Some(facts), body, failed: None })
        };
        // A body closes its connection.
        drop(old);
    }

    pub(super) fn refused(&self, status: u16, headers: HeaderMap, code: Option<String>) {
        self.lock().failed = Some(Failed::Status { status, headers, code });
    }

    pub(super) fn broke(&self, fault: Fault) {
        self.lock().failed = Some(Failed::Fault(fault));
    }

    /// What the reply said, and its body.
    pub(super) fn take(&self) -> (Option<Facts>, Option<Body>) {
        let mut inner = self.lock();
        (inner.facts.take(), inner.body.take())
    }

    /// Whether the server answered with success, whatever became of the body.
    pub(super) fn has_succeeded(&self) -> bool {
        let inner = self.lock();
        inner.facts.is_some() && inner.failed.is_none()
    }

    /// What a reply said that there is nothing at this range, if it did.
    pub(super) fn past_end(&self) -> Option<Facts> {
        match &self.lock().failed {
            Some(Failed::Status { status: 416, headers, .. }) => Some(Facts::of(416, headers)),
            _ => None,
        }
    }

    /// Why the request failed, if it did.
    pub(crate) fn failure(&self, again: &[u16]) -> Option<Failure> {
        let failed = self.lock().failed.clone()?;
        Some(match failed {
            Failed::Fault(fault) => fault.into(),
            Failed::Status { status, headers, code } => Failure::status(status, &headers, code.as_deref(), again),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
