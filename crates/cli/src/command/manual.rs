//! The manual: a page for each command, made from the definition of the command and its help.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

/// The pages of a command and of all commands in it, each with its name.
pub fn pages(command: Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, "seekless", &RELATED, &mut pages)?;
    Ok(pages)
}

/// Related programs, for SEE ALSO.
const RELATED: [&str; 5] = ["cmp", "fallocate", "fincore", "fio", "hyperfine"];

fn add(command: &Command, name: &str, related: &[&str], pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let inner = || command.get_subcommands().filter(|inner| !inner.is_hide_set());
    pages.push((name.to_owned(), page(command, name, related)?));
    let names: Vec<String> = inner().map(|inner| format!("{name}-{}", inner.get_name())).collect();
    for (inner, own) in inner().zip(&names) {
        // Commands within one command are related; those of seekless itself are not.
        let siblings = names.iter().filter(|sibling| name != "seekless" && *sibling != own);
        let related: Vec<&str> = [name].into_iter().chain(siblings.map(String::as_str)).collect();
        add(inner, own, &related, pages)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str, related: &[&str]) -> std::io::Result<Vec<u8>> {
    let command = command.clone().name(name.to_owned()).bin_name(name.replace('-', " "));
    let mut command = command.subcommand_help_heading("COMMANDS").max_term_width(10_000);
    let usage = command.render_usage().to_string();
    let mut help = vec![command.get_after_long_help().or(command.get_after_help()).cloned()];
    if name == "seekless-cmp" {
        help.push(super::cmp::command_of_trees().get_after_help().cloned());
    }
    let help: Vec<String> = help.into_iter().flatten().map(|help| help.to_string()).collect();
    let examples = examples(&help);
    let of = name.split('-').nth(1);
    let is_of = |(.., commands): &&Row| commands.is_empty() || of.is_none_or(|of| commands.contains(&of));
    let has_commands = command.has_subcommands();
    let man = Man::new(command).title(name.to_uppercase());
    // The empty date must be written, or the next argument takes its place.
    let man = man
        .date("\"\"")
        .source(concat!("seekless ", env!("CARGO_PKG_VERSION")))
        .manual("Manual of seekless");

    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // No hyphenation and no justification, because the text contains commands.
    Roff::new()
        .control("nh", [])
        .control("ad", ["l"])
        .to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(&usage).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    examples.to_writer(&mut page)?;
    listed("EXIT STATUS", exit_codes(of)).to_writer(&mut page)?;
    for (heading, rows) in [("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)] {
        let rows = rows.iter().filter(is_of).map(|(what, meaning, _)| (*what, *meaning));
        listed(heading, rows).to_writer(&mut page)?;
    }
    see_also(related).to_writer(&mut page)?;
    // Remove the page header that each section repeats, and put possible values into a paragraph.
    let start = Roff::new().render();
    let page = String::from_utf8_lossy(&page).replace(&start, "");
    Ok((start + &page.replace(".br\n\n.br\n", ".IP\n")).into_bytes())
}

fn synopsis(usage: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]);
    for (at, line) in usage.trim_start_matches("Usage:").lines().enumerate() {
        if at > 0 {
            section.control("br", []);
        }
        let line = line.trim();
        let words = line.find(['[', '<']).unwrap_or(line.len());
        section.text([
            bold(line[..words].trim_end()),
            roman(format!(" {}", &line[words..]).trim_end()),
        ]);
    }
    section
}

/// The examples of the help texts: each command, with its comment below it.
fn examples(helps: &[String]) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]);
    let of_help = |help: &'_ String| {
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        lines
            .take_while(|line| line.starts_with("  "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for (at, line) in helps.iter().flat_map(of_help).enumerate() {
        let (example, comment) = line.split_once("# ").unwrap_or((&line, ""));
        if !example.trim().is_empty() {
            if at > 0 {
                section.control("PP", []);
            }
            section.control("nf", []);
            for line in broken(example.trim()) {
                section.text([bold(line)]);
            }
            section.control("fi", []);
        }
        if !comment.is_empty() {
            section.control("RS", ["4"]).text([roman(comment)]).control("RE", []);
        }
    }
    section
}

/// A command, in two lines if it is too long for a terminal of 80 columns.
fn broken(command: &str) -> Vec<String> {
    const LONGEST: usize = 72;
    let first = command.find(" | ").or_else(|| command.find(" > "));
    match first.filter(|_| command.len() > LONGEST) {
        Some(at) => vec![format!("{} \\", &command[..at]), format!("   {}", &command[at..])],
        None => vec![command.to_owned()],
    }
}

/// A section with a paragraph for each row; nothing if there are no rows.
fn listed<'a>(heading: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> Roff {
    let mut section = Roff::new();
    for (at, (what, meaning)) in rows.enumerate() {
        if at == 0 {
            section.control("SH", [heading]);
        }
        section.control("TP", []).text([bold(what)]).text([roman(meaning)]);
    }
    section
}

