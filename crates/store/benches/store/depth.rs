//! What a claim costs before a long queue, a read behind a long log, and a resource on the disk.

use std::time::{Duration, Instant};

use usher_domain::object::id::ResourceId;
use usher_store::{Cursor, Retention};

use crate::Sizes;
use crate::bench_env::BenchEnv;
use crate::declare::World;
use crate::report::{quantiles, say};

/// How often each cost is taken.
const SAMPLES: usize = 400;
/// How many rows one statement fills in.
const BATCH: u64 = 50_000;
/// The columns of a resource that a copy shares with its original.
const SHARED: &str = "project, blueprint_version, credential, provider_config, installation, world,
    namespace, composite, role, strategy, parameters, api_url, agent_image, phase, generation,
   , generation_state, created_at, updated_at, phase_since";

pub(crate) async fn measure(bench_env: &BenchEnv, sizes: Sizes) {
    let world = World::new(&bench_env.store).await;
    bytes(bench_env, &world).await;
    let resource = world.declare("copied").await;
    say("\n| rows in the queue, all due | claim of one, median µs | p99 µs |");
    say("|---:|---:|---:|");
    bench_env.execute("DELETE FROM queue").await;
    let mut filled = 0;
    for rows in sizes.queue {
        fill_queue(bench_env, resource.id(), rows - filled).await;
        filled = rows;
        let (median, p99) = claims(bench_env).await;
        say(format_args!("| {rows} | {median:.0} | {p99:.0} |"));
    }
    say("\n| rows in the log | read of 100 at the end, median µs | p99 µs | sweep of 1000, ms |");
    say("|---:|---:|---:|---:|");
    let mut filled = u64::try_from(bench_env.number("SELECT COUNT(*) FROM events").await).unwrap();
    for rows in sizes.log {
        fill_log(bench_env, rows.saturating_sub(filled)).await;
        filled = filled.max(rows);
        let (median, p99) = reads(bench_env, &world).await;
        let sweep = sweep(bench_env).await.as_secs_f64() * 1e3;
        say(format_args!("| {filled} | {median:.0} | {p99:.0} | {sweep:.1} |"));
    }
}

async fn bytes(bench_env: &BenchEnv, world: &World) {
    const COUNT: i64 = 2_000;
    let before = bench_env.bytes().await;
    for turn in 0..COUNT {
        world.declare(&format!("b{turn}")).await;
    }
    let each = (bench_env.bytes().await - before) / COUNT;
    say(format_args!("\nbytes on disk per accepted resource, with names, entry and event: {each}"));
}

async fn claims(bench_env: &BenchEnv) -> (f64, f64) {
    let mut spans = vec![];
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        let batch = bench_env.store.claim_due(1).await.unwrap();
        spans.push(begun.elapsed());
        assert_eq!(batch.leased.len(), 1, "{:?}", batch.parked);
    }
    quantiles(spans)
}

async fn reads(bench_env: &BenchEnv, world: &World) -> (f64, f64) {
    let end = loop {
        world.declare(&format!("e{}", uuid::Uuid::now_v7().simple())).await;
        let end = bench_env.store.log_end().await.unwrap();
        if !bench_env.store.is_held_back(end).await.unwrap() {
            break end;
        }
    };
    let after = Cursor { seq: end.seq.saturating_sub(100), ..end };
    let mut spans = vec![];
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        let events = bench_env.store.events(after, 100).await.unwrap();
        spans.push(begun.elapsed());
        assert!(!events.is_empty());
    }
    quantiles(spans)
}

async fn sweep(bench_env: &BenchEnv) -> Duration {
    let retention = Retention { events: Duration::ZERO, ..Retention::default() };
    let begun = Instant::now();
    let swept = bench_env.store.sweep(retention).await.unwrap();
    assert!(swept.events > 0);
    begun.elapsed()
}

