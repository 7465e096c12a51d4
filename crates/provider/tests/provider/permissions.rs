//! What a caller may do, by its certificate.

#[path = "../../../wire/src/fleet/tests/test_endpoint.rs"]
mod test_endpoint;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tonic::Code;
use usher_provider::fake::{Fake, Settings};
use usher_provider::{Kit, Options};
use usher_wire::fleet::{self, Client, CreateRequest, Files, Keyring, MachineRef};

use super::server;
use test_endpoint::TestEndpoint;

impl TestEndpoint {
    fn client(&self, address: &str, name: &str, uris: &[&str]) -> Client {
        let keyring = Arc::new(Keyring::open(self.sign(name, uris)).unwrap());
        fleet::client(fleet::channel(address, Some(keyring)).unwrap())
    }
}

async fn served(endpoint: &TestEndpoint) -> String {
    let options = Options { poll_interval: None, ..Options::default() };
    let kit = Kit::start(Fake::new(Settings::default()).unwrap(), options).await.unwrap();
    let keyring = Arc::new(Keyring::open(endpoint.sign("server", &[])).unwrap());
    server::serve_kit(&kit, Some(keyring)).await
}

/// The codes of a read, and of a change on behalf of a shard.
async fn rights(client: &mut Client, shard: &str) -> (Code, Code) {
    let id = "fake-slot-000000".to_owned();
    let code = |status: Result<(), tonic::Status>| status.err().map_or(Code::Ok, |it| it.code());
    let read = client.get(MachineRef { id: id.clone() }).await.map(|_| ());
    let create = CreateRequest {
        machine_id: id,
        shard_id: shard.to_owned(),
        shard_epoch: 1,
        sequence_number: 1,
    };
    (code(read), code(client.create(create).await.map(|_| ())))
}

/// A caller, its URIs, the shard it acts for, and the expected codes.
type Case<'a> = (&'a str, &'a [&'a str], &'a str, (Code, Code));

// Requirement: PM-5
#[tokio::test]
async fn a_shard_acts_for_itself_only() {
    let endpoint = TestEndpoint::new();
    let address = served(&endpoint).await;
    let denied = Code::PermissionDenied;
    let cases: [Case<'_>; 8] = [
        ("own", &["bigfleet://shard/a"], "a", (Code::Ok, Code::Ok)),
        ("other", &["bigfleet://shard/a"], "b", (Code::Ok, denied)),
        ("nameless", &["bigfleet://shard/a"], "", (Code::Ok, denied)),
        ("admin", &["bigfleet://admin"], "c", (Code::Ok, Code::Ok)),
        ("readonly", &["bigfleet://readonly"], "d", (Code::Ok, denied)),
        ("cluster", &["bigfleet://cluster/d"], "d", (denied, denied)),
        ("none", &[], "e", (denied, denied)),
        ("two", &["bigfleet://shard/f", "bigfleet://admin"], "f", (denied, denied)),
    ];
    for (name, uris, shard, expected) in cases {
        let mut client = endpoint.client(&address, name, uris);
        assert_eq!(rights(&mut client, shard).await, expected, "{name}");
    }
}

// Requirement: PM-4
#[test]
fn incomplete_tls_files_are_a_usage_error() {
    let endpoint = TestEndpoint::new();
    let files = endpoint.sign("server", &[]);
    let usher = |flags: &[(&str, &Path)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_usher-provider-fake"));
        command.args(["--addr", "127.0.0.1:0", "--use-fake-backend"]);
        for (flag, path) in flags {
            command.arg(flag).arg(path);
        }
        command.output().unwrap().status.code()
    };
    assert_eq!(usher(&[("--tls-cert", &files.cert)]), Some(2));
    assert_eq!(usher(&[("--tls-cert", &files.cert), ("--tls-key", &files.key)]), Some(2));
    let wrong = endpoint.folder.path().join("server.ca");
    let torn: [(&str, &Path); 3] =
        [("--tls-cert", &files.cert), ("--tls-key", &wrong), ("--tls-ca", &files.ca)];
    assert_eq!(usher(&torn), Some(5), "an invalid key");
}
