//! Labels on the installation, on projects and on resources, and what is known of their keys.

use sqlx::QueryBuilder;
use usher_domain::labels::Definition;
use usher_domain::object::label::Labels;
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::word;
use super::super::{Conn, Db};
use super::insert;
use crate::error::{Context as _, Error};
use crate::port::Layer;

reads! {
    fn labels(layer: Layer) -> Labels = |conn| read(conn, layer);
    fn label_definitions() -> Vec<Definition> = |conn| definitions(conn);
}

audited! {
    fn write_labels(layer: Layer, it: Labels) -> () = |conn| write(conn, layer, &it);
    fn define_label(it: Definition) -> () = |conn| define(conn, &it);
}

/// Writes the labels of one layer: these and no others.
async fn write(conn: &mut Conn, layer: Layer, labels: &Labels) -> Result<(), Error> {
    sqlx::query::<Db>("DELETE FROM labels WHERE layer = $1 AND owner = $2")
        .bind(layer.as_str())
        .bind(layer.owner())
        .execute(&mut *conn)
        .await
        .context("write labels")?;
    for (key, value) in labels {
        let sql = "INSERT INTO labels (layer, owner, key, value) VALUES ($1, $2, $3, $4)";
        let query = sqlx::query::<Db>(sql)
            .bind(layer.as_str())
            .bind(layer.owner())
            .bind(key.as_str())
            .bind(value.as_str());
        insert(conn, query, "a label").await?;
    }
    Ok(())
}

async fn read(conn: &mut Conn, layer: Layer) -> Result<Labels, Error> {
    let [labels] = read_all(conn, [layer]).await?;
    Ok(labels)
}

/// The labels of several layers, in their order.
async fn read_all<const N: usize>(
    conn: &mut Conn,
    layers: [Layer; N],
) -> Result<[Labels; N], Error> {
    let mut sql = QueryBuilder::<Db>::new("SELECT layer, owner, key, value FROM labels WHERE ");
    let mut any = sql.separated(" OR ");
    for layer in &layers {
        any.push("(layer = ").push_bind_unseparated(layer.as_str());
        any.push_unseparated(" AND owner = ").push_bind_unseparated(layer.owner());
        any.push_unseparated(")");
    }
    let rows = sql.build_query_as::<(String, Uuid, String, String)>().fetch_all(conn).await;
    let rows = rows.context("read labels")?;
    let mut all = layers.map(|_| Labels::new());
    for (name, owner, key, value) in rows {
        let row = format!("the labels of {name} \"{owner}\"");
        let (key, value) = (word(&row, "key", &key)?, word(&row, "value", &value)?);
        let own = layers.iter().position(|it| (it.as_str(), it.owner()) == (name.as_str(), owner));
        if let Some(labels) = own.and_then(|it| all.get_mut(it)) {
            labels.insert(key, value);
        }
    }
    Ok(all)
}

/// Defines a label key; the last definition counts.
async fn define(conn: &mut Conn, it: &Definition) -> Result<(), Error> {
    let sql = "INSERT INTO label_definitions (key, propagatable) VALUES ($1, $2)
        ON CONFLICT (key) DO UPDATE SET propagatable = excluded.propagatable";
    let query = sqlx::query::<Db>(sql).bind(it.key.as_str()).bind(it.propagatable);
    insert(conn, query, "a label definition").await
}

pub(crate) async fn definitions(conn: &mut Conn) -> Result<Vec<Definition>, Error> {
    let sql = "SELECT key, propagatable FROM label_definitions ORDER BY key";
    let rows = sqlx::query_as::<Db, (String, bool)>(sql)
        .fetch_all(conn)
        .await
        .context("read label definitions")?;
    let definition = |(key, propagatable): (String, bool)| {
        Ok(Definition { key: word("a label definition", "key", &key)?, propagatable })
    };
    rows.into_iter().map(definition).collect()
}
