//! Pins and mass-deletion guards without a database: a `ConfigMap` per cluster in our namespace.
//!
//! **Invariants**
//! - Every change compares the version that was read.
//! - A first answer pins, and only the same cluster raises its revision.
//! - A guard or a pin is reset by an annotation only, which leaves an Event before it is carried
//!   out.
//! - A record with fewer writes than this process knows of, or none, is one of a cluster that was
//!   restored: its guard trips before anything else is written, whatever its identity and revision
//!   say.
//!
//! What is recorded in the cluster itself is lost or restored with it: a cluster that was rebuilt
//! or restored while no process of ours ran is not noticed. A process that saw a higher revision of
//! the same cluster keeps it until it ends, also after the pin was reset.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::core::Request;
use kube_client::core::params::{GetParams, PostParams};
use serde_json::{Value, json};
use usher_domain::object::authority::{BoxFuture, Pin, WorldRecord, WorldRecords};
use usher_domain::object::name::{
    ANNOTATION_RESET_GUARD, ANNOTATION_RESET_PIN, FIELD_MANAGER, SYSTEM_NAMESPACE,
};
use usher_kernel::{Timestamp, Trouble, Uid};

use crate::answer::{Failure, ReadFailure, Write, WriteFailure};
use crate::client::Client;
use crate::pin;

const IDENTITY: &str = "identity";
const REVISION: &str = "revision";
const TRIPPED_AT: &str = "trippedAt";
const RESET_AT: &str = "resetAt";
/// How often it was written: a restored cluster has fewer.
const WRITES: &str = "writes";
/// How often a change is tried again that another writer was faster than.
const TRIES: usize = 5;
/// The longest message of an Event, less what we say ourselves.
const NOTE_MAX: usize = 900;

/// Pins and mass-deletion guards in `ConfigMaps`.
pub struct ConfigMapRecords {
    client: Client,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    present: Arc<dyn Fn() -> u32 + Send + Sync>,
    known: Mutex<BTreeMap<String, Known>>,
}

/// What this process knows of a record.
#[derive(Clone)]
struct Known {
    writes: u64,
    record: WorldRecord,
}

/// What shall become of a `ConfigMap` that was read.
enum Change<T> {
    /// Nothing.
    Keep(T),
    /// This record is written into it, or into a new one.
    Write(Option<Box<ConfigMap>>, WorldRecord, T),
}

impl ConfigMapRecords {
    /// Records in the cluster of a client, with a clock, and with what counts the records that have
    /// objects there.
    pub fn new(
        client: Client,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        present: impl Fn() -> u32 + Send + Sync + 'static,
    ) -> Self {
        Self { client, clock: Arc::new(clock), present: Arc::new(present), known: Mutex::default() }
    }

    /// The name of the `ConfigMap` of a cluster.
    pub fn name(world: &str) -> String {
        format!("usher-guard-{world}")
    }

    async fn read_record(&self, world: &str) -> Result<Option<WorldRecord>, Trouble> {
        let found = self.get(world).await?;
        if self.before_loss(world, found.as_deref()).is_some() {
            let tripped = self.change(world, |found| {
                let found = found.ok_or(Trouble::Conflict)?;
                Ok(Change::Keep(record(world, &found)?))
            });
            return tripped.await.map(Some);
        }
        let Some(found) = found else { return Ok(None) };
        if asks_for_reset(&found) {
            return self.reset(world).await.map(Some);
        }
        let record = record(world, &found)?;
        self.know(world, writes(&found), &record);
        Ok(Some(record))
    }

    async fn pin_record(&self, world: &str, pin: &Pin) -> Result<WorldRecord, Trouble> {
        self.change(world, |found| match found {
            None => {
                let record = WorldRecord { pin: pin.clone(), tripped_at: None, reset_at: None };
                Ok(Change::Write(None, record.clone(), record))
            }
            Some(found) => {
                let mut record = record(world, &found)?;
                let is_newer = record.pin.revision < pin.revision;
                if record.pin.identity != pin.identity || !is_newer {
                    return Ok(Change::Keep(record));
                }
                record.pin.revision = pin.revision;
                Ok(Change::Write(Some(found), record.clone(), record))
            }
        })
        .await
    }

    async fn trip_guard(&self, world: &str) -> Result<bool, Trouble> {
        let now = (self.clock)();
        self.change(world, |found| {
            let Some(found) = found else { return Ok(Change::Keep(false)) };
            let mut record = record(world, &found)?;
            if record.tripped_at.is_some() {
                return Ok(Change::Keep(false));
            }
            record.tripped_at = Some(now);
            Ok(Change::Write(Some(found), record, true))
        })
        .await
    }

    /// What was known of a record that has fewer writes now.
    fn before_loss(&self, world: &str, found: Option<&ConfigMap>) -> Option<Known> {
        self.known(world).filter(|known| found.map_or(0, writes) < known.writes)
    }

