//! Several servers over one PostgreSQL and one world, behind one TCP proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::{Connection as _, PgConnection};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use usher_pgtest::Server;
use usher_store::Place;

use crate::caller::Caller;
use crate::fake_agents::FakeAgents;
use crate::test_server::{TestServer, furnish};

const DATABASE: &str = "estate";

/// Several servers that share everything but memory.
pub(crate) struct TestCluster {
    pub(crate) servers: Vec<TestServer>,
    pub(crate) database: Server,
    pub(crate) agents: FakeAgents,
    caller: Caller,
    door: JoinHandle<()>,
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.door.abort();
    }
}

impl TestCluster {
    /// This many ready servers with simulated nodes; `None` without PostgreSQL.
    pub(crate) async fn open(count: usize, settings: &[&str]) -> Option<Self> {
        let database = Server::start(&[])?;
        database.execute(&format!("CREATE DATABASE {DATABASE}")).await;
        let url = database.url(DATABASE);
        furnish(&Place::Postgres(url.clone())).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let own = ["local.agent=external".to_owned(), format!("api_url=http://127.0.0.1:{port}")];
        let settings: Vec<&str> =
            own.iter().map(String::as_str).chain(settings.iter().copied()).collect();
        let server = |_| TestServer::within(&dir, Some(url.clone()), &settings);
        let mut servers: Vec<TestServer> = (0..count).map(server).collect();
        for server in &mut servers {
            server.start(None);
            server.until_ready().await;
        }
        let ports = servers.iter().map(TestServer::port).collect();
        let door = tokio::spawn(open_door(listener, ports));
        let data = dir.path().join("data");
        let agents = FakeAgents::gather(&data);
        let caller = Caller { port, data };
        Some(Self { servers, database, agents, caller, door })
    }

    /// A client of whichever server responds.
    pub(crate) const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// One number, read directly from the database.
    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        // The database may be starting.
        drop(self.database.connect().await);
        let mut connection = PgConnection::connect(&self.database.url(DATABASE)).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    }
}

/// Proxies each connection to the next server that accepts it.
async fn open_door(listener: TcpListener, ports: Vec<u16>) {
    let ports = Arc::new(ports);
    let turn = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((mut caller, _)) = listener.accept().await else { continue };
        let (ports, turn) = (Arc::clone(&ports), Arc::clone(&turn));
        tokio::spawn(async move {
            for _ in 0..ports.len() {
                let port = ports[turn.fetch_add(1, Ordering::Relaxed) % ports.len()];
                if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ = caller.set_nodelay(true);
                    let _ = server.set_nodelay(true);
                    let _ = tokio::io::copy_bidirectional(&mut caller, &mut server).await;
                    return;
                }
            }
        });
    }
}
