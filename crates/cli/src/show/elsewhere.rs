//! Files that catalogues have, too.

use std::io::{self, Write};

use seekless_results::{bytes, visible};
use seekless_tools::dupes::catalogue::{CatalogueMatches, CatalogueName, Match};
use seekless_tools::json::written;
use serde_json::json;

use super::escape::visible_path;
use super::objects::{JsonForm, Objects};
use super::page::Page;
use super::units::counted;

/// Writes the files that catalogues have, too, each with where it is there.
pub fn show_elsewhere(found: &CatalogueMatches, form: Option<JsonForm>) -> io::Result<()> {
    let mut page = Page::stdout();
    let is_same = |found: &&Match| found.same.iter().any(|place| !place.is_itself);
    let same = found.matches.iter().filter(is_same);
    let of_bytes: u64 = same.clone().map(|found| found.bytes).sum();
    let perhaps = found.matches.iter().filter(|found| found.same.is_empty()).count() as u64;
    let mut objects = Objects::new(form, "matches");
    if objects.are_wanted() {
        for found in &found.matches {
            objects.write(&mut page, &written(found))?;
        }
        let summary = json!({ "files": found.files, "same": same.count(), "same_bytes": of_bytes, "perhaps": perhaps });
        objects.finish(&mut page, &summary)?;
        return page.flush();
    }
    for Match {
        paths,
        bytes: size,
        same,
        more_same,
        perhaps,
        more_perhaps,
    } in &found.matches
    {
        for path in paths {
            writeln!(page, "{}", visible_path(path))?;
        }
        for (word, places, more) in [
            ("same digest", same, more_same),
            ("same size and beginning", perhaps, more_perhaps),
        ] {
            for CatalogueName { host, path, is_itself } in places {
                let itself = if *is_itself { ", perhaps this file itself" } else { "" };
                let (host, path) = (visible(host), visible_path(path));
                writeln!(page, "  {word}{itself}, {}: {host}:{path}", bytes(*size))?;
            }
            if *more > 0 {
                writeln!(page, "  {word}: {more} more")?;
            }
        }
    }
    let same = same.count();
    let perhaps = if perhaps == 0 {
        String::new()
    } else {
        format!("; {perhaps} more may be the same, but the catalogue has no digest of them")
    };
    let (all, size) = (counted(found.files, "file"), bytes(of_bytes));
    writeln!(page, "{same} of {all} have the same digest there, {size}{perhaps}.")?;
    page.flush()
}
