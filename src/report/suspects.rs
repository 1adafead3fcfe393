//! What pairs of GPUs tried alone (`--isolate`) point at, and the next step.

use crate::plan::schedule::Arm;
use crate::record::pairs::{PairTried, Suspect};
use crate::record::run::Run;
use crate::units::plural;

use super::cells::name;
use super::head::Line;
use super::ink::{Tone, plain};

/// Pairs listed by name.
const LISTED: usize = 8;

/// Two lines for each set whose pairs were tried.
pub(super) fn lines(run: &Run) -> Vec<Line> {
    let mut arms: Vec<Arm> = run.pairs.iter().map(|pair| pair.arm).collect();
    arms.sort_unstable();
    arms.dedup();
    arms.into_iter().flat_map(|arm| of_arm(run, arm)).collect()
}

fn of_arm(run: &Run, arm: Arm) -> [Line; 2] {
    let tried: Vec<&PairTried> = run.pairs.iter().filter(|pair| pair.arm == arm).collect();
    let failed: Vec<&PairTried> = tried.iter().copied().filter(|pair| !pair.outcome.is_completed()).collect();
    let (pairs, passed) = (plural(tried.len(), "pair"), tried.len() - failed.len());
    let (what, next) = match Suspect::of(&tried) {
        Suspect::Nothing => (
            format!("no two GPUs fail alone ({pairs} tried): it takes more of them, or comes seldom"),
            "--soak finds what comes seldom; three GPUs at a time with --devices find what takes more".to_owned(),
        ),
        Suspect::Everything => (
            format!("no GPU stands out: all {pairs} tried fail alone"),
            "what all of them have in common: the set itself, the library, driver, BIOS or IOMMU".to_owned(),
        ),
        Suspect::Gpus(gpus) => {
            let with = tried.iter().filter(|pair| pair.gpus.iter().any(|gpu| gpus.contains(gpu))).count();
            let named: Vec<String> = gpus.iter().map(|gpu| gpu_name(run, *gpu)).collect();
            let left: Vec<String> =
                run.header.plan.devices.iter().filter(|gpu| !gpus.contains(gpu)).map(u32::to_string).collect();
            let whose = if gpus.len() == 1 { "its" } else { "their" };
            (
                format!(
                    "{}: {} of {whose} {with} pairs fail, all {} others pass",
                    named.join(" and "),
                    failed.len(),
                    tried.len() - with
                ),
                format!("slot, riser, power cables, `dmesg | grep -i xid`; without: --devices {}", left.join(",")),
            )
        }
        Suspect::Between(groups) => {
            let named: Vec<String> = groups.iter().map(|group| format!("GPUs {}", joined(group))).collect();
            (
                format!(
                    "what lies between {}: all {} pairs across fail, all {passed} within pass",
                    named.join(" and "),
                    failed.len()
                ),
                "`nvidia-smi topo -m` tells what that is: a switch, a host bridge, the link between sockets".to_owned(),
            )
        }
        Suspect::Pairs(pairs) => {
            let shown = pairs.iter().take(LISTED).map(|[one, other]| format!("{one}+{other}")).collect::<Vec<_>>();
            let more = if pairs.len() > LISTED { ", …" } else { "" };
            let named = match pairs.as_slice() {
                [[one, other]] => format!("{} with {}", gpu_name(run, *one), gpu_name(run, *other)),
                _ => format!("GPUs {}{more}", shown.join(", ")),
            };
            let number = plural(failed.len(), "pair");
            (
                format!(
                    "{named}: {number} of {} {} alone, {passed} pass",
                    tried.len(),
                    if failed.len() == 1 { "fails" } else { "fail" }
                ),
                "`nvidia-smi topo -m` tells what lies between them; swap slots and see what the fault goes with"
                    .to_owned(),
            )
        }
    };
    let how = failed.first().map(|pair| format!(" ({})", plain(&pair.outcome.to_string()))).unwrap_or_default();
    let what = Tone::Doubt.ink(&format!("{what}{how}"));
    [Line::new("suspect", format!("{}: {what}", name(run, arm))), Line { label: "", lead: ">".into(), text: next }]
}

/// `GPU 5 (0000:C1:00.0)`.
fn gpu_name(run: &Run, ordinal: u32) -> String {
    let gpu = run.header.provenance.gpus.iter().find(|gpu| gpu.ordinal == ordinal);
    gpu.map_or_else(|| format!("GPU {ordinal}"), |gpu| format!("GPU {ordinal} ({})", plain(&gpu.pci)))
}

fn joined(gpus: &[u32]) -> String {
    gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::record::visit::Outcome;

    /// The lines of a run of eight GPUs on which these pairs of a set fail.
    fn shown(fails: impl Fn(u32, u32) -> bool) -> String {
        let mut run = fixture::two_sets();
        let arm = Arm { set: 1, ..Arm::default() };
        for gpus in (0..8).flat_map(|one| (one + 1..8).map(move |other| [one, other])) {
            let outcome = if fails(gpus[0], gpus[1]) { Outcome::WrongData } else { Outcome::Completed };
            run.pairs.push(PairTried { arm, gpus, started: run.finished, seconds: 1.0, outcome });
        }
        let texts: Vec<String> = lines(&run).into_iter().map(|line| plain(&line.text)).collect();
        texts.join("\n")
    }

    #[test]
    fn a_bad_gpu_is_named_by_its_pci_id_with_how_to_go_on_without_it() {
        let told = shown(|one, other| one == 5 || other == 5);
        let pci = &fixture::two_sets().header.provenance.gpus[5].pci;
        assert!(
            told.contains(&format!("GPU 5 ({pci}): 7 of its 7 pairs fail, all 21 others pass (wrong data)")),
            "{told}"
        );
        assert!(told.contains("--devices 0,1,2,3,4,6,7"), "{told}");
    }

    #[test]
    fn what_else_pairs_point_at_is_told() {
        let across = shown(|one, other| (one < 4) != (other < 4));
        assert!(
            across.contains("between GPUs 0,1,2,3 and GPUs 4,5,6,7: all 16 pairs across fail, all 12 within pass"),
            "{across}"
        );
        assert!(shown(|one, other| [one, other] == [2, 7]).contains("1 pair of 28 fails alone, 27 pass"));
        assert!(shown(|_, _| true).contains("all 28 pairs tried fail alone"));
        assert!(shown(|_, _| false).contains("no two GPUs fail alone (28 pairs tried)"));
    }
}
