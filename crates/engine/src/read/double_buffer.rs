//! `read/double-buffer`: a second thread reads block n + 1 while the consumer has block n.

use super::{PreparedRead, deliver};
use crate::setup::Setup;
use crate::transfer::DoubleBuffer;

pub(super) fn prepare(setup: Setup) -> PreparedRead {
    let mut buffers = DoubleBuffer::new(setup)?;
    Ok(Box::new(move |source, range, consumer| {
        let flow = buffers.read(source, range, |buffer, offset, length| {
            Ok(deliver(consumer, offset, buffer, length))
        });
        flow.map(|flow| flow.is_break())
    }))
}
