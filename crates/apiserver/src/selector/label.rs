//! Label selectors: `app=x,tier in (front,back),!old`.

use super::Malformed;
use super::lexer::{Lexeme, Token, lexemes};
use crate::meta::field::{FieldError, Path, joined, quoted};
use crate::meta::name;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// How a requirement compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label has the value.
    Equals,
    /// The label has the value, written as `==`.
    DoubleEquals,
    /// The label is absent or has another value.
    NotEquals,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
    /// The label is a number above the value.
    Greater,
    /// The label is a number below the value.
    Less,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// Requirements on the labels of an object; empty matches every object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Parses a selector.
    pub fn parse(selector: &str) -> Result<Self, Malformed> {
        let mut parser = Parser { lexemes: lexemes(selector), position: 0 };
        let mut requirements = parser.requirements().map_err(Malformed)?;
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Self { requirements })
    }

    /// Reads the structured form, as webhook configurations carry it: `matchLabels` and
    /// `matchExpressions`.
    pub fn from_structured(selector: &Value) -> Result<Self, Malformed> {
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let values = BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]);
            requirements.push(checked(key, Operator::In, values).map_err(Malformed)?);
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            requirements.push(expressed(expression).map_err(Malformed)?);
        }
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Self { requirements })
    }

    /// Whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the labels meet every requirement.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let found = labels.and_then(|all| all.get(&self.key)).and_then(Value::as_str);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                found.is_some_and(|value| self.values.contains(value))
            }
            Operator::NotIn | Operator::NotEquals => {
                found.is_none_or(|value| !self.values.contains(value))
            }
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::Greater | Operator::Less => {
                let bound = self.values.iter().next().and_then(|text| text.parse::<i64>().ok());
                let value = found.and_then(|text| text.parse::<i64>().ok());
                match (value, bound) {
                    (Some(value), Some(bound)) if self.operator == Operator::Greater => {
                        value > bound
                    }
                    (Some(value), Some(bound)) => value < bound,
                    (_, _) => false,
                }
            }
        }
    }
}

fn expressed(expression: &Value) -> Result<Requirement, String> {
    let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(format!("{} is not a valid label selector operator", quoted(other))),
    };
    let values = expression.get("values").and_then(Value::as_array);
    let values = values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    checked(text("key"), operator, values.collect())
}

/// A requirement with validated key and values.
fn checked(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Requirement, String> {
    let mut errors = Vec::new();
    errors.extend(wrong_key(key));
    let at = Path::new("values");
    let shown = Value::from(values.iter().cloned().collect::<Vec<_>>());
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(&at, &shown, detail));
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            refuse("for 'in', 'notin' operators, values set can't be empty");
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            refuse("values set must be empty for exists and does not exist");
        }
        Operator::Greater | Operator::Less => {
            if let Some(bad) = values.iter().find(|text| text.parse::<i64>().is_err()) {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid_text(&at.index(0), bad, detail));
            }
        }
        Operator::In
        | Operator::NotIn
        | Operator::Exists
        | Operator::DoesNotExist
        | Operator::Equals
        | Operator::DoubleEquals
        | Operator::NotEquals => {}
    }
    for (index, value) in values.iter().enumerate() {
        let wrong = name::label_value(value);
        if !wrong.is_empty() {
            let path = at.index(index).key(key);
            errors.push(FieldError::invalid_text(&path, value, wrong.join("; ")));
        }
    }
    if errors.is_empty() {
        Ok(Requirement { key: key.to_owned(), operator, values })
    } else {
        Err(joined(&errors))
    }
}

fn wrong_key(key: &str) -> Option<FieldError> {
    let wrong = name::qualified(key);
    (!wrong.is_empty()).then(|| FieldError::invalid_text(&Path::default(), key, wrong.join("; ")))
}

struct Parser {
    lexemes: Vec<Lexeme>,
    position: usize,
}

impl Parser {
    /// Peeks at the next token, where `in` and `notin` are identifiers.
    fn peek(&self) -> Lexeme {
        let mut lexeme = self.peek_operator();
        if matches!(lexeme.token, Token::In | Token::NotIn) {
            lexeme.token = Token::Word;
        }
        lexeme
    }

    fn peek_operator(&self) -> Lexeme {
        let last = Lexeme { token: Token::End, text: String::new() };
        self.lexemes.get(self.position).cloned().unwrap_or(last)
    }

