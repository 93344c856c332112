//! What a transfer tells `tracing`: one span, with where the bytes came from and what became of them.

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use support::{read, ready};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use warpio_core::engine::Starter;
use warpio_core::plan::Split;
use warpio_core::testing::HeldEngine;
use warpio_core::{Device, Error, ErrorKind};

#[derive(Default)]
struct Seen {
    /// The fields of every span.
    spans: Vec<BTreeMap<String, String>>,
    events: Vec<String>,
}

struct Recorder {
    seen: Arc<Mutex<Seen>>,
    next: AtomicU64,
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        self.seen.lock().unwrap().spans.push(fields);
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.seen.lock().unwrap().spans[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.seen.lock().unwrap().events.push(format!("{fields:?}"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn traced(test: impl FnOnce(&Starter, &HeldEngine)) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    tracing::subscriber::with_default(Recorder { seen: seen.clone(), next: AtomicU64::new(0) }, || {
        let engine = Arc::new(HeldEngine::default());
        let name = "https://me:secret@host/file?token=1";
        let starter = Starter::new(engine.clone(), Split::new(10).unwrap(), name, Device::host());
        test(&starter, &engine);
    });
    std::mem::take(&mut *seen.lock().unwrap())
}

#[test]
fn a_transfer_is_one_span_however_many_segments_it_has() {
    let seen = traced(|starter, engine| {
        let transfer = read(starter, 30);
        let mut held = engine.take();
        held.pop().unwrap().finish(Ok(5));
        held.into_iter().for_each(|held| held.fill(1));
        assert_eq!(ready(transfer).unwrap().n, 25);
    });
    assert_eq!(seen.spans.len(), 1);
    let field = |name: &str| seen.spans[0].get(name).map(|value| value.trim_matches('"'));
    assert_eq!(field("operation"), Some("read"));
    assert_eq!(field("source"), Some("https://host/file?…"), "without secrets");
    assert_eq!((field("offset"), field("bytes")), (Some("0"), Some("30")));
    assert_eq!((field("paths"), field("moved")), (Some("page-cache"), Some("25")));
    assert!(seen.events.is_empty());
}

#[test]
fn a_failure_tells_its_cause() {
    let seen = traced(|starter, engine| {
        let transfer = read(starter, 10);
        let cause = Error::new(ErrorKind::StorageFull).with_message("the disk is full");
        engine.take().into_iter().for_each(|held| held.fail(cause.clone()));
        assert!(ready(transfer).is_err());
    });
    assert_eq!(seen.events.len(), 1);
    assert!(seen.events[0].contains("the disk is full"), "{}", seen.events[0]);
    assert!(!seen.events[0].contains("secret"));
}
