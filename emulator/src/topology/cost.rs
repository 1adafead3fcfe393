//! How long an all-reduce really takes on the emulated box, as opposed to what NCCL's tuner believes.
//!
//! The form is that of NCCL's own model (latency of the steps plus bytes over bandwidth), its coefficients are those of
//! the box:
//!
//! `time = base + steps·step + wire·traffic·(2/n)^1.16 / channels + crowd·(1 − 1/channels)`
//!
//! with `traffic = 2(n−1)/n · bytes`, `2(n−1)` steps of a ring, and step, wire and crowd averaged over the edges it goes along. The exponent joins the
//! slopes seen on two ranks (0.37 ns/B) and on eight (0.12 ns/B) of one box: small chunks of many ranks overlap.

/// Launch and end of the kernel, in µs, for LL, LL128, Simple.
#[derive(Debug)]
pub(crate) struct Base {
    pub ring: [f64; 3],
    pub tree: [f64; 3],
}

/// What one way of talking costs, for LL, LL128, Simple.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hop {
    /// One step of the ring, µs.
    pub step: [f64; 3],
    /// Bytes on one channel, ns each.
    pub wire: [f64; 3],
    /// What several channels cost each other, µs.
    pub crowd: f64,
}

/// One all-reduce to price.
pub(crate) struct Transfer {
    pub ranks: usize,
    /// From the first byte sent to the last received, one after the other.
    pub steps: usize,
    pub bytes: usize,
    pub tree: bool,
    /// 0 LL, 1 LL128, 2 Simple.
    pub protocol: usize,
    pub channels: usize,
    /// Threads allowed per block over those NCCL takes by default; below 1 the data moves slower.
    pub threads: f64,
    /// The buffer of Simple, bytes.
    pub buffer: i64,
}

/// A tree moves the data up and down in steps as long as the ring's, but carries twice the traffic over each edge.
const TREE_WIRE: f64 = 1.6;
const TREE_STEP: f64 = 0.97;
/// Simple splits its buffer into this many slots; data that needs more slots than there are waits for them.
const SLOTS: f64 = 8.0;
const SLOT_WAIT: f64 = 0.4;

/// The time of an all-reduce along these edges, in µs.
pub(crate) fn transfer_time(base: &Base, edges: &[&Hop], transfer: &Transfer) -> f64 {
    let p = transfer.protocol;
    let n = transfer.ranks as f64;
    if transfer.ranks < 2 || edges.is_empty() {
        return 2.0 + transfer.bytes as f64 * 1e-6;
    }
    let mean = |of: &dyn Fn(&Hop) -> f64| edges.iter().map(|hop| of(hop)).sum::<f64>() / edges.len() as f64;
    let channels = transfer.channels.max(1) as f64;
    let traffic = 2.0 * (n - 1.0) / n * transfer.bytes as f64;
    let (start, step, wire) =
        if transfer.tree { (base.tree[p], TREE_STEP, TREE_WIRE) } else { (base.ring[p], 1.0, 1.0) };
    let steps = transfer.steps as f64 * step * mean(&|hop| hop.step[p]);
    let slowed = transfer.threads.clamp(0.01, 1.0).sqrt();
    let moved = wire * mean(&|hop| hop.wire[p]) * 1e-3 * traffic * (2.0 / n).powf(1.16) / channels / slowed;
    let crowd = mean(&|hop| hop.crowd) * (1.0 - 1.0 / channels);
    start + steps + moved + crowd + slot_waits(transfer)
}

