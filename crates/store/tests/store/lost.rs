//! A connection that is lost during the commit: the store finds out whether it was done.

use std::path::Path;
use std::sync::{Arc, Mutex};

use sqlx::{Connection as _, PgConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use usher_domain::broker::event::Event;
use usher_domain::broker::phase::Phase;
use usher_kernel::Version;
use usher_store::{Cursor, Error, Place, Settings, Store};

use crate::declare::{World, write};
use crate::test_store::{Folder, TestStore, on_both, read_events};

/// The injected fault of the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It arrives and is answered.
    None,
    /// The connection breaks before it arrives.
    Lost,
    /// It arrives, and the connection breaks before its answer does.
    Unanswered,
    /// As `Lost`, and then another writer moves the row.
    Overtaken,
}

type Next = Arc<Mutex<Fate>>;

/// A tunnel to the server in which commits get lost.
async fn tunnel(folder: &Path, socket: String, url: String, next: Next) {
    let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let server = UnixStream::connect(format!("{socket}/.s.PGSQL.5432")).await.unwrap();
        tokio::spawn(carry(client, server, url.clone(), Arc::clone(&next)));
    }
}

async fn carry(mut client: UnixStream, mut server: UnixStream, url: String, next: Next) {
    let (mut asked, mut answered) = ([0; 16_384], [0; 16_384]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                let commits = asked[..count].windows(7).any(|it| it == b"COMMIT\0");
                let fate = if commits {
                    std::mem::replace(&mut *next.lock().unwrap(), Fate::None)
                } else {
                    Fate::None
                };
                match fate {
                    Fate::None => server.write_all(&asked[..count]).await.unwrap(),
                    Fate::Lost => return,
                    Fate::Unanswered => {
                        server.write_all(&asked[..count]).await.unwrap();
                        let _ = server.read(&mut answered).await;
                        return;
                    }
                    Fate::Overtaken => {
                        drop(server);
                        let mut conn = PgConnection::connect(&url).await.unwrap();
                        let sql = "UPDATE records SET version = version + 1,
                            write_id = gen_random_uuid() WHERE kind = 'resource'";
                        sqlx::query(sql).execute(&mut conn).await.unwrap();
                        return;
                    }
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A store behind a tunnel, and the fault of its next commit.
async fn tunnelled(test: &TestStore, folder: &Folder) -> Option<(Arc<Store>, Next)> {
    let Place::Postgres(url) = &test.database.place else { return None };
    let (_, socket) = url.split_once("host=")?;
    let next = Next::new(Mutex::new(Fate::None));
    let path = folder.0.clone();
    let (socket, direct) = (socket.to_owned(), url.clone());
    let lossy = url.replace(&socket, path.to_str()?);
    let fault = Arc::clone(&next);
    tokio::spawn(async move { tunnel(&path, socket, direct, fault).await });
    tokio::task::yield_now().await;
    let store = Store::open(&Place::Postgres(lossy), Settings::default()).await.unwrap();
    Some((Arc::new(store), next))
}

/// Red by: an unknown outcome that is taken for done, for not done, or judged by the version
/// without the id of its write.
// Requirement: Q-7
#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_verified() {
    on_both(async |test: TestStore| {
        let folder = Folder::new();
        let Some((store, next)) = tunnelled(&test, &folder).await else { return };
        let world = World::new(&store).await;
        let id = world.declare("web").await.id();
        let read = store.resource(id).await.unwrap();
        let step = write(&read, |it| it.phase = Phase::Ready, Some(Event::Ready));

        *next.lock().unwrap() = Fate::Lost;
        let undone = store.commit(step.clone()).await.unwrap_err();
        assert!(matches!(undone, Error::Database { .. }), "it was not done: {undone}");
        assert_eq!(store.resource(id).await.unwrap(), read);

        *next.lock().unwrap() = Fate::Overtaken;
        let overtaken = store.commit(step.clone()).await.unwrap_err();
        assert!(matches!(overtaken, Error::Conflict), "another writer won: {overtaken}");
        assert_eq!(read_events(&store, Cursor::START, 1).await.len(), 1);

        let step = usher_store::ResourceWrite { version: Version(2), ..step };
        *next.lock().unwrap() = Fate::Unanswered;
        store.commit(step).await.unwrap();
        let done = store.resource(id).await.unwrap();
        assert_eq!((done.version, done.state.phase()), (Version(3), Phase::Ready));
        assert_eq!(read_events(&store, Cursor::START, 2).await.len(), 2);
    })
    .await;
}

/// Red by: an acceptance whose answer is lost and that is reported as failed, or vice versa.
// Requirement: Q-7
#[tokio::test]
async fn an_acceptance_whose_answer_is_lost_is_verified() {
    on_both(async |test: TestStore| {
        let folder = Folder::new();
        let Some((store, next)) = tunnelled(&test, &folder).await else { return };
        let world = World::new(&store).await;
        *next.lock().unwrap() = Fate::Lost;
        let undone = world.try_declare("web").await.unwrap_err();
        assert!(matches!(undone, Error::Database { .. }), "it was not done: {undone}");
        *next.lock().unwrap() = Fate::Unanswered;
        let resource = world.try_declare("web").await.unwrap();
        assert!(store.resource(resource.id()).await.is_ok());
    })
    .await;
}
