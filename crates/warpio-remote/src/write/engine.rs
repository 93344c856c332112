use std::sync::Arc;

use warpio_core::PathKind;
use warpio_core::engine::{Batch, Engine};

use super::assemble::assemble;
use super::shared::{Announced, Shared};

/// Carries out the writes of one sink.
#[derive(Debug)]
pub(super) struct SinkEngine {
    shared: Arc<Shared>,
}

impl SinkEngine {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Engine for SinkEngine {
    fn submit(&self, batch: Batch) {
        if let Some(announced) = batch.target::<Announced>() {
            announced.came();
        }
        let mut segments = batch.into_parts().1;
        segments.iter_mut().for_each(|segment| segment.set_path(PathKind::Remote));
        if self.shared.take_in(segments) {
            self.shared.server.net.spawn(assemble(self.shared.clone()));
        }
    }

    fn name(&self) -> &'static str {
        "remote"
    }
}
