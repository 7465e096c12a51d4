//! What a cloud object is called, so completely that nothing else is needed to find and delete it.
//!
//! **Invariants**
//! - An identity is written in one way and read back as it was: see [`round_trip`] and
//!   [`one_spelling`], the two laws that the author of a kind runs over many values.
//! - Credential coordinates are part of what is recorded: a name without the account that it lies
//!   in names nothing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::{Generation, Name};

use crate::object::kv::KvCoordinates;
use crate::object::offender::shortened;
use crate::object::text::checked_texts;

/// The longest text of an identity.
pub const LENGTH_MAX: usize = 1_024;

/// The identity of one kind of cloud object.
pub trait Identity: Sized + Clone + PartialEq + fmt::Debug {
    /// Reads what [`Identity::format`] wrote, and refuses everything else.
    fn parse(text: &IdentityText) -> Result<Self, BadIdentity>;

    /// The one text of this identity.
    fn format(&self) -> IdentityText;
}

/// A text that is no identity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("identity \"{text}\" does not fit its kind (segments joined by '/'; at most {LENGTH_MAX})")]
pub struct BadIdentity {
    /// The offending text, shortened.
    pub text: String,
}

impl BadIdentity {
    /// A refusal that names the offender.
    pub fn new(text: &str) -> Self {
        Self { text: shortened(text) }
    }

    /// The code of the refusal.
    pub const fn code(&self) -> &'static str {
        "identity_malformed"
    }
}

/// The text of an identity: segments joined by slashes, without host, query, dots or escapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdentityText(String);

impl FromStr for IdentityText {
    type Err = BadIdentity;

    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let is_segment = |it: &str| {
            let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.~:@+".contains(&b);
            !it.is_empty() && it != "." && it != ".." && it.bytes().all(inner)
        };
        if text.len() > LENGTH_MAX || !text.split('/').all(is_segment) {
            return Err(BadIdentity::new(text));
        }
        Ok(Self(text.to_owned()))
    }
}

checked_texts!(IdentityText: BadIdentity);

impl IdentityText {
    /// The segments between fixed ones: `["projects", "", "zones", ""]` reads the second
    /// and the fourth of four, and refuses another count or another fixed word.
    pub fn segments(&self, pattern: &[&str]) -> Result<Vec<&str>, BadIdentity> {
        let parts: Vec<&str> = self.0.split('/').collect();
        let fits = |(part, wanted): (&&str, &&str)| wanted.is_empty() || part == wanted;
        if parts.len() != pattern.len() || !parts.iter().zip(pattern).all(fits) {
            return Err(BadIdentity::new(&self.0));
        }
        let open = parts.into_iter().zip(pattern).filter(|(_, wanted)| wanted.is_empty());
        Ok(open.map(|(part, _)| part).collect())
    }
}

/// Where a cloud object is and what it is called there: all that is needed to read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identified {
    /// Where the credential lies that opens its account.
    pub credential: KvCoordinates,
    pub identity: IdentityText,
}

impl Identified {
    /// Its name in the identity ledger.
    pub fn name(&self, kind: &str, generation: Generation) -> Name {
        Name {
            kind: kind.to_owned(),
            place: format!("{}:{}", self.credential.mount(), self.credential.path()),
            name: self.identity.as_str().to_owned(),
            generation,
        }
    }

    /// The identity behind a name of the ledger.
    pub fn of(name: &Name) -> Option<Self> {
        let (mount, path) = name.place.split_once(':')?;
        let credential = KvCoordinates::new(mount, path).ok()?;
        Some(Self { credential, identity: name.name.parse().ok()? })
    }
}

/// Which law of identities a kind breaks, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Breach {
    /// What was written cannot be read.
    #[error("identity \"{0}\" was written and cannot be parsed")]
    Unreadable(String),
    /// What was written is read as something else.
    #[error("identity \"{0}\" is parsed as another identity")]
    Changed(String),
    /// A text is accepted that no person would write.
    #[error("identity \"{0}\" is parsed but written differently")]
    SecondSpelling(String),
}

/// The first law: what is written is read back as it was.
pub fn round_trip<I: Identity>(identity: &I) -> Result<(), Breach> {
    let written = identity.format();
    let text = written.as_str().to_owned();
    match I::parse(&written) {
        Err(_) => Err(Breach::Unreadable(text)),
        Ok(read) if read != *identity => Err(Breach::Changed(text)),
        Ok(_) => Ok(()),
    }
}

