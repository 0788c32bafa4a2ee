//! The socket by which other processes talk to a server: a request and an answer, one line of JSON each.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::pace::{DeviceReport, HostTime, Pacer};
use super::{DeviceError, DeviceName, Result, io_error};
use crate::faults::DeviceFault;
use crate::medium::Medium;
use crate::power::PowerLoss;

/// No server takes longer to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// No request is longer.
const REQUEST_BYTES_MAX: u64 = 4 << 10;

/// What can be asked of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ControlRequest {
    /// What it did: a [`DeviceReport`].
    Report,
    /// The time that it took for requests itself, in ns: small ones, large ones.
    OwnTime,
    /// Requests take time from now on.
    Pace { speed: f64, way: HostTime },
    /// Another fault, which counts from now on.
    Fault(Option<DeviceFault>),
    /// The power goes.
    LosePower,
    /// Whether it is gone.
    IsPowerLost,
    /// The device ends. If its power is gone, what waits for it fails. With force, nothing takes time or goes wrong any more.
    End { is_forced: bool },
    /// It comes back, and the next generation begins: a [`CutReport`](crate::medium::CutReport).
    Cut { loss: Option<PowerLoss>, seed: u64 },
    /// The file system of the next generation is mounted.
    GoOn,
}

/// What a living device did since it was started.
pub fn report(name: &DeviceName) -> Result<DeviceReport> {
    ask(name, &ControlRequest::Report)
}

/// The power of a device goes: its requests wait for [`cut`](super::cut()).
pub fn lose_power(name: &DeviceName) -> Result<()> {
    ask(name, &ControlRequest::LosePower)
}

/// Whether the power of a device is gone.
pub fn is_power_lost(name: &DeviceName) -> Result<bool> {
    ask(name, &ControlRequest::IsPowerLost)
}

/// Sets what goes wrong with a device from now on.
pub fn set_fault(name: &DeviceName, fault: Option<DeviceFault>) -> Result<()> {
    ask(name, &ControlRequest::Fault(fault))
}

/// Asks the server of a device.
pub(super) fn ask<T: DeserializeOwned>(name: &DeviceName, request: &ControlRequest) -> Result<T> {
    let path = name.path("control");
    let asked = || {
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = serde_json::to_vec(request)?;
        text.push(b'\n');
        stream.write_all(&text)?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    asked().map_err(io_error("ask the server", &path))
}

/// Listens, and answers in threads of its own until the process ends.
pub(super) fn listen(name: &DeviceName, pacer: &Arc<Pacer>, medium: &Arc<Medium>) -> Result<()> {
    let path = name.path("control");
    let listener = UnixListener::bind(&path).map_err(io_error("listen", &path))?;
    let (pacer, medium) = (pacer.clone(), medium.clone());
    let listening = move || {
        for stream in listener.incoming().flatten() {
            let (pacer, medium) = (pacer.clone(), medium.clone());
            thread::spawn(move || answer(&stream, &pacer, &medium));
        }
    };
    let started = thread::Builder::new().name("control".to_owned()).spawn(listening);
    started.map(drop).map_err(io_error("start a thread", &path))
}

fn answer(stream: &UnixStream, pacer: &Pacer, medium: &Medium) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let mut answer = serde_json::Value::Null;
    match serde_json::from_str(&line)? {
        ControlRequest::Report => {
            answer = serde_json::to_value(DeviceReport {
                faults: medium.injected(),
                cuts: medium.generation(),
                ..pacer.report()
            })?;
        }
        ControlRequest::OwnTime => answer = serde_json::to_value(pacer.own_ns())?,
        ControlRequest::Pace { speed, way } => pacer.start(speed, way),
        ControlRequest::Fault(fault) => medium.set_fault(fault),
        ControlRequest::LosePower => medium.lose_power(),
        ControlRequest::GoOn => medium.go_on(),
        ControlRequest::IsPowerLost => answer = medium.is_gone().into(),
        ControlRequest::End { is_forced } => {
            if is_forced {
                pacer.rush();
                medium.rush();
            }
            if medium.is_gone() {
                pacer.begin(medium.cut(None, 0)?.generation);
            }
        }
        ControlRequest::Cut { loss, seed } => {
            let report = medium.cut(loss, seed)?;
            pacer.begin(report.generation);
            answer = serde_json::to_value(report)?;
        }
    }
    writeln!(&*stream, "{answer}")
}

impl From<serde_json::Error> for DeviceError {
    fn from(error: serde_json::Error) -> Self {
        Self::Server(error.to_string())
    }
}
