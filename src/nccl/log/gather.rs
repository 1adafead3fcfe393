//! From ranks as their lines came to communicators.

use std::collections::HashMap;

use super::{Communicator, Rank};

/// A rank with what tells its communicator: id and size.
pub type Told = (Option<String>, Option<u32>, Rank);

/// Puts ranks into communicators, sorted by number; also where each of `ranks` ended up.
///
/// Ranks with one id are together. Without id (before 2.16, and splits of 2.23 to 2.31) a rank joins the first communicator
/// of its size that has not got its number: right for communicators made one after the other, a guess for ones made at once.
pub fn gather(ranks: impl Iterator<Item = Told>) -> (Vec<Communicator>, Vec<(usize, usize)>) {
    let mut communicators: Vec<Communicator> = Vec::new();
    let mut by_id = HashMap::new();
    let mut without_id: HashMap<Option<u32>, Vec<usize>> = HashMap::new();
    let mut members: Vec<Vec<(usize, Rank)>> = Vec::new();
    let mut count = 0;
    for (slot, (id, size, rank)) in ranks.enumerate() {
        count += 1;
        let known = match &id {
            Some(id) => by_id.get(&(id.clone(), size)).copied(),
            None => without_id
                .get(&size)
                .into_iter()
                .flatten()
                .copied()
                .find(|place: &usize| members[*place].iter().all(|(_, member)| member.rank != rank.rank)),
        };
        let place = known.unwrap_or_else(|| {
            let place = communicators.len();
            match &id {
                Some(id) => _ = by_id.insert((id.clone(), size), place),
                None => without_id.entry(size).or_default().push(place),
            }
            communicators.push(Communicator { id, size, ranks: Vec::new() });
            members.push(Vec::new());
            place
        });
        members[place].push((slot, rank));
    }
    let mut places = vec![(0, 0); count];
    for (at, mut ranks) in members.into_iter().enumerate() {
        ranks.sort_by_key(|(slot, rank)| (rank.rank.is_none(), rank.rank, *slot));
        for (within, (slot, rank)) in ranks.into_iter().enumerate() {
            places[slot] = (at, within);
            communicators[at].ranks.push(rank);
        }
    }
    (communicators, places)
}
