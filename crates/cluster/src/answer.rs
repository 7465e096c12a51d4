//! The table of answers: what a failed request says about the world.
//!
//! ```text
//! answer                            to a read             to a write
//! 404 that names its object         absent, to confirm    deletion done, own object ended, blocked
//! 404 without a name                kind gone, to confirm unavailable
//! 401, 403                          forbidden             rejected
//! 403 NamespaceTerminating          unreachable           blocked
//! denied by our webhook             unreachable           a probe's answer, else blocked
//! denied by another webhook         unreachable           409: blocked, else rejected
//! 409 AlreadyExists                 unreachable           taken: read it
//! 409                               unreachable           conflict of our own record, else blocked
//! 422 of a uid or a failed test     unreachable           blocked
//! other 4xx                         unreachable           rejected
//! 408, 410, 429, 5xx, no answer     unreachable           unavailable: it may still arrive
//! ```
//!
//! **Invariants**
//! - Only a 404 in the words of an API server says that something is absent, and it is confirmed.
//! - No text has a value of the object that was written: it may be a secret.

use std::error::Error;
use std::time::Duration;

use kube_client::core::Status;
use kube_client::core::response::{StatusCause, StatusDetails};
use usher_domain::object::name::SUFFIX;
use usher_kernel::{Trouble, Unknown};

/// The start of every denial of a webhook.
const WEBHOOK: &str = "admission webhook \"";
/// The longest text of ours about one failure.
const TEXT_MAX: usize = 300;

/// What came back for a request that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    Refused(Refusal),
    /// Nothing, or only a part; the request may still arrive.
    NoAnswer(String),
}

/// A response that is no success.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// How long the server asks to wait.
    pub after: Option<Duration>,
    /// The body, where it is an error of a Kubernetes API.
    pub status: Option<Box<Status>>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    ObjectAbsent,
    PathAbsent,
    NoRight,
    NamespaceTerminating,
    DeniedByUs,
    DeniedByAnother { conflict: bool },
    Exists,
    Conflict,
    Precondition,
    Invalid,
    Unavailable { after: Option<Duration> },
}

/// What a failed read says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// No object of this name, which a list has to confirm.
    ObjectAbsent,
    /// No such kind, which discovery has to confirm.
    PathAbsent,
    /// Nothing.
    Unknown(Unknown),
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Creates an object.
    Create,
    /// Changes the record whose version the commit compares.
    OwnRecord,
    /// Changes the object that the item is about.
    OwnObject,
    /// Changes another object.
    Change,
    /// Deletes an object.
    Delete,
    /// A deletion that is not carried out: shows whether our webhook refuses it.
    Probe,
}

/// What a failed write says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// What was to be deleted is absent.
    Done,
    /// The item's own object or record is gone.
    Ended,
    /// Another object has the name: read it, it may be ours.
    Taken,
    /// Our webhook refuses the deletion.
    ProbeRefused,
    Trouble(Trouble),
}

impl Failure {
    /// The row of the table that an answer is in.
    pub fn row(&self) -> Row {
        let Self::Refused(Refusal { code, after, status }) = self else {
            return Row::Unavailable { after: None };
        };
        let Some(status) = status else { return plain(*code, *after) };
        let causes = causes(status);
        if causes.iter().any(|it| it.reason.starts_with(SUFFIX)) {
            return Row::DeniedByUs;
        }
        // A webhook chooses its own code: neither a 404 nor a 500 of one is the API server's.
        if status.message.starts_with(WEBHOOK) {
            return Row::DeniedByAnother { conflict: *code == 409 };
        }
        let has = |reason: &str| causes.iter().any(|it| it.reason == reason);
        let details = status.details.as_ref();
        match code {
            404 if details.is_some_and(|it| !it.name.is_empty()) => Row::ObjectAbsent,
            403 if has("NamespaceTerminating") => Row::NamespaceTerminating,
            409 if status.is_already_exists() => Row::Exists,
            422 if causes.iter().any(|it| it.field == "metadata.uid") => Row::Precondition,
            422 if is_failed_patch(details) => Row::Precondition,
            _ => plain(*code, *after),
        }
    }

    /// What it says to a read.
    pub fn read(&self) -> ReadFailure {
        match self.row() {
            Row::ObjectAbsent => ReadFailure::ObjectAbsent,
            Row::PathAbsent => ReadFailure::PathAbsent,
            Row::NoRight => ReadFailure::Unknown(Unknown::Forbidden),
            Row::NamespaceTerminating
            | Row::DeniedByUs
            | Row::DeniedByAnother { .. }
            | Row::Exists
            | Row::Conflict
            | Row::Precondition
            | Row::Invalid
            | Row::Unavailable { .. } => ReadFailure::Unknown(Unknown::Unreachable),
        }
    }

