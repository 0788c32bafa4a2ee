//! A run in the columns of a document: milliseconds by file size, a block of lines for each way of writing.

use seekless_record::Run;
use seekless_results::{Table, View, Visible};

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
    let blocks = view.columns.iter().map(|table| block(view.run, table));
    Ok(blocks.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn block(run: &Run, table: &Table<'_>) -> Result<String, csv::Error> {
    let storage = run.storages.get(table.storage);
    let storage = storage.map_or_else(String::new, |storage| {
        format!("{}, {}, ", storage.path, storage.file_system)
    });
    let about = format!("# {}: {storage}{}; milliseconds of a file", run.id, table.title());
    let sheet = table.sheet("");
    let mut writer = csv::WriterBuilder::new().delimiter(b'\t').from_writer(Vec::new());
    writer.write_record(sheet.columns.iter().map(|column| &column.head))?;
    for row in &sheet.rows {
        let texts = row.cells.iter().skip(1).map(|cell| cell.text.as_str());
        let size = row.cells[0].figure.to_string();
        writer.write_record([size.as_str()].into_iter().chain(texts))?;
    }
    Ok(format!("{about}\n{}", crate::csv::text(writer)?))
}

#[cfg(test)]
mod tests;
