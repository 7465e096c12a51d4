//! The address of the API: what listens there, with which limits and certificates.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use usher_listen::{
    Counts, Deadlines, Limits, Settings, Tls, TlsFiles, connections_max, raise_descriptors,
};
use usher_wire::chain;

use crate::config::{self, Config};
use crate::error::ServerError;

pub(crate) fn bind(address: &str) -> Result<TcpListener, ServerError> {
    let parsed: SocketAddr = address.parse().map_err(|_| {
        ServerError::usage(format!(
            "invalid setting listen = \"{address}\": expected an IP address and a port"
        ))
    })?;
    usher_listen::bind(parsed).map_err(|why| {
        ServerError::unavailable(if why.kind() == std::io::ErrorKind::AddrInUse {
            format!("cannot listen on \"{address}\": another process does; choose --listen")
        } else {
            format!("cannot listen on \"{address}\": {why}")
        })
    })
}

/// The URL of this server for agents: as set, otherwise the listen address if it is a loopback one.
pub(crate) fn api_url(config: &Config, listener: &TcpListener) -> Result<String, ServerError> {
    let local = listener.local_addr().map_err(|why| ServerError::unavailable(why.to_string()))?;
    let is_encrypted = !config.tls.certificate.is_empty();
    if !local.ip().is_loopback() && !is_encrypted {
        tracing::warn!(
            listen = %local,
            "serving without TLS beyond this machine: tokens can be read on the network; set \
             tls.certificate and tls.key, or terminate TLS in a proxy"
        );
    }
    if !config.api_url.is_empty() {
        return Ok(config.api_url.clone());
    }
    if !local.ip().is_loopback() {
        return Err(ServerError::usage(format!(
            "missing setting api_url: agents may not reach \"{local}\", which is not loopback"
        )));
    }
    let scheme = if is_encrypted { "https" } else { "http" };
    Ok(format!("{scheme}://{local}"))
}

/// Limits within the descriptors of this process, deadlines, and certificates.
pub(crate) fn settings(config: &Config) -> Result<Settings, ServerError> {
    let config::Connections {
        unauthenticated,
        per_peer,
        header_deadline,
        body_deadline,
        idle_deadline,
        idle_deadline_authenticated,
        write_deadline,
    } = &config.connections;
    let number = |it: u32| usize::try_from(it).unwrap_or(usize::MAX);
    let limits = Limits {
        total: usize::MAX,
        unauthenticated: number(*unauthenticated),
        per_peer: number(*per_peer),
    };
    Ok(Settings {
        deadlines: Deadlines {
            header: header_deadline.0,
            body: body_deadline.0,
            idle: idle_deadline.0,
            idle_authenticated: idle_deadline_authenticated.0,
            write: write_deadline.0,
        },
        limits: limits.within(connections_max(raise_descriptors())),
        tls: tls(&config.tls)?,
        counts: Arc::<Counts>::default(),
    })
}

fn tls(files: &config::Tls) -> Result<Option<Tls>, ServerError> {
    let config::Tls { certificate, key, client_ca } = files;
    match (certificate.is_empty(), key.is_empty(), client_ca.is_empty()) {
        (true, true, true) => Ok(None),
        (false, false, without_ca) => {
            let client_ca = (!without_ca).then(|| client_ca.into());
            let files = TlsFiles { certificate: certificate.into(), key: key.into(), client_ca };
            let loaded = Tls::from_files(files, &[b"http/1.1"]);
            loaded.map(Some).map_err(|why| ServerError::usage(chain(&why)))
        }
        (_, _, _) => Err(ServerError::usage(
            "incomplete TLS settings: set tls.certificate and tls.key, or none of tls.certificate, \
             tls.key and tls.client_ca",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: CN-7
    #[tokio::test]
    async fn the_url_is_https_with_a_certificate() {
        let listener = bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut config = Config::default();
        assert_eq!(api_url(&config, &listener).ok(), Some(format!("http://{at}")));
        config.tls.certificate = "tls.crt".to_owned();
        assert_eq!(api_url(&config, &listener).ok(), Some(format!("https://{at}")));
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let set = |certificate: &str, key: &str, client_ca: &str| {
            let own = |it: &str| it.to_owned();
            let files = config::Tls {
                certificate: own(certificate),
                key: own(key),
                client_ca: own(client_ca),
            };
            tls(&files).is_ok()
        };
        assert!(set("", "", ""));
        for (certificate, key, client_ca) in [("a", "", ""), ("", "a", ""), ("", "", "a")] {
            assert!(!set(certificate, key, client_ca), "{certificate} {key} {client_ca}");
        }
    }
}
