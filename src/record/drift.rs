//! [`Conditions`]: under which clocks an arm was measured, whether its GPUs were throttled, whether its links had errors.
//!
//! Two arms are compared only when both ran under the same conditions: else the difference may be that of the conditions.

use std::collections::{BTreeMap, BTreeSet};

use super::visit::Visit;
use crate::gpu::nvml::GpuState;

/// SM clocks further apart than this are not the same. The time of an all-reduce follows the clock by less than in proportion, so
/// clocks within 3% move it by less than the smallest tolerance anyone uses; and 3% are four of the 15 MHz steps by which a
/// healthy GPU's clock wanders with its temperature.
const CLOCK: f64 = 0.03;

/// Reasons by which NVML says that a clock is held down. The others (a clock somebody set, idle, sync boost) are choices.
const THROTTLING: [&str; 5] =
    ["sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"];

/// What NVML said of the GPUs at the end of each visit of one arm, and how often links repeated a packet meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    visits: u32,
    /// By GPU in rank order: the SM clocks, in MHz.
    clocks: BTreeMap<usize, Vec<u32>>,
    throttled: Throttled,
    replays: BTreeMap<usize, u32>,
}

/// Throttling that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// In how many visits.
    pub visits: u32,
    /// On which GPUs, in rank order from 0.
    pub gpus: BTreeSet<usize>,
    /// For which reasons, as NVML names them.
    pub reasons: BTreeSet<String>,
}

impl Conditions {
    /// Takes one more visit into account.
    pub fn add(&mut self, visit: &Visit) {
        self.visits += 1;
        let mut throttled = false;
        for (gpu, (before, after)) in states(visit) {
            // The state before a visit is that of an idle GPU: only the one after it tells how it was measured.
            self.clocks.entry(gpu).or_default().extend(after.sm_clock_mhz);
            for reason in after.throttle.iter().filter(|reason| is_throttling(reason)) {
                throttled = true;
                self.throttled.gpus.insert(gpu);
                self.throttled.reasons.insert(reason.clone());
            }
            if let (Some(before), Some(after)) = (before.pcie_replays, after.pcie_replays)
                && after > before
            {
                let replays = self.replays.entry(gpu).or_default();
                *replays = replays.saturating_add(after - before);
            }
        }
        self.throttled.visits += u32::from(throttled);
    }

    /// The throttling of this arm; none when no visit saw any.
    #[must_use]
    pub fn throttled(&self) -> Option<&Throttled> {
        (self.throttled.visits > 0).then_some(&self.throttled)
    }

    /// By GPU, in rank order from 0: how often its link repeated a packet during visits.
    #[must_use]
    pub fn replays(&self) -> &BTreeMap<usize, u32> {
        &self.replays
    }

    /// By GPU, in rank order from 0: the median of its SM clock over the visits, in MHz.
    #[must_use]
    pub fn clocks(&self) -> BTreeMap<usize, u32> {
        self.clocks.iter().filter_map(|(gpu, clocks)| Some((*gpu, median(clocks)?))).collect()
    }

    /// Why figures of these two arms cannot be compared, when they cannot.
    #[must_use]
    pub fn unlike(&self, (name, baseline_name): (&str, &str), baseline: &Self) -> Option<String> {
        let replayed = [(name, self), (baseline_name, baseline)].into_iter().find_map(|(name, arm)| {
            let (gpu, replays) = arm.replays.iter().max_by_key(|(_, replays)| **replays)?;
            Some(format!("the PCIe link of GPU {gpu} repeated {replays} packets during visits of {name}"))
        });
        replayed.or_else(|| self.throttled_alone((name, baseline_name), baseline)).or_else(|| {
            let (gpu, clock, other) = self.other_clock(baseline)?;
            Some(format!(
                "the SM clock of GPU {gpu} was {clock} MHz under {name} and {other} MHz under {baseline_name}"
            ))
        })
    }

    /// That the GPUs of one of the two arms were throttled and those of the other were not.
    #[must_use]
    pub fn throttled_alone(&self, (name, other_name): (&str, &str), other: &Self) -> Option<String> {
        let (name, arm) = match (self.throttled(), other.throttled()) {
            (Some(_), None) => (name, self),
            (None, Some(_)) => (other_name, other),
            _ => return None,
        };
        Some(format!("only {name} was throttled: {}", arm.throttled.describe(arm.visits)))
    }

    /// A GPU whose typical clock differs between the arms, with both clocks: the one that differs most.
    #[must_use]
    pub fn other_clock(&self, baseline: &Self) -> Option<(usize, u32, u32)> {
        let other = baseline.clocks();
        let both = self.clocks().into_iter().filter_map(|(gpu, clock)| Some((gpu, clock, *other.get(&gpu)?)));
        let apart = |(_, one, other): &(usize, u32, u32)| (f64::from(*one) / f64::from(*other)).ln().abs();
        both.filter(|gpu| apart(gpu) > CLOCK.ln_1p()).max_by(|a, b| apart(a).total_cmp(&apart(b)))
    }
}

impl Throttled {
    /// `hw_thermal_slowdown on GPU 3 in 2 of 6 visits`.
    #[must_use]
    pub fn describe(&self, visits: u32) -> String {
        let reasons: Vec<&str> = self.reasons.iter().map(String::as_str).collect();
        let gpus: Vec<String> = self.gpus.iter().map(usize::to_string).collect();
        format!("{} on GPU {} in {} of {visits} visits", reasons.join(", "), gpus.join(", "), self.visits)
    }
}

