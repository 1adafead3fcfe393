//! What the shell's own `NCCL_*` variables make of a comparison: they are part of every set, the baseline too.

use super::env_set::EnvSet;
use super::environment::{Environment, Origin};
use super::schedule::Plan;
use crate::nccl::bystander::is_bystander;
use crate::nccl::catalogue;
use crate::nccl::unset;
use crate::nccl::version::NcclVersion;
use crate::units;

/// Variables that are named; the report's head has them all.
const NAMED: usize = 3;

/// What is to be said of a plan whose sets have these environments, the baseline first, and which uses these releases.
#[must_use]
pub fn warnings(sets: &[(&EnvSet, &Environment)], releases: &[Option<NcclVersion>]) -> Vec<String> {
    let Some(((baseline, under), others)) = sets.split_first() else { return Vec::new() };
    let inherited: Vec<String> = acting(under, releases).map(|(name, value)| format!("{name}={value}")).collect();
    if inherited.is_empty() {
        return Vec::new();
    }
    let named = inherited.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = inherited.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let name = &baseline.name;
    let mut said = vec![format!(
        "{name} is not NCCL's own default, it inherits {named}{more}; --clean-env drops that, --base keeps what must stay"
    )];
    let same: Vec<String> =
        others.iter().filter(|(set, _)| brings_nothing(set, under)).map(|(set, _)| set.name.clone()).collect();
    if !same.is_empty() {
        said.push(format!("{} is the same as {name}: all that it sets is inherited already", units::sets(&same)));
    }
    said
}

/// The variables of an environment that are inherited and, in one of these releases at least, change what NCCL does.
pub fn acting<'a>(
    environment: &'a Environment,
    releases: &'a [Option<NcclVersion>],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let counts = |name: &str, value: &str| releases.iter().any(|release| unset::why(name, value, *release).is_none());
    let inherited = environment.nccl().filter(|(_, _, origin)| *origin == Origin::Inherited);
    let inherited = inherited.map(|(name, value, _)| (name, value));
    inherited.filter(|(name, _)| changes(name)).filter(move |(name, value)| counts(name, value))
}

/// Whether an inherited variable changes what NCCL does: its log does not, the profiler gives way to ours, and some names are
/// none of NCCL's.
fn changes(name: &str) -> bool {
    !is_bystander(name) && name != "NCCL_PROFILER_PLUGIN" && catalogue::foreign(name).is_none()
}

/// The releases that a plan uses; one that nothing is known of where it names no library.
#[must_use]
pub fn releases(plan: &Plan) -> Vec<Option<NcclVersion>> {
    let known = |version: NcclVersion| (version != NcclVersion::UNKNOWN).then_some(version);
    match plan.libraries.as_slice() {
        [] => vec![None],
        all => all.iter().map(|library| known(library.version)).collect(),
    }
}

/// Whether every variable of a set has its value without the set, and one of them by inheritance.
fn brings_nothing(set: &EnvSet, under: &Environment) -> bool {
    set.vars.iter().all(|(name, value)| under.get(name) == Some(value))
        && set.vars.iter().any(|(name, _)| under.origin(name) == Some(Origin::Inherited))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::env_set::Vars;

    fn said(inherited: &[(&str, &str)], base: &[(&str, &str)], sets: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        let inherited = inherited.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let under = Environment::inherit(inherited, false).layer(&Vars::from_iter(base.iter().copied()), Origin::Base);
        let set = |(name, vars): &(&str, &[(&str, &str)])| EnvSet {
            name: (*name).to_owned(),
            vars: Vars::from_iter(vars.iter().copied()),
            note: None,
        };
        let sets: Vec<EnvSet> = [EnvSet::baseline()].into_iter().chain(sets.iter().map(set)).collect();
        let layered: Vec<_> = sets.iter().map(|set| under.clone().layer(&set.vars, Origin::Set)).collect();
        warnings(&sets.iter().zip(&layered).collect::<Vec<_>>(), &[Some(RELEASE)])
    }

    const RELEASE: NcclVersion = NcclVersion::new(2, 28, 3);

    #[test]
    fn inherited_variables_are_part_of_the_default_which_is_said_in_a_line() {
        let all = said(&[("NCCL_PROTO", "LL"), ("PATH", "/bin")], &[], &[("simple", &[("NCCL_PROTO", "Simple")])]);
        assert_eq!(all.len(), 1);
        assert!(all[0].starts_with("default is not NCCL's own default, it inherits NCCL_PROTO=LL;"), "{}", all[0]);
    }

    #[test]
    fn of_many_inherited_variables_some_are_named_and_the_rest_counted() {
        let many = ["NCCL_ALGO", "NCCL_NTHREADS", "NCCL_P2P_LEVEL", "NCCL_PROTO", "NCCL_SHM_DISABLE"].map(|n| (n, "1"));
        let all = said(&many, &[], &[]);
        assert!(all[0].contains("NCCL_P2P_LEVEL=1 and 2 more;"), "{}", all[0]);
    }

    #[test]
    fn the_log_foreign_names_and_what_the_base_decides_make_no_other_default() {
        let plain = [("NCCL_DEBUG", "INFO"), ("NCCL_VERSION", "2.28.3"), ("NCCL_PROFILER_PLUGIN", "x.so")];
        assert_eq!(said(&plain, &[], &[]), [] as [String; 0]);
        assert_eq!(said(&[("NCCL_PROTO", "LL")], &[("NCCL_PROTO", "LL")], &[]), [] as [String; 0]);
    }

    #[test]
    fn values_that_stand_for_no_setting_make_no_other_default_unless_a_release_takes_them_otherwise() {
        let none = [("NCCL_PROTO", ""), ("NCCL_NTHREADS", "-2")];
        assert_eq!(said(&none, &[], &[]), [] as [String; 0]);
        let inherited = none.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (set, under) = (EnvSet::baseline(), Environment::inherit(inherited, false));
        let all = warnings(&[(&set, &under)], &[Some(RELEASE), Some(NcclVersion::new(2, 23, 4))]);
        assert!(all[0].contains("it inherits NCCL_PROTO=;"), "{all:?}");
    }

    #[test]
    fn a_set_whose_variables_are_all_inherited_is_told_to_be_the_baseline() {
        let inherited = [("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Ring")];
        let all = said(
            &inherited,
            &[],
            &[
                ("ll", &[("NCCL_PROTO", "LL")]),
                ("tree", &[("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Tree")]),
                ("more", &[("NCCL_PROTO", "LL"), ("NCCL_NTHREADS", "256")]),
            ],
        );
        assert_eq!(all[1..], ["ll is the same as default: all that it sets is inherited already"]);
    }
}
