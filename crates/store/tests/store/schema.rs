//! The schema: equal to its snapshot, equal to the code's closed sets, up and down with data.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{Connection as _, PgConnection};
use usher_domain::audit;
use usher_domain::blueprint::{InjectionStrategy, MeshRole};
use usher_domain::broker::event::{EventType, Outcome};
use usher_domain::broker::facts::GenerationState;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config;
use usher_domain::credentials::AssignmentState;
use usher_domain::fleet;
use usher_domain::object::key::KeyState;
use usher_domain::object::provider::Provider;
use usher_domain::operators::Role;
use usher_domain::peers::{Cause, Stage};
use usher_domain::placements::NamespacePhase;
use usher_domain::sinks;
use usher_kernel::NameState;
use usher_store::migrate::{Direction, Refusal};
use usher_store::{Error, Layer, Place, Settings, Store, WorkItem};

use crate::declare::World;
use crate::test_store::{TestDatabase, TestStore, on_both, on_both_databases};

/// Every closed set of the code, by the CHECK that keeps it.
fn closed_sets() -> BTreeMap<&'static str, Vec<&'static str>> {
    fn words<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Vec<&'static str> {
        all.iter().map(|it| word(*it)).collect()
    }
    let providers = words(&Provider::ALL, Provider::as_str);
    let strategies = words(&InjectionStrategy::ALL, InjectionStrategy::as_str);
    let roles = words(&MeshRole::ALL, MeshRole::as_str);
    BTreeMap::from([
        ("assignments_state_check", words(&AssignmentState::ALL, AssignmentState::as_str)),
        ("audit_action_check", words(audit::Action::ALL, audit::Action::as_str)),
        ("blueprint_version_providers_provider_check", providers.clone()),
        ("blueprint_versions_role_check", roles.clone()),
        ("blueprint_versions_strategy_check", strategies.clone()),
        ("clouds_provider_check", providers.clone()),
        ("events_type_check", {
            let broker = words(EventType::ALL, EventType::as_str);
            let machines = words(fleet::event::EventType::ALL, fleet::event::EventType::as_str);
            [broker, machines].concat()
        }),
        (
            "fleet_lists_credence_check",
            words(fleet::list::Credence::ALL, fleet::list::Credence::as_str),
        ),
        ("labels_layer_check", Layer::WORDS.to_vec()),
        ("records_kind_check", WorkItem::RECORDS.to_vec()),
        ("machines_phase_check", words(fleet::phase::Phase::ALL, fleet::phase::Phase::as_str)),
        ("names_state_check", words(&NameState::ALL, NameState::as_str)),
        ("operator_tokens_role_check", words(Role::ALL, Role::as_str)),
        ("peers_cause_check", words(&Cause::ALL, Cause::as_str)),
        ("peers_stage_check", Stage::WORDS.to_vec()),
        ("placements_phase_check", words(&NamespacePhase::ALL, NamespacePhase::as_str)),
        (
            "provider_configs_phase_check",
            words(provider_config::Phase::ALL, provider_config::Phase::as_str),
        ),
        ("provider_configs_provider_check", providers),
        ("queue_kind_check", WorkItem::KINDS.to_vec()),
        ("server_keys_state_check", words(KeyState::ALL, KeyState::as_str)),
        ("sinks_parked_check", words(sinks::Parked::ALL, sinks::Parked::as_str)),
        ("sinks_scheme_check", words(sinks::Scheme::ALL, sinks::Scheme::as_str)),
        ("sinks_secret_place_check", words(sinks::SecretPlace::ALL, sinks::SecretPlace::as_str)),
        ("resources_outcome_check", words(Outcome::ALL, Outcome::as_str)),
        ("resources_phase_check", words(Phase::ALL, Phase::as_str)),
        ("resources_role_check", roles),
        ("resources_strategy_check", strategies),
        ("resources_generation_state_check", words(GenerationState::ALL, GenerationState::as_str)),
    ])
}

/// CHECKs with words that are no closed set of one column.
const RULES: [&str; 9] = [
    "assignments_decided_check",
    "operator_tokens_reach_check",
    "peers_stage_times_check",
    "resources_end_check",
    "resources_intent_check",
    "server_keys_times_check",
    "tokens_consumed_check",
    "tokens_end_check",
    "peers_forced_check",
];

