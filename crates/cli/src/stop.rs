//! What ends a run before its end, and the exit code that says so.

use std::process::ExitCode;

use usher_wire::http::Problem;

/// Why a run stops.
#[derive(Debug, PartialEq, Eq)]
pub struct Stop {
    /// The exit code.
    pub code: u8,
    /// What to say; nothing says nothing.
    pub text: String,
}

impl Stop {
    /// A resource ended Failed, or a bug.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }

    /// Wrong usage.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }

    /// Nothing has this name.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self { code: 4, text: text.into() }
    }

    /// Unavailable or timed out.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self { code: 5, text: text.into() }
    }

    /// What a problem of the server means here.
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

    /// Says it on the error stream, and becomes the exit code.
    pub fn tell(self) -> ExitCode {
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
    fn every_status_has_its_exit_code_and_every_refusal_shows_its_code() {
        let it = problem("name_in_use", "cannot take name \"a\": it is in use");
        for (status, code) in [(400, 3), (401, 3), (404, 4), (409, 3), (422, 3), (500, 1), (503, 5)]
        {
            assert_eq!(Stop::refused(status, &it).code, code, "{status}");
        }
        let text = "cannot take name \"a\": it is in use (name_in_use)";
        assert_eq!(Stop::refused(409, &it).text, text);
        let bare = Stop::refused(502, &problem("", ""));
        assert_eq!(bare, Stop::failed("the server answered with status 502"));
    }
}
