//! The `JSONPath` parser.

use super::{Filter, JsonPath, Operand, Step, Test};
use serde_json::Value;

/// The maximum number of steps.
const STEPS_MAX: usize = 200;

pub(super) fn parse(path: &str) -> Result<JsonPath, String> {
    let trimmed = path.trim();
    let inner = match trimmed.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or("the brace is never closed")?,
        None => trimmed,
    };
    let mut rest = inner.strip_prefix(['$', '@']).unwrap_or(inner);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() >= STEPS_MAX {
            return Err("it has too many steps".to_owned());
        }
        let (step, after) = step(rest)?;
        steps.extend(step);
        rest = after;
    }
    Ok(JsonPath { steps })
}

fn step(rest: &str) -> Result<(Option<Step>, &str), String> {
    if let Some(after) = rest.strip_prefix("..") {
        let (name, after) = word(after)?;
        return Ok((Some(Step::Descendants(name)), after));
    }
    if let Some(inside) = rest.strip_prefix('[') {
        let end = closing(inside).ok_or("a bracket is never closed")?;
        let step = bracketed(inside.get(..end).unwrap_or_default())?;
        return Ok((Some(step), inside.get(end + 1..).unwrap_or_default()));
    }
    let after = rest.strip_prefix('.').unwrap_or(rest);
    if after.is_empty() || after.starts_with('[') {
        return Ok((None, after));
    }
    if let Some(after) = after.strip_prefix('*') {
        return Ok((Some(Step::All), after));
    }
    let (name, after) = word(after)?;
    Ok((Some(Step::Field(name)), after))
}

/// A name up to the next sign; a backslash escapes a sign.
fn word(rest: &str) -> Result<(String, &str), String> {
    let mut name = String::new();
    let mut escaped = false;
    let mut end = rest.len();
    for (at, character) in rest.char_indices() {
        match character {
            _ if escaped => {
                name.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => {
                end = at;
                break;
            }
            ' ' | '\t' | '\n' | ']' | '{' | '}' | '(' | ')' | '|' | ',' | '<' | '>' | '=' | '"' => {
                return Err(format!("\"{character}\" is not allowed in a name"));
            }
            _ => name.push(character),
        }
    }
    if name.is_empty() || escaped {
        return Err("a name is missing".to_owned());
    }
    Ok((name, rest.get(end..).unwrap_or_default()))
}

/// The index of the closing bracket, skipping quotes and inner brackets.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0_usize;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (Some(_) | None, _) => {}
        }
    }
    None
}

fn bracketed(inside: &str) -> Result<Step, String> {
    let inside = inside.trim();
    if inside == "*" {
        return Ok(Step::All);
    }
    if let Some(text) = unquoted(inside) {
        return Ok(Step::Field(text));
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter(condition.trim()).map(Step::Filter);
    }
    let number = |text: &str| -> Result<Option<i64>, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| format!("\"{text}\" is not a place in a list"))
    };
    match inside.split_once(':') {
        Some((from, to)) => Ok(Step::Range(number(from)?, number(to)?)),
        None => number(inside)?.map(Step::Index).ok_or_else(|| "a bracket is empty".to_owned()),
    }
}

fn filter(condition: &str) -> Result<Filter, String> {
    let signs = [
        ("==", Test::Equal),
        ("!=", Test::NotEqual),
        ("<=", Test::LessOrEqual),
        (">=", Test::GreaterOrEqual),
        ("<", Test::Less),
        (">", Test::Greater),
    ];
    let mut quote = None;
    for (at, character) in condition.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => continue,
            (None, '\'' | '"') => quote = Some(character),
            (None, _) => {}
        }
        let rest = condition.get(at..).unwrap_or_default();
        for (sign, test) in signs {
            if let Some(right) = rest.strip_prefix(sign) {
                let left = operand(condition.get(..at).unwrap_or_default())?;
                return Ok(Filter { left, test: Some((test, operand(right)?)) });
            }
        }
    }
    Ok(Filter { left: operand(condition)?, test: None })
}

fn operand(text: &str) -> Result<Operand, String> {
    let text = text.trim();
    if text.starts_with('@') {
        // Nested filters would make the recursion unbounded.
        if text.contains("?(") {
            return Err("nested filters are not supported".to_owned());
        }
        return parse(text).map(Operand::Path);
    }
    if let Some(literal) = unquoted(text) {
        return Ok(Operand::Literal(Value::from(literal)));
    }
    let literal = serde_json::from_str(text).ok().filter(|value: &Value| !value.is_object());
    literal.map(Operand::Literal).ok_or_else(|| format!("\"{text}\" is no value"))
}

fn unquoted(text: &str) -> Option<String> {
    let inner =
        ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))?;
    let mut out = String::new();
    let mut escaped = false;
    for character in inner.chars() {
        if character == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(character);
            escaped = false;
        }
    }
    Some(out)
}