/// Every CHECK with its name and text, read from the database.
async fn checks(test_database: &TestDatabase) -> BTreeMap<String, String> {
    match &test_database.place {
        Place::Postgres(url) => {
            let mut conn = PgConnection::connect(url).await.unwrap();
            let sql = "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint
                WHERE contype = 'c' AND connamespace = 'public'::regnamespace";
            let rows: Vec<(String, String)> =
                sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap();
            conn.close().await.unwrap();
            rows.into_iter().collect()
        }
        Place::Sqlite(_) => {
            let mut conn = test_database.sqlite_connection().await;
            let sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL";
            let tables: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut conn).await.unwrap();
            conn.close().await.unwrap();
            let named = tables.iter().flat_map(|table| table.split("CONSTRAINT ").skip(1));
            let checks = named.filter_map(|text| {
                let (name, rest) = text.split_once(char::is_whitespace)?;
                rest.trim_start().starts_with("CHECK").then(|| {
                    // The text of one CHECK ends where the next column begins.
                    let end = rest.match_indices(',').map(|(at, _)| at);
                    let closes = |at: &usize| {
                        let part = &rest[..*at];
                        part.matches('(').count() == part.matches(')').count()
                    };
                    let end = end.into_iter().find(closes).unwrap_or(rest.len());
                    (name.to_owned(), rest[..end].to_owned())
                })
            });
            checks.collect()
        }
    }
}

fn quoted(text: &str) -> Vec<&str> {
    text.split('\'').skip(1).step_by(2).collect()
}

/// Red by: a word too many, too few or misspelt in one of the migrations, or a new variant.
// Requirement: D-3
#[tokio::test]
async fn every_check_is_a_closed_set_of_the_code_character_for_character() {
    on_both(async |test: TestStore| {
        let sets = closed_sets();
        let found = checks(&test.database).await;
        for (name, words) in &sets {
            let text = found.get(*name).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(quoted(text), *words, "{name}");
        }
        let speaking: BTreeSet<&str> = found
            .iter()
            .filter(|(_, text)| text.contains('\''))
            .map(|(name, _)| name.as_str())
            .collect();
        let known: BTreeSet<&str> = sets.keys().copied().chain(RULES).collect();
        let unknown: Vec<_> = speaking.difference(&known).collect();
        assert!(unknown.is_empty(), "no closed set is compared with {unknown:?}");
        let reasons = found.keys().find(|it| it.ends_with("reason_check"));
        assert_eq!(reasons, None, "a new reason would need a migration");
    })
    .await;
}

async fn described(test_database: &TestDatabase) -> String {
    match &test_database.place {
        Place::Postgres(url) => {
            let mut conn = PgConnection::connect(url).await.unwrap();
            let sql = "SELECT text FROM (
                SELECT table_name::text AS name, 1 AS part, ordinal_position::int AS place,
                    format('%s.%s %s%s%s%s', table_name, column_name, data_type,
                    CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END,
                    CASE WHEN column_default IS NULL THEN '' ELSE ' default ' || column_default END,
                    CASE WHEN is_generated = 'ALWAYS' THEN ' as ' || generation_expression
                        WHEN is_identity = 'YES' THEN ' identity' ELSE '' END) AS text
                FROM information_schema.columns WHERE table_schema = 'public'
                UNION ALL SELECT conrelid::regclass::text, 2,
                    row_number() OVER (ORDER BY conname)::int,
                    format('%s: %s', conname, pg_get_constraintdef(oid))
                FROM pg_constraint WHERE connamespace = 'public'::regnamespace
                    AND contype IN ('c', 'f', 'p', 'u')
                UNION ALL SELECT tablename::text, 3, row_number() OVER (ORDER BY indexname)::int,
                    indexdef
                FROM pg_indexes WHERE schemaname = 'public') AS it ORDER BY name, part, place";
            let lines: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut conn).await.unwrap();
            conn.close().await.unwrap();
            lines.join("\n")
        }
        Place::Sqlite(_) => {
            let mut conn = test_database.sqlite_connection().await;
            let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, name";
            let lines: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut conn).await.unwrap();
            conn.close().await.unwrap();
            lines.join(";\n\n")
        }
    }
}

/// Red by: any unintended change of a migration.
// Requirement: D-3
#[tokio::test]
async fn the_migrations_make_the_schema_that_was_committed() {
    on_both(async |test: TestStore| {
        let name = if test.database.is_postgres() { "postgres" } else { "sqlite" };
        insta::assert_snapshot!(name, described(&test.database).await);
    })
    .await;
}

