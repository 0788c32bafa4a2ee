//! Values that are words: enums for the code, words for texts.

/// An enum of which each value has a word, and which is the value of one option.
macro_rules! words {
    ($(#[$about:meta])* $name:ident of $option:ident { $($(#[$value_about:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$value_about])* #[serde(rename = $word)] $value),+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),+];

            /// Its word in a method's text.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $word),+ }
            }

            pub(crate) const fn value(self) -> Value {
                Value::Word(self as u8)
            }

            #[inline]
            pub(crate) fn of(options: &Options) -> Self {
                match options.get(OptionId::$option) {
                    Some(Value::Word(at)) => Self::ALL[usize::from(at)],
                    _ => Self::default(),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl From<$name> for Setting {
            fn from(value: $name) -> Self {
                Self(OptionId::$option, Some(value.value()))
            }
        }
    };
}
