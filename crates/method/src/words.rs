//! Enums whose values have words.

/// Enums of which each value has a word, the same in documents and in texts: `words! { /// About it. Name { /// About the
/// value. Value = "value" } }`. Their crate needs serde.
#[macro_export]
macro_rules! words {
    ($($(#[$about:meta])* $name:ident { $($(#[$value_about:meta])* $value:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$value_about])* #[serde(rename = $word)] $value),+ }

        impl $name {
            /// All values.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];
            /// Their words.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Its word.
            #[must_use]
            pub fn name(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            /// The one of a word.
            #[must_use]
            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    )+};
}
