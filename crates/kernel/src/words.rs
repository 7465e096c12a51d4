//! Enums whose members have one word each, the same in rows, answers and tables.

/// Declares an enum whose members have a word each, or gives words to one that is declared.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$member_meta:meta])* $member:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$member_meta])* $member,)+
        }

        impl $name {
            /// Every member, in order.
            pub const ALL: [Self; [$($name::$member),+].len()] = [$(Self::$member),+];
        }

        $crate::words! { for $name { $($member = $word,)+ } }
    };
    (for $name:ident { $($member:ident = $word:expr,)+ }) => {
        impl $name {
            /// The word for it, the same in rows, answers and tables.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$member => $word,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