    /// Trips the guard of a cluster that lost writes of ours. Any other write would hide the loss.
    async fn trip_restored(
        &self,
        world: &str,
        (found, known): (Option<Box<ConfigMap>>, Known),
    ) -> Result<(), Trouble> {
        let mut record = match found.as_deref() {
            None => known.record,
            Some(found) => record(world, found)?,
        };
        record.tripped_at = record.tripped_at.or_else(|| Some((self.clock)()));
        // An annotation that was restored with it was meant for an earlier loss.
        if self.put(world, found.map(without_resets), &record).await? {
            tracing::error!(world, "cluster was restored: mass-deletion guard tripped");
        }
        Ok(())
    }

    /// Carries out what the annotations ask for.
    async fn reset(&self, world: &str) -> Result<WorldRecord, Trouble> {
        let answered = pin::ask(&self.client).await.map_err(|failure| failure.trouble())?;
        let now = (self.clock)();
        for _ in 0..TRIES {
            let Some(found) = self.get(world).await? else { break };
            if let Some(known) = self.before_loss(world, Some(&found)) {
                self.trip_restored(world, (Some(found), known)).await?;
                continue;
            }
            let mut record = record(world, &found)?;
            if !asks_for_reset(&found) {
                // Another process has carried it out.
                return Ok(record);
            }
            if let Some(note) = annotation(&found, ANNOTATION_RESET_GUARD) {
                self.event(&found, ("GuardReset", &format!("mass-deletion guard reset: {note}")))
                    .await?;
                let tripped = record.tripped_at.take();
                record.reset_at = tripped.map(|_| now).or(record.reset_at);
            }
            if let Some(note) = annotation(&found, ANNOTATION_RESET_PIN) {
                let message = format!("accepted the cluster {}: {note}", answered.identity);
                self.event(&found, ("PinReset", &message)).await?;
                record.pin = answered.clone();
            }
            if self.put(world, Some(without_resets(found)), &record).await? {
                tracing::warn!(world, "mass-deletion guard or pin reset by annotation");
                return Ok(record);
            }
        }
        Err(Trouble::Conflict)
    }

    /// Reads, decides and writes, until no other writer was faster. A loss is recorded first.
    async fn change<T>(
        &self,
        world: &str,
        decide: impl Fn(Option<Box<ConfigMap>>) -> Result<Change<T>, Trouble>,
    ) -> Result<T, Trouble> {
        for _ in 0..TRIES {
            let found = self.get(world).await?;
            if let Some(known) = self.before_loss(world, found.as_deref()) {
                self.trip_restored(world, (found, known)).await?;
                continue;
            }
            match decide(found)? {
                Change::Keep(answer) => return Ok(answer),
                Change::Write(map, record, answer) => {
                    if self.put(world, map, &record).await? {
                        return Ok(answer);
                    }
                }
            }
        }
        Err(Trouble::Conflict)
    }

    async fn get(&self, world: &str) -> Result<Option<Box<ConfigMap>>, Trouble> {
        let request = maps().get(&Self::name(world), &GetParams::default());
        match self.client.object(request).await {
            Ok(found) => Ok(Some(found)),
            // A creation meets one that a stale answer hid.
            Err(failure) if failure.read() == ReadFailure::ObjectAbsent => Ok(None),
            Err(failure) => Err(failure.trouble()),
        }
    }

    /// Creates or replaces it; false if another writer was faster.
    async fn put(
        &self,
        world: &str,
        map: Option<Box<ConfigMap>>,
        record: &WorldRecord,
    ) -> Result<bool, Trouble> {
        let name = Self::name(world);
        let known = self.known(world).map_or(0, |known| known.writes);
        let map = map.unwrap_or_default();
        let writes = writes(&map).max(known) + 1;
        let is_new = map.metadata.resource_version.is_none();
        let mut map = written(map, record, writes);
        map.metadata.name = Some(name.clone());
        let body = body(&map)?;
        let (request, write) = if is_new {
            (maps().create(&params(), body), Write::Create)
        } else {
            (maps().replace(&name, &params(), body), Write::OwnRecord)
        };
        match self.client.send(request).await {
            Ok(_) => {
                self.know(world, writes, record);
                Ok(true)
            }
            Err(failure) => faster(&failure, write),
        }
    }

    fn known(&self, world: &str) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(world).cloned()
    }

    fn know(&self, world: &str, writes: u64, record: &WorldRecord) {
        let known = Known { writes, record: record.clone() };
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(world).is_none_or(|before| before.writes <= writes) {
            all.insert(world.to_owned(), known);
        }
    }

    /// Leaves an Event about the `ConfigMap` as it was read; the same one if it is repeated.
    async fn event(&self, map: &ConfigMap, (reason, message): (&str, &str)) -> Result<(), Trouble> {
        let meta = &map.metadata;
        let version = meta.resource_version.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let time = (self.clock)().to_rfc3339();
        let seconds = format!("{}Z", time.split('.').next().unwrap_or_default());
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{version}.{}", reason.to_lowercase())},
            "involvedObject": {
                "apiVersion": "v1", "kind": "ConfigMap", "namespace": SYSTEM_NAMESPACE,
                "name": name, "uid": meta.uid, "resourceVersion": version,
            },
            "reason": reason,
            "message": message.chars().take(NOTE_MAX).collect::<String>(),
            "type": "Normal",
            "action": "Reset",
            "eventTime": time,
            "firstTimestamp": seconds,
            "lastTimestamp": seconds,
            "count": 1,
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": FIELD_MANAGER,
        });
        let request = Request::new(format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/events"))
            .create(&params(), event.to_string().into_bytes());
        match self.client.send(request).await.map_err(|failure| failure.write(Write::Create)) {
            Ok(_) | Err(WriteFailure::Taken) => Ok(()),
            Err(WriteFailure::Trouble(trouble)) => Err(trouble),
            Err(WriteFailure::Done | WriteFailure::Ended | WriteFailure::ProbeRefused) => {
                Err(Trouble::unavailable("the Events of the cluster"))
            }
        }
    }
}