    /// What it says to a write.
    pub fn write(&self, write: Write) -> WriteFailure {
        let what = || self.text();
        let trouble = match (self.row(), write) {
            (Row::ObjectAbsent, Write::Delete | Write::Probe) => return WriteFailure::Done,
            (Row::ObjectAbsent, Write::OwnRecord | Write::OwnObject) => {
                return WriteFailure::Ended;
            }
            (Row::Exists, Write::Create) => return WriteFailure::Taken,
            (Row::DeniedByUs, Write::Probe) => return WriteFailure::ProbeRefused,
            (Row::Conflict, Write::OwnRecord) => Trouble::Conflict,
            (
                Row::ObjectAbsent
                | Row::NamespaceTerminating
                | Row::Precondition
                | Row::Exists
                | Row::Conflict
                | Row::DeniedByUs
                | Row::DeniedByAnother { conflict: true },
                _,
            ) => Trouble::Blocked { what: what() },
            (Row::NoRight | Row::Invalid | Row::DeniedByAnother { conflict: false }, _) => {
                Trouble::Rejected { what: what() }
            }
            (Row::PathAbsent, _) => Trouble::Unavailable { what: what(), after: None },
            (Row::Unavailable { after }, _) => Trouble::Unavailable { what: what(), after },
        };
        WriteFailure::Trouble(trouble)
    }

    /// The trouble of a read without which there is no step.
    pub fn trouble(&self) -> Trouble {
        let what = self.text();
        match self.read() {
            ReadFailure::Unknown(Unknown::Forbidden) => Trouble::Rejected { what },
            ReadFailure::ObjectAbsent | ReadFailure::PathAbsent | ReadFailure::Unknown(_) => {
                let after = if let Row::Unavailable { after } = self.row() { after } else { None };
                Trouble::Unavailable { what, after }
            }
        }
    }

    /// An operation of the client that ended in an error.
    pub(crate) fn no_answer(error: &(dyn Error + 'static)) -> Self {
        let mut texts = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(next) = cause {
            let text = next.to_string();
            if !texts.iter().any(|it| it.contains(&text)) {
                texts.push(text);
            }
            cause = next.source();
        }
        Self::NoAnswer(texts.join(": "))
    }

    /// Who refused, and why as far as it may be told.
    fn text(&self) -> String {
        let Self::Refused(Refusal { code, status, .. }) = self else {
            let Self::NoAnswer(why) = self else { return String::new() };
            return cut(&format!("the cluster: {why}"));
        };
        let Some(status) = status else { return format!("the cluster: status {code}") };
        if let Some(name) = status.message.strip_prefix(WEBHOOK) {
            let name = name.split('"').next().unwrap_or_default();
            return cut(&format!("the webhook {name}"));
        }
        // A refused right names user, verb and resource; other messages may quote the object, as
        // those of an admission policy do.
        if *code == 403 && is_about_a_right(&status.message) {
            return cut(&format!("the cluster: {}", status.message));
        }
        let fields = causes(status).iter().map(|it| it.field.as_str()).filter(|it| !it.is_empty());
        let fields: Vec<&str> = fields.collect();
        let reason = if status.reason.is_empty() { "an error" } else { status.reason.as_str() };
        let object = status.details.as_ref().map_or_else(String::new, named);
        let fields =
            if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
        cut(&format!("the cluster: {code} {reason}{object}{fields}"))
    }
}

impl Refusal {
    /// Reads a response.
    pub(crate) fn read(code: u16, after: Option<Duration>, body: &[u8]) -> Self {
        let is_status = |it: &serde_json::Value| it["kind"] == "Status";
        let body = serde_json::from_slice(body).ok().filter(is_status);
        let status: Option<Box<Status>> = body.and_then(|it| serde_json::from_value(it).ok());
        let told = status.as_ref().and_then(|it| it.details.as_ref());
        let told = told.map(|it| it.retry_after_seconds).filter(|it| *it > 0);
        let after = after.max(told.map(|it| Duration::from_secs(it.into())));
        Self { code, after, status }
    }
}

impl From<kube_client::Error> for Failure {
    /// The answer to a request of the library's typed interface.
    fn from(error: kube_client::Error) -> Self {
        if let kube_client::Error::Api(status) = &error {
            let told = status.details.as_ref().map_or(0, |it| it.retry_after_seconds);
            let after = (told > 0).then(|| Duration::from_secs(told.into()));
            // The library makes a status of any body; a real one says that it is a failure, and
            // has a reason that is one word.
            let is_real = !status.reason.contains(' ');
            let code = status.code;
            let status = is_real.then(|| status.clone());
            return Self::Refused(Refusal { code, after, status });
        }
        if let kube_client::Error::SerdeError(_) = &error {
            // The parser quotes what it does not understand.
            return Self::NoAnswer("the response is not what was requested".to_owned());
        }
        Self::no_answer(&error)
    }
}

/// The row of a code alone.
fn plain(code: u16, after: Option<Duration>) -> Row {
    match code {
        401 | 403 => Row::NoRight,
        404 => Row::PathAbsent,
        409 => Row::Conflict,
        408 | 410 | 429 => Row::Unavailable { after },
        400..=499 => Row::Invalid,
        _ => Row::Unavailable { after },
    }
}

/// A JSON patch whose test failed, or that does not fit, names neither kind nor object nor field.
fn is_failed_patch(details: Option<&StatusDetails>) -> bool {
    details.is_none_or(|it| it.name.is_empty() && it.kind.is_empty() && it.causes.is_empty())
}

/// Whether a message is the one of a right that a user does not have.
fn is_about_a_right(message: &str) -> bool {
    let said = message.split_once("forbidden: ").map_or("", |(_, said)| said);
    said.starts_with("User \"") && said.contains("\" cannot ")
}

fn causes(status: &Status) -> &[StatusCause] {
    status.details.as_ref().map_or(&[], |it| it.causes.as_slice())
}

fn named(details: &StatusDetails) -> String {
    match (details.kind.as_str(), details.name.as_str()) {
        (_, "") => String::new(),
        ("", name) => format!(" of {name}"),
        (kind, name) => format!(" of {kind} {name}"),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn denied(code: u16, causes: &serde_json::Value) -> Failure {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": "Conflict",
            "message": "admission webhook \"guard.example\" denied the request: a secret",
            "details": {"name": "a", "kind": "configmaps", "causes": causes},
        });
        Failure::Refused(Refusal::read(code, None, body.to_string().as_bytes()))
    }

