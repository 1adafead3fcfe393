//! The hosts of a run of several agents: what each has, and in what they differ.

use maud::{Markup, html};

use crate::gpu::cuda::Device;
use crate::record::run::{Provenance, Run, UNKNOWN};
use crate::report::head::ranks_of;
use crate::report::ink::plain;

/// Hosts in the table.
const HOSTS: usize = 64;
/// Variables and files of which their difference is told.
const DIFFERENCES: usize = 40;

/// Its name, and what it is of a host.
type Fact = (&'static str, fn(&Provenance) -> String);

/// What is told of a host.
const FACTS: [Fact; 7] = [
    ("GPUs", |host| counted(&host.gpus)),
    ("driver", |host| host.driver.clone().unwrap_or_else(|| UNKNOWN.to_owned())),
    ("CUDA", |host| host.cuda.clone()),
    ("NCCL", |host| libraries(host, |of| of.version.map(|version| version.to_string()))),
    ("NCCL build id", |host| libraries(host, |of| of.build_id.clone())),
    ("kernel", |host| host.kernel.clone()),
    ("CPU", |host| format!("{} · {}", host.cpu, crate::units::plural(host.cpus, "logical CPU"))),
];

/// The hosts; nothing where there is one.
pub(super) fn section(run: &Run) -> Option<Markup> {
    let provenance = &run.header.provenance;
    if provenance.others.is_empty() {
        return None;
    }
    let first = first_alone(provenance);
    let hosts: Vec<&Provenance> = std::iter::once(&first).chain(&provenance.others).collect();
    let differ: Vec<bool> = FACTS.iter().map(|(_, fact)| !alike(hosts.iter().map(|host| fact(host)))).collect();
    let differing: Vec<&str> =
        FACTS.iter().zip(&differ).filter(|(_, differ)| **differ).map(|((what, _), _)| *what).collect();
    Some(html! {
        @if differing.is_empty() { p { "GPUs, driver, NCCL, kernel and CPU are alike on all " (hosts.len()) " hosts." } }
        @else { p { span.doubt { "Not alike on all hosts: " } (differing.join(", ")) ". A collective goes at the pace of its slowest rank." } }
        div.scroll { table.cards role="table" {
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" scope="col" { "host" } th role="columnheader" scope="col" { "ranks" }
                @for (what, _) in FACTS { th role="columnheader" scope="col" { (what) } }
            } }
            tbody role="rowgroup" { @for (agent, host) in hosts.iter().take(HOSTS).enumerate() {
                tr.first role="row" {
                    th.full role="rowheader" scope="row" { (plain(&host.host)) }
                    td role="cell" data-label="ranks" { (ranks_of(&run.header.plan, agent)) }
                    @for ((what, fact), differ) in FACTS.iter().zip(&differ) {
                        td role="cell" class=(if *differ { "wrap doubt" } else { "wrap" }) data-label=(what) { (plain(&fact(host))) }
                    }
                }
            } }
        } }
        @if hosts.len() > HOSTS { p.note { (hosts.len() - HOSTS) " hosts more are left out; run.json has all of them." } }
        (settings(&hosts))
    })
}

/// The first host with its own GPUs only: the run's are those of all hosts in rank order.
fn first_alone(provenance: &Provenance) -> Provenance {
    let further: usize = provenance.others.iter().map(|host| host.gpus.len()).sum();
    let mut first = provenance.clone();
    first.gpus.truncate(provenance.gpus.len().saturating_sub(further));
    first
}

fn alike(mut values: impl Iterator<Item = String>) -> bool {
    let first = values.next();
    values.all(|value| Some(value) == first)
}

/// `4 × NVIDIA H200`, each kind once.
fn counted(gpus: &[Device]) -> String {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for gpu in gpus {
        match kinds.iter_mut().find(|(name, _)| *name == gpu.name) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&gpu.name, 1)),
        }
    }
    kinds.iter().map(|(name, count)| format!("{count} × {name}")).collect::<Vec<_>>().join(", ")
}

fn libraries(host: &Provenance, what: fn(&crate::record::run::LibraryFacts) -> Option<String>) -> String {
    let all = host.libraries.iter().map(|of| what(of).unwrap_or_else(|| UNKNOWN.to_owned()));
    all.collect::<Vec<_>>().join(", ")
}

/// Inherited variables and lines of NCCL's files that not all hosts have alike.
fn settings(hosts: &[&Provenance]) -> Markup {
    let of = |host: &Provenance| -> Vec<(String, String)> {
        let variables = host.inherited.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let files = host.conf_files.iter().map(|file| (file.path.clone(), file.lines.join("; ")));
        variables.chain(files).collect()
    };
    let all: Vec<Vec<(String, String)>> = hosts.iter().map(|host| of(host)).collect();
    let value = |host: &[(String, String)], name: &str| {
        host.iter().find(|(of, _)| of == name).map_or_else(|| "not set".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&String> = all.iter().flatten().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !alike(all.iter().map(|host| value(host, name))));
    html! {
        @if !names.is_empty() {
            h3 { "Settings that the hosts inherit differently" }
            dl.facts { @for name in names.iter().take(DIFFERENCES) {
                dt { (plain(name)) }
                @for (host, settings) in hosts.iter().zip(&all).take(HOSTS) {
                    dd { (plain(&host.host)) ": " code { (plain(&value(settings, name))) } }
                }
            } }
            @if names.len() > DIFFERENCES { p.note { (names.len() - DIFFERENCES) " more are left out; run.json has all of them." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn two_hosts() -> Run {
        let mut run = fixture::two_sets();
        let mut other = run.header.provenance.clone();
        other.host = "box-<2>".into();
        // The first host's facts have the GPUs of all.
        other.gpus.drain(..4);
        run.header.provenance.others = vec![other];
        run.header.plan.agents = vec![4, 4];
        run
    }

    #[test]
    fn one_host_has_no_section_of_hosts() {
        assert!(section(&fixture::two_sets()).is_none());
    }

    #[test]
    fn hosts_that_are_alike_say_so_and_have_their_ranks() {
        let text = section(&two_hosts()).expect("two hosts").into_string();
        for part in [
            "alike on all 2 hosts",
            ">4 × NVIDIA RTX PRO 6000 Blackwell Server Edition<",
            ">0-3<",
            ">4-7<",
            "box-&lt;2&gt;",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("doubt"), "{text}");
    }

    #[test]
    fn what_differs_is_named_and_marked() {
        let mut run = two_hosts();
        let other = &mut run.header.provenance.others[0];
        other.driver = Some("590.44".into());
        other.inherited.set("NCCL_IB_HCA", "mlx5_1");
        let text = section(&run).expect("two hosts").into_string();
        assert!(text.contains("Not alike on all hosts: </span>driver."), "{text}");
        assert_eq!(text.matches("doubt\"").count(), 1 + 2, "the sentence and both drivers: {text}");
        assert!(text.contains("NCCL_IB_HCA") && text.contains("box-&lt;2&gt;: <code>mlx5_1</code>"), "{text}");
        assert!(text.contains("<code>not set</code>"), "{text}");
    }
}
