//! `write/double-buffer`: a second thread writes block n while the producer makes block n + 1.

use std::ops::ControlFlow;

use super::PreparedWrite;
use crate::setup::Setup;
use crate::transfer::{DoubleBuffer, Helper};

pub(super) fn prepare(setup: Setup) -> PreparedWrite {
    let mut buffers = DoubleBuffer::new(setup)?;
    Ok(Box::new(move |target, producer| {
        let written = buffers.run(
            Helper::Takes,
            target.range(),
            |buffer, offset, length| target.produce(producer, offset, &mut buffer[..length]),
            |buffer, offset, length| target.write_block(buffer, offset, length).map(ControlFlow::Continue),
        );
        written.map(drop)
    }))
}
