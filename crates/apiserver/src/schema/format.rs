//! String formats. An unknown format accepts every string.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The known formats.
pub(super) const KNOWN: [&str; 30] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "date-time",
    "datetime",
    "int32",
    "int64",
    "float",
    "double",
    "k8s-short-name",
];

/// Whether the string has the format.
pub(super) fn holds(format: &str, text: &str) -> bool {
    match format {
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "date-time" | "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok() && text.contains(':'),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "email" => is_email(text),
        "uri" => is_uri(text),
        "hostname" => is_hostname(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "byte" => is_base64(text),
        "hexcolor" => is_hex_color(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "ssn" => is_groups(text, &[3, 2, 4]),
        "isbn10" => is_isbn(text, 10),
        "isbn13" => is_isbn(text, 13),
        "isbn" => is_isbn(text, 10) || is_isbn(text, 13),
        "creditcard" => is_card(text),
        "rgbcolor" => is_rgb(text),
        "k8s-short-name" => crate::meta::name::label(text).is_empty(),
        "k8s-long-name" => crate::meta::name::subdomain(text).is_empty(),
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let separated = matches!(bytes.get(10).copied(), Some(b'T' | b't' | b' '));
    let zoned = text.ends_with(['Z', 'z'])
        || bytes.get(bytes.len().wrapping_sub(6)).is_some_and(|sign| b"+-".contains(sign));
    separated && zoned && text.parse::<jiff::Timestamp>().is_ok()
}

/// Go's duration (`1h30m`), or words such as `3 days`.
fn is_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let mut rest = unsigned.trim();
    let mut parts = 0;
    while !rest.is_empty() {
        let end = rest.find(|next: char| !next.is_ascii_digit() && next != '.');
        let Some(end) = end.filter(|end| *end > 0) else { return false };
        let (number, after) = rest.split_at(end);
        if number.parse::<f64>().is_err() {
            return false;
        }
        let after = after.trim_start();
        let stop =
            after.find(|next: char| next.is_ascii_digit() || next == ' ').unwrap_or(after.len());
        let (unit, next) = after.split_at(stop);
        if !UNITS.contains(&unit) {
            return false;
        }
        parts += 1;
        rest = next.trim_start();
    }
    parts > 0
}

const UNITS: [&str; 28] = [
    "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w", "nano", "nanos", "micro", "micros",
    "milli", "millis", "sec", "secs", "second", "seconds", "min", "minute", "minutes", "hour",
    "hours", "day", "days", "week",
];

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let plain = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let Ok(length) = length.parse::<u8>() else { return false };
    let most = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    plain && length <= most
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, size: usize| {
        part.len() == size && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    [(':', 2), ('-', 2), ('.', 4)].into_iter().any(|(sign, size)| {
        let parts: Vec<&str> = text.split(sign).collect();
        matches!(parts.len() * size, 12 | 16 | 40) && parts.iter().all(|part| hex(part, size))
    })
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(open), Some(inner)) => inner.get(open + 1..).unwrap_or_default(),
        (_, _) => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let blank = |part: &str| part.is_empty() || part.contains(char::is_whitespace);
    !blank(local)
        && !blank(domain)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
        && !local.contains('@')
        && domain.split('.').all(|label| !label.is_empty())
}

fn is_uri(text: &str) -> bool {
    if text.contains(|next: char| next.is_control() || next == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let named = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|next| next.is_ascii_alphanumeric() || "+-.".contains(next));
    named && !rest.is_empty()
}

fn is_hostname(text: &str) -> bool {
    let label = |part: &str| {
        (1..=63).contains(&part.len())
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|next| next.is_alphanumeric() || next == '-')
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_uuid(format: &str, text: &str) -> bool {
    let compact: String = text.chars().filter(|next| *next != '-').collect();
    let dashed = text.len() == 36
        && [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let hex = compact.len() == 32 && compact.bytes().all(|byte| byte.is_ascii_hexdigit());
    let version = match format {
        "uuid3" => Some(b'3'),
        "uuid4" => Some(b'4'),
        "uuid5" => Some(b'5'),
        _ => None,
    };
    hex && (dashed || text.len() == 32)
        && version.is_none_or(|version| compact.as_bytes().get(12) == Some(&version))
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_groups(text: &str, sizes: &[usize]) -> bool {
    let parts: Vec<&str> = text.split(['-', ' ']).collect();
    parts.len() == sizes.len()
        && parts.iter().zip(sizes).all(|(part, size)| {
            part.len() == *size && part.bytes().all(|byte| byte.is_ascii_digit())
        })
}

fn is_isbn(text: &str, size: usize) -> bool {
    let digits: Vec<u32> = text
        .chars()
        .filter(|next| !matches!(next, '-' | ' '))
        .map(|next| if next == 'X' { 10 } else { next.to_digit(10).unwrap_or(99) })
        .collect();
    if digits.len() != size || digits.contains(&99) {
        return false;
    }
    let weighted = digits.iter().zip(0_u32..);
    if size == 10 {
        return weighted.map(|(digit, at)| digit * (10 - at)).sum::<u32>() % 11 == 0;
    }
    weighted.map(|(digit, at)| digit * if at % 2 == 0 { 1 } else { 3 }).sum::<u32>() % 10 == 0
}

fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|next| next.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .zip(0_u32..)
        .map(|(digit, at)| match (at % 2, digit * 2) {
            (0, _) => *digit,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)
}

fn is_rgb(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let parts: Vec<&str> = inner.unwrap_or_default().split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}
