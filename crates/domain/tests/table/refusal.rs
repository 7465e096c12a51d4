//! Why a table cannot be read: the line and what is wrong with it.

use std::fmt;

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) problem: Problem,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.problem)
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No such keyword.
    UnknownKeyword(String),
    /// The table is another one, or not named before anything else.
    WrongTable(String),
    /// No such fact in the code, or not of this origin.
    UnknownFact(String),
    /// The code has a fact that the table does not declare.
    UndeclaredFact(&'static str),
    /// A fact is declared, or a fact or field said, twice.
    Repeated(String),
    /// The declared words are not those of the code.
    WrongWords {
        /// The fact.
        fact: &'static str,
        /// Its words in the code.
        code: String,
    },
    /// No such value of a fact.
    UnknownValue {
        /// The fact.
        fact: &'static str,
        /// The word.
        word: String,
    },
    /// No such field of the answer.
    UnknownField(String),
    /// No such word of a field.
    UnknownWord {
        /// The field.
        field: &'static str,
        /// The word.
        word: String,
    },
    /// A field that must be said is absent.
    MissingField(&'static str),
    /// Not of the form `name=value`.
    NotAnEquation(String),
    /// A row without `->`.
    MissingArrow,
    /// A `given` or `row` outside a section.
    NoSection,
    /// A `given` after the first row of its section.
    LateGiven,
    /// The section that began on this line has no rows.
    EmptySection(usize),
    /// A `given` that shares cells with the one of an earlier line.
    Overlap(usize),
    /// A `given` or `row` that no cell can match.
    MatchesNothing,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKeyword(word) => write!(f, "unknown keyword \"{word}\""),
            Self::WrongTable(name) => write!(f, "expected \"table {name}\""),
            Self::UnknownFact(name) => write!(f, "unknown fact \"{name}\""),
            Self::UndeclaredFact(name) => write!(f, "fact \"{name}\" is not declared"),
            Self::Repeated(name) => write!(f, "\"{name}\" is said twice"),
            Self::WrongWords { fact, code } => {
                write!(f, "the words of \"{fact}\" are in the code: {code}")
            }
            Self::UnknownValue { fact, word } => {
                write!(f, "unknown value \"{word}\" of fact \"{fact}\"")
            }
            Self::UnknownField(name) => write!(f, "unknown field \"{name}\""),
            Self::UnknownWord { field, word } => {
                write!(f, "unknown word \"{word}\" of field \"{field}\"")
            }
            Self::MissingField(name) => write!(f, "\"{name}\" is not said"),
            Self::NotAnEquation(word) => write!(f, "expected name=value, found \"{word}\""),
            Self::MissingArrow => f.write_str("a row needs one \"->\""),
            Self::NoSection => f.write_str("no section has begun"),
            Self::LateGiven => f.write_str("a given comes before the rows of its section"),
            Self::EmptySection(line) => write!(f, "the section of line {line} has no rows"),
            Self::Overlap(line) => write!(f, "shares cells with the given of line {line}"),
            Self::MatchesNothing => f.write_str("no cell can match this"),
        }
    }
}