/// The second law: a text is refused, or it is the one spelling of what it means.
pub fn one_spelling<I: Identity>(text: &str) -> Result<(), Breach> {
    let Ok(text) = text.parse::<IdentityText>() else {
        return Ok(());
    };
    match I::parse(&text) {
        Ok(read) if read.format() != text => Err(Breach::SecondSpelling(text.as_str().to_owned())),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::direct::fixture::{Membership, identified};

    #[test]
    fn hostile_texts_are_no_identities() {
        let texts = [
            "",
            "/",
            "a//b",
            "/a",
            "a/",
            ".",
            "..",
            "a/../b",
            "a?b",
            "a#b",
            "a%2fb",
            "a b",
            "a\n",
            "https://h/a",
            "é",
            "a\\b",
        ];
        for text in texts {
            let refusal = text.parse::<IdentityText>().unwrap_err();
            assert_eq!(refusal, BadIdentity { text: shortened(text) }, "{text}");
            assert_eq!(refusal.code(), "identity_malformed");
        }
        let longest = "a".repeat(LENGTH_MAX);
        assert_eq!(longest.parse::<IdentityText>().unwrap().as_str(), longest);
        assert!(format!("{longest}a").parse::<IdentityText>().is_err());
    }

    #[test]
    fn segments_are_read_between_fixed_words() {
        let text: IdentityText = "projects/p/zones/z".parse().unwrap();
        assert_eq!(text.segments(&["projects", "", "zones", ""]).unwrap(), ["p", "z"]);
        for pattern in [&["projects", "", "zones"][..], &["folders", "", "zones", ""], &[]] {
            assert!(text.segments(pattern).is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn a_ledger_name_holds_the_account_and_is_read_back() {
        let it = identified("a");
        let name = it.name("example/Membership", Generation(3));
        assert_eq!((name.place.as_str(), name.generation), ("kv:clouds/main", Generation(3)));
        assert_eq!(Identified::of(&name), Some(it));
        assert_eq!(Identified::of(&Name { place: "kv".into(), ..name.clone() }), None);
        assert_eq!(Identified::of(&Name { name: "a//b".into(), ..name }), None);
    }

    /// Omits its location, as a careless author would.
    #[derive(Clone, Debug, PartialEq)]
    struct Forgetful(String, String);

    impl Identity for Forgetful {
        fn parse(text: &IdentityText) -> Result<Self, BadIdentity> {
            let parts = text.segments(&["projects", ""])?;
            Ok(Self(parts.concat(), "global".to_owned()))
        }

        fn format(&self) -> IdentityText {
            format!("projects/{}", self.0).parse().unwrap()
        }
    }

    /// Reads two spellings, and cannot read its own third.
    #[derive(Clone, Debug, PartialEq)]
    struct Lax(String);

    impl Identity for Lax {
        fn parse(text: &IdentityText) -> Result<Self, BadIdentity> {
            let parts = text.segments(&["v1", ""]).or_else(|_| text.segments(&["v2", ""]))?;
            Ok(Self(parts.concat()))
        }

        fn format(&self) -> IdentityText {
            let version = if self.0 == "x" { "v3" } else { "v2" };
            format!("{version}/{}", self.0).parse().unwrap()
        }
    }

    // Requirement: I-6
    #[test]
    fn the_laws_find_a_careless_author() {
        let text = String::from("projects/p");
        let lost = round_trip(&Forgetful("p".into(), "europe".into()));
        assert_eq!(lost, Err(Breach::Changed(text)));
        let unreadable = round_trip(&Lax("x".into()));
        assert_eq!(unreadable, Err(Breach::Unreadable("v3/x".into())));
        let second = one_spelling::<Lax>("v1/a");
        assert_eq!(second, Err(Breach::SecondSpelling("v1/a".into())));
        assert_eq!(one_spelling::<Lax>("v2/a"), Ok(()));
        assert_eq!(one_spelling::<Lax>("other/a"), Ok(()), "refused");
        assert_eq!(one_spelling::<Lax>("a//b"), Ok(()), "no identity at all");
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_kept_as_it_is(text in any::<String>()) {
            if let Ok(it) = text.parse::<IdentityText>() {
                prop_assert_eq!(it.as_str(), text);
            }
        }

        // Requirement: I-6
        #[test]
        fn the_laws_hold_of_a_membership(
            parts in prop::array::uniform3("[a-z0-9._-]{1,12}"),
            text in "[a-z./]{0,12}|projects/[a-z]{0,4}/features/[a-z./]{0,4}/memberships/[a-z]{2}",
        ) {
            prop_assume!(parts.iter().all(|it| it != "." && it != ".."));
            let [project, feature, member] = parts;
            let identity = Membership { project, feature, member };
            prop_assert_eq!(round_trip(&identity), Ok(()));
            prop_assert_eq!(one_spelling::<Membership>(&text), Ok(()));
        }
    }
}
