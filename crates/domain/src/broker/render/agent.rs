//! What an agent needs to enrol: the endpoint, the image, its identity.
//!
//! **Invariants**
//! - A URL or an image that exists is printable ASCII without quotes, spaces or expansion signs,
//!   so it means itself in JSON, YAML, a systemd unit and a shell.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;
use usher_kernel::coded;

use crate::object::id::{ProjectId, ResourceId};
use crate::object::label::is_dns_subdomain;
use crate::object::offender::shortened;
use crate::object::text::checked_texts;

/// The longest API URL.
pub const URL_MAX: usize = 512;
/// The longest image reference.
pub const IMAGE_MAX: usize = 512;
/// The longest tag of an image.
pub const IMAGE_TAG_MAX: usize = 128;
/// Where the agent finds its token; it deletes the file when it has enrolled.
pub const TOKEN_FILE: &str = "/etc/usher/bootstrap-token";
/// Where the agent finds its settings.
pub const CONFIG_FILE: &str = "/etc/usher/agent.json";

/// The configuration of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// Where it calls.
    pub api_url: &'a ApiUrl,
    /// What it runs from.
    pub image: &'a AgentImage,
    /// The project it enrols into.
    pub project: ProjectId,
    pub resource: ResourceId,
}

impl Agent<'_> {
    /// The agent's settings file: JSON on one line, without the token.
    pub fn config(&self, token_file: &str) -> String {
        let Self { api_url, project, resource, image: _ } = self;
        json!({
            "api_url": api_url.as_str(),
            "project_id": project,
            "resource_id": resource,
            "token_file": token_file,
        })
        .to_string()
    }
}

/// Where agents reach the control plane: https, or http on the same machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ApiUrl(String);

coded! {
    /// Why a text is no API URL.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadApiUrl {
        /// Too long.
        #[error("API URL \"{0}\" is longer than {URL_MAX} characters")]
        TooLong(String) = "api_url_too_long",
        /// Neither http nor https.
        #[error("API URL \"{0}\" begins with neither https:// nor http://")]
        Scheme(String) = "api_url_scheme",
        /// Invalid host.
        #[error("API URL \"{0}\" has an invalid host")]
        Host(String) = "api_url_host",
        /// Invalid port.
        #[error("API URL \"{0}\" has an invalid port")]
        Port(String) = "api_url_port",
        /// The path holds a character it may not hold.
        #[error("the path of API URL \"{0}\" is not of letters, digits and ./_~-")]
        Path(String) = "api_url_path",
        /// The token would cross a network in the clear.
        #[error("API URL \"{0}\" must use https unless it is on this machine")]
        Insecure(String) = "api_url_insecure",
    }
}

impl FromStr for ApiUrl {
    type Err = BadApiUrl;

