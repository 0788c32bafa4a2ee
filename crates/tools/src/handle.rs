//! A path for opening an open file again, which direct reads need.

use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// It leads to this file even if another took its name, and is never too long: proc(5). `None` if the system has no
/// paths for open files.
pub(crate) fn path_of(file: &impl AsRawFd) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    path.exists().then_some(path)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_is_reached_whatever_has_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("name");
        std::fs::write(&name, "this one").unwrap();
        let file = File::open(&name).unwrap();
        std::fs::remove_file(&name).unwrap();
        std::fs::write(&name, "another").unwrap();
        match path_of(&file) {
            Some(path) => assert_eq!(std::fs::read(path).unwrap(), b"this one"),
            None => println!("skipped: no names for open files here"),
        }
    }
}
