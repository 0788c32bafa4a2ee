//! `read/mmap`: the file is mapped, whole or in windows of a block, and handed over in steps.

use super::PreparedRead;
use crate::chunk::{Chunk, Mapped};
use crate::setup::Setup;
use crate::transfer::{Ahead, MappedWindow, STEP_BYTES, pieces, require_guard, windows};

pub(super) fn prepare(setup: Setup) -> PreparedRead {
    require_guard(&setup)?;
    Ok(Box::new(|source, range, consumer| {
        let mut ahead = Ahead::for_map(source, range.clone())?;
        for window in windows(source.method, range) {
            let view = MappedWindow::of_source(source, &window)?;
            for step in pieces(window, STEP_BYTES) {
                ahead.reading_at(step.start)?;
                let flow = consumer.data(step.start, Chunk::Mapped(Mapped(view.bytes(&step))));
                view.check(step.start)?;
                if flow.is_break() {
                    return source.check_not_shrunk().map(|()| true);
                }
            }
        }
        // Truncation within the last page raises no signal.
        source.check_not_shrunk()?;
        Ok(false)
    }))
}
