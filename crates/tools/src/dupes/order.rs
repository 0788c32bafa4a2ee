//! The order in which files are reported.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::os::unix::ffi::OsStringExt;

use super::all_names;
use crate::walk::Files;

/// The order of files by their first paths. A slash sorts before all other bytes, as in [`Path`](std::path::Path).
///
/// Only the paths of directories are made: the paths of all files would take more memory than everything else.
pub(super) struct PathOrder<'a> {
    files: &'a Files,
    /// For files with several names: the first name and another.
    names: &'a [(u32, u32)],
    /// The path before the names in each place.
    above: Vec<OnceCell<Vec<u8>>>,
}

impl<'a> PathOrder<'a> {
    pub fn new(files: &'a Files, names: &'a [(u32, u32)]) -> Self {
        Self {
            files,
            names,
            above: vec![OnceCell::new(); files.places()],
        }
    }

    /// Sorts files by their first paths.
    pub fn sort<T>(&self, all: &mut [T], number: impl Fn(&T) -> u32) {
        all.sort_by_cached_key(|one| self.first_path(number(one)));
    }

    /// The first path of a file.
    pub fn first_path(&self, number: u32) -> PathOfName<'_> {
        let names = all_names(self.names, number).map(|name| PathOfName { order: self, name });
        names.min().unwrap_or(PathOfName {
            order: self,
            name: number,
        })
    }

    fn above(&self, name: u32) -> &[u8] {
        self.above[self.files.place_of(name)].get_or_init(|| {
            let mut above = self.files.directory(name).path_of(b"").into_os_string().into_vec();
            if !above.is_empty() && !above.ends_with(b"/") {
                above.push(b'/');
            }
            above.into_iter().map(least_slash).collect()
        })
    }
}

/// The path of a name, which is compared without being made.
pub(super) struct PathOfName<'a> {
    order: &'a PathOrder<'a>,
    name: u32,
}

impl Ord for PathOfName<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let files = self.order.files;
        let [name, other_name] = [self, other].map(|one| files.name(one.name));
        let [above, other_above] = [self, other].map(|one| self.order.above(one.name));
        if files.place_of(self.name) == files.place_of(other.name) && !above.is_empty() {
            return name.cmp(other_name);
        }
        let alike = above.len().min(other_above.len());
        above[..alike].cmp(&other_above[..alike]).then_with(|| {
            let rest = above[alike..].iter().chain(name).copied().map(least_slash);
            rest.cmp(other_above[alike..].iter().chain(other_name).copied().map(least_slash))
        })
    }
}

impl PartialOrd for PathOfName<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathOfName<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathOfName<'_> {}

/// Maps a byte of a path for comparing: a slash is the least.
fn least_slash(byte: u8) -> u8 {
    if byte == b'/' { 0 } else { byte }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::Stop;
    use crate::walk::{Filter, Selection};

    #[test]
    fn files_have_the_order_of_their_paths_whatever_the_directories() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for file in [
            "a/b", "a/b-", "a-/b", "b", "a/c/d", "a/c-", "a/c d/e", "a/c/d.e", "z/a/b/c", "z/a-/b", "z/a.b",
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "x").unwrap();
        }
        for (file, link) in [("b", "a/0"), ("a/b", "z/z"), ("z/a.b", "z/a/a")] {
            fs::hard_link(root.join(file), root.join(link)).unwrap();
        }
        let given = [root.join("z"), root.join("a-"), root.to_owned()];
        let selection = Selection::new(given.iter().map(PathBuf::as_path), true);
        let plan = seekless_engine::plan::batch(&seekless_engine::facts::ProcessFacts::here());
        let files = Files::list(&selection, &Filter::default(), false, &plan, &Stop::default()).files;
        let (mut numbers, names) = super::super::distinct(&files);
        let first = |number: &u32| all_names(&names, *number).map(|name| files.path(name)).min();
        let mut expected = numbers.clone();
        expected.sort_by_key(first);
        PathOrder::new(&files, &names).sort(&mut numbers, |number| *number);
        assert_eq!(
            numbers.iter().map(first).collect::<Vec<_>>(),
            expected.iter().map(first).collect::<Vec<_>>()
        );
        assert_eq!(numbers.len(), 11);
    }
}
