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
    let has_commands = command.has_subcommands();
    let man = Man::new(command).title(name.to_uppercase());
    // The empty date must be written, or the next argument takes its place.
    let man = man.date("\"\"").manual("Manual of seekless");
    let man = man.source(concat!("seekless ", env!("CARGO_PKG_VERSION")));

    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // No hyphenation and no justification, because the text contains commands.
    let mut lines = Roff::new();
    lines.control("nh", []).control("ad", ["l"]).to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(&usage).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    examples.to_writer(&mut page)?;
    for heading in ["EXIT STATUS", "ENVIRONMENT", "FILES"] {
        section(heading, name.split('-').nth(1).unwrap_or(name)).to_writer(&mut page)?;
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
        let (words, values) = line.split_at(line.find(['[', '<']).unwrap_or(line.len()));
        let values = format!(" {values}");
        section.text([bold(words.trim_end()), roman(values.trim_end())]);
    }
    section
}

/// The examples of the help texts: each command, with its comment below it.
fn examples(helps: &[String]) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]);
    let lines = helps.iter().flat_map(|help| {
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        lines.take_while(|line| line.starts_with("  "))
    });
    for (at, line) in lines.enumerate() {
        let (example, comment) = line.split_once("# ").unwrap_or((line, ""));
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

/// Rows of the last sections: heading, what, commands, meaning. `!` before commands means all others; `seekless` is the page of all.
const SECTIONS: &str = include_str!("manual-sections.txt");

/// The section with this heading in the page of a command; nothing if it has no rows.
fn section(heading: &str, command: &str) -> Roff {
    let mut section = Roff::new();
    for line in SECTIONS.lines() {
        let mut columns = line.splitn(4, " | ");
        let [of, what, commands, meaning] = [(); 4].map(|()| columns.next().unwrap_or_default());
        let named = commands.trim_start_matches('!');
        let is_named = named.split(' ').any(|name| name == command);
        if of != heading || is_named == commands.starts_with('!') {
            continue;
        }
        if section == Roff::new() {
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
