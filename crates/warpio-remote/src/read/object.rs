use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpio_core::{Error, ErrorKind, Result};

use super::stream::OpenStream;
use crate::failure::Failure;
use crate::origin::{Opened, Origin};
use crate::reply::{Refusal, Version, check};
use crate::retry::Outlook;
use crate::server::Server;

/// One object, and what its replies have told about it.
#[derive(Debug)]
pub(crate) struct Object {
    pub(super) origin: Arc<dyn Origin>,
    known: Mutex<Version>,
    /// The server sends whole objects only.
    streams: AtomicBool,
    /// Somebody reads it in order; the others wait for their turn.
    busy: AtomicBool,
    /// The reply that is being read in order, where that is so.
    pub(super) stream: tokio::sync::Mutex<Option<OpenStream>>,
}

impl Object {
    /// `len` is what the caller knows of the length.
    pub(crate) fn new(origin: Arc<dyn Origin>, len: Option<u64>) -> Self {
        let known = Version { total: len, ..Version::default() };
        Self {
            origin,
            known: Mutex::new(known),
            streams: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            stream: Default::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Version> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state that every reply must be of.
    pub(crate) fn known(&self) -> Version {
        self.lock().clone()
    }

    /// The length in bytes, if it is known.
    pub(crate) fn total(&self) -> Option<u64> {
        self.lock().total
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.streams.load(Ordering::Acquire)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    pub(super) fn becomes_stream(&self) {
        if !self.streams.swap(true, Ordering::AcqRel) {
            tracing::debug!(source = self.origin.name(), "the server serves no ranges, so that it is read in order");
        }
    }

    /// Takes what a reply said. Two that come at once must agree.
    pub(super) fn learn(&self, version: &Version) -> Result<(), Failure> {
        let mut known = self.lock();
        known.check(version).map_err(|difference| Refusal::Changed(difference.to_string()))?;
        known.complete(version);
        Ok(())
    }

    /// Takes the length that a reply told, and nothing else.
    pub(super) fn learn_total(&self, total: u64) -> Result<(), Failure> {
        let later = Version { total: Some(total), ..self.known() };
        self.learn(&later)
    }

    /// Finds the length out: by HEAD, else by asking for one byte, as presigned URLs refuse HEAD.
    pub(crate) async fn find_total(&self, server: &Server) -> Result<u64> {
        if let Some(total) = self.total() {
            return Ok(total);
        }
        server.try_until(self.origin.name(), || timed(server, self.ask_total())).await
    }

    /// Looks the object up, whatever is known of it: it must be there when it is opened.
    pub(crate) async fn look_up(&self, server: &Server) -> Result<()> {
        server.try_until(self.origin.name(), || timed(server, self.ask_head())).await.map(drop)
    }

    async fn ask_head(&self) -> Result<Option<u64>, Failure> {
        match self.head().await {
            Err(failure) if failure.outlook == Outlook::Final => self.ask_one_byte().await,
            // None of it proves that there is none: some servers say 0 to every HEAD.
            Ok(None | Some(0)) => self.ask_one_byte().await,
            answer => answer,
        }
    }

    async fn ask_total(&self) -> Result<u64, Failure> {
        let total = self.ask_head().await?;
        total.or_else(|| self.total()).ok_or_else(|| {
            Failure::last(Error::new(ErrorKind::Unsupported).with_message(
                "the server does not tell the length of the object; say it with `len`, or read it by offsets",
            ))
        })
    }

    async fn head(&self) -> Result<Option<u64>, Failure> {
        let facts = self.origin.head().await?;
        if facts.encoding.is_some() {
            // The length is that of what it would send, not of the object.
            return Ok(None);
        }
        if facts.refuses_ranges {
            self.becomes_stream();
        }
        let total = facts.content_length.filter(|&total| total > 0);
        self.learn(&Version::of(&facts, total))?;
        Ok(facts.content_length)
    }

    async fn ask_one_byte(&self) -> Result<Option<u64>, Failure> {
        let opened = self.origin.get(Some(0..1)).await?;
        let refusal = match check(&opened.facts, &(0..1), &self.known()) {
            Ok(promise) => {
                self.learn(&promise.version)?;
                drain(opened).await;
                return Ok(promise.version.total);
            }
            Err(refusal) => refusal,
        };
        match refusal {
            Refusal::PastEnd { total } => {
                // There is no first byte.
                let total = total.unwrap_or(0);
                self.learn_total(total)?;
                Ok(Some(total))
            }
            Refusal::NoRanges(version) => {
                self.learn(&version)?;
                self.becomes_stream();
                self.offer(opened, version.total);
                Ok(version.total)
            }
            refusal => Err(refusal.into()),
        }
    }

    /// Keeps a reply that holds all of the object, for whoever reads that.
    pub(super) fn offer(&self, opened: Opened, total: Option<u64>) {
        let usable = total.is_some() || opened.payload.proves_its_end();
        if let Ok(mut stream) = self.stream.try_lock()
            && usable
            && stream.is_none()
        {
            *stream = Some(OpenStream::new(opened.payload, total));
        }
    }
}

/// A look at an object tells how long its server takes to answer.
async fn timed<T>(server: &Server, look: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let asked = std::time::Instant::now();
    let answer = look.await?;
    server.waited(asked.elapsed());
    Ok(answer)
}

/// Reads the rest of a reply of one byte, so that its connection is kept.
async fn drain(mut opened: Opened) {
    if opened.payload.left().is_none_or(|left| left <= 1) {
        let mut rest = [0; 2];
        while matches!(opened.payload.read(&mut rest).await, Ok(1)) {}
    }
}
