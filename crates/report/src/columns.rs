//! A run in the columns of a document: milliseconds by file size, a block of lines for each way of writing.

use seekless_record::Run;
use seekless_results::{Cell, Table, View, Visible};

/// The tables of the experiments that name columns, separated by tabs. Each starts with a line that begins with `#` and
/// describes it, and a line of names. The columns are followed by the extents of the first column's file and, if
/// results were published for the table, by the machine, which is empty for lines of this run. A time that was not
/// measured is an empty field. Without columns, the text is empty.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn to_columns(run: &Run) -> Result<String, csv::Error> {
    let shown = Visible::of(run);
    let view = View::of(&shown);
    let blocks = view
        .columns
        .iter()
        .map(|table| block(view.run, table))
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
    let machine = table.has_published().then_some("Published");
    writer.write_record(std::iter::once("Bytes").chain(names).chain(["Extents"]).chain(machine))?;
    for line in &table.lines {
        let mut fields = vec![line.size_bytes.to_string()];
        let time = |cell: &Option<Cell>| cell.map_or_else(String::new, |cell| format!("{:.3}", cell.seconds * 1e3));
        fields.extend(line.cells.iter().map(time));
        fields.push(line.extents().map_or_else(String::new, |extents| extents.to_string()));
        fields.extend(machine.map(|_| line.published.unwrap_or_default().to_owned()));
        writer.write_record(fields)?;
    }
    Ok(format!("{about}\n{}", crate::csv::text(writer)?))
}

#[cfg(test)]
mod tests;
