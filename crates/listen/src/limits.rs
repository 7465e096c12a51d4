//! How many connections may be open, and which one gives way to a newer one. Pure: no socket, no
//! clock.
//!
//! Only a connection that has not shown a token and whose turn is the peer's gives way: of the peer
//! that has the most, the one whose last answer, or accept, is longest ago. So a flood from few
//! addresses displaces itself, and no other peer.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

/// The most connections at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub total: usize,
    /// Of those without a token.
    pub unauthenticated: usize,
    /// Of those without a token, from one peer address.
    pub per_peer: usize,
}

impl Limits {
    /// The same limits, none of them above a total.
    #[must_use]
    pub fn within(self, total: usize) -> Self {
        let total = self.total.min(total);
        let unauthenticated = self.unauthenticated.min(total);
        Self { total, unauthenticated, per_peer: self.per_peer.min(unauthenticated) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(u64);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<T> {
    Admitted(Id),
    /// Admitted after this one has given way.
    Instead(Id, T),
    Refused,
}

/// All open connections; `T` reaches the one that has to give way.
#[derive(Debug)]
pub(crate) struct Connections<T> {
    limits: Limits,
    clock: u64,
    unauthenticated: HashMap<Id, Entry<T>>,
    /// How many of them each peer has.
    peers: HashMap<IpAddr, usize>,
    authenticated: HashSet<Id>,
}

#[derive(Debug)]
struct Entry<T> {
    peer: IpAddr,
    /// Smaller is older.
    age: u64,
    waits: bool,
    link: T,
}

impl<T> Connections<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        let (unauthenticated, peers) = (HashMap::new(), HashMap::new());
        Self { limits, clock: 0, unauthenticated, peers, authenticated: HashSet::new() }
    }

    /// Makes room for a connection of this peer, if there is or can be any.
    pub(crate) fn admit(&mut self, peer: IpAddr, link: T) -> Admission<T> {
        let peer = group(peer);
        let all = self.unauthenticated.len();
        let full = all >= self.limits.unauthenticated
            || all + self.authenticated.len() >= self.limits.total;
        let gone = if self.count(peer) >= self.limits.per_peer {
            Some(self.evict(|it| it.peer == peer))
        } else if full {
            Some(self.give_way())
        } else {
            None
        };
        if matches!(gone, Some(None)) {
            return Admission::Refused;
        }
        let age = self.tick();
        let id = Id(age);
        self.unauthenticated.insert(id, Entry { peer, age, waits: true, link });
        *self.peers.entry(peer).or_default() += 1;
        match gone.flatten() {
            Some(gone) => Admission::Instead(id, gone),
            None => Admission::Admitted(id),
        }
    }

    /// Removes the connection that has to give way, if one waits.
    pub(crate) fn give_way(&mut self) -> Option<T> {
        self.evict(|_| true)
    }

    pub(crate) fn set_waiting(&mut self, id: Id, waits: bool) {
        if let Some(entry) = self.unauthenticated.get_mut(&id) {
            entry.waits = waits;
        }
    }

    /// A request was answered: the connection is as good as new.
    pub(crate) fn renew(&mut self, id: Id) {
        let age = self.tick();
        if let Some(entry) = self.unauthenticated.get_mut(&id) {
            entry.age = age;
        }
    }

    /// The connection has shown a token. One that had to give way counts again until it is closed.
    pub(crate) fn authenticate(&mut self, id: Id) {
        self.forget(id);
        self.authenticated.insert(id);
    }

    /// Forgets a closed connection.
    pub(crate) fn remove(&mut self, id: Id) {
        self.forget(id);
        self.authenticated.remove(&id);
    }

    fn evict(&mut self, fits: impl Fn(&Entry<T>) -> bool) -> Option<T> {
        let waiting = self.unauthenticated.iter().filter(|(_, it)| it.waits && fits(it));
        let (id, _) = waiting.min_by_key(|(_, it)| (Reverse(self.count(it.peer)), it.age))?;
        self.forget(*id)
    }

    fn forget(&mut self, id: Id) -> Option<T> {
        let Entry { peer, link, .. } = self.unauthenticated.remove(&id)?;
        match self.peers.get_mut(&peer) {
            Some(count @ 2..) => *count -= 1,
            Some(_) | None => {
                self.peers.remove(&peer);
            }
        }
        Some(link)
    }

    fn count(&self, peer: IpAddr) -> usize {
        self.peers.get(&peer).copied().unwrap_or(0)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

/// Addresses that count as one peer: an IPv6 host has a network of 64 bits to itself.
fn group(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(it) => {
            let [a, b, c, d, ..] = it.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn limits(total: usize, unauthenticated: usize, per_peer: usize) -> Limits {
        Limits { total, unauthenticated, per_peer }
    }

    /// Connections that are named by a number.
    struct Named(Connections<u32>, BTreeMap<u32, Id>);

    impl Named {
        fn new(limits: Limits) -> Self {
            Self(Connections::new(limits), BTreeMap::new())
        }

        /// The name of the connection that gave way; an error if the new one was refused.
        fn admit(&mut self, name: u32, peer: IpAddr) -> Result<Option<u32>, ()> {
            let (id, gone) = match self.0.admit(peer, name) {
                Admission::Admitted(id) => (id, None),
                Admission::Instead(id, gone) => (id, Some(gone)),
                Admission::Refused => return Err(()),
            };
            self.1.insert(name, id);
            Ok(gone)
        }

        fn busy(&mut self, name: u32) {
            self.0.set_waiting(self.1[&name], false);
        }
    }

    // Requirement: CN-4
    #[test]
    fn the_oldest_waiting_connection_gives_way() {
        let mut all = Named::new(limits(9, 3, 9));
        for name in 0..3 {
            assert_eq!(all.admit(name, A), Ok(None));
        }
        all.busy(0);
        assert_eq!(all.admit(3, A), Ok(Some(1)), "0 is older and busy");
        all.0.renew(all.1[&2]);
        assert_eq!(all.admit(4, A), Ok(Some(3)), "2 was answered after 3 came");
    }

    /// Red by: a peer with one connection that gives way to a flood of others.
    // Requirement: CN-4
    #[test]
    fn a_flood_from_few_addresses_displaces_itself() {
        let mut all = Named::new(limits(99, 4, 3));
        assert_eq!(all.admit(0, B), Ok(None), "the oldest");
        for name in 1..4 {
            assert_eq!(all.admit(name, A), Ok(None));
        }
        let other = IpAddr::from([192, 0, 2, 3]);
        assert_eq!(all.admit(4, other), Ok(Some(1)));
        assert_eq!(all.admit(5, other), Ok(Some(2)));
        assert_eq!(all.admit(6, other), Ok(Some(4)), "now the other one has the most");
    }

    // Requirement: CN-4
    #[test]
    fn a_peer_at_its_limit_displaces_its_own_connections_only() {
        let mut all = Named::new(limits(99, 99, 2));
        assert_eq!(all.admit(0, B), Ok(None));
        assert_eq!(all.admit(1, A), Ok(None));
        assert_eq!(all.admit(2, A), Ok(None));
        assert_eq!(all.admit(3, A), Ok(Some(1)), "not 0, which is older");
    }

    // Requirement: CN-4
    #[test]
    fn the_newest_is_refused_if_none_can_give_way() {
        let mut all = Named::new(limits(9, 2, 9));
        for name in 0..2 {
            assert_eq!(all.admit(name, A), Ok(None));
            all.busy(name);
        }
        assert_eq!(all.admit(2, B), Err(()));
        all.0.set_waiting(all.1[&1], true);
        assert_eq!(all.admit(3, B), Ok(Some(1)));
    }

    // Requirement: CN-5
    #[test]
    fn a_token_frees_a_place_and_is_never_displaced() {
        let mut all = Named::new(limits(2, 1, 1));
        assert_eq!(all.admit(0, A), Ok(None));
        all.0.authenticate(all.1[&0]);
        assert_eq!(all.admit(1, A), Ok(None), "0 is no longer counted");
        assert_eq!(all.admit(2, A), Ok(Some(1)), "the total counts 0, which stays");
        all.busy(2);
        assert_eq!(all.admit(3, A), Err(()));
        all.0.remove(all.1[&0]);
        all.0.remove(all.1[&2]);
        assert_eq!(all.admit(4, A), Ok(None));
    }

    /// Red by: a connection that is served and counted nowhere, so that the total is exceeded.
    // Requirement: CN-5
    #[test]
    fn a_token_that_comes_with_the_eviction_counts() {
        let mut all = Named::new(limits(2, 2, 2));
        assert_eq!(all.admit(0, A), Ok(None));
        assert_eq!(all.admit(1, A), Ok(None));
        assert_eq!(all.admit(2, A), Ok(Some(0)));
        all.0.authenticate(all.1[&0]);
        all.0.remove(all.1[&1]);
        assert_eq!(all.admit(3, A), Ok(Some(2)), "0 and 2 are open");
    }

    // Requirement: CN-6
    #[test]
    fn every_limit_is_clamped_by_the_total() {
        assert_eq!(limits(9, 8, 7).within(5), limits(5, 5, 5));
        assert_eq!(limits(9, 8, 7).within(100), limits(9, 8, 7));
        assert_eq!(limits(100, 2, 50).within(9), limits(9, 2, 2));
    }

    #[test]
    fn an_ipv6_network_is_one_peer() {
        let at = |text: &str| group(text.parse().unwrap());
        assert_eq!(at("2001:db8:1:2::3"), at("2001:db8:1:2:ffff::4"));
        assert_ne!(at("2001:db8:1:2::3"), at("2001:db8:1:3::3"));
        assert_eq!(at("::ffff:192.0.2.1"), A);
    }

    #[derive(Clone, Debug)]
    enum Action {
        Admit(u8),
        Wait(usize, bool),
        Renew(usize),
        Authenticate(usize),
        Remove(usize),
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            4 => (0..3_u8).prop_map(Action::Admit),
            2 => (0..8_usize, any::<bool>()).prop_map(|(at, waits)| Action::Wait(at, waits)),
            1 => (0..8_usize).prop_map(Action::Renew),
            1 => (0..8_usize).prop_map(Action::Authenticate),
            1 => (0..8_usize).prop_map(Action::Remove),
        ]
    }

    /// What the rules say, written as a list that is searched.
    #[derive(Clone, Debug, PartialEq)]
    struct Expected {
        name: u32,
        peer: u8,
        waits: bool,
        authenticated: bool,
    }

    fn evicted(all: &[Expected], fits: impl Fn(&Expected) -> bool) -> Option<usize> {
        let count = |peer| all.iter().filter(|it| !it.authenticated && it.peer == peer).count();
        let may = |it: &Expected| it.waits && !it.authenticated && fits(it);
        let most = all.iter().filter(|it| may(it)).map(|it| count(it.peer)).max()?;
        all.iter().position(|it| may(it) && count(it.peer) == most)
    }

    proptest! {
        // Requirement: CN-4, CN-5
        #[test]
        fn admissions_follow_a_list_ordered_by_age(
            actions in proptest::collection::vec(action(), 1..80),
        ) {
            let bounds = limits(7, 5, 3);
            let (mut all, mut list) = (Named::new(bounds), Vec::<Expected>::new());
            for (name, action) in (0_u32..).zip(actions) {
                let at = |at: usize| list.get(at).map(|it| it.name);
                match action {
                    Action::Admit(peer) => {
                        let free = list.iter().filter(|it| !it.authenticated);
                        let own = free.clone().filter(|it| it.peer == peer).count();
                        let full = free.count() >= 5 || list.len() >= 7;
                        let gone = if own >= 3 {
                            evicted(&list, |it| it.peer == peer).ok_or(()).map(Some)
                        } else if full {
                            evicted(&list, |_| true).ok_or(()).map(Some)
                        } else {
                            Ok(None)
                        };
                        let gone = gone.map(|at| at.map(|at| list.remove(at).name));
                        let address = IpAddr::from([192, 0, 2, peer]);
                        prop_assert_eq!(all.admit(name, address), gone);
                        if gone.is_ok() {
                            let (waits, authenticated) = (true, false);
                            list.push(Expected { name, peer, waits, authenticated });
                        }
                    }
                    Action::Wait(index, waits) => if let Some(name) = at(index) {
                        all.0.set_waiting(all.1[&name], waits);
                        list[index].waits = waits;
                    },
                    Action::Renew(index) => if let Some(name) = at(index) {
                        all.0.renew(all.1[&name]);
                        let it = list.remove(index);
                        list.push(it);
                    },
                    Action::Authenticate(index) => if let Some(name) = at(index) {
                        all.0.authenticate(all.1[&name]);
                        list[index].authenticated = true;
                    },
                    Action::Remove(index) => if let Some(name) = at(index) {
                        list.remove(index);
                        all.0.remove(all.1[&name]);
                    },
                }
            }
        }
    }
}
