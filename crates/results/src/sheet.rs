//! Tables whose cells are made once for all renderers.
//!
//! Not here: how a renderer draws a row, and which tables it shows.

use crate::verdict::ShownVerdict;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// Its columns; the first names the rows.
    pub columns: Vec<SheetColumn>,
    /// Its rows.
    pub rows: Vec<SheetRow>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetColumn {
    /// Its heading.
    pub head: String,
    /// What its cells hold.
    pub kind: ColumnKind,
}

/// What the cells of a column hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// The name of a method.
    Method,
    /// A figure, by which rows can be sorted.
    Figure,
    /// Words.
    Words,
    /// The verdict on the row.
    Verdict,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct SheetRow {
    /// A cell for each column.
    pub cells: Vec<SheetCell>,
    /// Remarks on its name: what they are about, and the remark.
    pub remarks: Vec<(String, String)>,
    /// The verdict, if it is on a method that was measured.
    pub verdict: Option<ShownVerdict>,
}

/// A cell of a table; the text of an unknown figure is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetCell {
    /// Its text.
    pub text: String,
    /// Its figure.
    pub figure: f64,
    /// What it holds.
    pub kind: ColumnKind,
}

impl Sheet {
    /// A table without rows.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Adds a row: each cell with the heading of its column. The first row says which columns there are.
    pub(crate) fn push<H: Into<String>>(
        &mut self,
        verdict: Option<ShownVerdict>,
        cells: impl IntoIterator<Item = (H, SheetCell)>,
    ) -> &mut SheetRow {
        let (heads, cells): (Vec<H>, Vec<SheetCell>) = cells.into_iter().unzip();
        if self.rows.is_empty() {
            let columns = heads.into_iter().zip(&cells);
            let column = |(head, cell): (H, &SheetCell)| SheetColumn {
                head: head.into(),
                kind: cell.kind,
            };
            self.columns = columns.map(column).collect();
        }
        self.rows.push(SheetRow {
            cells,
            remarks: Vec::new(),
            verdict,
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// Omits the columns in which no row has anything.
    pub(crate) fn omit_empty_columns(&mut self) {
        let is_empty = |column: &usize| self.rows.iter().all(|row| row.cells[*column].text.is_empty());
        let empty: Vec<usize> = (0..self.columns.len()).filter(is_empty).collect();
        for &column in empty.iter().rev() {
            self.columns.remove(column);
            self.rows.iter_mut().for_each(|row| {
                row.cells.remove(column);
            });
        }
    }
}

impl SheetCell {
    /// Its text, or a dash if that is unknown.
    #[must_use]
    pub fn known(&self) -> &str {
        if self.text.is_empty() { "–" } else { &self.text }
    }

    /// A cell with words.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self::of(ColumnKind::Words, text)
    }

    /// A cell with the name of a method.
    pub(crate) fn method(text: impl Into<String>) -> Self {
        Self::of(ColumnKind::Method, text)
    }

    /// A cell with the verdict on its row.
    pub(crate) fn verdict(text: impl Into<String>) -> Self {
        Self::of(ColumnKind::Verdict, text)
    }

    fn of(kind: ColumnKind, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            figure: f64::NAN,
            kind,
        }
    }

    /// A cell with a figure that may be unknown.
    pub(crate) fn figure(figure: Option<f64>, text: impl Fn(f64) -> String) -> Self {
        Self {
            text: figure.map(text).unwrap_or_default(),
            figure: figure.unwrap_or(f64::NAN),
            kind: ColumnKind::Figure,
        }
    }
}
