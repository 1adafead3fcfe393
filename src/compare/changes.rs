//! What is not as it was: the box, its software, the settings, and what NCCL chose.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::matching::Matching;
use super::{Change, Topic};
use crate::gpu::cuda::Device;
use crate::gpu::nvml::GpuState;
use crate::plan::env_set::Vars;
use crate::plan::schedule::{Arm, Plan};
use crate::proof::why::Chosen;
use crate::record::drift;
use crate::record::redact::HOST;
use crate::record::run::{ConfFile, Header, LibraryFacts, Provenance, UNKNOWN};
use crate::record::stored::Tallied;

/// Cases named one by one.
const NAMED: usize = 3;

/// All changes, in the order of [`Topic`].
pub(super) fn changes(old: &Tallied, new: &Tallied, matching: &Matching) -> Vec<Change> {
    let (before, after) = (&old.run.header, &new.run.header);
    let imported = [before, after].iter().any(|header| header.provenance.imported.is_some());
    let mut found = Changes { found: Vec::new(), imported };
    found.host(&before.provenance, &after.provenance);
    found.software(&before.provenance, &after.provenance);
    found.gpus(&before.provenance.gpus, &after.provenance.gpus);
    found.others(&before.provenance, &after.provenance);
    found.links(old, new);
    found.hops(old, new);
    found.clocks(old, new, matching);
    found.settings(before, after, matching);
    found.applied(old, new, matching);
    found.chosen(old, new, matching);
    found.method(before, after);
    // Further hosts have changes of several topics.
    found.found.sort_by_key(|change| change.topic);
    found.found
}

struct Changes {
    found: Vec<Change>,
    /// One of the runs was measured by another program, which tells little of the box: that is no change.
    imported: bool,
}

impl Changes {
    fn note(&mut self, topic: Topic, what: impl Into<String>, old: impl Display, new: impl Display) {
        let (old, new) = (old.to_string(), new.to_string());
        let untold = self.imported && [&old, &new].iter().any(|text| *text == UNKNOWN);
        if old != new && !untold {
            self.found.push(Change { topic, what: what.into(), old, new });
        }
    }

    fn host(&mut self, old: &Provenance, new: &Provenance) {
        // A redacted name tells nothing of whether the other is the same.
        if [old, new].iter().all(|provenance| provenance.host != HOST) {
            self.note(Topic::Host, "host", &old.host, &new.host);
        }
        self.note(Topic::Host, "CPU", &old.cpu, &new.cpu);
        let cpus = |of: &Provenance| if of.cpus == 0 { UNKNOWN.to_owned() } else { of.cpus.to_string() };
        self.note(Topic::Host, "CPUs", cpus(old), cpus(new));
        self.note(Topic::Host, "kernel", &old.kernel, &new.kernel);
    }

    /// Further agents' hosts, in rank order; their GPUs are among those of the first.
    fn others(&mut self, old: &Provenance, new: &Provenance) {
        self.note(Topic::Host, "hosts", 1 + old.others.len(), 1 + new.others.len());
        for (at, (before, after)) in old.others.iter().zip(&new.others).enumerate() {
            let mut found = Changes { found: Vec::new(), imported: self.imported };
            found.host(before, after);
            found.software(before, after);
            let named = |change: Change| Change { what: format!("host {}: {}", at + 2, change.what), ..change };
            self.found.extend(found.found.into_iter().map(named));
        }
    }

    fn software(&mut self, old: &Provenance, new: &Provenance) {
        self.note(Topic::Driver, "driver", known(old.driver.as_ref()), known(new.driver.as_ref()));
        self.note(Topic::Driver, "CUDA", &old.cuda, &new.cuda);
        let versions = |of: &[LibraryFacts]| list(of.iter().map(|library| known(library.version.as_ref())));
        let (before, after) = (versions(&old.libraries), versions(&new.libraries));
        let same = before == after;
        self.note(Topic::Nccl, "NCCL", before, after);
        // Another build of the same version is easily overlooked; of another version it goes without saying.
        let builds = |of: &[LibraryFacts]| list(of.iter().map(|library| known(library.build_id.as_ref())));
        if same {
            self.note(Topic::Nccl, "NCCL build id", builds(&old.libraries), builds(&new.libraries));
        }
    }

