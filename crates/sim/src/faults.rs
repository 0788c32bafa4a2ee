//! A fault of a device: which requests fail or lie, and when the power goes.
//!
//! Not here: doing it, which is for the device, and what a power cut loses ([`power`](crate::power)).

use serde::{Deserialize, Serialize};

use crate::request::{BlockRequest, RequestKind};

/// What can go wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It fails with EIO. A write that fails writes nothing, a flush that fails flushes nothing.
    Eio,
    /// It fails with ENOSPC, as on a device that is backed by less than it claims.
    Enospc,
    /// The device answers nothing for 40 ms.
    Stall,
    /// The flush is answered, and flushes nothing.
    LyingFlush,
    /// The power goes before it is served.
    PowerCut,
}

impl FaultKind {
    /// The requests that it can happen to.
    #[must_use]
    pub fn requests(self) -> &'static [RequestKind] {
        use RequestKind::{Discard, Flush, Read, Write};
        match self {
            Self::Eio | Self::Stall | Self::PowerCut => &[Read, Write, Flush, Discard],
            Self::Enospc => &[Write, Discard],
            Self::LyingFlush => &[Flush],
        }
    }
}

/// A fault of some of the requests of a device, in the order in which they arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// The requests that are counted; where it is empty, all that the fault can happen to.
    pub on: Vec<RequestKind>,
    /// The number of the first of them that it happens to, from 1.
    pub nth: u64,
    /// How often it happens.
    pub times: u64,
}

/// The fault of a device, and how far it is.
#[derive(Debug, Default)]
pub struct Faults {
    fault: Option<DeviceFault>,
    matched: u64,
    injected: u64,
}

impl Faults {
    /// A fault that counts from the next request on, if any.
    #[must_use]
    pub fn new(fault: Option<DeviceFault>) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    /// What happens to the next request.
    pub fn meets(&mut self, request: &BlockRequest) -> Option<FaultKind> {
        let DeviceFault { kind, on, nth, times } = self.fault.as_ref()?;
        let on: &[RequestKind] = if on.is_empty() { kind.requests() } else { on };
        if !on.contains(&request.kind) {
            return None;
        }
        self.matched += 1;
        let is_met = self.matched >= *nth && self.injected < *times;
        self.injected += u64::from(is_met);
        is_met.then_some(*kind)
    }

    /// How often it happened.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.injected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_happens_from_the_nth_match_as_often_as_told() {
        use RequestKind::{Discard, Flush, Read, Write};
        for (kind, on, nth, times, expected) in [
            (FaultKind::Eio, vec![Write], 2, 1, vec![4]),
            (FaultKind::Eio, vec![Write, Flush], 2, 2, vec![1, 4]),
            (FaultKind::Eio, vec![], 1, u64::MAX, vec![0, 1, 2, 3, 4, 5]),
            (FaultKind::Enospc, vec![], 1, u64::MAX, vec![0, 3, 4]),
            (FaultKind::LyingFlush, vec![], 2, 1, vec![5]),
        ] {
            let fault = DeviceFault { kind, on, nth, times };
            let mut faults = Faults::new(Some(fault.clone()));
            let requests = [Write, Flush, Read, Discard, Write, Flush].into_iter().enumerate();
            let met = requests.filter(|(_, kind)| faults.meets(&BlockRequest::new(*kind, 0, 4096)).is_some());
            let met: Vec<usize> = met.map(|(number, _)| number).collect();
            assert_eq!(met, expected, "{fault:?}");
            assert_eq!(faults.injected(), met.len() as u64);
        }
    }
}
