//! Receivers of the log over HTTP: their endpoints, our authentication, what an answer means.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::coded;

use crate::object::closed::closed_set;
use crate::object::label::is_dns_subdomain;
use crate::object::offender::shortened;
use crate::object::slug::Slug;
use crate::object::text::checked_texts;

/// The longest URL.
pub const URL_MAX: usize = 512;
/// The longest name of a variable or file that holds a secret.
pub const SECRET_NAME_MAX: usize = 512;

/// A receiver of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sink {
    /// What it is called.
    pub name: Slug,
    /// Where it listens.
    pub url: SinkUrl,
    /// How we authenticate.
    pub proof: Option<Proof>,
}

impl Sink {
    /// A sink, unless its secret would cross a network in the clear.
    pub fn new(name: Slug, url: SinkUrl, proof: Option<Proof>) -> Result<Self, Refusal> {
        if proof.is_some() && !url.is_private() {
            return Err(Refusal::Insecure(shortened(url.as_str())));
        }
        Ok(Self { name, url, proof })
    }
}

/// How a sink knows that it is us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// What is done with the secret.
    pub scheme: Scheme,
    /// Where the secret lies.
    pub secret: SecretCoordinate,
}

closed_set! {
    /// What is done with the secret of a sink.
    "scheme" Scheme {
        /// It is sent as a bearer token.
        Bearer = "bearer",
        /// It signs every delivery, as Standard Webhooks says, and is not sent.
        Hmac = "hmac",
    }

    /// Where secrets can lie.
    "secret place" SecretPlace {
        /// In a variable of the process.
        Env = "env",
        /// In a file.
        File = "file",
    }

    /// Why nothing is delivered any more until an operator says so.
    "parked" Parked {
        /// It answered 410: it accepts nothing more.
        Gone = "gone",
        /// It refused for so long that only a person can help.
        Refused = "refused",
        /// Its place in the log was pruned: events would be missing.
        Forgotten = "forgotten",
        /// The database became another installation: its log is not meant for this receiver.
        Moved = "moved",
        /// An operator requested it.
        Asked = "asked",
    }
}

/// The path of a secret, never its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretCoordinate {
    place: SecretPlace,
    name: String,
}

impl SecretCoordinate {
    /// A coordinate whose name can be one.
    pub fn new(place: SecretPlace, name: &str) -> Result<Self, Refusal> {
        let fits = match place {
            SecretPlace::Env => {
                let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(inner)
            }
            SecretPlace::File => name.starts_with('/') && !name.contains(char::is_control),
        };
        if name.is_empty() || name.len() > SECRET_NAME_MAX || !fits {
            return Err(Refusal::SecretName(shortened(name)));
        }
        Ok(Self { place, name: name.to_owned() })
    }

    /// Where.
    pub const fn place(&self) -> SecretPlace {
        self.place
    }

    /// Under which name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Where a sink listens: a URL without user, query and fragment, so that it holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SinkUrl(String);

coded! {
    /// Why a sink cannot be one.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        /// The URL is not usable.
        #[error("sink URL \"{0}\" is not http(s)://host[:port][/path]")]
        Url(String) = "sink_url_invalid",
        /// A secret would cross a network in the clear.
        #[error("sink URL \"{0}\" with a secret must use https unless it is on this machine")]
        Insecure(String) = "sink_url_insecure",
        /// The secret reference is invalid.
        #[error("\"{0}\" is neither an environment variable nor an absolute path")]
        SecretName(String) = "sink_secret_name",
    }
}

impl FromStr for SinkUrl {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let it = Self(text.to_owned());
        if text.len() <= URL_MAX && it.is_sound() {
            Ok(it)
        } else {
            Err(Refusal::Url(shortened(text)))
        }
    }
}

checked_texts!(SinkUrl: Refusal);