impl WorldRecords for ConfigMapRecords {
    fn read<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<Option<WorldRecord>, Trouble>> {
        Box::pin(self.read_record(world))
    }

    fn pin<'a>(&'a self, world: &'a str, pin: Pin) -> BoxFuture<'a, Result<WorldRecord, Trouble>> {
        Box::pin(async move { self.pin_record(world, &pin).await })
    }

    fn trip<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<bool, Trouble>> {
        Box::pin(self.trip_guard(world))
    }

    fn present<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<u32, Trouble>> {
        Box::pin(std::future::ready(Ok((self.present)())))
    }
}

impl std::fmt::Debug for ConfigMapRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigMapRecords").field("client", &self.client).finish_non_exhaustive()
    }
}

/// What a `ConfigMap` records of a cluster.
fn record(world: &str, map: &ConfigMap) -> Result<WorldRecord, Trouble> {
    let corrupt = || {
        let name = ConfigMapRecords::name(world);
        Trouble::Corrupt { what: format!("ConfigMap {SYSTEM_NAMESPACE}/{name}") }
    };
    let field = |name: &str| map.data.as_ref().and_then(|it| it.get(name)).map(String::as_str);
    let time = |name: &str| match field(name) {
        None => Ok(None),
        Some(text) => Timestamp::from_rfc3339(text).map(Some).ok_or_else(corrupt),
    };
    let identity = field(IDENTITY).filter(|it| !it.is_empty()).ok_or_else(corrupt)?;
    let revision = field(REVISION).and_then(pin::revision).ok_or_else(corrupt)?;
    let pin = Pin { identity: Uid::new(identity), revision };
    Ok(WorldRecord { pin, tripped_at: time(TRIPPED_AT)?, reset_at: time(RESET_AT)? })
}

/// The `ConfigMap` with this record in it.
fn written(mut map: Box<ConfigMap>, record: &WorldRecord, writes: u64) -> Box<ConfigMap> {
    let time = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339);
    let fields = [
        (IDENTITY, Some(record.pin.identity.to_string())),
        (REVISION, Some(record.pin.revision.to_string())),
        (TRIPPED_AT, time(record.tripped_at)),
        (RESET_AT, time(record.reset_at)),
        (WRITES, Some(writes.to_string())),
    ];
    let data: &mut BTreeMap<String, String> = map.data.get_or_insert_default();
    for (name, value) in fields {
        match value {
            Some(value) => data.insert(name.to_owned(), value),
            None => data.remove(name),
        };
    }
    map
}

/// How often it was written.
fn writes(map: &ConfigMap) -> u64 {
    let writes = map.data.as_ref().and_then(|it| it.get(WRITES));
    writes.and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn annotation<'a>(map: &'a ConfigMap, name: &str) -> Option<&'a str> {
    map.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn asks_for_reset(map: &ConfigMap) -> bool {
    let names = [ANNOTATION_RESET_GUARD, ANNOTATION_RESET_PIN];
    names.into_iter().any(|name| annotation(map, name).is_some())
}

/// The `ConfigMap` without what an operator asked for.
fn without_resets(mut map: Box<ConfigMap>) -> Box<ConfigMap> {
    if let Some(annotations) = map.metadata.annotations.as_mut() {
        annotations.remove(ANNOTATION_RESET_GUARD);
        annotations.remove(ANNOTATION_RESET_PIN);
    }
    map
}

/// Whether a failed write lost against another writer; anything else is trouble.
fn faster(failure: &Failure, write: Write) -> Result<bool, Trouble> {
    match failure.write(write) {
        WriteFailure::Taken
        | WriteFailure::Ended
        | WriteFailure::Done
        | WriteFailure::ProbeRefused
        | WriteFailure::Trouble(Trouble::Conflict) => Ok(false),
        WriteFailure::Trouble(trouble) => Err(trouble),
    }
}

fn maps() -> Request {
    Request::new(format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"))
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn body(map: &ConfigMap) -> Result<Vec<u8>, Trouble> {
    let mut value = serde_json::to_value(map).unwrap_or(Value::Null);
    value["apiVersion"] = json!("v1");
    value["kind"] = json!("ConfigMap");
    serde_json::to_vec(&value).map_err(|_| Trouble::Corrupt { what: "a record".to_owned() })
}
