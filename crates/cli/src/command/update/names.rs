//! Short names of methods of updating.

/// The short names, each with its method.
pub const SHORT_NAMES: [(&str, &str); 5] = [
    ("auto", "update/planned,fsync"),
    ("in-order", "update/sync,fsync,order=as-given"),
    ("ascending", "update/sync,fsync,order=ascending"),
    ("rewrite", "update/sync,fsync,order=rewrite"),
    // Its gap follows.
    ("coalesce", "update/sync,fsync"),
];

/// Replaces a short name at the start of a method's text; more options may follow it.
pub fn written_out(named: &str) -> String {
    let (first, more) = named.split_at(named.find(',').unwrap_or(named.len()));
    let long = SHORT_NAMES.iter().find(|(short, _)| *short == first);
    long.map_or_else(|| named.to_owned(), |(_, long)| format!("{long}{more}"))
}

#[cfg(test)]
mod tests {
    use seekless_engine::method::Choice;

    use super::*;

    #[test]
    fn short_names_are_methods_that_may_have_more_options() {
        for (short, long) in [
            ("auto", "update/planned,fsync"),
            ("in-order", "update/sync,order=as-given,fsync"),
            ("ascending", "update/sync,fsync"),
            ("rewrite,block=1M", "update/sync,order=rewrite,block=1M,fsync"),
            ("coalesce,gap=4K", "update/sync,gap=4K,fsync"),
            ("update/io_uring,gap=4K", "update/io_uring,gap=4K"),
        ] {
            let [found, expected] = [written_out(short).as_str(), long].map(|text| text.parse::<Choice>().unwrap());
            assert_eq!(found, expected, "{short}");
        }
    }
}
