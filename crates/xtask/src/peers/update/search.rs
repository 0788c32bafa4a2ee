//! The best of all update methods for a workload: each mechanism with its orders, gaps, blocks and depths.

use std::path::Path;

use anyhow::{Context, Result};
use seekless::method::{
    CachePolicy, Durability, Hint, MECHANISMS, Mechanism, Method, Operation, OptionId, Options, Setting, UpdateOrder,
};
use seekless_results::statistics::median;

use crate::peers::cases::Start;
use crate::peers::update::workload::Workload;

const BLOCKS: [u64; 4] = [64 << 10, 1 << 20, 8 << 20, 64 << 20];
const GAPS: [u64; 4] = [512, 4 << 10, 64 << 10, 1 << 20];
const HINTS: [Hint; 2] = [Hint::None, Hint::WillNeed];
const DEPTHS: [u32; 3] = [2, 8, 32];
/// Whoever takes so many times the best is measured no more.
const HOPELESS: f64 = 2.5;

/// The fastest by the median of its rounds. What is not to be had here is left out.
pub fn best(workload: &Workload, program: &Path, start: Start, rounds: u16) -> Result<String> {
    let mut seconds: Vec<(String, Vec<f64>)> = Vec::new();
    for method in candidates() {
        let text = method.to_string();
        match workload.update(program, Some(&text), start) {
            Ok(measured) => seconds.push((text, vec![measured.write])),
            Err(error) if format!("{error:#}").contains("not available here") => {}
            Err(error) => return Err(error.context(text)),
        }
    }
    for _ in 1..rounds {
        let best = seconds
            .iter()
            .filter_map(|(_, all)| median(all))
            .fold(f64::INFINITY, f64::min);
        seconds.retain(|(_, all)| median(all).is_some_and(|middle| middle <= best * HOPELESS));
        for (text, all) in &mut seconds {
            all.push(workload.update(program, Some(text), start)?.write);
        }
    }
    let middle = |all: &[f64]| median(all).unwrap_or(f64::INFINITY);
    seconds.sort_by(|one, other| middle(&one.1).total_cmp(&middle(&other.1)));
    for (text, all) in seconds.iter().take(5) {
        eprintln!("  {:.2} ms {text}", middle(all) * 1e3);
    }
    let (text, _) = seconds.into_iter().next().context("no method is to be had here")?;
    Ok(text)
}

/// All that leave the updates on the device, but for those that write each by itself: ten thousand waits are measured
/// beside the plan already.
fn candidates() -> Vec<Method> {
    let mut found: Vec<Method> = Vec::new();
    for mechanism in MECHANISMS
        .iter()
        .filter(|mechanism| mechanism.operation == Operation::Update)
    {
        for options in options(mechanism) {
            if let Ok(method) = Method::new(mechanism, options)
                && !found.contains(&method)
            {
                found.push(method);
            }
        }
    }
    found
}

fn options(mechanism: &'static Mechanism) -> Vec<Options> {
    let mut all = Vec::new();
    let gaps = GAPS.map(UpdateOrder::Coalesce);
    let orders: Vec<UpdateOrder> = match mechanism.accepts(OptionId::UpdateOrder) {
        Some(_) => gaps.into_iter().chain([UpdateOrder::Rewrite]).collect(),
        None => vec![UpdateOrder::Ascending],
    };
    let depths: Vec<Option<u32>> = match mechanism.accepts(OptionId::Depth) {
        Some(_) => DEPTHS.map(Some).to_vec(),
        None => vec![None],
    };
    // A map is brought to the device at its end.
    let durability = match Method::plain(mechanism).with(Durability::WriteThrough) {
        Ok(_) => Durability::WriteThrough,
        Err(_) => Durability::Fsync,
    };
    for cache in [CachePolicy::Cached, CachePolicy::Direct] {
        for &update_order in &orders {
            for &depth in &depths {
                for block_bytes in BLOCKS {
                    // Buffers of a ring are made for all of its depth.
                    if depth.is_some_and(|depth| u64::from(depth) * block_bytes > 256 << 20) {
                        continue;
                    }
                    let options = Options::default().with(cache).with(update_order).with(durability);
                    let options = options
                        .with(Setting::depth(depth))
                        .with(Setting::block_bytes(block_bytes));
                    // Nothing is read ahead past the page cache.
                    let hints = HINTS
                        .into_iter()
                        .filter(|hint| cache == CachePolicy::Cached || *hint == Hint::None);
                    all.extend(hints.map(|hint| options.with(hint)));
                }
            }
        }
    }
    all
}