fn slot_waits(transfer: &Transfer) -> f64 {
    if transfer.protocol != 2 {
        return 0.0;
    }
    let slot = (transfer.buffer as f64 / SLOTS).max(512.0);
    let chunk = transfer.bytes as f64 / transfer.ranks as f64 / transfer.channels.max(1) as f64;
    SLOT_WAIT * ((chunk / slot).ceil() - 1.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::{Transport, by_name};
    use super::*;

    fn time(machine: &str, edges: &[Transport], protocol: usize, bytes: usize, channels: usize) -> f64 {
        let machine = by_name(machine).unwrap();
        let edges: Vec<_> = edges.iter().map(|&edge| machine.hop(edge)).collect();
        let (ranks, buffer) = (edges.len(), 4 << 20);
        let steps = 2 * (ranks - 1);
        let transfer = Transfer { ranks, steps, bytes, tree: false, protocol, channels, threads: 1.0, buffer };
        transfer_time(&machine.base, &edges, &transfer)
    }

    /// Within this share of the figure on record.
    fn assert_near(value: f64, figure: f64) {
        assert!((value / figure - 1.0).abs() < 0.045, "{value} µs is not near {figure} µs");
    }

    #[test]
    fn two_h200_through_host_memory_meet_the_measured_table() {
        let edges = [Transport::HostMemory; 2];
        for (bytes, channels, figure) in [(14336, 1, 13.3), (28672, 3, 13.5), (43008, 4, 14.2), (57344, 4, 15.2)] {
            assert_near(time("2xh200-nvlink", &edges, 0, bytes, channels), figure);
        }
        for (bytes, figure) in [(14336, 13.2), (28672, 18.9), (43008, 24.7), (57344, 28.3)] {
            assert_near(time("2xh200-nvlink", &edges, 0, bytes, 1), figure);
        }
        for (bytes, figure) in [(14336, 25.0), (28672, 25.9), (43008, 28.6), (57344, 29.4)] {
            assert_near(time("2xh200-nvlink", &edges, 2, bytes, 1), figure);
        }
    }

    #[test]
    fn eight_ranks_on_two_h200_meet_the_measured_table() {
        let mut edges = [Transport::SameGpu; 8];
        (edges[3], edges[7]) = (Transport::HostMemory, Transport::HostMemory);
        for (bytes, channels, figure) in [(14336, 1, 50.4), (28672, 1, 51.7), (57344, 1, 55.7), (229_376, 4, 59.8)] {
            assert_near(time("2xh200-nvlink", &edges, 0, bytes, channels), figure);
        }
    }

    #[test]
    fn two_hosts_of_one_h200_meet_the_measured_times_of_sockets() {
        // Medians of calls back to back, less what an eager launch adds.
        let edges = [Transport::Socket; 2];
        for (protocol, bytes, channels, figure) in
            [(0, 14336, 1, 36.2), (0, 28672, 2, 64.9), (2, 43008, 2, 92.6), (2, 57344, 2, 96.7)]
        {
            assert_near(time("2xh200-nvlink", &edges, protocol, bytes, channels), figure);
        }
    }

    #[test]
    fn nvlink_is_flat_over_the_small_sizes() {
        for (bytes, channels) in [(14336, 1), (28672, 3), (43008, 5), (57344, 7)] {
            assert_near(time("2xh200-nvlink", &[Transport::Nvlink; 2], 0, bytes, channels), 7.45);
        }
    }

    #[test]
    fn the_box_of_the_story_takes_48_and_26_microseconds() {
        let mixed = [Transport::Pcie, Transport::HostMemory].repeat(4);
        assert_near(time("8xrtxpro6000-switch", &mixed, 2, 32768, 2), 48.0);
        assert_near(time("8xrtxpro6000-switch", &[Transport::Pcie; 8], 0, 32768, 1), 26.0);
    }

    #[test]
    fn a_tiny_buffer_slows_simple_only() {
        let machine = by_name("8xpcie-flat").unwrap();
        let edges = [machine.hop(Transport::HostMemory); 8];
        let price = |protocol, buffer| {
            let (ranks, steps, bytes) = (8, 14, 65536);
            let transfer = Transfer { ranks, steps, bytes, tree: false, protocol, channels: 1, threads: 1.0, buffer };
            transfer_time(&machine.base, &edges, &transfer)
        };
        assert!(price(2, 4096) > price(2, 4 << 20));
        assert_eq!(price(0, 4096), price(0, 4 << 20));
        assert_eq!(price(2, 4 << 20), price(2, 16 << 20));
    }
}
