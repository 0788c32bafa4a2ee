//! `seekless sim list`: the simulated disks, and what they did.

use clap::Args;

/// List the simulated disks: what each served, and how late.
///
/// A request is late if it was answered after the time that the model says.
#[derive(Debug, Args)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "devices need Linux"))]
#[command(after_help = "\
Examples:
  sudo seekless sim list
  sudo seekless sim list --json | jq '.devices[].report.counters.seeks'")]
pub struct Arguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[cfg(target_os = "linux")]
pub(super) fn run(arguments: &Arguments) -> Result<(), crate::command::Failure> {
    use seekless_sim::device::{devices, report};
    use serde_json::json;

    use crate::command::unless_failed;
    use crate::show::{PLAIN, Page};

    super::clear_stale()?;
    let mut errors = Vec::new();
    let mut listed = Vec::new();
    for name in devices()? {
        match name.state().and_then(|state| Ok((state, report(&name)?))) {
            Ok((state, report)) => listed.push((name, state, report)),
            // It is being started, or just ended.
            Err(error) if error.is_absence() => {}
            Err(error) => errors.push(error.into()),
        }
    }
    // `null-2` before `null-10`.
    listed.sort_by_key(|(name, state, _)| (state.model.clone(), name.as_str().len(), name.clone()));
    if arguments.json {
        let objects = listed
            .iter()
            .map(|(name, state, report)| json!({"name": name.as_str(), "state": state, "report": report}));
        let document = json!({"devices": objects.collect::<Vec<_>>()});
        Page::stdout().json(&document)?;
        return unless_failed(errors);
    }
    let mut page = Page::stdout();
    if listed.is_empty() && errors.is_empty() {
        page.say(
            PLAIN,
            "There are no simulated disks. `seekless sim start MODEL` starts one.",
        )?;
    }
    for (name, state, report) in &listed {
        let [head, served, paced] = device::sentences(name, state, report);
        page.say(PLAIN, &head)?;
        page.aside(PLAIN, &served)?;
        page.aside(PLAIN, &paced)?;
    }
    unless_failed(errors)
}

#[cfg(target_os = "linux")]
mod device {
    use std::time::{SystemTime, UNIX_EPOCH};

    use seekless_results::{bytes, counted, duration, percent, plural, seconds, thousands};
    use seekless_sim::device::{DeviceName, DeviceReport, DeviceState, Lateness};

    use super::super::place;
    use crate::show::level;

    /// A bar for each bin of a histogram, whose bins double.
    fn histogram(bins: &[u64]) -> String {
        let Some(most) = bins.iter().max().filter(|most| **most > 0) else {
            return String::new();
        };
        let bars = bins.iter().map(|count| match count {
            0 => ' ',
            count => level(*count as f64 / *most as f64),
        });
        let last = seconds((1_u64 << bins.len().saturating_sub(2)) as f64 / 1e6);
        format!(" [{}] from 0 to {last} and more, doubling", bars.collect::<String>())
    }

    /// What it is, what it served, and how late.
    pub fn sentences(name: &DeviceName, state: &DeviceState, report: &DeviceReport) -> [String; 3] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        let up = duration(now.saturating_sub(state.started_at) as f64);
        let place = place(state);
        let speed = match state.speed {
            1.0 => String::new(),
            speed => format!(" at {speed}x"),
        };
        let mut troubles = String::new();
        if report.faults + report.cuts > 0 {
            let (faults, cuts) = (counted(report.faults, "fault"), counted(report.cuts, "power cut"));
            troubles = format!(", {faults}, {cuts}");
        }
        if report.unrecorded > 0 {
            let requests = counted(report.unrecorded, "request");
            troubles = format!("{troubles}, cannot write the trace: it lacks {requests}");
        }
        let counters = &report.counters;
        let (requests, seeks) = (counted(counters.requests, "request"), counted(counters.seeks, "seek"));
        let most = thousands(report.depth_max);
        let flushes = plural(counters.flushes, "flush", "flushes");
        let (read, wrote) = (bytes(counters.read_bytes), bytes(counters.written_bytes));
        let busy = 100.0 * (counters.busy_ns as f64 / report.drive_ns.max(1) as f64).min(1.0);
        let (name, model, size) = (name.as_str(), &state.model, bytes(state.size_bytes));
        [
            format!("{name}: {model}{speed}, {size}, {place}, up {up}"),
            format!(
                "served {requests} ({seeks}, at most {most} at a time), read {read}, wrote {wrote}, {flushes}, \
                 busy {busy:.0} %{troubles}"
            ),
            paced(&report.lateness),
        ]
    }

    /// How late answers were.
    fn paced(lateness: &Lateness) -> String {
        if lateness.answers == 0 {
            return "no answers yet".to_owned();
        }
        let times = [lateness.p50_us, lateness.p99_us, lateness.max_us];
        let [median, most, maximum] = times.map(|us| seconds(us as f64 / 1e6));
        let (within, bars) = (percent(lateness.within_20_us), histogram(&lateness.histogram));
        format!("late by {median} (median), {most} (99 %), {maximum} (maximum); {within} of answers within 20 µs{bars}")
    }
}
