//! The lexer of label selectors.

/// A token of a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    End,
    Bad,
    Word,
    In,
    NotIn,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Open,
    Close,
    Comma,
}

/// A token and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) text: String,
}

const SIGNS: &str = "=!(),><";

/// Splits a selector into tokens; the last one is the end.
pub(super) fn lexemes(selector: &str) -> Vec<Lexeme> {
    let mut found = Vec::new();
    let mut rest = selector.trim_start_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let taken =
            if SIGNS.contains(first) { sign(rest, &mut found) } else { word(rest, &mut found) };
        rest = rest.get(taken..).unwrap_or_default().trim_start_matches(is_blank);
    }
    found.push(Lexeme { token: Token::End, text: String::new() });
    found
}

fn word(rest: &str, found: &mut Vec<Lexeme>) -> usize {
    let end = rest.find(|next| SIGNS.contains(next) || is_blank(next)).unwrap_or(rest.len());
    let text = rest.get(..end).unwrap_or_default();
    let token = match text {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Word,
    };
    found.push(Lexeme { token, text: text.to_owned() });
    end
}

fn sign(rest: &str, found: &mut Vec<Lexeme>) -> usize {
    let two = match rest.get(..2) {
        Some("==") => Some(Token::DoubleEquals),
        Some("!=") => Some(Token::NotEquals),
        Some(_) | None => None,
    };
    if let Some(token) = two {
        found.push(Lexeme { token, text: rest.get(..2).unwrap_or_default().to_owned() });
        return 2;
    }
    let text = rest.get(..1).unwrap_or_default();
    let token = match text {
        "=" => Token::Equals,
        "!" => Token::Not,
        "(" => Token::Open,
        ")" => Token::Close,
        "," => Token::Comma,
        ">" => Token::Greater,
        "<" => Token::Less,
        _ => Token::Bad,
    };
    found.push(Lexeme { token, text: text.to_owned() });
    1
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}
