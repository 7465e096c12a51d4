//! The secret of a sink: read from its file or variable, used, and never shown.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use sha2::Sha256;
use usher_domain::sinks::{Scheme, SecretCoordinate, SecretPlace};
use usher_kernel::Timestamp;

/// What begins the text of a secret that is base64, as Standard Webhooks writes it.
const PREFIX: &str = "whsec_";

/// A secret. It has no `Display`, and its `Debug` prints nothing.
#[derive(Clone)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

impl Secret {
    /// The secret in a text; line ends around it are not part of it.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim_matches(['\r', '\n']);
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        plain.then(|| Self(text.to_owned()))
    }

    /// The headers that authenticate a delivery. A bearer token is the secret itself. A signature
    /// is that of Standard Webhooks: over the id, the time and the body, so that a delivery cannot
    /// be changed, nor repeated much later.
    pub(crate) fn prove(
        &self,
        scheme: Scheme,
        (id, now): (&str, Timestamp),
        body: &[u8],
    ) -> Vec<(HeaderName, HeaderValue)> {
        let texts = match scheme {
            Scheme::Bearer => vec![(AUTHORIZATION, format!("Bearer {}", self.0))],
            Scheme::Hmac => {
                let seconds = (now.as_micros() / 1_000_000).to_string();
                let signature = self.sign(&[id.as_bytes(), b".", seconds.as_bytes(), b".", body]);
                vec![
                    (HeaderName::from_static("webhook-id"), id.to_owned()),
                    (HeaderName::from_static("webhook-timestamp"), seconds),
                    (HeaderName::from_static("webhook-signature"), format!("v1,{signature}")),
                ]
            }
        };
        let header = |(name, text): (HeaderName, String)| {
            let mut value = HeaderValue::from_str(&text).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        };
        texts.into_iter().filter_map(header).collect()
    }

    fn sign(&self, parts: &[&[u8]]) -> String {
        let decoded = self.0.strip_prefix(PREFIX).and_then(|it| STANDARD.decode(it).ok());
        let key = decoded.unwrap_or_else(|| self.0.as_bytes().to_vec());
        // Keys of every length are taken; an error cannot be.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return String::new() };
        for part in parts {
            mac.update(part);
        }
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

/// Reads secrets for every delivery, so that a rotated one is used at once.
pub trait Secrets: Send + Sync {
    /// The secret at a coordinate, or `None` if there is none.
    fn read(&self, at: &SecretCoordinate) -> Option<Secret>;
}

/// Secrets in files, and in the variables that this function looks up.
pub struct SecretsOf<F>(pub F);

impl<F: Fn(&str) -> Option<String> + Send + Sync> Secrets for SecretsOf<F> {
    fn read(&self, at: &SecretCoordinate) -> Option<Secret> {
        let text = match at.place() {
            SecretPlace::Env => self.0(at.name()),
            SecretPlace::File => std::fs::read_to_string(at.name()).ok(),
        };
        Secret::new(&text?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_614_265_330_000_000);

    // Requirement: Y-9
    #[test]
    fn a_delivery_is_signed_as_standard_webhooks_requires() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let headers = secret.prove(
            Scheme::Hmac,
            ("msg_p5jXN8AQM9LWM0D4loKWxJek", NOW),
            br#"{"test": 2432232314}"#,
        );
        let texts: Vec<_> =
            headers.iter().map(|(name, it)| (name.as_str(), it.to_str().unwrap())).collect();
        let expected = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ];
        assert_eq!(texts, expected);
    }

    // Requirement: Y-9
    #[test]
    fn nothing_shows_a_secret() {
        let secret = Secret::new("hunter2\n").unwrap();
        assert_eq!(format!("{secret:?} {secret:#?}"), "Secret(redacted) Secret(redacted)");
        let headers = secret.prove(Scheme::Bearer, ("id", NOW), b"");
        assert_eq!(headers[0].1.as_bytes(), b"Bearer hunter2");
        assert!(!format!("{headers:?}").contains("hunter2"));
    }

    // Requirement: Y-9
    #[test]
    fn a_text_that_would_break_a_header_is_no_secret() {
        for text in ["", "\n", "a b", "a\nb", "é"] {
            assert!(Secret::new(text).is_none(), "{text:?}");
        }
    }

    // Requirement: Y-9
    #[test]
    fn secrets_are_read_where_they_lie() {
        let secrets = SecretsOf(|name: &str| (name == "HOOK").then(|| "value".to_owned()));
        let at = |place, name| SecretCoordinate::new(place, name).unwrap();
        assert_eq!(secrets.read(&at(SecretPlace::Env, "HOOK")).unwrap().0, "value");
        assert!(secrets.read(&at(SecretPlace::Env, "OTHER")).is_none());
        assert!(secrets.read(&at(SecretPlace::File, "/nowhere/at/all")).is_none());
    }
}
