//! Patterns of names as `diff -x` has them: braces are characters, there are POSIX classes, and nothing is an error.

use std::str::Chars;

/// A regular expression for the names that a pattern matches. `*` and `?` match a first dot, too.
pub(super) fn regex_of(pattern: &str) -> String {
    let mut regex = String::from(r"(?s)\A");
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => match bracketed(rest.clone()) {
                Some((class, after)) => {
                    regex.push_str(&class);
                    rest = after;
                }
                // Without an end, it is a character.
                None => regex.push_str(r"\["),
            },
            // A last backslash is itself.
            '\\' => regex.push_str(&escaped(rest.next().unwrap_or('\\'))),
            other => regex.push_str(&escaped(other)),
        }
    }
    regex + r"\z"
}

/// The class that begins behind a `[`, and what comes after it; `None` if it has no end.
fn bracketed(mut rest: Chars<'_>) -> Option<(String, Chars<'_>)> {
    let is_negated = rest.as_str().starts_with(['!', '^']);
    if is_negated {
        rest.next();
    }
    let (mut items, mut is_first, mut is_valid) = (String::new(), true, true);
    loop {
        let first = match rest.next()? {
            ']' if !is_first => break,
            '[' if rest.as_str().starts_with(':') && rest.as_str().contains(":]") => {
                let (name, after) = rest.as_str()[1..].split_once(":]")?;
                let class = members(name);
                items.push_str(class.unwrap_or_default());
                is_valid &= class.is_some();
                (rest, is_first) = (after.chars(), false);
                continue;
            }
            '\\' => rest.next()?,
            other => other,
        };
        is_first = false;
        let end = rest.as_str().strip_prefix('-').filter(|end| !end.starts_with(']'));
        let Some(end) = end else {
            items.push_str(&escaped(first));
            continue;
        };
        rest = end.chars();
        let last = match rest.next()? {
            '\\' => rest.next()?,
            other => other,
        };
        if first <= last {
            items.extend([escaped(first), "-".to_owned(), escaped(last)]);
        }
    }
    let class = match (is_valid, items.is_empty(), is_negated) {
        (false, ..) | (_, true, false) => r"[^\s\S]".to_owned(),
        (_, true, true) => ".".to_owned(),
        (_, _, true) => format!("[^{items}]"),
        (_, _, false) => format!("[{items}]"),
    };
    Some((class, rest))
}

/// What a POSIX class has, as the inside of brackets.
fn members(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => r"\p{Alphabetic}",
        "digit" => "0-9",
        "alnum" => r"\p{Alphabetic}0-9",
        "upper" => r"\p{Uppercase}",
        "lower" => r"\p{Lowercase}",
        "space" => r"\s",
        "blank" => r" \t",
        "punct" => r"[[:punct:]]\p{P}\p{S}",
        "cntrl" => r"\p{Cc}",
        "print" => r"[^\p{C}]",
        "graph" => r"[^\p{C}\s]",
        "xdigit" => "0-9A-Fa-f",
        _ => return None,
    })
}

fn escaped(character: char) -> String {
    regex::escape(character.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn patterns_match_the_names_that_those_of_the_shell_do() {
        for (pattern, matching, other) in [
            ("{a,b}", "{a,b}", "a"),
            ("?", "é", "ab"),
            ("*.o", ".o", "a.c"),
            ("[[:digit:]]*", "5a", "a5"),
            ("[!a-c]", "d", "b"),
            ("[]-]", "]", "a"),
            (r"\*", "*", "a"),
            ("[", "[", "a"),
            (r"\", r"\", "a"),
            ("*", "a\nb", ""),
        ] {
            let regex = Regex::new(&regex_of(pattern)).unwrap();
            assert!(
                regex.is_match(matching) && (other.is_empty() || !regex.is_match(other)),
                "{pattern}"
            );
        }
        for never in ["[b-a]", "[[:none:]]"] {
            assert!(
                ["", "a", "b", "[b-a]", "[[:none:]]"]
                    .iter()
                    .all(|name| { !Regex::new(&regex_of(never)).unwrap().is_match(name) })
            );
        }
    }
}
