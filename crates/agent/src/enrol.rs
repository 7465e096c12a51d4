//! Enrolment: exchanges the token for a node identity, repeated until an answer arrives.

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

#[derive(Debug, Error)]
pub enum Error {
    #[error("failed to read the bootstrap token from \"{}\"", path.display())]
    Token {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the control plane rejected the registration")]
    Refused(#[source] client::Error),
    /// The next registration gets the same answer.
    #[error("failed to store the node identity")]
    Store(#[source] io::Error),
}

/// Enrols unless the identity on disk has a node; `None` if stopped before.
///
/// *Guarantees*: the token file is deleted only after the node identity was written.
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
                identity.store_node(node).map_err(Error::Store)?;
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
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(Error::Store(why)),
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
