//! Models of disks: parameters with their sources, published figures beside simulated ones, and what a list takes on each.

use std::io::{self, Write};

use seekless_results::{bytes, rate, seconds, thousands, three_digits, times};
use seekless_sim::models::{DiskModel, MODELS, Parameter, Publication, PublishedFigure};
use seekless_sim::replay::Replayed;
use seekless_sim::trace::TracedRequest;
use serde_json::{Value, json};

use super::page::Page;
use super::table::{TableRow, TextTable, print_with_texts};
use super::wrap::columns_of;
use super::{BOLD, DIM};

/// Lists all models.
pub fn list_models(page: &mut Page<'_>) -> io::Result<()> {
    let widest = MODELS.iter().map(|model| columns_of(model.name)).max().unwrap_or(0);
    for model in MODELS.iter() {
        page.labelled(BOLD, model.name, widest + 2, model.about)?;
    }
    Ok(())
}

/// Shows a model: what it is, its parameters, and the figures that were published about it.
pub fn show_model(page: &mut Page<'_>, model: &'static DiskModel) -> io::Result<()> {
    page.labelled(BOLD, model.name, columns_of(model.name) + 2, model.about)?;
    writeln!(page)?;
    let rows = model.parameters.iter();
    let rows: Vec<_> = rows
        .map(|parameter| (in_words(parameter), &*parameter.source))
        .collect();
    print_with_texts(page, ["Parameter", "Value", "Source"], &rows)?;
    writeln!(page)?;
    if model.published.is_empty() {
        page.say(DIM, "No published figures are known for this disk.")?;
    }
    let mut published = model.published.iter();
    published.try_for_each(|publication| show_publication(page, model, publication))
}

/// Published figures, and what the same requests take on the model.
fn show_publication(page: &mut Page<'_>, model: &'static DiskModel, publication: &Publication) -> io::Result<()> {
    page.say(BOLD, &publication.source)?;
    page.aside(DIM, &publication.machine)?;
    let row = |figure: &PublishedFigure| {
        let simulated = figure.simulated_seconds(model);
        let ratio = times(simulated / figure.seconds);
        let cells = vec![seconds(figure.seconds), seconds(simulated), ratio];
        TableRow::new(figure.program.clone(), cells)
    };
    let rows = publication.figures.iter().map(row);
    TextTable::new(Some("Program"), &["Published", "Simulated", "Ratio"], rows).print(page, &[])?;
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for figure in &publication.figures {
        let Some(reason) = figure.not_reproduced.as_deref() else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, programs)) => programs.push(&figure.program),
            None => reasons.push((reason, vec![&figure.program])),
        }
    }
    for (reason, programs) in reasons {
        page.note(&format!("not reproduced: {}: {reason}", programs.join(", ")))?;
    }
    writeln!(page)
}

/// A unit of parameters: how their names end, its symbol, and a value in words.
struct ParameterUnit {
    end: &'static str,
    symbol: Option<&'static str>,
    words: fn(u64) -> String,
}

impl ParameterUnit {
    const fn new(end: &'static str, symbol: &'static str, words: fn(u64) -> String) -> Self {
        let symbol = Some(symbol);
        Self { end, symbol, words }
    }

    fn of(parameter: &Parameter) -> &'static Self {
        const UNITS: [ParameterUnit; 6] = [
            ParameterUnit::new("bytes_per_second", "bytes/s", |value| rate(value as f64)),
            ParameterUnit::new("_bytes", "bytes", bytes),
            ParameterUnit::new("_ns", "ns", |value| seconds(value as f64 / 1e9)),
            ParameterUnit::new("_percent", "%", |value| format!("{value} %")),
            ParameterUnit::new("_per_minute", "rpm", |value| format!("{} rpm", thousands(value))),
            ParameterUnit::new("_iops", "IOPS", |value| format!("{} IOPS", thousands(value))),
        ];
        const COUNT: ParameterUnit = ParameterUnit {
            end: "",
            symbol: None,
            words: thousands,
        };
        let found = UNITS.iter().find(|unit| parameter.name.ends_with(unit.end));
        found.unwrap_or(&COUNT)
    }
}