fn see_also(pages: &[&str]) -> Roff {
    let mut section = Roff::new();
    let mut words: Vec<Inline> = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        words.extend((at > 0).then(|| roman(", ")));
        words.extend([bold(*page), roman("(1)")]);
    }
    section.control("SH", ["SEE ALSO"]).text(words);
    section
}

/// The exit codes of a command, or of those in it, each with its meaning.
fn exit_codes(of: Option<&str>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let done = if of == Some("cmp") {
        "The files or trees are equal."
    } else {
        "Done."
    };
    let one = match of {
        Some("cmp") => "They differ.",
        Some("dupes") => {
            "A file was left alone, or nothing was done since the answer was no; with --exit-code, something was found."
        }
        _ => "",
    };
    let two = match of {
        Some("cmp") => "Something could not be compared; the reason is on standard error.",
        Some("dupes") => {
            "Bad input, a part of a report or plan that was refused, or something that failed; the reason is on standard error."
        }
        _ => {
            "Bad input, or something could not be done, such as one of several paths; the reason is on standard error."
        }
    };
    let codes = [("0", done), ("1", one), ("2", two), ("128 + n", "Ended by signal n.")];
    codes.into_iter().filter(|(_, meaning)| !meaning.is_empty())
}

/// A name, its meaning, and the commands to which it applies; an empty list means all commands.
type Row = (&'static str, &'static str, &'static [&'static str]);

const ENVIRONMENT: &[Row] = &[
    ("NO_COLOR", "If set and not empty, output has no colour.", &[]),
    (
        "POSIXLY_CORRECT",
        "If set, options end at the first operand, as in GNU cmp.",
        &["cmp"],
    ),
    (
        "SEEKLESS_LOG",
        "What to log on standard error: error, warn (the default), info, debug or trace, for all or for modules, as in \
         seekless=debug.",
        &[],
    ),
    (
        "XDG_CONFIG_HOME",
        "Directory of configuration files, by default ~/.config.",
        &[],
    ),
    (
        "XDG_DATA_HOME",
        "Directory of user data, by default ~/.local/share.",
        &["bench", "runs", "report"],
    ),
    (
        "XDG_STATE_HOME",
        "Directory of what programs remember, by default ~/.local/state.",
        &["dupes"],
    ),
];

const FILES: &[Row] = &[
    (
        "$XDG_CONFIG_HOME/seekless/config.toml",
        "The user's defaults, in TOML: budget = \"2m\" (of seekless bench), runs = \"/data/seekless\" (the folder of saved \
         runs, in place of $XDG_DATA_HOME/seekless) and color = \"never\". Options override them. hub is for seekless-hub.",
        &[],
    ),
    (
        "$XDG_DATA_HOME/seekless/runs/ID.json",
        "A saved run; ID.html beside it is its report.",
        &["bench", "runs", "report"],
    ),
    (
        "$XDG_DATA_HOME/seekless/imported/",
        "The runs of others.",
        &["runs", "report"],
    ),
    (
        "$XDG_DATA_HOME/seekless/sittings.log",
        "The output of measurements in the background (--sittings).",
        &["bench"],
    ),
    (
        "$XDG_STATE_HOME/seekless/dupes/",
        "Journals of what was done with duplicates, by which seekless dupes undo restores it; kept for 90 days, the 20 newest for longer.",
        &["dupes"],
    ),
    (
        "seekless-scratch-*",
        "A directory of test files in the directory that is tested. It is removed on exit, or by the next start after a crash.",
        &["bench", "methods", "storage"],
    ),
];
