//! The cells of a table.

use jiff::Timestamp;
use serde_json::Value;

/// The cell of a column for the value at its path; null if it is absent or of another type.
pub fn cell(kind: &str, found: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = found.filter(|value| !value.is_null()) else { return Value::Null };
    match (kind, value) {
        ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_)) => value.clone(),
        ("string", other) => Value::from(other.to_string()),
        ("integer", Value::Number(number)) => number
            .as_i64()
            .or_else(|| {
                number.as_f64().and_then(|float| format!("{:.0}", float.trunc()).parse().ok())
            })
            .map_or(Value::Null, Value::from),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(then) => Value::from(age(then, now)),
            Err(_) => Value::from("<invalid>"),
        },
        _ => Value::Null,
    }
}

/// The age of a time, in one or two units.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second());
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{small_unit}")
        }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}