/// The name of a parameter without its unit, and its value with it.
fn in_words(parameter: &Parameter) -> [String; 2] {
    let unit = ParameterUnit::of(parameter);
    let name = parameter.name.strip_suffix(unit.end).unwrap_or(&parameter.name);
    let rate = if unit.end == "bytes_per_second" { "rate" } else { "" };
    let words = format!("{name}{rate}").replace('_', " ");
    [words, (unit.words)(parameter.value)]
}

/// Models as JSON: their parameters in the units of their names, and published figures beside simulated ones, in seconds.
pub fn models_json(models: &[&'static DiskModel]) -> Value {
    let parameter = |parameter: &Parameter| {
        json!({
            "name": parameter.name,
            "value": parameter.value,
            "unit": ParameterUnit::of(parameter).symbol,
            "source": parameter.source,
        })
    };
    let figure = |model: &'static DiskModel, figure: &PublishedFigure| {
        json!({
            "program": figure.program,
            "seconds": figure.seconds,
            "simulated_seconds": figure.simulated_seconds(model),
            "not_reproduced": figure.not_reproduced,
        })
    };
    let publication = |model: &'static DiskModel, published: &Publication| {
        let figures = published.figures.iter().map(|published| figure(model, published));
        json!({
            "source": published.source,
            "machine": published.machine,
            "figures": figures.collect::<Value>(),
        })
    };
    let model = |model: &&'static DiskModel| {
        let published = model.published.iter().map(|published| publication(model, published));
        json!({
            "name": model.name,
            "about": model.about,
            "parameters": model.parameters.iter().map(parameter).collect::<Value>(),
            "published": published.collect::<Value>(),
        })
    };
    json!({ "models": models.iter().map(model).collect::<Value>() })
}

/// What a list takes on each of the models, fastest first.
pub fn show_replays(
    page: &mut Page<'_>,
    trace: &[TracedRequest],
    replays: &[(&DiskModel, Replayed)],
) -> io::Result<()> {
    let begun_ns = trace.iter().map(|traced| traced.arrived_ns).min().unwrap_or(0);
    let last_ns = trace.iter().filter_map(|traced| traced.completed_ns).max();
    let recorded_ns = last_ns.map(|last_ns| last_ns - begun_ns);
    let total_bytes: u64 = trace.iter().map(|traced| traced.request.length_bytes).sum();
    let sum = format!("{} requests, {}", thousands(trace.len() as u64), bytes(total_bytes));
    let recorded = recorded_ns.map(|ns| format!("recorded in {}", seconds(ns as f64 / 1e9)));
    let recorded = recorded.unwrap_or_else(|| "not recorded".to_owned());
    page.say(BOLD, &format!("{sum}, {recorded}"))?;
    let mut replays: Vec<_> = replays.iter().collect();
    replays.sort_by_key(|(_, replayed)| replayed.total_ns);
    let row = |(model, replayed): &&(&DiskModel, Replayed)| {
        let total = replayed.total_ns as f64;
        let over = recorded_ns.filter(|ns| *ns > 0).map(|ns| times(total / ns as f64));
        let over = over.unwrap_or_else(|| "-".to_owned());
        let busy = 100.0 * replayed.counters.busy_ns as f64 / total.max(1.0);
        let (busy, seeks) = (three_digits(busy) + " %", thousands(replayed.counters.seeks));
        TableRow::new(model.name.to_owned(), vec![seconds(total / 1e9), over, busy, seeks])
    };
    let heads = ["Time", "vs recorded", "Busy", "Seeks"];
    TextTable::new(Some("Model"), &heads, replays.iter().map(row)).print(page, &[])
}
