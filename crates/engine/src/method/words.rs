//! Options whose values are words: each with its word, all of them listed, and found by name.

/// An option whose values are words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$value_about:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$value_about])* $value),+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Its word in a method's text.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $word),+ }
            }

            pub(super) fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}