    fn from_str(whole: &str) -> Result<Self, BadApiUrl> {
        let text = || shortened(whole);
        if whole.len() > URL_MAX {
            return Err(BadApiUrl::TooLong(text()));
        }
        let (secure, rest) = match (whole.strip_prefix("https://"), whole.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(BadApiUrl::Scheme(text())),
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = split_port(authority);
        let reach = Reach::of(host).ok_or_else(|| BadApiUrl::Host(text()))?;
        if port.is_some_and(|it| !is_port(it)) {
            return Err(BadApiUrl::Port(text()));
        }
        let inner =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'~' | b'-');
        if !path.bytes().all(inner) {
            return Err(BadApiUrl::Path(text()));
        }
        if !secure && reach == Reach::Network {
            return Err(BadApiUrl::Insecure(text()));
        }
        Ok(Self(whole.to_owned()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Loopback,
    Network,
}

impl Reach {
    fn of(host: &str) -> Option<Self> {
        let from = |loopback| if loopback { Self::Loopback } else { Self::Network };
        if let Some(inner) = host.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(from(address.is_loopback()));
        }
        if let Ok(address) = host.parse::<Ipv4Addr>() {
            return Some(from(address.is_loopback()));
        }
        // What ends in digits is read as an address by some clients and as a name by others.
        let last = host.rsplit('.').next().unwrap_or_default();
        let numeric = last.bytes().all(|b| b.is_ascii_digit());
        (is_dns_subdomain(host) && !numeric).then(|| from(host == "localhost"))
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    // An IPv6 address holds colons, but only inside its brackets.
    let after = authority.rfind(']').unwrap_or(0);
    match authority[after..].find(':') {
        Some(at) => (&authority[..after + at], Some(&authority[after + at + 1..])),
        None => (authority, None),
    }
}

fn is_port(text: &str) -> bool {
    !text.starts_with(['0', '+']) && text.parse::<u16>().is_ok()
}

/// The image the agent runs from: a lowercase repository with a tag, a digest or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentImage(String);

coded! {
    /// Why a text is no agent image.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadAgentImage {
        /// Too long.
        #[error("agent image \"{0}\" is longer than {IMAGE_MAX} characters")]
        TooLong(String) = "agent_image_too_long",
        /// Invalid repository.
        #[error("agent image \"{0}\" has an invalid repository")]
        Repository(String) = "agent_image_repository",
        /// Invalid tag.
        #[error("agent image \"{0}\" has an invalid tag")]
        Tag(String) = "agent_image_tag",
        /// Invalid digest.
        #[error("agent image \"{0}\" has an invalid digest")]
        Digest(String) = "agent_image_digest",
        /// Neither tag nor digest: it would mean another image every day.
        #[error("agent image \"{0}\" has neither tag nor digest")]
        Unpinned(String) = "agent_image_unpinned",
    }
}

impl FromStr for AgentImage {
    type Err = BadAgentImage;

    fn from_str(whole: &str) -> Result<Self, BadAgentImage> {
        let text = || shortened(whole);
        if whole.len() > IMAGE_MAX {
            return Err(BadAgentImage::TooLong(text()));
        }
        let (named, digest) = match whole.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (whole, None),
        };
        // A colon before the last slash belongs to the registry's port.
        let base = named.rfind('/').unwrap_or(0);
        let (repository, tag) = match named[base..].find(':') {
            Some(at) => (&named[..base + at], Some(&named[base + at + 1..])),
            None => (named, None),
        };
        if !is_repository(repository) {
            return Err(BadAgentImage::Repository(text()));
        }
        if tag.is_some_and(|it| !is_tag(it)) {
            return Err(BadAgentImage::Tag(text()));
        }
        if digest.is_some_and(|it| !is_digest(it)) {
            return Err(BadAgentImage::Digest(text()));
        }
        if tag.is_none() && digest.is_none() {
            return Err(BadAgentImage::Unpinned(text()));
        }
        Ok(Self(whole.to_owned()))
    }
}

fn is_repository(text: &str) -> bool {
    let is_part = |part: &str| {
        let ends =
            |end: Option<u8>| end.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let inner =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        ends(part.bytes().next()) && ends(part.bytes().last()) && part.bytes().all(inner)
    };
    match text.split_once('/') {
        Some((registry, path)) => {
            let (host, port) = split_port(registry);
            is_part(host) && port.is_none_or(is_port) && path.split('/').all(is_part)
        }
        None => is_part(text),
    }
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= IMAGE_TAG_MAX
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

checked_texts!(ApiUrl: BadApiUrl, AgentImage: BadAgentImage);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url_code(text: &str) -> &'static str {
        text.parse::<ApiUrl>().map_or_else(|it| it.code(), |_| "taken")
    }