/// Copies a resource so often, all of the copies due.
pub(crate) async fn fill_queue(bench_env: &BenchEnv, original: ResourceId, count: u64) {
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        if bench_env.is_postgres() {
            fill_postgres(bench_env, original, batch).await;
        } else {
            fill_sqlite(bench_env, original, batch).await;
        }
    }
    if bench_env.is_postgres() {
        bench_env.execute("ANALYZE records; ANALYZE queue; ANALYZE resources").await;
    }
}

async fn fill_postgres(bench_env: &BenchEnv, original: ResourceId, count: u64) {
    bench_env
        .execute(&format!(
            "CREATE TEMP TABLE copies AS SELECT gen_random_uuid() AS id, '{original}'::uuid AS of
                FROM generate_series(1, {count});
            INSERT INTO records SELECT id, 'resource', 1, id FROM copies;
            INSERT INTO tenancy_resources (id, project, created_at)
                SELECT c.id, r.project, now() FROM copies AS c JOIN resources AS r ON r.id = c.of;
            INSERT INTO resources (id, name, tenancy, xr_name, {SHARED})
                SELECT c.id, 'r' || c.id, c.id, 'pr-' || c.id, {SHARED}
                FROM copies AS c JOIN resources AS r ON r.id = c.of;
            INSERT INTO queue (record, kind, due, fence, attempts, wake_seq, parked)
                SELECT id, 'resource', now() - interval '1 hour', 0, 0, 0, false FROM copies;"
        ))
        .await;
}

async fn fill_sqlite(bench_env: &BenchEnv, original: ResourceId, count: u64) {
    let original = original.to_string().replace('-', "");
    bench_env
        .execute(&format!(
            "CREATE TEMP TABLE copies AS WITH RECURSIVE n(i) AS
                (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
                SELECT randomblob(16) AS id, x'{original}' AS of, '' AS text FROM n;
            UPDATE copies SET text = lower(hex(id));
            UPDATE copies SET text = substr(text, 1, 8) || '-' || substr(text, 9, 4) || '-'
                || substr(text, 13, 4) || '-' || substr(text, 17, 4) || '-' || substr(text, 21);
            BEGIN IMMEDIATE;
            INSERT INTO records SELECT id, 'resource', 1, id FROM copies;
            INSERT INTO tenancy_resources (id, project, created_at)
                SELECT c.id, r.project, 0 FROM copies AS c JOIN resources AS r ON r.id = c.of;
            INSERT INTO resources (id, name, tenancy, xr_name, {SHARED})
                SELECT c.id, 'r' || text, c.id, 'pr-' || text, {SHARED}
                FROM copies AS c JOIN resources AS r ON r.id = c.of;
            INSERT INTO queue (record, kind, due, fence, attempts, wake_seq, parked)
                SELECT id, 'resource', 1, 0, 0, 0, 0 FROM copies;
            COMMIT;"
        ))
        .await;
}

/// Writes so many made-up events.
async fn fill_log(bench_env: &BenchEnv, count: u64) {
    let columns = "epoch, id, resource, project, version, type, occurred_at, data";
    let data =
        "{\"name\":\"web\",\"generation\":1,\"xr_name\":\"pr-01890a5dac96774bbcceb302099a8057\"}";
    let kind = "broker.ProvisionedResourceReady";
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH * 4);
        left -= batch;
        let sql = if bench_env.is_postgres() {
            format!(
                "INSERT INTO events ({columns}) SELECT 1, id, id, id, 1, '{kind}',
                    now() - interval '1 hour', '{data}'
                FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, {batch})) AS n"
            )
        } else {
            format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {batch})
                INSERT INTO events ({columns}) SELECT 1, id, id, id, 1, '{kind}', 1, '{data}'
                FROM (SELECT randomblob(16) AS id FROM n)"
            )
        };
        bench_env.execute(&sql).await;
    }
    if bench_env.is_postgres() {
        bench_env.execute("ANALYZE events").await;
    }
}