/// Red by: a down that omits a table, drops in the wrong order, or fails on existing rows.
// Requirement: D-5
#[tokio::test]
async fn migrations_go_up_and_down_and_up_again_with_data() {
    on_both_databases(async |test_database: TestDatabase| {
        let place = &test_database.place;
        let all = Store::migrate(place, Direction::Up).await.unwrap();
        let count = all.applied.len();
        assert_eq!(all.pending, Vec::<String>::new());
        let before = described(&test_database).await;
        for down in 1..=count {
            fill(place).await;
            let status = Store::migrate(place, Direction::Down(down)).await.unwrap();
            assert_eq!((status.applied.len(), status.pending.len()), (count - down, down));
            let status = Store::migrate(place, Direction::Up).await.unwrap();
            assert_eq!(status, all);
            assert_eq!(described(&test_database).await, before, "down by {down} and up again");
        }
        fill(place).await;
        let refused = Store::migrate(place, Direction::Down(count + 1)).await.unwrap_err();
        assert!(matches!(refused, Error::Schema(Refusal::TooFar { .. })), "{refused}");
        assert_eq!(
            Store::migrate(place, Direction::Stay).await.unwrap(),
            all,
            "nothing was changed"
        );
    })
    .await;
}

async fn fill(place: &Place) {
    let store = std::sync::Arc::new(Store::open(place, Settings::default()).await.unwrap());
    let world = World::new(&store).await;
    world.declare("web").await;
    drop(world);
    closed(store).await;
}

/// Waits until a store has closed its database.
async fn closed(store: std::sync::Arc<Store>) {
    store.close().await;
    drop(store);
}

/// Red by: a check that compares the number of migrations only.
// Requirement: Q-13
#[tokio::test]
async fn a_newer_a_changed_and_a_foreign_schema_are_refused_by_name() {
    on_both_databases(async |test_database: TestDatabase| {
        let place = &test_database.place;
        Store::migrate(place, Direction::Up).await.unwrap();
        Store::migrate(place, Direction::Down(1)).await.unwrap();
        let refused = Store::open(place, Settings::default()).await.unwrap_err();
        let behind = Refusal::Behind { missing: "0012_presence".to_owned() };
        assert!(matches!(&refused, Error::Schema(it) if *it == behind), "{refused}");
        Store::migrate(place, Direction::Up).await.unwrap();
        let bytes = if test_database.is_postgres() { "'\\x01'" } else { "x'01'" };
        test_database
            .execute(&format!("INSERT INTO usher_schema VALUES ('0099_later', {bytes})"))
            .await;
        let newer = Refusal::Newer { found: "0099_later".to_owned() };
        for way in [Direction::Up, Direction::Down(1), Direction::Stay] {
            let refused = Store::migrate(place, way).await.unwrap_err();
            assert!(matches!(&refused, Error::Schema(it) if *it == newer), "{refused}");
        }
        let refused = Store::open(place, Settings::default()).await.unwrap_err();
        assert!(matches!(&refused, Error::Schema(it) if *it == newer), "{refused}");
        test_database.execute("DELETE FROM usher_schema WHERE name = '0099_later'").await;
        let sql = format!("UPDATE usher_schema SET checksum = {bytes} WHERE name LIKE '0002%'");
        test_database.execute(&sql).await;
        let refused = Store::open(place, Settings::default()).await.unwrap_err();
        let changed = Refusal::Changed { name: "0002_records".to_owned() };
        assert!(matches!(&refused, Error::Schema(it) if *it == changed), "{refused}");
    })
    .await;
    let mut foreign = vec![TestDatabase::sqlite()];
    foreign.extend(TestDatabase::empty_postgres().await);
    for test_database in foreign {
        if let Place::Sqlite(path) = &test_database.place {
            std::fs::File::create(path).unwrap();
        }
        test_database.execute("CREATE TABLE shop (id int)").await;
        for refused in [
            Store::migrate(&test_database.place, Direction::Up).await.map(|_| ()).unwrap_err(),
            Store::open(&test_database.place, Settings::default()).await.map(|_| ()).unwrap_err(),
        ] {
            let table = Refusal::Foreign { table: "shop".to_owned() };
            assert!(matches!(&refused, Error::Schema(it) if *it == table), "{refused}");
        }
    }
}