    fn image_code(text: &str) -> &'static str {
        text.parse::<AgentImage>().map_or_else(|it| it.code(), |_| "taken")
    }

    #[test]
    fn good_urls_are_kept_as_they_are() {
        let longest = format!("https://usher.dev/{}", "a".repeat(URL_MAX - 18));
        assert_eq!(longest.len(), URL_MAX);
        let good = [
            "https://usher.dev",
            "https://usher.dev/",
            "https://usher.dev:7420/base/v1_~.-x",
            "https://10.0.0.1:65535",
            "https://[2001:db8::1]:443/x",
            "https://[2001:db8::1]",
            "http://127.0.0.1:7420",
            "http://127.9.9.9",
            "http://localhost:1",
            "http://[::1]:7420",
            longest.as_str(),
        ];
        for text in good {
            assert_eq!(text.parse::<ApiUrl>().unwrap().as_str(), text);
        }
    }

    // Requirement: R-10
    #[test]
    fn a_bad_url_is_refused_by_the_part_that_is_wrong() {
        let too_long = format!("https://usher.dev/{}", "a".repeat(URL_MAX - 17));
        let cases = [
            (too_long.as_str(), "api_url_too_long"),
            ("", "api_url_scheme"),
            ("ftp://usher.dev", "api_url_scheme"),
            ("HTTPS://usher.dev", "api_url_scheme"),
            ("https://", "api_url_host"),
            ("https:///x", "api_url_host"),
            ("https://user@usher.dev", "api_url_host"),
            ("https://usher.dev?x=1", "api_url_host"),
            ("https://usher dev", "api_url_host"),
            ("https://Usher.dev", "api_url_host"),
            ("https://1.2.3.4.5", "api_url_host"),
            ("https://1.2.3.256", "api_url_host"),
            ("https://[::1", "api_url_host"),
            ("https://[nope]", "api_url_host"),
            ("https://[::1]x", "api_url_host"),
            ("https://usher.dev:", "api_url_port"),
            ("https://usher.dev:0", "api_url_port"),
            ("https://usher.dev:+1", "api_url_port"),
            ("https://usher.dev:65536", "api_url_port"),
            ("https://usher.dev:1:2", "api_url_port"),
            ("https://usher.dev/a b", "api_url_path"),
            ("https://usher.dev/\"", "api_url_path"),
            ("https://usher.dev/'", "api_url_path"),
            ("https://usher.dev/\n", "api_url_path"),
            ("https://usher.dev/$x", "api_url_path"),
            ("https://usher.dev/%20", "api_url_path"),
            ("https://usher.dev/#x", "api_url_path"),
            ("http://usher.dev", "api_url_insecure"),
            ("http://128.0.0.1", "api_url_insecure"),
            ("http://[::2]", "api_url_insecure"),
            ("http://localhost.usher.dev", "api_url_insecure"),
        ];
        for (text, code) in cases {
            assert_eq!(url_code(text), code, "{text}");
        }
    }

    #[test]
    fn good_images_are_kept_as_they_are() {
        let digest = format!("sha256:{}", "09af".repeat(16));
        let good = [
            "agent:1".to_owned(),
            "usher-agent:v0.1.0_x-Y".to_owned(),
            "registry.usher.dev:5000/team/usher_agent:1".to_owned(),
            format!("ghcr.io/usher/agent@{digest}"),
            format!("ghcr.io/usher/agent:1@{digest}"),
            format!("a:{}", "t".repeat(IMAGE_TAG_MAX)),
            format!("{}:1", "a".repeat(IMAGE_MAX - 2)),
        ];
        for text in good {
            assert_eq!(text.parse::<AgentImage>().unwrap().to_string(), text);
        }
    }

    // Requirement: R-10
    #[test]
    fn a_bad_image_is_refused_by_the_part_that_is_wrong() {
        let hex = "0a".repeat(32);
        let cases = [
            (format!("{}:1", "a".repeat(IMAGE_MAX - 1)), "agent_image_too_long"),
            (String::new(), "agent_image_repository"),
            ("Agent:1".into(), "agent_image_repository"),
            ("/agent:1".into(), "agent_image_repository"),
            ("a//b:1".into(), "agent_image_repository"),
            ("a:x/b:1".into(), "agent_image_repository"),
            ("a:0/b:1".into(), "agent_image_repository"),
            ("a/b:2/c:1".into(), "agent_image_repository"),
            ("-a:1".into(), "agent_image_repository"),
            ("a-:1".into(), "agent_image_repository"),
            ("a b:1".into(), "agent_image_repository"),
            ("a%i:1".into(), "agent_image_repository"),
            ("a:".into(), "agent_image_tag"),
            ("a:-x".into(), "agent_image_tag"),
            ("a:1 2".into(), "agent_image_tag"),
            ("a:1:2".into(), "agent_image_tag"),
            (format!("a:{}", "t".repeat(IMAGE_TAG_MAX + 1)), "agent_image_tag"),
            ("a@".into(), "agent_image_digest"),
            (format!("a@sha256:{}", &hex[1..]), "agent_image_digest"),
            (format!("a@sha256:{hex}0"), "agent_image_digest"),
            (format!("a@sha256:{}", hex.to_uppercase()), "agent_image_digest"),
            (format!("a@sha512:{hex}"), "agent_image_digest"),
            (format!("a:1@sha256:{hex}@x"), "agent_image_digest"),
            ("registry.usher.dev:5000/agent".into(), "agent_image_unpinned"),
        ];
        for (text, code) in cases {
            assert_eq!(image_code(&text), code, "{text}");
        }
    }

    #[test]
    fn refusals_name_the_offender() {
        let url = "http://usher.dev".parse::<ApiUrl>().unwrap_err();
        assert_eq!(
            url.to_string(),
            "API URL \"http://usher.dev\" must use https unless it is on this machine"
        );
        let image = "agent".parse::<AgentImage>().unwrap_err();
        assert_eq!(image.to_string(), "agent image \"agent\" has neither tag nor digest");
    }

    #[test]
    fn stored_urls_and_images_are_checked_again_when_read() {
        let url: ApiUrl = serde_json::from_str("\"https://usher.dev\"").unwrap();
        assert_eq!(serde_json::to_string(&url).unwrap(), "\"https://usher.dev\"");
        assert!(serde_json::from_str::<ApiUrl>("\"http://usher.dev\"").is_err());
        let image: AgentImage = serde_json::from_str("\"a:1\"").unwrap();
        assert_eq!(serde_json::to_string(&image).unwrap(), "\"a:1\"");
        assert!(serde_json::from_str::<AgentImage>("\"a\"").is_err());
    }

    proptest! {
        // Requirement: R-10
        #[test]
        fn garbage_is_refused_or_harmless(
            text in any::<String>(),
            near_url in "https?://[\\[\\]:a-z0-9.@/\"' ]{0,24}",
            near_image in "[a-zA-Z0-9:/@.%$\"]{0,24}",
        ) {
            let harmless = |it: &str| {
                it.bytes().all(|b| b.is_ascii_graphic() && !b"\"'`\\$%#&;|<>(){}*?!".contains(&b))
            };
            for text in [&text, &near_url, &near_image] {
                if let Ok(url) = text.parse::<ApiUrl>() {
                    prop_assert!(harmless(url.as_str()) && url.as_str() == text);
                }
                if let Ok(image) = text.parse::<AgentImage>() {
                    prop_assert!(harmless(image.as_str()) && image.as_str() == text);
                }
            }
        }
    }
}