    fn gpus(&mut self, old: &[Device], new: &[Device]) {
        let names = |of: &[Device]| counted(of.iter().map(|gpu| gpu.name.clone()));
        self.note(Topic::Gpus, "GPUs", names(old), names(new));
        let places = |of: &[Device]| match of.iter().any(|gpu| gpu.pci == UNKNOWN) {
            true => UNKNOWN.to_owned(),
            false => list(of.iter().map(|gpu| gpu.pci.clone())),
        };
        self.note(Topic::Gpus, "PCI ids in rank order", places(old), places(new));
        for (rank, (before, after)) in old.iter().zip(new).enumerate() {
            let told = [before, after].iter().all(|gpu| !gpu.uuid.is_empty() && !gpu.uuid.contains("redacted"));
            if told && before.pci == after.pci {
                self.note(Topic::Gpus, format!("card at rank {rank}, {}", after.pci), &before.uuid, &after.uuid);
            }
        }
    }

    fn links(&mut self, old: &Tallied, new: &Tallied) {
        let (before, after) = (links(old), links(new));
        let mut alike: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (gpu, link) in &after {
            if let Some(was) = before.get(gpu).filter(|was| *was != link) {
                alike.entry((was.clone(), link.clone())).or_default().push(*gpu);
            }
        }
        for ((old, new), gpus) in alike {
            self.note(Topic::Link, format!("PCIe link of {}", gpus_of(&gpus)), old, new);
        }
    }

