//! Maps without the guard. A process of its own, because the guard is installed for good.

use seekless_sys::{Map, MapMode, guard_installed};

#[test]
fn map_without_the_guard_is_refused() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    assert!(!guard_installed());
    let error = Map::new(&file, 0, 4096, MapMode::Read).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
}