impl SinkUrl {
    /// Whether it is reached over TLS.
    pub fn is_secure(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// The name or address of the host, without brackets.
    pub fn host(&self) -> &str {
        let (host, _) = split_port(self.parts().0);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether what is sent there crosses no network in the clear.
    pub fn is_private(&self) -> bool {
        let host = self.host();
        let local = host == "localhost"
            || host.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback())
            || host.parse::<Ipv6Addr>().is_ok_and(|it| it.is_loopback());
        self.is_secure() || local
    }

    fn parts(&self) -> (&str, &str) {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.split_at(rest.find('/').unwrap_or(rest.len()))
    }

    fn is_sound(&self) -> bool {
        let scheme = self.is_secure() || self.0.starts_with("http://");
        let (authority, path) = self.parts();
        let (host, port) = split_port(authority);
        let bare = self.host();
        let named = if host.starts_with('[') {
            host.ends_with(']') && bare.parse::<Ipv6Addr>().is_ok()
        } else {
            is_dns_subdomain(host) || host.parse::<Ipv4Addr>().is_ok()
        };
        let numbered = port.is_none_or(|it| {
            it.bytes().all(|b| b.is_ascii_digit()) && it.parse::<u16>().is_ok_and(|it| it > 0)
        });
        let inner = |b: u8| b.is_ascii_alphanumeric() || b"/._~-%".contains(&b);
        scheme && named && numbered && path.bytes().all(inner)
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    let end = authority.rfind(']').map_or(0, |it| it + 1);
    match authority.get(end..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => {
            let (host, port) = authority.split_at(end + colon);
            (host, port.strip_prefix(':'))
        }
        None => (authority, None),
    }
}

/// What the answer to a delivery means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It arrived.
    Taken,
    /// It did not arrive, for a reason that may pass by itself.
    Later,
    /// It was refused: likely, though not surely, only a person can help.
    Refused,
    /// The receiver never accepts anything again.
    Gone,
}

impl Answer {
    /// What a status means. Redirects are not followed: a log is sent only to the endpoint its
    /// owner configured.
    pub const fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Taken,
            410 => Self::Gone,
            408 | 425 | 429 => Self::Later,
            300..=499 => Self::Refused,
            _ => Self::Later,
        }
    }

    /// Why deliveries end, if they do, after failing for so long. A receiver that is down is tried
    /// for ever; one that refuses is given this grace, because wrong tokens and paths are often
    /// mended on the other side.
    pub fn parks(self, failing: Duration, grace: Duration) -> Option<Parked> {
        match self {
            Self::Taken | Self::Later => None,
            Self::Refused => (failing >= grace).then_some(Parked::Refused),
            Self::Gone => Some(Parked::Gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> SinkUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_url_has_a_host_with_or_without_port_and_path() {
        let cases = [
            ("https://hooks.example", "hooks.example"),
            ("http://127.0.0.1:8080/a/b", "127.0.0.1"),
            ("https://[::1]:9/", "::1"),
            ("http://[fe80::1]", "fe80::1"),
        ];
        for (text, expected) in cases {
            assert_eq!(url(text).host(), expected, "{text}");
        }
    }

    // Requirement: Y-9
    #[test]
    fn a_url_that_could_hold_a_secret_or_is_none_is_refused() {
        for text in [
            "",
            "hooks.example",
            "ftp://hooks.example",
            "https://",
            "https://user:pass@hooks.example",
            "https://hooks.example/?token=x",
            "https://hooks.example/#x",
            "https://hooks.example:0",
            "https://hooks.example:70000",
            "https://hooks.example:+80",
            "https://[::1",
            "https://::1/",
            "https://hooks.example/a b",
            "https://hooks.example/\r\nx: y",
            &format!("https://hooks.example/{}", "a".repeat(URL_MAX)),
        ] {
            let refusal = text.parse::<SinkUrl>().unwrap_err();
            assert_eq!(refusal, Refusal::Url(shortened(text)));
            assert_eq!(refusal.code(), "sink_url_invalid");
        }
    }

    // Requirement: Y-9
    #[test]
    fn a_secret_crosses_no_network_in_the_clear() {
        let secret = SecretCoordinate::new(SecretPlace::Env, "HOOK_TOKEN").unwrap();
        let proof = Some(Proof { scheme: Scheme::Bearer, secret });
        let name: Slug = "hook".parse().unwrap();
        for text in
            ["https://hooks.example", "http://localhost", "http://127.9.9.9", "http://[::1]"]
        {
            assert!(Sink::new(name.clone(), url(text), proof.clone()).is_ok(), "{text}");
        }
        let refusal = Sink::new(name.clone(), url("http://hooks.example"), proof).unwrap_err();
        assert_eq!(refusal.code(), "sink_url_insecure");
        assert!(Sink::new(name, url("http://hooks.example"), None).is_ok());
    }

    // Requirement: Y-9
    #[test]
    fn the_place_of_a_secret_is_a_variable_or_an_absolute_path() {
        for (place, name) in [(SecretPlace::Env, "A_1"), (SecretPlace::File, "/run/secrets/a")] {
            let it = SecretCoordinate::new(place, name).unwrap();
            assert_eq!((it.place(), it.name()), (place, name));
        }
        for (place, name) in [
            (SecretPlace::Env, ""),
            (SecretPlace::Env, "1A"),
            (SecretPlace::Env, "A=B"),
            (SecretPlace::File, "secret"),
            (SecretPlace::File, "/a\0"),
        ] {
            let refusal = SecretCoordinate::new(place, name).unwrap_err();
            assert_eq!(refusal.code(), "sink_secret_name", "{name:?}");
        }
    }

    // Requirement: Y-6
    #[test]
    fn every_status_means_something() {
        for status in [200, 201, 202, 204] {
            assert_eq!(Answer::of(status), Answer::Taken);
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 0, 100, 999] {
            assert_eq!(Answer::of(status), Answer::Later, "{status}");
        }
        for status in [301, 302, 400, 401, 403, 404, 405, 413, 415, 422] {
            assert_eq!(Answer::of(status), Answer::Refused, "{status}");
        }
        assert_eq!(Answer::of(410), Answer::Gone);
    }

    // Requirement: Y-6
    #[test]
    fn a_sink_that_is_down_is_retried_for_ever_a_refusing_one_for_its_grace() {
        let grace = Duration::from_hours(1);
        assert_eq!(Answer::Later.parks(Duration::MAX, grace), None);
        assert_eq!(
            Answer::Refused.parks(grace.saturating_sub(Duration::from_nanos(1)), grace),
            None
        );
        assert_eq!(Answer::Refused.parks(grace, grace), Some(Parked::Refused));
        assert_eq!(Answer::Gone.parks(Duration::ZERO, grace), Some(Parked::Gone));
    }

    proptest! {
        #[test]
        fn any_text_is_a_url_or_is_refused(text in "\\PC*") {
            if let Ok(it) = text.parse::<SinkUrl>() {
                prop_assert!(!it.host().is_empty());
                prop_assert_eq!(it.as_str(), text);
            }
        }

        #[test]
        fn what_follows_the_scheme_is_a_host_or_is_refused(
            rest in "[a-z0-9.:/\\[\\]@?#%-]{0,40}"
        ) {
            if let Ok(it) = format!("https://{rest}").parse::<SinkUrl>() {
                prop_assert!(!it.host().is_empty() && !it.as_str().contains('@'));
            }
        }
    }
}
