//! The secrets of a server: the token of the administrator, the key that signs tokens, and the
//! certificate authority.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::http::tls::Authority;
use crate::server::StartError;
use crate::store::OtherFormat;

/// The version of the file format.
const FORMAT: u64 = 1;
/// The first line of a certificate in PEM.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// The secrets of a server.
pub(crate) struct Credentials {
    /// The bearer token of the administrator.
    pub(crate) token: String,
    /// The key that signs the tokens of service accounts.
    pub(crate) key: [u8; 32],
    pub(crate) authority: Authority,
}

/// The file of credentials.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kept {
    format: u64,
    token: String,
    key: [u8; 32],
    certificate: String,
    certificate_key: String,
}

impl Credentials {
    pub(crate) fn generate() -> Result<Self, StartError> {
        let no_randomness = |_| StartError::Randomness;
        Ok(Self {
            token: clock::token().map_err(no_randomness)?,
            key: clock::secret().map_err(no_randomness)?,
            authority: Authority::generate()?,
        })
    }

    /// Reads the file; creates it, readable by its owner only, if it is missing.
    pub(crate) fn keep(path: &Path) -> Result<Self, StartError> {
        let failed = |why: Box<dyn std::error::Error + Send + Sync>| StartError::Credentials {
            path: path.to_owned(),
            source: why,
        };
        match std::fs::read(path) {
            Ok(bytes) => read(&bytes).map_err(failed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self::generate()?;
                made.write(path).map_err(|error| failed(error.into()))?;
                Ok(made)
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Writes another file first, so that a crash leaves no half of one.
    fn write(&self, path: &Path) -> io::Result<()> {
        let kept = Kept {
            format: FORMAT,
            token: self.token.clone(),
            key: self.key,
            certificate: self.authority.certificate.clone(),
            certificate_key: self.authority.key.clone(),
        };
        let draft = path.with_extension("new");
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(serde_json::to_string_pretty(&kept)?.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    }
}

fn read(bytes: &[u8]) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let Version { format } = serde_json::from_slice(bytes).map_err(|error| misread(&error))?;
    if format != FORMAT {
        return Err(OtherFormat { found: format, known: FORMAT }.into());
    }
    let Kept { format: _, token, key, certificate, certificate_key } =
        serde_json::from_slice(bytes).map_err(|error| misread(&error))?;
    if token.is_empty() || !certificate.starts_with(CERTIFICATE) {
        return Err("it has no token or no certificate".into());
    }
    Ok(Credentials { token, key, authority: Authority { certificate, key: certificate_key } })
}

/// Where a file is not what it should be: the message of the parser could quote a secret.
fn misread(error: &serde_json::Error) -> String {
    format!("it is not a file of credentials at line {} column {}", error.line(), error.column())
}
