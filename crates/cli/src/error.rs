//! Why a command fails, and its exit code.

use std::process::ExitCode;

use usher_wire::http::Problem;

/// The error of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct CliError {
    pub code: u8,
    /// What to print; empty prints nothing.
    pub text: String,
}

impl CliError {
    /// A resource that is Failed, or a bug: exit code 1.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }

    /// Wrong usage: exit code 2.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }

    /// Not found: exit code 4.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self { code: 4, text: text.into() }
    }

    /// Unavailable or timed out: exit code 5.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self { code: 5, text: text.into() }
    }

    /// The exit code and the text for a problem of the server.
    pub fn refused(status: u16, problem: &Problem) -> Self {
        let code = match status {
            404 => 4,
            503 => 5,
            400..=499 => 3,
            _ => 1,
        };
        let Problem { detail, code: word, .. } = problem;
        let text = match (detail.as_str(), word.as_str()) {
            ("", "") => format!("the server answered with status {status}"),
            (detail, "") => detail.to_owned(),
            ("", word) => word.to_owned(),
            (detail, word) => format!("{detail} ({word})"),
        };
        Self { code, text }
    }

    /// Prints the text to the error stream and returns the exit code.
    pub fn print(self) -> ExitCode {
        if !self.text.is_empty() {
            eprintln!("usher: {}", self.text);
        }
        ExitCode::from(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: &str, detail: &str) -> Problem {
        let (code, detail) = (code.to_owned(), detail.to_owned());
        Problem { kind: String::new(), title: String::new(), status: 0, code, detail }
    }

    // Requirement: HC-20
    #[test]
    fn every_status_has_its_exit_code_and_a_refusal_shows_its_error_code() {
        let it = problem("name_in_use", "cannot take name \"a\": it is in use");
        for (status, code) in [(400, 3), (401, 3), (404, 4), (409, 3), (422, 3), (500, 1), (503, 5)]
        {
            assert_eq!(CliError::refused(status, &it).code, code, "{status}");
        }
        let text = "cannot take name \"a\": it is in use (name_in_use)";
        assert_eq!(CliError::refused(409, &it).text, text);
        let bare = CliError::refused(502, &problem("", ""));
        assert_eq!(bare, CliError::failed("the server answered with status 502"));
    }
}