    fn trouble(failure: &Failure, write: Write) -> Trouble {
        let WriteFailure::Trouble(trouble) = failure.write(write) else { panic!("{failure:?}") };
        trouble
    }

    // Requirement: KA-3
    #[test]
    fn a_denial_of_our_webhook_answers_a_probe() {
        let ours = denied(409, &json!([{"reason": "usher.dev/in-use", "message": "m"}]));
        assert_eq!(
            (ours.row(), ours.write(Write::Probe)),
            (Row::DeniedByUs, WriteFailure::ProbeRefused)
        );
        let what = "the webhook guard.example".to_owned();
        assert_eq!(trouble(&ours, Write::Delete), Trouble::Blocked { what });
    }

    /// Red by: the code of a webhook taken for one of the API server.
    // Requirement: KA-3, KA-4
    #[test]
    fn a_denial_of_another_webhook_is_no_answer_of_the_server() {
        let what = "the webhook guard.example".to_owned();
        for code in [400, 403, 404, 422, 500] {
            let failure = denied(code, &json!([]));
            assert_eq!(failure.read(), ReadFailure::Unknown(Unknown::Unreachable));
            for write in [Write::Create, Write::Change, Write::Delete, Write::Probe] {
                let wanted = Trouble::Rejected { what: what.clone() };
                assert_eq!(trouble(&failure, write), wanted, "{code}");
            }
        }
        let held = denied(409, &json!([]));
        for write in [Write::Create, Write::OwnRecord, Write::Delete, Write::Probe] {
            assert_eq!(trouble(&held, write), Trouble::Blocked { what: what.clone() });
        }
    }

    // Requirement: KA-3
    #[test]
    fn a_body_that_is_no_status_says_only_its_code() {
        for body in
            ["", "Too many requests", "{\"error\":\"x\"}", "<html>", "[]", "{\"kind\":\"Status\""]
        {
            let read = |code, after| Failure::Refused(Refusal::read(code, after, body.as_bytes()));
            assert_eq!(read(404, None).row(), Row::PathAbsent, "{body}");
            assert_eq!(read(301, None).row(), Row::Unavailable { after: None });
            let after = Some(Duration::from_secs(7));
            assert_eq!(read(429, after).row(), Row::Unavailable { after }, "by its header");
        }
    }

    /// Red by: any 422 without a name taken for a patch whose test failed.
    // Requirement: KA-3
    #[test]
    fn a_refused_object_without_a_name_is_no_failed_patch() {
        let body = json!({
            "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m",
            "details": {"group": "deep.example", "kind": "wells"},
        });
        let refusal = Refusal::read(422, None, body.to_string().as_bytes());
        assert_eq!(Failure::Refused(refusal).row(), Row::Invalid);
    }

    /// Red by: any 403 that says "cannot" taken for a right.
    // Requirement: KA-4
    #[test]
    fn the_message_of_a_policy_is_not_repeated() {
        let text = |message: &str| {
            let body = json!({
                "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
                "message": message, "details": {"name": "a", "kind": "secrets"},
            });
            let refusal = Refusal::read(403, None, body.to_string().as_bytes());
            Failure::Refused(refusal).text()
        };
        let policy = text(
            "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied \
             request: 'hunter2' cannot be a password",
        );
        assert_eq!(policy, "the cluster: 403 Forbidden of secrets a");
        for right in [
            "secrets \"a\" is forbidden: User \"ann\" cannot get resource \"secrets\"",
            "forbidden: User \"ann\" cannot get path \"/metrics\"",
        ] {
            assert_eq!(text(right), format!("the cluster: {right}"));
        }
    }

    // Requirement: KA-4
    #[test]
    fn a_text_is_cut_at_a_character() {
        let long = Failure::NoAnswer("ü".repeat(1_000));
        let Trouble::Unavailable { what, .. } = trouble(&long, Write::Change) else { panic!() };
        assert_eq!(what.chars().count(), TEXT_MAX + 1);
    }
}
