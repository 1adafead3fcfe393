//! How the ranks of a communicator were connected, drawn from NCCL's log: what became of the wiring.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::axis::place;
use super::shown::Shown;
use crate::record::observed::{Connection, Observed};
use crate::report::cells::name;
use crate::report::ink::plain;
use crate::units::plural;

/// More ranks on a circle than this cannot be told apart.
const RANKS: u32 = 32;
/// Drawings; sets that are connected alike share one.
const DRAWINGS: usize = 6;
/// Width and height of a drawing, and the radius of its circle.
const SIZE: (f64, f64) = (320.0, 250.0);
const RADIUS: f64 = 95.0;

/// Between which ranks, and how.
type Pairs = BTreeMap<(u32, u32), BTreeSet<String>>;

/// The drawings of a run; nothing where no log tells.
pub(super) fn section(shown: &Shown, observed: &Observed, id: &str) -> Option<Markup> {
    let mut alike: Vec<(Pairs, Vec<String>)> = Vec::new();
    for arm in &shown.plotted {
        let pairs = pairs(observed.connections(*arm));
        let name = name(shown.run, *arm);
        match alike.iter_mut().find(|(known, _)| *known == pairs) {
            Some((_, names)) => names.push(name),
            None if !pairs.is_empty() => alike.push((pairs, vec![name])),
            None => {}
        }
    }
    let ranks = shown.run.header.plan.ranks;
    let ways: BTreeSet<String> = alike.iter().flat_map(|(pairs, _)| pairs.values().map(way)).collect();
    let ways: Vec<String> = ways.into_iter().collect();
    (!alike.is_empty() && ranks > 1 && ranks <= RANKS).then(|| {
        html! {
            p.note {
                "Which ranks NCCL connected, and how, in the first communicator of each set: by its log."
                @if alike.len() > DRAWINGS { " " (alike.len() - DRAWINGS) " more ways of being connected are not drawn." }
            }
            ul.legend {
                @for (at, way) in ways.iter().enumerate() {
                    li { svg viewBox="-7 -7 14 14" aria-hidden="true" { line class={ "bar s" ((at + 1) % 8) } x1="-7" x2="7" y1="0" y2="0" {} } (way) }
                }
            }
            div.grid {
                @for (at, (pairs, names)) in alike.iter().take(DRAWINGS).enumerate() {
                    figure.connections {
                        figcaption { span.strong { (names.join(", ")) } }
                        (drawing(&format!("{id}-connections-{at}"), &names.join(", "), ranks, pairs, &ways))
                    }
                }
            }
        }
    })
}

fn pairs(connections: &[Connection]) -> Pairs {
    let mut pairs = Pairs::new();
    for Connection { from, to, via } in connections {
        let key = (*from.min(to), *from.max(to));
        pairs.entry(key).or_default().extend(via.iter().map(|way| plain(way)));
    }
    pairs
}

fn way(via: &BTreeSet<String>) -> String {
    if via.is_empty() { "unknown".to_owned() } else { via.iter().cloned().collect::<Vec<_>>().join(" and ") }
}

fn drawing(id: &str, names: &str, ranks: u32, pairs: &Pairs, ways: &[String]) -> Markup {
    let (title, description) = (format!("{id}-title"), format!("{id}-desc"));
    html! {
        svg role="img" viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } width=(SIZE.0) height=(SIZE.1) aria-labelledby={ (title) " " (description) } {
            title id=(title) { "Connections under " (names) }
            desc id=(description) { (in_words(pairs)) }
            @for ((from, to), via) in pairs.iter().filter(|((_, to), _)| *to < ranks) {
                @let way = way(via);
                @let colour = ways.iter().position(|known| *known == way).map_or(0, |at| (at + 1) % 8);
                @let ((x1, y1), (x2, y2)) = (at(*from, ranks), at(*to, ranks));
                line class={ "bar s" (colour) } x1=(place(x1)) y1=(place(y1)) x2=(place(x2)) y2=(place(y2)) {
                    title { "rank " (from) " and rank " (to) ": " (way) }
                }
            }
            @for rank in 0..ranks {
                @let (x, y) = at(rank, ranks);
                circle.node cx=(place(x)) cy=(place(y)) r="13" {}
                text x=(place(x)) y=(place(y)) text-anchor="middle" dominant-baseline="central" { (rank) }
            }
        }
    }
}

/// The place of a rank on the circle, the first on top.
fn at(rank: u32, ranks: u32) -> (f64, f64) {
    let angle = std::f64::consts::TAU * f64::from(rank) / f64::from(ranks.max(1));
    (SIZE.0 / 2.0 + RADIUS * angle.sin(), SIZE.1 / 2.0 - RADIUS * angle.cos())
}

/// `8 pairs by SHM/direct`
fn in_words(pairs: &Pairs) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for via in pairs.values() {
        *counts.entry(way(via)).or_default() += 1;
    }
    counts.iter().map(|(way, count)| format!("{} by {way}", plural(*count, "pair"))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(from: u32, to: u32, via: &str) -> Connection {
        Connection { from, to, via: vec![via.into()] }
    }

    #[test]
    fn both_directions_of_a_pair_are_one_line() {
        let pairs = pairs(&[connection(0, 1, "SHM"), connection(1, 0, "SHM"), connection(1, 2, "P2P/direct")]);
        assert_eq!(in_words(&pairs), "1 pair by P2P/direct, 1 pair by SHM");
        let ways = ["P2P/direct".to_owned(), "SHM".to_owned()];
        let text = drawing("x", "default", 3, &pairs, &ways).into_string();
        assert!(text.contains(r#"class="bar s1""#) && text.contains(r#"class="bar s2""#), "{text}");
        assert_eq!((text.matches("<line").count(), text.matches("<circle").count()), (2, 3));
        assert!(text.contains("rank 1 and rank 2: P2P/direct"));
    }

    #[test]
    fn a_pair_with_two_transports_names_both() {
        let pairs = pairs(&[connection(0, 1, "SHM"), connection(1, 0, "NET/IB")]);
        assert_eq!(pairs.values().map(way).collect::<Vec<_>>(), ["NET/IB and SHM"]);
    }

    #[test]
    fn the_first_rank_is_on_top() {
        assert_eq!(at(0, 8), (160.0, 30.0));
        assert!((at(2, 8).0 - 255.0).abs() < 1e-9);
    }
}