/// What a reader must know of the arms' conditions, whatever the verdicts: throttled GPUs, links with errors.
pub fn warnings<'a>(arms: impl Iterator<Item = (String, &'a Conditions)>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut replays: BTreeMap<usize, u32> = BTreeMap::new();
    for (name, arm) in arms {
        if let Some(throttled) = arm.throttled() {
            warnings.push(format!("{name} was throttled: {}", throttled.describe(arm.visits)));
        }
        for (gpu, more) in &arm.replays {
            let all = replays.entry(*gpu).or_default();
            *all = all.saturating_add(*more);
        }
    }
    let link =
        |(gpu, count)| format!("the PCIe link of GPU {gpu} repeated {count} packets: look at its slot and riser");
    warnings.extend(replays.into_iter().map(link));
    warnings
}

/// Whether a reason of NVML means that the GPU is slower than it was set to be.
#[must_use]
pub fn is_throttling(reason: &str) -> bool {
    THROTTLING.contains(&reason)
}

/// The states of a visit before and after, by the first rank of each GPU: ranks that share one tell of it once each.
pub fn states(visit: &Visit) -> impl Iterator<Item = (usize, &(GpuState, GpuState))> {
    let devices = visit.worker.as_ref().map(|worker| worker.devices.as_slice()).unwrap_or_default();
    let first = move |rank: usize| {
        let Some(device) = devices.get(rank) else { return true };
        devices.iter().position(|other| other.uuid == device.uuid) == Some(rank)
    };
    visit.gpus.iter().enumerate().filter(move |(rank, _)| first(*rank))
}

fn median(values: &[u32]) -> Option<u32> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn state(clock: u32, throttle: &[&str], replays: u32) -> GpuState {
        GpuState {
            sm_clock_mhz: Some(clock),
            throttle: throttle.iter().map(|reason| (*reason).to_owned()).collect(),
            pcie_replays: Some(replays),
            ..GpuState::default()
        }
    }

    /// An arm whose visits ended in these states of GPU 0, GPU 1 always at 2000 MHz.
    fn arm(after: &[GpuState]) -> Conditions {
        let mut conditions = Conditions::default();
        let mut visit = fixture::two_sets().visits.remove(0);
        for after in after {
            visit.gpus = vec![(state(400, &[], 0), after.clone()), (state(400, &[], 0), state(2000, &[], 0))];
            conditions.add(&visit);
        }
        conditions
    }

    const NAMES: (&str, &str) = ("pcie-ll", "default");

    #[test]
    fn more_replays_than_a_counter_holds_are_as_many_as_it_holds() {
        let full = state(2000, &[], u32::MAX);
        let worn = arm(&[full.clone(), full]);
        assert_eq!(worn.replays()[&0], u32::MAX);
        let told = warnings([("one".to_owned(), &worn), ("other".to_owned(), &worn)].into_iter());
        assert!(told.iter().any(|warning| warning.contains("repeated 4294967295 packets")), "{told:?}");
    }

    #[test]
    fn clocks_are_the_same_within_three_percent_of_their_medians() {
        let baseline = arm(&[state(2000, &[], 0), state(2010, &[], 0), state(900, &[], 0)]);
        assert_eq!(baseline.clocks(), BTreeMap::from([(0, 2000), (1, 2000)]));
        assert_eq!(arm(&[state(1945, &[], 0)]).unlike(NAMES, &baseline), None);
        assert_eq!(
            arm(&[state(1900, &[], 0)]).unlike(NAMES, &baseline).unwrap(),
            "the SM clock of GPU 0 was 1900 MHz under pcie-ll and 2000 MHz under default"
        );
    }

    #[test]
    fn throttling_in_one_arm_only_is_told_with_its_reason() {
        let hot = arm(&[state(2000, &["hw_thermal_slowdown"], 0), state(2000, &[], 0)]);
        let cool = arm(&[state(2000, &["applications_clocks_setting"], 0)]);
        let told = "only pcie-ll was throttled: hw_thermal_slowdown on GPU 0 in 1 of 2 visits";
        assert_eq!(hot.unlike(NAMES, &cool).as_deref(), Some(told));
        assert_eq!(hot.unlike(NAMES, &hot.clone()), None);
        assert!(cool.unlike(NAMES, &hot).unwrap().starts_with("only default was throttled"));
    }

    #[test]
    fn a_link_that_repeats_packets_spoils_both_arms() {
        let faulty = arm(&[state(2000, &[], 3), state(2000, &[], 4)]);
        let sound = arm(&[state(2000, &[], 0)]);
        for (one, other) in [(&faulty, &sound), (&sound, &faulty)] {
            assert!(one.unlike(NAMES, other).unwrap().contains("GPU 0 repeated 7 packets"));
        }
    }

    #[test]
    fn what_spoils_all_arms_alike_is_still_told() {
        let hot = arm(&[state(2000, &["sw_thermal_slowdown"], 2)]);
        let told = warnings([("default".to_owned(), &hot), ("pcie-ll".to_owned(), &hot)].into_iter());
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], "default was throttled: sw_thermal_slowdown on GPU 0 in 1 of 1 visits");
        assert_eq!(told[2], "the PCIe link of GPU 0 repeated 4 packets: look at its slot and riser");
    }

    #[test]
    fn ranks_that_share_a_gpu_count_it_once() {
        let mut visit = fixture::two_sets().visits.remove(0);
        let shared = visit.worker.as_ref().unwrap().devices[0].clone();
        visit.worker.as_mut().unwrap().devices = vec![shared.clone(), shared];
        visit.gpus = vec![(state(400, &[], 1), state(2000, &[], 3)); 2];
        let mut conditions = Conditions::default();
        conditions.add(&visit);
        assert_eq!(conditions.replays(), &BTreeMap::from([(0, 2)]));
    }
}
