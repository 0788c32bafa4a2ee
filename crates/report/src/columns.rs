//! A run in the columns of a document: milliseconds by file size, a block of lines for each way of writing.

use seekless_record::Run;
use seekless_results::{Cell, Table, elsewhere, tables};

/// The tables of the experiments that give columns, as lines of tabs: before each a line that begins with `#` and says what it
/// is about, then the names. Behind the columns stand the extents of the file of the first of them, and where something of a
/// table was published a field more: lines with the machine in it are what was published. A time that was not measured is an
/// empty field; without columns the text is empty.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn to_columns(run: &Run) -> Result<String, csv::Error> {
    let blocks = tables(run)
        .iter()
        .map(|table| block(run, table))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(blocks.join("\n"))
}

fn block(run: &Run, table: &Table<'_>) -> Result<String, csv::Error> {
    let storage = run.storages.get(table.storage);
    let storage = storage.map_or_else(String::new, |storage| {
        format!("{}, {}, ", storage.path, storage.file_system)
    });
    let about = format!("# {}: {storage}{}; milliseconds of a file", run.id, table.title());
    let mut writer = csv::WriterBuilder::new().delimiter(b'\t').from_writer(Vec::new());
    let names = table.columns.iter().map(|column| column.name.as_str());
    let published = published(run, table);
    let machine = (!published.is_empty()).then_some("Published");
    writer.write_record(std::iter::once("Bytes").chain(names).chain(["Extents"]).chain(machine))?;
    for line in &table.lines {
        let mut fields = vec![line.size_bytes.to_string()];
        let time = |cell: &Option<Cell>| cell.map_or_else(String::new, |cell| milliseconds(cell.seconds));
        fields.extend(line.cells.iter().map(time));
        let extents = line.cells.first().copied().flatten().and_then(|cell| cell.extents);
        fields.push(extents.map_or_else(String::new, |extents| extents.to_string()));
        fields.extend(machine.map(|_| String::new()));
        writer.write_record(fields)?;
    }
    for (size_bytes, machine, times) in published {
        let mut fields = vec![size_bytes.to_string()];
        fields.extend(
            times
                .into_iter()
                .map(|time| time.map_or_else(String::new, milliseconds)),
        );
        fields.extend([String::new(), one_line(machine)]);
        writer.write_record(fields)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(format!("{}\n{}", one_line(&about), String::from_utf8_lossy(&bytes)))
}

/// What was published of a table: size, machine, and the seconds of each column.
fn published<'a>(run: &'a Run, table: &Table<'a>) -> Vec<(u64, &'a str, Vec<Option<f64>>)> {
    let mut lines: Vec<(u64, &str, Vec<Option<f64>>)> = Vec::new();
    for figure in elsewhere(run, table) {
        let key = (figure.size_bytes, figure.machine);
        let place = lines
            .iter()
            .position(|(size_bytes, machine, _)| (*size_bytes, *machine) == key);
        let place = place.unwrap_or_else(|| {
            lines.push((key.0, key.1, vec![None; table.columns.len()]));
            lines.len() - 1
        });
        lines[place].2[figure.column] = Some(figure.seconds);
    }
    lines
}

/// A path, or what a stranger wrote, may have any character; the line that tells it is one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3}", seconds * 1e3)
}

#[cfg(test)]
mod tests;
