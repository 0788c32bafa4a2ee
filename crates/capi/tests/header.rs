//! `include/seekless.h` is what cbindgen makes of the source.
//!
//! `UPDATE_EXPECT=1 cargo test -p seekless-capi --test header` writes it anew.

use std::path::Path;

#[test]
fn header_is_the_one_that_the_source_makes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("the configuration is understood");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in ["result", "options", "border", "lib"] {
        builder = builder.with_src(root.join("src").join(name).with_extension("rs"));
    }
    let mut header = Vec::new();
    builder.generate().expect("the source is understood").write(&mut header);
    let header = String::from_utf8(header).expect("the header is text");
    // The names of pointers in the configuration end with a star, after which cbindgen puts a space.
    let header = ["char *", "void *", "change *", "options *", "result *"]
        .iter()
        .fold(header, |header, pointer| {
            header.replace(&format!("{pointer} "), pointer)
        });
    expect_test::expect_file![root.join("include/seekless.h")].assert_eq(&header);
}
