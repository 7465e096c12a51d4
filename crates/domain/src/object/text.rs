//! Texts that are checked once, when they are read, and keep their spelling.

/// Gives `Name(String)` types with a `FromStr` the other parts of a checked text: reading it back
/// as a string, and checking it again wherever it is deserialised.
macro_rules! checked_texts {
    ($($name:ident: $refusal:ident),+ $(,)?) => {$(
        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = $refusal;

            fn try_from(text: String) -> Result<Self, $refusal> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> Self {
                it.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

pub(crate) use checked_texts;
