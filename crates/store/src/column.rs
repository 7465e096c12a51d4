//! Values that the two databases keep in different types and we mean alike.

use std::borrow::Cow;
use std::time::Duration;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};
use usher_kernel::Timestamp;
use uuid::Uuid;

/// The oid of `timestamptz`.
const TIMESTAMPTZ: PgTypeInfo = PgTypeInfo::with_oid(Oid(1184));
/// The beginning of PostgreSQL's time, in microseconds since the Unix epoch.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A span in microseconds, as statements take it.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A point in time: `timestamptz` in PostgreSQL, microseconds since the Unix epoch in SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Time {
    pub(crate) fn some(at: Option<Timestamp>) -> Option<Self> {
        at.map(Self)
    }
}

impl Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        TIMESTAMPTZ
    }
}

impl Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = self.0.as_micros().saturating_sub(POSTGRES_EPOCH);
        buffer.extend(&micros.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Time {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let micros = i64::from_be_bytes(value.as_bytes()?.try_into()?);
                Ok(Self(Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH))))
            }
            PgValueFormat::Text => Err("a time is read in binary only".into()),
        }
    }
}

impl Type<Sqlite> for Time {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(it: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(it)
    }
}

impl Encode<'_, Sqlite> for Time {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Sqlite>::encode_by_ref(&self.0.as_micros(), buffer)
    }
}

impl Decode<'_, Sqlite> for Time {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        <i64 as Decode<Sqlite>>::decode(value).map(|it| Self(Timestamp::from_micros(it)))
    }
}

/// Many ids as one value: `uuid[]` in PostgreSQL, a JSON array of hexadecimal texts in SQLite.
#[derive(Clone, Debug)]
pub(crate) struct Ids(pub(crate) Vec<Uuid>);

impl Type<Postgres> for Ids {
    fn type_info() -> PgTypeInfo {
        <Vec<Uuid> as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Ids {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode_by_ref(&self.0, buffer)
    }
}

impl Type<Sqlite> for Ids {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for Ids {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        let texts: Vec<String> = self.0.iter().map(|id| id.simple().to_string()).collect();
        Encode::<Sqlite>::encode(Cow::<str>::Owned(serde_json::to_string(&texts)?), buffer)
    }
}