    /// Hops of a flag (`--floor`), where the runs of one are all above those of the other: else it may be chance.
    fn hops(&mut self, old: &Tallied, new: &Tallied) {
        let Some((before, after)) = old.run.floor.as_ref().zip(new.run.floor.as_ref()) else { return };
        for hop in &after.hops {
            let Some(was) = before.hops.iter().find(|was| (was.gpus, was.over) == (hop.gpus, hop.over)) else {
                continue;
            };
            let Some((old, new)) = was.micros().zip(hop.micros()) else { continue };
            let ends = |runs: &[f64]| {
                runs.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), of| (low.min(*of), high.max(*of)))
            };
            let (earlier, later) = (ends(&was.runs_us), ends(&hop.runs_us));
            // One run tells nothing of its spread.
            let told = was.runs_us.len().min(hop.runs_us.len()) > 1;
            if told && (earlier.1 < later.0 || later.1 < earlier.0) {
                let micros = |of: f64| format!("{} µs", crate::units::significant(of));
                let [a, b] = hop.gpus;
                self.note(
                    Topic::Link,
                    format!("hop of a flag over {}, GPU {a} and {b}", hop.over),
                    micros(old),
                    micros(new),
                );
            }
        }
    }

    /// Clocks, of the first arm that both runs have.
    fn clocks(&mut self, old: &Tallied, new: &Tallied, matching: &Matching) {
        let Some(((before, _), (after, _))) = matching.both.first() else { return };
        let both = old.tally.conditions(*before).zip(new.tally.conditions(*after));
        if let Some((gpu, now, was)) = both.and_then(|(old, new)| new.other_clock(old)) {
            self.note(Topic::Link, format!("SM clock of GPU {gpu}"), format!("{was} MHz"), format!("{now} MHz"));
        }
    }

    fn settings(&mut self, old: &Header, new: &Header, matching: &Matching) {
        let inherited = |header: &Header| match header.plan.clean_env {
            true => Vars::default(),
            false => header.provenance.inherited.clone(),
        };
        self.variables("inherited ", &inherited(old), &inherited(new));
        self.variables("base ", &old.plan.base, &new.plan.base);
        let mut told: Vec<(usize, usize)> = Vec::new();
        for ((before, after), _) in matching.arms() {
            let sets = (before.set, after.set);
            if !told.contains(&sets) {
                told.push(sets);
                let (before, after) = (&old.plan.sets[before.set], &new.plan.sets[after.set]);
                self.variables(&format!("{}: ", after.name), &before.vars, &after.vars);
            }
        }
        let files = |header: &Header| -> BTreeMap<String, String> {
            let settings = |file: &ConfFile| {
                let set = file.settings(None).into_iter().map(|entry| format!("{}={}", entry.name, entry.value));
                set.collect::<Vec<_>>().join("; ")
            };
            header.provenance.conf_files.iter().map(|file| (file.path.clone(), settings(file))).collect()
        };
        let (before, after) = (files(old), files(new));
        let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
        paths.sort();
        paths.dedup();
        for path in paths {
            let lines =
                |files: &BTreeMap<String, String>| files.get(path).map_or_else(|| "no file".into(), Clone::clone);
            self.note(Topic::Settings, path.as_str(), lines(&before), lines(&after));
        }
    }

    fn variables(&mut self, whose: &str, old: &Vars, new: &Vars) {
        let mut names: Vec<&str> = old.iter().chain(new.iter()).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let value = |vars: &Vars| vars.get(name).map_or_else(|| "not set".to_owned(), str::to_owned);
            self.note(Topic::Settings, format!("{whose}{name}"), value(old), value(new));
        }
    }

    fn applied(&mut self, old: &Tallied, new: &Tallied, matching: &Matching) {
        let states = |stored: &Tallied| -> BTreeMap<(Arm, usize), String> {
            stored.run.cells.iter().map(|cell| ((cell.arm, cell.case), cell.applied.to_string())).collect()
        };
        let (before, after) = (states(old), states(new));
        self.by_cases(Topic::Settings, new, matching, "settings of ", |(arms, cases)| {
            Some((before.get(&(arms.0, cases.0))?.clone(), after.get(&(arms.1, cases.1))?.clone()))
        });
    }

    fn chosen(&mut self, old: &Tallied, new: &Tallied, matching: &Matching) {
        let used = |stored: &Tallied, arm, case| {
            let chosen = chosen(stored, arm, case)?;
            let used = each(chosen.used.iter().map(ToString::to_string));
            (!used.is_empty()).then(|| used.join(" or "))
        };
        self.by_cases(Topic::Chosen, new, matching, "", |(arms, cases)| {
            Some((used(old, arms.0, cases.0)?, used(new, arms.1, cases.1)?))
        });
        let ways = |stored: &Tallied, arm, case| {
            let chosen = chosen(stored, arm, case)?;
            let ways = chosen.transports.iter().map(|(way, pairs)| format!("{way} ({pairs})"));
            (!chosen.transports.is_empty()).then(|| ways.collect::<Vec<_>>().join(", "))
        };
        self.by_cases(Topic::Chosen, new, matching, "transports (pairs) of ", |(arms, cases)| {
            Some((ways(old, arms.0, cases.0)?, ways(new, arms.1, cases.1)?))
        });
    }

    /// What is known of each cell of both runs, cases of one set that changed alike together.
    fn by_cases(
        &mut self,
        topic: Topic,
        new: &Tallied,
        matching: &Matching,
        what: &str,
        known: impl Fn(((Arm, Arm), (usize, usize))) -> Option<(String, String)>,
    ) {
        let plan = &new.run.header.plan;
        for (arms, cases) in matching.arms() {
            let mut alike: Vec<((String, String), Vec<usize>)> = Vec::new();
            for case in &cases {
                let Some(change) = known((arms, *case)).filter(|(old, new)| old != new) else { continue };
                match alike.iter_mut().find(|(other, _)| *other == change) {
                    Some((_, same)) => same.push(case.1),
                    None => alike.push((change, vec![case.1])),
                }
            }
            for ((old, new), same) in alike {
                let place = place(plan, &same, cases.len());
                self.note(topic, format!("{what}{}{place}", plan.arm_name(arms.1)), old, new);
            }
        }
    }

    fn method(&mut self, old: &Header, new: &Header) {
        match (&old.provenance.imported, &new.provenance.imported) {
            (None, None) => self.note(Topic::Method, "ncclsweep", &old.version, &new.version),
            _ => self.note(Topic::Method, "measured by", program(old), program(new)),
        }
        let wrap = |plan: &Plan| if plan.wrap.is_empty() { "none".to_owned() } else { shell_words::join(&plan.wrap) };
        self.note(Topic::Method, "--wrap", wrap(&old.plan), wrap(&new.plan));
        self.note(Topic::Method, "--cpu-affinity", &old.plan.cpu_affinity, &new.plan.cpu_affinity);
        self.note(Topic::Method, "communicators a visit", old.plan.communicators, new.plan.communicators);
        let ended = |plan: &Plan| if plan.measure.keep { "all at once" } else { "one by one" };
        self.note(Topic::Method, "communicators end", ended(&old.plan), ended(&new.plan));
        self.note(Topic::Method, "checks of a case", old.plan.measure.checks, new.plan.measure.checks);
        let busy = |header: &Header| if header.provenance.busy.is_empty() { "idle" } else { "in use by others" };
        self.note(Topic::Method, "GPUs at the start", busy(old), busy(new));
    }
}

