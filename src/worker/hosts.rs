//! The ranks of other hosts: at every barrier one rank of each host meets the others' over TCP and exchanges what they share.
//!
//! The connections were made by the agents, which know that the other end belongs to the run, and lead straight from worker to
//! worker. Every host tells the first what its ranks have stored, then the first tells all that all have come, with what rank 0
//! said. A connection that ends is not told of: the worker behind it is gone, which the agents know better and end the visit for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use super::shared::{HEAD, Shared};
use crate::wire::Job;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The other hosts.
pub(super) struct Hosts {
    shared: Shared,
    here: Range<u32>,
    /// On the first host one for each of the others, there one to the first.
    others: Vec<TcpStream>,
}

impl Hosts {
    pub(super) fn new(job: &Job, shared: Shared, others: Vec<TcpStream>) -> Self {
        Self { shared, here: job.host.clone(), others }
    }

    /// Whether this rank is the one of its host that meets the others.
    pub(super) fn met_by(&self, rank: u32) -> bool {
        rank == self.here.start
    }

    /// Returns once all hosts have come.
    pub(super) fn meet(&self) {
        let met = if self.here.start == 0 { self.meet_as_first() } else { self.meet_first() };
        if met.is_err() {
            // As a rank of this host that is gone, it is waited for until the supervisor ends the visit.
            loop {
                std::thread::park();
            }
        }
    }

    fn meet_as_first(&self) -> std::io::Result<()> {
        for other in &self.others {
            let told = receive(other, self.shared.most_stored())?;
            if !self.shared.put_stored(&told, &self.here) {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
        }
        let head = self.shared.head();
        self.others.iter().try_for_each(|other| send(other, &head))
    }

    fn meet_first(&self) -> std::io::Result<()> {
        for first in &self.others {
            send(first, &self.shared.take_stored(self.here.clone()))?;
            let told = receive(first, HEAD)?;
            self.shared.set_head(&told.try_into().map_err(|_| std::io::ErrorKind::InvalidData)?);
        }
        Ok(())
    }
}

/// The number of words, then the words, in one write.
fn send(mut to: &TcpStream, words: &[u64]) -> std::io::Result<()> {
    let number = std::iter::once(words.len() as u64);
    let bytes: Vec<u8> = number.chain(words.iter().copied()).flat_map(u64::to_le_bytes).collect();
    to.write_all(&bytes)
}

fn receive(mut from: &TcpStream, most: usize) -> std::io::Result<Vec<u64>> {
    let mut number = [0; WORD];
    from.read_exact(&mut number)?;
    let number = usize::try_from(u64::from_le_bytes(number)).ok().filter(|number| *number <= most);
    let mut bytes = vec![0; number.ok_or(std::io::ErrorKind::InvalidData)? * WORD];
    from.read_exact(&mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::Ordering;

    use super::super::barrier::Barrier;
    use super::*;
    use crate::gpu::communicator::UniqueId;
    use crate::plan::schedule::Measure;
    use crate::wire;

    fn job(host: Range<u32>, ranks: u32) -> Job {
        Job {
            version: wire::VERSION,
            cases: Vec::new(),
            devices: (0..ranks).collect(),
            ranks: host.clone(),
            host,
            links: Vec::new(),
            cpus: Vec::new(),
            memory: None,
            communicators: 1,
            in_turn: 1,
            register: Default::default(),
            measure: Measure::default(),
            salt: 0,
        }
    }

    fn connected() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [one, listener.accept().unwrap().0]
    }

    /// The barrier and memory of each of three hosts with two ranks.
    fn three_hosts() -> Vec<(Barrier, Shared)> {
        let ([one, to_one], [two, to_two]) = (connected(), connected());
        let host = |host: Range<u32>, others| {
            let job = job(host, 6);
            let shared = Shared::here(&job);
            (Barrier::new(2, shared.barrier(), Some(Hosts::new(&job, shared, others))), shared)
        };
        vec![host(0..2, vec![to_one, to_two]), host(2..4, vec![one]), host(4..6, vec![two])]
    }

    #[test]
    fn what_ranks_store_reaches_the_first_host_and_what_it_says_reaches_all() {
        let id = UniqueId::try_from((0..128).collect::<Vec<u8>>()).unwrap();
        let hosts = three_hosts();
        std::thread::scope(|scope| {
            for rank in 0..6_u32 {
                let (barrier, shared) = &hosts[rank as usize / 2];
                scope.spawn(move || {
                    for round in 0..50 {
                        shared.store_samples(rank, &[f64::from(rank + round), f64::from(round), 9.0 - f64::from(rank)]);
                        if rank == 0 {
                            shared.store_id(id);
                            shared.settled().store(u64::from(round), Ordering::Relaxed);
                        }
                        barrier.wait(rank);
                        assert_eq!(shared.settled().load(Ordering::Relaxed), u64::from(round));
                        assert_eq!(Vec::from(shared.id()), Vec::from(id));
                        if rank == 0 {
                            assert_eq!(shared.slowest(), [f64::from(5 + round), f64::from(round), 9.0]);
                        }
                        barrier.wait(rank);
                    }
                });
            }
        });
    }

    #[test]
    fn words_that_are_none_of_a_host_are_refused() {
        let shared = Shared::here(&job(0..2, 4));
        let part = shared.most_stored() / 4;
        let of = |rank: u64| [vec![rank], vec![0; part - 1]].concat();
        assert!(shared.put_stored(&of(2), &(0..2)) && shared.put_stored(&[], &(0..2)));
        for (told, what) in
            [(of(0), "own"), (of(4), "no rank"), (of(u64::MAX), "no number"), (of(2)[1..].into(), "torn")]
        {
            assert!(!shared.put_stored(&told, &(0..2)), "{what}");
        }
        let [one, other] = connected();
        send(&one, &[1, 2, 3]).unwrap();
        assert_eq!(receive(&other, 3).unwrap(), [1, 2, 3]);
        send(&one, &[1, 2, 3]).unwrap();
        assert!(receive(&other, 2).is_err(), "longer than anything that is said");
    }
}
