//! The lines of a watch.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube_client::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::answer::Failure;
use crate::pin;

/// The longest line: metadata is bounded far below.
const LINE_MAX: usize = 4 * 1024 * 1024;

/// A server that ends a watch so little before it was asked to ends it on time.
const EARLY: Duration = Duration::from_secs(2);

/// A watch that is open, of objects as far as they are read.
pub(crate) struct Stream<O> {
    body: Body,
    bytes: Vec<u8>,
    /// When the server was asked to end it, and until when it may be silent.
    asked: Instant,
    ends: Instant,
    /// The revision of the last line, from which the watch is resumed.
    pub(crate) revision: u64,
    /// Whether a line was read.
    pub(crate) is_alive: bool,
    object: PhantomData<fn() -> O>,
}

/// What is read of an object, and of the error that ends a watch.
pub(crate) trait Watched: DeserializeOwned {
    /// Empty for an error.
    fn revision(&self) -> &str;
    /// The status of an error.
    fn code(&self) -> u16;
}

/// An object that changed.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(default)]
    pub(super) metadata: Meta,
    #[serde(default)]
    code: u16,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    resource_version: String,
    pub(super) labels: BTreeMap<String, String>,
}

/// What a watch shows next.
#[derive(Debug)]
pub(crate) enum Shown<O> {
    Change(O),
    /// As it was before it was deleted.
    Deleted(O),
    Bookmark,
    /// The end that the server chose: nothing is missed.
    End,
    /// What happened since the revision is no longer known.
    Expired,
    Broken(Failure),
}

#[derive(Deserialize)]
struct Line<O> {
    #[serde(rename = "type")]
    event: String,
    object: O,
}

impl Watched for Change {
    fn revision(&self) -> &str {
        &self.metadata.resource_version
    }

    fn code(&self) -> u16 {
        self.code
    }
}

impl<O: Watched> Stream<O> {
    /// A watch from a revision that was asked for so long, and may be silent for `grace` more.
    pub(crate) fn new(body: Body, revision: u64, (asked, grace): (Duration, Duration)) -> Self {
        let asked = Instant::now() + asked;
        let ends = asked + grace;
        let (bytes, is_alive, object) = (Vec::new(), false, PhantomData);
        Self { body, bytes, asked, ends, revision, is_alive, object }
    }

    /// Whether the server ends it before it was asked to: perhaps it is another one now, that was
    /// restored to an older state and shows nothing before it has reached the old revision.
    pub(crate) fn is_early(&self) -> bool {
        Instant::now() + EARLY < self.asked
    }

    pub(crate) async fn next(&mut self) -> Shown<O> {
        let line = match tokio::time::timeout_at(self.ends, self.line()).await {
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => return Shown::End,
            Ok(Err(failure)) => return Shown::Broken(failure),
            Err(_) => return Shown::Broken(Failure::NoAnswer("a watch went silent".to_owned())),
        };
        let broken = |why: &str| Shown::Broken(Failure::NoAnswer(why.to_owned()));
        let Ok(Line::<O> { event, object }) = serde_json::from_slice(&line) else {
            return broken("a watch sent what is no event");
        };
        if event == "ERROR" {
            return if object.code() == 410 { Shown::Expired } else { broken("a watch failed") };
        }
        let Some(revision) = pin::revision(object.revision()) else {
            return broken("a watch sent an object without a revision");
        };
        if revision < self.revision {
            return broken("a watch went back in time");
        }
        self.revision = revision;
        self.is_alive = true;
        match event.as_str() {
            "BOOKMARK" => Shown::Bookmark,
            "DELETED" => Shown::Deleted(object),
            _ => Shown::Change(object),
        }
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.bytes[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.bytes.split_off(searched + at + 1);
                return Ok(Some(std::mem::replace(&mut self.bytes, rest)));
            }
            searched = self.bytes.len();
            if searched > LINE_MAX {
                return Err(Failure::NoAnswer("a watch sent a line without an end".to_owned()));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::no_answer(&error)),
                Some(Ok(frame)) => {
                    self.bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |it| it));
                }
            }
        }
    }
}