/// Which program measured, and what one sample of it is.
fn program(header: &Header) -> String {
    let plan = &header.plan;
    let program = match &header.provenance.imported {
        Some(imported) => imported.program.clone(),
        None => format!("ncclsweep {}", header.version),
    };
    let sample = |mode| format!("{mode}: {}", crate::units::plural(plan.measure.calls_per_sample(mode), "call"));
    format!("{program} ({} a sample)", list(plan.modes().into_iter().map(sample)))
}

/// By GPU in rank order: generation and width of its link. The generation is the highest seen, as an idle link saves power;
/// widths are all that were seen.
fn links(stored: &Tallied) -> BTreeMap<usize, String> {
    let mut states: BTreeMap<usize, Vec<&GpuState>> = BTreeMap::new();
    for visit in &stored.run.visits {
        for (gpu, (before, after)) in drift::states(visit) {
            states.entry(gpu).or_default().extend([before, after]);
        }
    }
    let link = |(gpu, states): (usize, Vec<&GpuState>)| {
        let generation = states.iter().filter_map(|state| state.link_generation).max()?;
        let mut widths: Vec<u32> = states.iter().filter_map(|state| state.link_width).collect();
        widths.sort_unstable_by(|a, b| b.cmp(a));
        widths.dedup();
        let widths: Vec<String> = widths.iter().map(|width| format!("x{width}")).collect();
        Some((gpu, format!("Gen{generation} {}", widths.join(" and "))))
    };
    states.into_iter().filter_map(link).collect()
}

fn chosen<'a>(stored: &'a Tallied, arm: Arm, case: usize) -> Option<&'a Chosen> {
    let proofs = stored.run.proofs.iter().find(|proofs| proofs.arm == arm)?;
    proofs.chosen.iter().find(|of| of.cases.contains(&case)).map(|of| &of.what)
}

/// ` at 7168x1, 7168x2`, ` at 12 of 100 cases`; nothing where it is so at all of several.
fn place(plan: &Plan, cases: &[usize], all: usize) -> String {
    let mut kinds = plan.cases.iter().map(|case| (case.mode, case.dtype, case.op, case.placement));
    let first = kinds.next();
    let one_kind = kinds.all(|kind| Some(kind) == first);
    let label = |case: &usize| {
        let case = &plan.cases[*case];
        if one_kind { case.label() } else { case.to_string() }
    };
    match cases.len() {
        some if some == all && all > 1 => String::new(),
        some if some <= NAMED => format!(" at {}", cases.iter().map(label).collect::<Vec<_>>().join(", ")),
        some => format!(" at {some} of {all} cases"),
    }
}

fn gpus_of(gpus: &[usize]) -> String {
    let numbers: Vec<String> = gpus.iter().map(usize::to_string).collect();
    format!("GPU {}", numbers.join(", "))
}

fn known(value: Option<&impl Display>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), ToString::to_string)
}

fn list(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(", ")
}

fn each(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// `8 × NVIDIA H200`.
fn counted(names: impl Iterator<Item = String>) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    list(counts.into_iter().map(|(name, count)| format!("{count} × {name}")))
}
