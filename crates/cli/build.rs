//! How the command is linked: at a fixed address on Linux, because the ten thousand addresses in its tables would be
//! written at every start otherwise, which takes a fifth of a millisecond, and `cmp` is started often.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
