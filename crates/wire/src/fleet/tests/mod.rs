//! The wire format byte for byte, and TLS connections.

mod test_endpoint;

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

use super::*;
use test_endpoint::{TestEndpoint, write};

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A length-delimited field: its number and its content.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[number << 3 | 2, length], content].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn entry(key: &str, value: &str) -> Vec<u8> {
    [field(1, key.as_bytes()), field(2, value.as_bytes())].concat()
}

// Requirement: PM-1
#[test]
fn a_machine_has_the_field_numbers_of_the_protocol() {
    let machine = Machine {
        id: "m".to_owned(),
        state: MachineState::Configured.into(),
        host: Some(HostRef { provider: "p".to_owned(), r#ref: "r".to_owned() }),
        instance_type: "t".to_owned(),
        zone: "z".to_owned(),
        capacity_type: CapacityType::Spot.into(),
        price_per_hour: 1.0,
        interruption_probability: 0.5,
        resources: Some(Resources { resources: map(&[("cpu", "4")]) }),
        labels: map(&[("l", "v")]),
        last_error: "e".to_owned(),
        allocatable: Some(Resources { resources: map(&[("cpu", "3")]) }),
        cluster: "c".to_owned(),
        shard_metadata: map(&[("k", "")]),
    };
    let mut expected = [
        field(1, b"m"),
        number(2, 5),
        field(3, &[field(1, b"p"), field(2, b"r")].concat()),
        field(4, b"t"),
        field(5, b"z"),
        number(6, 4),
        vec![7 << 3 | 1, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        vec![8 << 3 | 1, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f],
        field(9, &field(1, &entry("cpu", "4"))),
        field(10, &entry("l", "v")),
        field(12, b"e"),
        field(13, &field(1, &entry("cpu", "3"))),
        field(14, b"c"),
    ]
    .concat();
    expected.extend(field(15, &field(1, b"k")));
    assert_eq!(machine.encode_to_vec(), expected);
    assert_eq!(Machine::decode(expected.as_slice()), Ok(machine));
}

// Requirement: PM-1
#[test]
fn requests_and_responses_have_the_field_numbers_of_the_protocol() {
    let (id, shard) = ("m".to_owned(), "s".to_owned());
    let token = |first: u8| [number(first, 2), number(first + 1, 3)].concat();
    let create = CreateRequest {
        machine_id: id.clone(),
        shard_id: shard.clone(),
        shard_epoch: 2,
        sequence_number: 3,
    };
    let expected = [field(1, b"m"), field(3, b"s"), token(4)].concat();
    assert_eq!(create.encode_to_vec(), expected);
    let configure = ConfigureRequest {
        machine_id: id.clone(),
        cluster_id: "c".to_owned(),
        bootstrap_blob: "b".into(),
        shard_id: shard.clone(),
        shard_epoch: 2,
        sequence_number: 3,
        shard_metadata: map(&[("k", "v")]),
    };
    let head = [field(1, b"m"), field(2, b"c"), field(3, b"b"), field(4, b"s"), token(5)].concat();
    assert_eq!(configure.encode_to_vec(), [head, field(7, &entry("k", "v"))].concat());
    let drain = DrainRequest {
        machine_id: id.clone(),
        grace_period_seconds: 9,
        shard_id: shard.clone(),
        shard_epoch: 2,
        sequence_number: 3,
    };
    let expected = [field(1, b"m"), number(2, 9), field(3, b"s"), token(4)].concat();
    assert_eq!(drain.encode_to_vec(), expected);
    let delete =
        DeleteRequest { machine_id: id, shard_id: shard, shard_epoch: 2, sequence_number: 3 };
    let expected = [field(1, b"m"), field(2, b"s"), token(3)].concat();
    assert_eq!(delete.encode_to_vec(), expected);
    let filter = ListFilter { states: vec![3, 5], max_results: 7, since_revision: "r".into() };
    let expected = [field(1, &[3, 5]), number(4, 7), field(5, b"r")].concat();
    assert_eq!(filter.encode_to_vec(), expected);
    let list = MachineList { machines: vec![Machine::default()], revision: "r".into() };
    assert_eq!(list.encode_to_vec(), [field(1, b""), field(2, b"r")].concat());
    let ack = TransitionAck { operation_id: "o".to_owned(), machine: Some(Machine::default()) };
    assert_eq!(ack.encode_to_vec(), [field(1, b"o"), field(2, b"")].concat());
    assert_eq!(MachineRef { id: "m".to_owned() }.encode_to_vec(), field(1, b"m"));
}

// Requirement: PM-3
#[test]
fn a_bootstrap_blob_is_not_printed() {
    let request = ConfigureRequest { bootstrap_blob: "hunter2".into(), ..Default::default() };
    let printed = format!("{request:?}");
    assert!(printed.contains("7 bytes") && !printed.contains("hunter2"), "{printed}");
}

/// Responds to every request with the identity of its caller.
#[derive(Clone, Default)]
struct Mirror {
    peers: Arc<Mutex<Vec<Peer>>>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl CapacityProvider for Mirror {
    async fn create(&self, _: Request<CreateRequest>) -> Answer<TransitionAck> {
        Err(Status::unimplemented("no"))
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> Answer<TransitionAck> {
        let operation_id = request.get_ref().bootstrap_blob.len().to_string();
        Ok(Response::new(TransitionAck { operation_id, machine: None }))
    }

    async fn drain(&self, _: Request<DrainRequest>) -> Answer<TransitionAck> {
        Err(Status::unimplemented("no"))
    }

    async fn delete(&self, _: Request<DeleteRequest>) -> Answer<TransitionAck> {
        Err(Status::unimplemented("no"))
    }

    async fn get(&self, request: Request<MachineRef>) -> Answer<Machine> {
        let peer = request.extensions().get::<Peer>().cloned().unwrap();
        self.peers.lock().unwrap().push(peer);
        Ok(Response::new(Machine { id: request.into_inner().id, ..Machine::default() }))
    }

    async fn list(&self, _: Request<ListFilter>) -> Answer<MachineList> {
        let machine = Machine { last_error: "x".repeat(1 << 20), ..Machine::default() };
        Ok(Response::new(MachineList { machines: vec![machine; 6], revision: "r".into() }))
    }
}

async fn serve(mirror: Mirror, keyring: Option<Arc<Keyring>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let incoming = incoming(listener, keyring);
    let router = tonic::transport::Server::builder().add_service(server(Arc::new(mirror)));
    tokio::spawn(router.serve_with_incoming(incoming));
    address
}

fn keyring(files: Files) -> Arc<Keyring> {
    Arc::new(Keyring::open(files).unwrap())
}

async fn ask(address: &str, keyring: Option<Arc<Keyring>>) -> Result<Machine, Status> {
    let mut client = client(channel(address, keyring).unwrap());
    client.get(MachineRef { id: "m".to_owned() }).await.map(Response::into_inner)
}

// Requirement: PM-3
#[tokio::test]
async fn large_lists_and_blobs_fit() {
    let address = serve(Mirror::default(), None).await;
    let mut client = client(channel(&address, None).unwrap());
    let list = client.list(ListFilter::default()).await.unwrap().into_inner();
    assert_eq!(list.machines.len(), 6);
    let blob = ConfigureRequest { bootstrap_blob: vec![7; 3 << 20].into(), ..Default::default() };
    assert_eq!(client.configure(blob).await.unwrap().into_inner().operation_id, "3145728");
    let huge = vec![7; REQUEST_BYTES_MAX + 1].into();
    let huge = ConfigureRequest { bootstrap_blob: huge, ..Default::default() };
    assert_eq!(client.configure(huge).await.unwrap_err().code(), tonic::Code::OutOfRange);
}

#[tokio::test]
async fn a_server_with_certificates_knows_the_identity_of_its_caller() {
    let (endpoint, mirror) = (TestEndpoint::new(), Mirror::default());
    let ours = keyring(endpoint.sign("server", &[]));
    let address = serve(mirror.clone(), Some(ours)).await;
    let shard = keyring(endpoint.sign("shard", &["bigfleet://shard/a"]));
    ask(&address, Some(shard)).await.unwrap();
    let two = keyring(endpoint.sign("two", &["bigfleet://shard/a", "bigfleet://admin"]));
    ask(&address, Some(two)).await.unwrap();
    let seen = mirror.peers.lock().unwrap().clone();
    let expected = [
        Peer::Verified(Ok(Identity::Shard("a".to_owned()))),
        Peer::Verified(Err(BadIdentity::Count { count: 2 })),
    ];
    assert_eq!(seen, expected);
}

// Requirement: PM-4
#[tokio::test]
async fn a_peer_of_an_unknown_authority_is_refused() {
    let (endpoint, mirror) = (TestEndpoint::new(), Mirror::default());
    let address = serve(mirror.clone(), Some(keyring(endpoint.sign("server", &[])))).await;
    let other = TestEndpoint::new();
    let mut foreign = other.sign("shard", &["bigfleet://shard/a"]);
    foreign.ca = endpoint.folder.path().join("server.ca");
    ask(&address, Some(keyring(foreign))).await.unwrap_err();
    ask(&address, None).await.unwrap_err();
    // Nor does a client trust a server with an unknown authority.
    let deceived = other.sign("deceived", &["bigfleet://shard/a"]);
    ask(&address, Some(keyring(deceived))).await.unwrap_err();
    assert_eq!(*mirror.peers.lock().unwrap(), []);
}

// Requirement: PM-4
#[tokio::test]
async fn rotated_certificates_are_used_and_a_mismatched_pair_is_not() {
    let (endpoint, mirror) = (TestEndpoint::new(), Mirror::default());
    let address = serve(mirror.clone(), Some(keyring(endpoint.sign("server", &[])))).await;
    let files = endpoint.sign("shard", &["bigfleet://shard/before"]);
    let ring = keyring(files.clone());
    let next = endpoint.sign("next", &["bigfleet://shard/after"]);
    write(&files.cert, &fs::read_to_string(&next.cert).unwrap());
    ask(&address, Some(Arc::clone(&ring))).await.unwrap();
    write(&files.key, &fs::read_to_string(&next.key).unwrap());
    ask(&address, Some(ring)).await.unwrap();
    let seen = mirror.peers.lock().unwrap().clone();
    let shard = |id: &str| Peer::Verified(Ok(Identity::Shard(id.to_owned())));
    assert_eq!(seen, [shard("before"), shard("after")]);
}

// Requirement: PM-4
#[test]
fn an_incomplete_set_of_files_is_refused() {
    let path = || Some(std::path::PathBuf::from("x"));
    assert_eq!(Files::of(None, None, None).unwrap(), None);
    assert!(Files::of(path(), path(), path()).unwrap().is_some());
    for (cert, key, ca) in
        [(path(), None, None), (path(), path(), None), (None, path(), path()), (None, None, path())]
    {
        assert!(matches!(Files::of(cert, key, ca), Err(TlsError::Partial)));
    }
}
