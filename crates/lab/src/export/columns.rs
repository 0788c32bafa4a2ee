//! A run in the columns of a document: milliseconds by file size, a block of lines for each way of writing.

use seekless_record::Run;

use crate::columns::{Table, tables};

/// The tables of the experiments that give columns, as lines of tabs: before each a line that begins with `#` and says what it
/// is about, then the names. Behind the columns stand the extents of the file of the first of them. A time that was not
/// measured is an empty field; without columns the text is empty.
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
    writer.write_record(std::iter::once("Bytes").chain(names).chain(["Extents"]))?;
    for line in &table.lines {
        let mut fields = vec![line.size_bytes.to_string()];
        let milliseconds = |cell: &Option<_>| cell.map_or_else(String::new, milliseconds);
        fields.extend(line.cells.iter().map(milliseconds));
        let extents = line.cells.first().copied().flatten().and_then(|cell| cell.extents);
        fields.push(extents.map_or_else(String::new, |extents| extents.to_string()));
        writer.write_record(fields)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    // A path may have any character; the line that tells it is one line.
    let about: String = about.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Ok(format!("{about}\n{}", String::from_utf8_lossy(&bytes)))
}

fn milliseconds(cell: crate::columns::Cell) -> String {
    format!("{:.3}", cell.seconds * 1e3)
}