    fn take(&mut self) -> Lexeme {
        let lexeme = self.peek();
        self.position += 1;
        lexeme
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut found = Vec::new();
        loop {
            let next = self.peek();
            if next.token == Token::End {
                return Ok(found);
            }
            if !matches!(next.token, Token::Word | Token::Not) {
                let text = next.text;
                return Err(format!("found '{text}', expected: !, identifier, or 'end of string'"));
            }
            let requirement =
                self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
            found.push(requirement);
            let Lexeme { token, text } = self.take();
            if token == Token::End {
                return Ok(found);
            }
            if token != Token::Comma {
                return Err(format!("found '{text}', expected: ',' or 'end of string'"));
            }
            let Lexeme { token, text } = self.peek();
            if !matches!(token, Token::Word | Token::Not) {
                return Err(format!("found '{text}', expected: identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut lexeme = self.take();
        let negated = lexeme.token == Token::Not;
        if negated {
            lexeme = self.take();
        }
        if lexeme.token != Token::Word {
            return Err(format!("found '{}', expected: identifier", lexeme.text));
        }
        let key = lexeme.text;
        if let Some(wrong) = wrong_key(&key) {
            return Err(wrong.to_string());
        }
        if negated {
            return checked(&key, Operator::DoesNotExist, BTreeSet::new());
        }
        if matches!(self.peek().token, Token::End | Token::Comma) {
            return checked(&key, Operator::Exists, BTreeSet::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            Operator::Equals
            | Operator::DoubleEquals
            | Operator::NotEquals
            | Operator::Greater
            | Operator::Less
            | Operator::Exists
            | Operator::DoesNotExist => self.value()?,
        };
        checked(&key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let lexeme = self.peek_operator();
        self.position += 1;
        match lexeme.token {
            Token::In => Ok(Operator::In),
            Token::NotIn => Ok(Operator::NotIn),
            Token::Equals => Ok(Operator::Equals),
            Token::DoubleEquals => Ok(Operator::DoubleEquals),
            Token::NotEquals => Ok(Operator::NotEquals),
            Token::Greater => Ok(Operator::Greater),
            Token::Less => Ok(Operator::Less),
            Token::End
            | Token::Bad
            | Token::Word
            | Token::Not
            | Token::Open
            | Token::Close
            | Token::Comma => {
                Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", lexeme.text))
            }
        }
    }

    fn value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek().token, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        let lexeme = self.take();
        if lexeme.token == Token::Word {
            return Ok(BTreeSet::from([lexeme.text]));
        }
        Err(format!("found '{}', expected: identifier", lexeme.text))
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.take();
        if open.token != Token::Open {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        let Lexeme { token, text } = self.peek();
        if !matches!(token, Token::Close | Token::Word | Token::Comma) {
            return Err(format!("found '{text}', expected: ',', ')' or identifier"));
        }
        let values = if token == Token::Close { BTreeSet::new() } else { self.listed()? };
        self.take();
        Ok(values)
    }

    /// The values up to the closing bracket, which is left in place.
    fn listed(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            let Lexeme { token, text } = self.take();
            let next = self.peek();
            if token == Token::Word {
                values.insert(text);
                if next.token == Token::Close {
                    return Ok(values);
                }
                if next.token != Token::Comma {
                    return Err(format!("found '{}', expected: ',' or ')'", next.text));
                }
                continue;
            }
            if token != Token::Comma {
                return Err(format!("found '{text}', expected: ',', or identifier"));
            }
            if values.is_empty() {
                values.insert(String::new());
            }
            if next.token == Token::Close {
                values.insert(String::new());
                return Ok(values);
            }
            if next.token == Token::Comma {
                self.take();
                values.insert(String::new());
            }
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        out.write_str(&all.join(","))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::In => write!(out, "{key} in ({values})"),
            Operator::NotIn => write!(out, "{key} notin ({values})"),
            Operator::Equals => write!(out, "{key}={values}"),
            Operator::DoubleEquals => write!(out, "{key}=={values}"),
            Operator::NotEquals => write!(out, "{key}!={values}"),
            Operator::Greater => write!(out, "{key}>{values}"),
            Operator::Less => write!(out, "{key}<{values}"),
            Operator::Exists => out.write_str(key),
            Operator::DoesNotExist => write!(out, "!{key}"),
        }
    }
}
