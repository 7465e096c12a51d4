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

/// Declares an enum of refusals, each with its stable code: a literal, or what a field says.
#[macro_export]
macro_rules! coded {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {$(
            $(#[$member_meta:meta])*
            $member:ident $(($($tuple:tt)*))? $({$($fields:tt)*})? = $code:tt,
        )+}
    ) => {
        $(#[$meta])*
        pub enum $name {$(
            $(#[$member_meta])*
            $member $(($($tuple)*))? $({$($fields)*})?,
        )+}

        impl $name {
            /// The stable code on the wire, and the name of the page that explains it.
            pub const fn code(&self) -> &'static str {
                match self {
                    $($crate::coded!(@refusal $member $code) => $crate::coded!(@code $code),)+
                }
            }
        }
    };
    (@refusal $member:ident $code:literal) => { Self::$member { .. } };
    (@refusal $member:ident ($inner:ident => $code:expr)) => { Self::$member($inner) };
    (@refusal $member:ident {$field:ident => $code:expr}) => { Self::$member { $field, .. } };
    (@code $code:literal) => { $code };
    (@code ($inner:ident => $code:expr)) => { $code };
    (@code {$field:ident => $code:expr}) => { $code };
}
