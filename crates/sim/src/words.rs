//! Enums whose members have a word for people: faults, checkers, breakages.

/// A closed list with a word for each member.
pub trait Words: Copy + PartialEq + 'static {
    /// Every member, in order.
    const ALL: &'static [Self];

    /// The word for it in reports and stories.
    fn as_str(self) -> &'static str;

    /// Its place in the list.
    fn index(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(0)
    }
}

/// Declares an enum with a word for each member.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$member_doc:meta])* $member:ident = $word:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$member_doc])* $member,)+
        }

        impl $crate::words::Words for $name {
            const ALL: &'static [Self] = &[$(Self::$member,)+];

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$member => $word,)+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

pub(crate) use words;
