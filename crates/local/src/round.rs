//! One round over everything in a world, folder by folder, so that nobody holds all of it.

use std::vec;

use super::error::Error;
use super::object::Kind;
use super::registry::Registry;
use super::watch::Item;
use usher_hosts::supervisor::Units;

/// What is left of a round. What comes meanwhile may be left out: whoever goes round is told of it.
#[derive(Debug)]
pub(super) struct Round {
    folders: vec::IntoIter<Folder>,
    folder: Folder,
    names: vec::IntoIter<String>,
}

#[derive(Clone, Copy, Debug)]
enum Folder {
    Kind(Kind),
    Units,
}

impl Round {
    /// A round over objects, owners before what they own, and the records of processes.
    pub(super) fn new() -> Self {
        let folders = Kind::ALL.map(Folder::Kind).into_iter().chain([Folder::Units]);
        let folders: Vec<Folder> = folders.collect();
        Self { folders: folders.into_iter(), folder: Folder::Units, names: vec![].into_iter() }
    }

    /// The next item.
    pub(super) fn next(
        &mut self,
        registry: &Registry,
        units: &Units,
    ) -> Result<Option<Item>, Error> {
        loop {
            if let Some(name) = self.names.next() {
                return Ok(Some(match self.folder {
                    Folder::Kind(kind) => Item::Object(kind, name),
                    Folder::Units => Item::Unit(name),
                }));
            }
            let Some(folder) = self.folders.next() else { return Ok(None) };
            let names = match folder {
                Folder::Kind(kind) => registry.names(kind)?,
                Folder::Units => units.names().map_err(Error::disk(units.root()))?,
            };
            (self.folder, self.names) = (folder, names.into_iter());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_is_met_once() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path().join("world")).await.unwrap();
        let units = Units::open(registry.root().join("process")).unwrap();
        let stands = [(Kind::Part, "b"), (Kind::Part, "a"), (Kind::Anchor, "c")];
        for (kind, name) in stands {
            std::fs::write(registry.path(kind, name), "").unwrap();
        }
        // Whatever else lies there is no object.
        std::fs::create_dir(registry.folder(Kind::Part).join("e")).unwrap();
        std::fs::create_dir(units.folder("d")).unwrap();
        let mut round = Round::new();
        let met = std::iter::from_fn(|| round.next(&registry, &units).unwrap());
        let object = |kind, name: &str| Item::Object(kind, name.to_owned());
        let expected = [
            object(Kind::Anchor, "c"),
            object(Kind::Part, "a"),
            object(Kind::Part, "b"),
            Item::Unit("d".to_owned()),
        ];
        assert_eq!(met.collect::<Vec<_>>(), expected);
    }
}
