//! What others published and an experiment gives: their findings, `[[published]]`, and the columns of their tables,
//! `[[column]]`.

use seekless_engine::method::Durability;
use seekless_record::{Cache, Column, Draw, Finding, FindingKind, Published, SystemUse, Target};
use serde::Deserialize;
use toml::Spanned;

use super::Layout;
use super::expand::glob;
use super::words::{Checked, one_of, operation, problem, refuse, size_of, visible};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedText {
    source: Spanned<String>,
    machine: String,
    finding: Vec<FindingText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FindingText {
    operation: Spanned<String>,
    kind: Option<FindingKind>,
    at_least: Option<Spanned<String>>,
    below: Option<Spanned<String>>,
    size: Option<Spanned<String>>,
    method: String,
    block: Option<String>,
    cache: Option<Cache>,
    layout: Option<Spanned<String>>,
    vmstat: Option<Spanned<VmstatText>>,
    durability: Option<Durability>,
    seconds: Option<Spanned<f64>>,
    cpu_seconds: Option<Spanned<f64>>,
    bytes_per_second: Option<Spanned<f64>>,
}

/// A line of vmstat(8) in its own words: us, sy, id, wa and st in per cent, cs and in per second, bi in KiB per second.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VmstatText {
    us: Option<f64>,
    sy: Option<f64>,
    id: Option<f64>,
    wa: Option<f64>,
    st: Option<f64>,
    cs: Option<f64>,
    r#in: Option<f64>,
    bi: Option<f64>,
}

/// The findings of one source, for the experiment that gives it.
pub(super) fn published(experiment: &str, text: PublishedText) -> Checked<Published> {
    let is_empty = text.source.get_ref().trim().is_empty();
    let no_source = "a published result needs a source: a title, a year, an address";
    refuse(Some(&text.source), is_empty, no_source)?;
    Ok(Published {
        experiment: experiment.to_owned(),
        source: text.source.into_inner(),
        machine: text.machine,
        findings: text.finding.into_iter().map(finding).collect::<Checked<_>>()?,
    })
}

fn finding(text: FindingText) -> Checked<Finding> {
    let size = |text: Option<Spanned<String>>| text.map(|text| size_of(&text, "file")).transpose();
    let has_bounds = text.at_least.is_some() || text.below.is_some();
    refuse(
        text.size.as_ref(),
        has_bounds,
        "use either `size`, or `at-least` and `below`",
    )?;
    let exact_bytes = size(text.size)?;
    Ok(Finding {
        operation: operation(&text.operation)?,
        kind: text.kind.unwrap_or_default(),
        at_least_bytes: exact_bytes.or(size(text.at_least)?),
        below_bytes: exact_bytes.map(|bytes| bytes + 1).or(size(text.below)?),
        method: text.method,
        block: text.block,
        cache: text.cache,
        layout: text.layout.map(|text| layout(&text)).transpose()?.flatten(),
        system: text.vmstat.as_ref().map(vmstat).transpose()?,
        durability: text.durability,
        seconds: figure(text.seconds.as_ref())?,
        cpu_seconds: figure(text.cpu_seconds.as_ref())?,
        bytes_per_second: figure(text.bytes_per_second.as_ref())?,
    })
}

/// The layout as runs name it.
fn layout(text: &Spanned<String>) -> Checked<Option<String>> {
    match text.get_ref().parse::<Layout>() {
        Ok(layout) => Ok((layout != Layout::Dense).then(|| layout.to_string())),
        Err(why) => problem(text, why),
    }
}

fn vmstat(text: &Spanned<VmstatText>) -> Checked<SystemUse> {
    let line = text.get_ref();
    let within = |value: Option<f64>, most: f64, unit: f64| {
        let is_wrong = value.is_some_and(|value| !(0.0..=most).contains(&value));
        refuse(Some(text), is_wrong, format!("a value of vmstat must be 0 to {most}"))?;
        Ok(value.map(|value| value / unit))
    };
    let part = |percent| within(percent, 100.0, 100.0);
    let rate = |rate| within(rate, 1e15, 1.0);
    Ok(SystemUse {
        user: part(line.us)?,
        system: part(line.sy)?,
        idle: part(line.id)?,
        wait: part(line.wa)?,
        stolen: part(line.st)?,
        switches_per_second: rate(line.cs)?,
        interrupts_per_second: rate(line.r#in)?,
        blocks_in_kib_per_second: rate(line.bi)?,
        cache_growth_bytes: None,
    })
}

/// A figure that a measurement can have.
fn figure(text: Option<&Spanned<f64>>) -> Checked<Option<f64>> {
    let figure = text.map(|text| *text.get_ref());
    let is_wrong = figure.is_some_and(|figure| !(0.0..1e15).contains(&figure));
    refuse(text, is_wrong, "a published figure must be finite and not negative")?;
    Ok(figure)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnText {
    name: Spanned<String>,
    operation: Spanned<String>,
    target: Option<Target>,
    draw: Option<Spanned<String>>,
    methods: Spanned<String>,
}

/// A column of a document, for the experiment that gives it.
pub(super) fn column(experiment: &str, text: ColumnText) -> Checked<Column> {
    // It is the heading of a line of tabs.
    visible(&text.name, "column")?;
    if let Err(message) = glob(text.methods.get_ref()) {
        let given = text.methods.get_ref();
        return problem(&text.methods, format!("`{given}` is not a valid glob: {message}"));
    }
    let draws = Draw::ALL.map(|draw| (draw.name(), draw));
    Ok(Column {
        experiment: experiment.to_owned(),
        operation: operation(&text.operation)?,
        target: text.target,
        draw: text.draw.map(|word| one_of(&word, "draw", &draws)).transpose()?,
        name: text.name.into_inner(),
        methods: text.methods.into_inner(),
    })
}
