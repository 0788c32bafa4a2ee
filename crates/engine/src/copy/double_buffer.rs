//! `copy/double-buffer`: a second thread reads block n + 1 while this one writes block n.

use std::ops::ControlFlow;

use super::PreparedCopy;
use crate::setup::Setup;
use crate::transfer::DoubleBuffer;

pub(super) fn prepare(setup: Setup) -> PreparedCopy {
    let mut buffers = DoubleBuffer::new(setup)?;
    Ok(Box::new(move |source, target, range| {
        let copied = buffers.read(source, range, |buffer, offset, length| {
            let place = target.place(offset);
            target.write_block(buffer, place, length).map(ControlFlow::Continue)
        });
        copied.map(drop)
    }))
}
