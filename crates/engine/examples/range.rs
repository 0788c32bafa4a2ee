//! Copies a range of a file into another file that exists, whose other bytes stay: `range FROM START BYTES TO OFFSET`.

use std::fs::File;

use seekless::Part;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [from, start, bytes, to, offset] = words.as_slice() else {
        return Err("range FROM START BYTES TO OFFSET".into());
    };
    let (start, bytes, offset): (u64, u64, u64) = (start.parse()?, bytes.parse()?, offset.parse()?);
    let file = File::open(from)?;
    let source = Part::of_file(&file)
        .named(from)
        .range(start..start.saturating_add(bytes));
    let done = seekless::copy(source, Part::whole(to).range(offset..))?;
    println!("{} bytes copied by {}: {}", done.bytes, done.method, done.why);
    Ok(())
}
