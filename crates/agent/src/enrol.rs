//! Enrolment: a token becomes a node, however often the answer is lost.

use std::fs;
use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use usher_wire::http::{REGISTER_PATH, RegisterRequest, RegisterResponse, Secret};

use crate::VERSION;
use crate::client::{self, Client};
use crate::identity::{Identity, Node};
use crate::pace::Pace;
use crate::settings::Settings;

/// Why a node did not enrol.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no token.
    #[error("cannot read the bootstrap token from \"{}\"", path.display())]
    Token {
        /// Where it should be.
        path: PathBuf,
        /// How.
        #[source]
        source: io::Error,
    },
    /// The control plane refused for good.
    #[error("the control plane does not take this node")]
    Refused(#[source] client::Error),
    /// What it became could not be kept; the same answer is given again.
    #[error("cannot keep who this node became")]
    Keep(#[source] io::Error),
}

/// Enrols unless it is done already; `None` if it was asked to stop before.
///
/// *Guarantees*: the token's file goes only after the answer to it was kept.
pub async fn enrol(
    client: &Client,
    settings: &Settings,
    identity: &mut Identity,
    pace: Pace,
    mut stop: watch::Receiver<bool>,
) -> Result<Option<Node>, Error> {
    let mut failures = 0;
    let node = loop {
        if let Some(node) = identity.node() {
            break node.clone();
        }
        let request = request(settings, identity)?;
        let call = timeout(pace.call, client.post(REGISTER_PATH, None, &request));
        let answer = tokio::select! {
            _ = stop.wait_for(|it| *it) => return Ok(None),
            answer = call => answer.unwrap_or(Err(client::Error::TimedOut)),
        };
        match answer {
            Ok(RegisterResponse { node_id, node_secret, heartbeat_ms }) => {
                let node = Node { id: node_id, secret: node_secret, heartbeat_ms };
                identity.became(node).map_err(Error::Keep)?;
            }
            Err(why) if why.is_final() => return Err(Error::Refused(why)),
            Err(_) => {
                failures += 1;
                tokio::select! {
                    _ = stop.wait_for(|it| *it) => return Ok(None),
                    () = sleep(pace.jittered(failures)) => {}
                }
            }
        }
    };
    match fs::remove_file(&settings.token_file) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(Error::Keep(why)),
        Ok(()) | Err(_) => Ok(Some(node)),
    }
}

fn request(settings: &Settings, identity: &Identity) -> Result<RegisterRequest, Error> {
    let path = &settings.token_file;
    let token =
        fs::read_to_string(path).map_err(|source| Error::Token { path: path.clone(), source })?;
    Ok(RegisterRequest {
        project_id: settings.project_id.clone(),
        resource_id: settings.resource_id.clone(),
        bootstrap_token: Secret::new(token.trim()),
        nonce: identity.nonce().to_owned(),
        public_key: identity.public_key().to_owned(),
        agent_version: VERSION.to_owned(),
    })
}
