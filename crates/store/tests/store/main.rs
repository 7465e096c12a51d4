//! The store on both databases. Every test that speaks of the store runs on SQLite and on
//! PostgreSQL; where there is no PostgreSQL that half is skipped aloud.

#[cfg(test)]
mod backup;
#[cfg(test)]
mod bed;
#[cfg(test)]
mod commit;
#[cfg(test)]
mod declare;
#[cfg(test)]
mod enrolment;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod log;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod siblings;
#[cfg(test)]
mod sink;
#[cfg(test)]
mod trouble;
