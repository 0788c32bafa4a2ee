//! Without a build script, cargo does not look at dependencies of one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
