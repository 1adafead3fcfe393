//! TOML → [`AcceptPlan`], with the place of each fault. What is measured is read as any configuration; here is `[require]`.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::plan::{AcceptPlan, Cells, Golden, Latency, Quantile, Requirement, Speedup};
use crate::collective::{Dtype, Mode, SizeList};
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::plan::config::Config;
use crate::plan::env_set::EnvSet;

const REQUIRE: &str = "require";
/// No set that works is so much slower than another.
const LEAST_FACTOR: f64 = 0.01;
const EXAMPLE: &str = "[require]\ngpus = 8\nno-throttling = true";

type Key<'t> = Spanned<DeString<'t>>;
type Value<'t> = Spanned<DeValue<'t>>;

const KEYS: [&str; 11] = [
    "gpus",
    "gpu-name",
    "link-generation",
    "link-width",
    "checked-outputs",
    "applied",
    "no-throttling",
    "no-replays",
    "latency",
    "speedup",
    "golden",
];
const CELLS: [&str; 3] = ["set", "sizes", "mode"];

pub(super) fn plan(name: &str, text: &str) -> Result<AcceptPlan> {
    let config = Config::parse_beside(name, text, &[REQUIRE])?;
    let table = DeTable::parse(text).expect("it was parsed as a configuration");
    let reader = Reader { name, text, config: &config };
    let Some((key, value)) = table.get_ref().get_key_value(REQUIRE) else {
        return Err(Error::usage(format!("acceptance plan `{name}` requires nothing")).help(format!("e.g.\n{EXAMPLE}")));
    };
    let requirements = reader.requirements(key, value)?;
    if requirements.is_empty() {
        return Err(reader
            .fault(key.span(), "`require` is empty", "nothing required")
            .help(format!("e.g.\n{EXAMPLE}")));
    }
    Ok(AcceptPlan { config, requirements })
}

/// Keys and values in the order of the file; the parser's map sorts them by name.
fn entries<'a, 't>(table: &'a DeTable<'t>) -> Vec<(&'a Key<'t>, &'a Value<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    config: &'a Config,
}

impl Reader<'_> {
    fn fault(&self, span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Error {
        Error::usage(message).at(self.name, self.text, span, label)
    }

    fn wrong_type(&self, key: &str, value: &Value<'_>, example: &str) -> Error {
        let label = format!("this is a TOML {}", value.get_ref().type_str());
        self.fault(value.span(), format!("`{key}` has the wrong type"), label).help(format!("e.g. {key} = {example}"))
    }

    fn unknown(&self, key: &Key<'_>, known: &[&'static str]) -> Error {
        let name = key.get_ref().as_ref();
        let guess = nearest(name, known.iter().copied());
        let help =
            guess.map_or_else(|| format!("keys: {}", known.join(", ")), |meant| format!("did you mean `{meant}`?"));
        self.fault(key.span(), format!("unknown requirement `{name}`"), "nobody reads this").help(help)
    }

    fn table<'v, 't>(&self, key: &Key<'t>, value: &'v Value<'t>, example: &str) -> Result<&'v DeTable<'t>> {
        value.get_ref().as_table().ok_or_else(|| {
            let label = format!("this is a TOML {}", value.get_ref().type_str());
            self.fault(value.span(), format!("`{}` must be a table", key.get_ref()), label)
                .help(format!("e.g.\n{example}"))
        })
    }

    fn requirements(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Vec<Requirement>> {
        let mut all = Vec::new();
        for (key, value) in entries(self.table(key, value, EXAMPLE)?) {
            let name = key.get_ref().as_ref();
            match name {
                "gpus" => all.push(Requirement::Gpus(self.number(name, value)?)),
                "gpu-name" => all.push(Requirement::GpuName(self.gpu_name(name, value)?)),
                "link-generation" => all.push(Requirement::LinkGeneration(self.more_than_one(name, value)?)),
                "link-width" => all.push(Requirement::LinkWidth(self.more_than_one(name, value)?)),
                "checked-outputs" => all.push(Requirement::CheckedOutputs(self.number(name, value)?.into())),
                "applied" => {
                    for value in self.one_or_many(name, value)? {
                        all.push(Requirement::Applied(self.set_with_variables(name, value)?));
                    }
                }
                "no-throttling" => all.extend(self.wanted(name, value)?.then_some(Requirement::NoThrottling)),
                "no-replays" => all.extend(self.wanted(name, value)?.then_some(Requirement::NoReplays)),
                "latency" => {
                    for value in self.one_or_many(name, value)? {
                        all.push(Requirement::Latency(self.latency(key, value)?));
                    }
                }
                "speedup" => {
                    for value in self.one_or_many(name, value)? {
                        all.push(Requirement::Speedup(self.speedup(key, value)?));
                    }
                }
                "golden" => all.push(Requirement::Golden(self.golden(key, value)?)),
                _ => return Err(self.unknown(key, &KEYS)),
            }
        }
        Ok(all)
    }

    fn latency(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Latency> {
        let example = "[[require.latency]]\nset = \"pcie-ll\"\nsizes = \"7168x1\"\np50 = \"<= 30us\"";
        let (cells, others) = self.cells(key, value, example)?;
        let mut bounds = Vec::new();
        for (key, value) in others {
            let Some(quantile) = Quantile::ALL.into_iter().find(|known| known.to_string() == *key.get_ref()) else {
                return Err(self.unknown(key, &[&CELLS[..], &["p50", "p95", "p99"]].concat()));
            };
            bounds.push((quantile, self.time(key.get_ref(), value)?));
        }
        if bounds.is_empty() {
            return Err(self
                .fault(value.span(), "a latency has no bound", "p50, p95 or p99")
                .help(format!("e.g.\n{example}")));
        }
        Ok(Latency { cells, bounds })
    }

    fn speedup(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Speedup> {
        let example = "[[require.speedup]]\nset = \"pcie-ll\"\nover = \"default\"\nat-least = 1.3";
        let (cells, others) = self.cells(key, value, example)?;
        let (mut over, mut at_least) = (None, None);
        for (key, value) in others {
            match key.get_ref().as_ref() {
                "over" => over = Some(self.set("over", value)?),
                "at-least" => at_least = Some(self.factor("at-least", value)?),
                _ => return Err(self.unknown(key, &[&CELLS[..], &["over", "at-least"]].concat())),
            }
        }
        let missing = |what: &str| {
            self.fault(value.span(), format!("a speedup has no `{what}`"), "here").help(format!("e.g.\n{example}"))
        };
        let over = over.ok_or_else(|| missing("over"))?;
        if over == cells.set {
            let fault = self.fault(value.span(), "a speedup of a set over itself", "1 by definition");
            return Err(fault.help(format!("e.g.\n{example}")));
        }
        Ok(Speedup { cells, over, at_least: at_least.ok_or_else(|| missing("at-least"))? })
    }

    fn golden(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Golden> {
        let example = "[require.golden]\nrun = \"golden/run.json\"\ntolerance = \"5%\"";
        let (mut run, mut tolerance) = (None, None);
        for (key, value) in entries(self.table(key, value, example)?) {
            match key.get_ref().as_ref() {
                "run" => run = Some(self.string("run", value, "\"golden/run.json\"")?.into()),
                "tolerance" => {
                    let text = self.string("tolerance", value, "\"5%\"")?;
                    tolerance = Some(text.parse().map_err(|error: Error| self.placed(value, "tolerance", &error))?);
                }
                _ => return Err(self.unknown(key, &["run", "tolerance"])),
            }
        }
        let missing = || self.fault(value.span(), "a golden run has no `run`", "here").help(format!("e.g.\n{example}"));
        Ok(Golden { run: run.ok_or_else(missing)?, tolerance })
    }

    /// The cells that a requirement is about, and its other keys.
    fn cells<'v, 't>(
        &self,
        key: &Key<'t>,
        value: &'v Value<'t>,
        example: &str,
    ) -> Result<(Cells, Vec<(&'v Key<'t>, &'v Value<'t>)>)> {
        let (mut set, mut sizes, mut mode, mut others) = (None, None, None, Vec::new());
        for (key, value) in entries(self.table(key, value, example)?) {
            match key.get_ref().as_ref() {
                "set" => set = Some(self.set("set", value)?),
                "sizes" => sizes = Some(self.sizes(value)?),
                "mode" => mode = Some(self.mode(value)?),
                _ => others.push((key, value)),
            }
        }
        let missing =
            || self.fault(value.span(), "a requirement has no `set`", "here").help(format!("e.g.\n{example}"));
        Ok((Cells { set: set.ok_or_else(missing)?, sizes, mode }, others))
    }

    fn string<'v>(&self, key: &str, value: &'v Value<'_>, example: &str) -> Result<&'v str> {
        value.get_ref().as_str().ok_or_else(|| self.wrong_type(key, value, example))
    }

    fn number(&self, key: &str, value: &Value<'_>) -> Result<u32> {
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong_type(key, value, "8"))?;
        let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| *number > 0);
        number.ok_or_else(|| {
            self.fault(value.span(), format!("`{key}` is out of range"), "too small or too large")
                .help(format!("a whole number from 1, e.g. {key} = 8"))
        })
    }

    /// What every link has is no requirement.
    fn more_than_one(&self, key: &str, value: &Value<'_>) -> Result<u32> {
        match self.number(key, value)? {
            1 => {
                Err(self.fault(value.span(), format!("`{key}` of 1 cannot fail"), "every link has this").help(format!(
                    "what the box's links have at their best, e.g. {key} = {}; `ncclsweep topo` tells it",
                    if key == "link-width" { 16 } else { 5 }
                )))
            }
            number => Ok(number),
        }
    }

    fn gpu_name(&self, key: &str, value: &Value<'_>) -> Result<String> {
        let name = self.string(key, value, "\"H200\"")?;
        if name.trim().is_empty() {
            let fault = self.fault(value.span(), format!("an empty `{key}` cannot fail"), "part of every name");
            return Err(fault.help(format!("a part of the name that tells the GPU from others, e.g. {key} = \"H200\"")));
        }
        Ok(name.to_owned())
    }

    /// `true`; what is not wanted needs no line, but may have one.
    fn wanted(&self, key: &str, value: &Value<'_>) -> Result<bool> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong_type(key, value, "true"))
    }

    fn factor(&self, key: &str, value: &Value<'_>) -> Result<f64> {
        let text = match value.get_ref() {
            DeValue::Float(number) => number.as_str(),
            DeValue::Integer(number) => number.as_str(),
            _ => return Err(self.wrong_type(key, value, "1.3")),
        };
        let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
        let factor = factor.ok_or_else(|| {
            self.fault(value.span(), format!("`{key}` is out of range"), "no factor").help(format!("e.g. {key} = 1.3"))
        })?;
        if factor < LEAST_FACTOR {
            let label = "a set a hundred times slower would pass";
            let fault = self.fault(value.span(), format!("`{key}` is too small to fail"), label);
            return Err(
                fault.help(format!("above 1 it asks for a faster set, e.g. {key} = 1.3; 0.95 lets it be 5% slower"))
            );
        }
        Ok(factor)
    }

    /// `<= 30us`, in µs.
    fn time(&self, key: &str, value: &Value<'_>) -> Result<f64> {
        let example = "\"<= 30us\"";
        let text = self.string(key, value, example)?;
        let bound = text.trim().trim_start_matches("<=").trim();
        let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3)];
        let split = units.iter().find_map(|(unit, scale)| Some((bound.strip_suffix(unit)?.trim(), scale)));
        let time = split.and_then(|(number, scale)| Some(number.parse::<f64>().ok()? * scale));
        time.filter(|time| time.is_finite() && *time > 0.0).ok_or_else(|| {
            self.fault(value.span(), format!("`{key}` is no bound of a time"), "not a number with us or ms")
                .help(format!("e.g. {key} = {example}"))
        })
    }

    /// The name of a set that runs.
    fn set(&self, key: &str, value: &Value<'_>) -> Result<String> {
        let name = self.string(key, value, "\"pcie-ll\"")?;
        if self.config.sets.iter().any(|set| set.name == name) {
            return Ok(name.to_owned());
        }
        let known: Vec<&str> = self.config.sets.iter().map(|set| set.name.as_str()).collect();
        Err(self
            .fault(value.span(), format!("no set is called `{name}`"), "does not run")
            .help(format!("sets of this plan: {}", known.join(", "))))
    }

    /// The name of a set that runs and sets something.
    fn set_with_variables(&self, key: &str, value: &Value<'_>) -> Result<String> {
        let name = self.set(key, value)?;
        let sets_something = |set: &EnvSet| set.name == name && !set.vars.is_empty();
        if !self.config.base.is_empty() || self.config.sets.iter().any(sets_something) {
            return Ok(name);
        }
        let known = self.config.sets.iter().filter(|set| !set.vars.is_empty()).map(|set| set.name.as_str());
        let known: Vec<&str> = known.collect();
        let help = match known.as_slice() {
            [] => "write a set with variables under `[sets.NAME]`".to_owned(),
            known => format!("sets with variables: {}", known.join(", ")),
        };
        let message = format!("`{name}` has no variables: that it is applied cannot fail");
        Err(self.fault(value.span(), message, "sets nothing").help(help))
    }

    fn mode(&self, value: &Value<'_>) -> Result<Mode> {
        let text = self.string("mode", value, "\"graph\"")?;
        let mode = text.parse().map_err(|error: Error| self.placed(value, "mode", &error))?;
        let modes = self.config.modes.clone().unwrap_or_else(|| vec![Mode::Graph]);
        if modes.contains(&mode) {
            return Ok(mode);
        }
        let listed: Vec<String> = modes.iter().chain([&mode]).map(|mode| format!("\"{mode}\"")).collect();
        let help = format!("modes = [{}] at the top of the file measures it", listed.join(", "));
        Err(self.fault(value.span(), format!("`{mode}` is not measured"), "no such mode runs").help(help))
    }

    /// Sizes that run.
    fn sizes(&self, value: &Value<'_>) -> Result<SizeList> {
        let text = self.string("sizes", value, "\"7168x1\"")?;
        let span = value.span().start + 1..value.span().end.saturating_sub(1);
        if self.text.get(span.clone()) != Some(text) {
            let fault = self.fault(value.span(), "`sizes` holds an escaped or a multi-line string", "write it plainly");
            return Err(fault.help("e.g. sizes = \"7168x1\""));
        }
        let list = SizeList::parse_within(self.name, self.text, std::slice::from_ref(&span))?;
        let Some(all) = &self.config.sizes else {
            let fault = self.fault(value.span(), "the plan names no sizes to measure", "not measured");
            return Err(fault.help("e.g. sizes = \"7168x1..4\" at the top of the file"));
        };
        let dtypes = self.config.dtype.clone().unwrap_or_else(|| vec![Dtype::Bfloat16]);
        for dtype in dtypes {
            let measured = all.sizes(dtype)?;
            if let Some(strange) = list.sizes(dtype)?.iter().find(|size| !measured.contains(size)) {
                let message = format!("{} is not measured", strange.label(dtype));
                let fault = self.fault(value.span(), message, "not among the sizes of this plan");
                return Err(fault.help("add it to `sizes` at the top of the file"));
            }
        }
        Ok(list)
    }

    /// An array's items, or the one value that stands for a list of one. None at all would require nothing.
    fn one_or_many<'a, 't>(&self, key: &str, value: &'a Value<'t>) -> Result<Vec<&'a Value<'t>>> {
        match value.get_ref().as_array() {
            Some(array) if array.is_empty() => {
                let fault = self.fault(value.span(), format!("`{key}` is an empty list"), "requires nothing");
                Err(fault.help("leave the line out, or say what is required"))
            }
            Some(array) => Ok(array.iter().collect()),
            None => Ok(vec![value]),
        }
    }

    fn placed(&self, value: &Value<'_>, key: &str, error: &Error) -> Error {
        let fault = self.fault(value.span(), format!("{key}: {}", error.message()), "this");
        fault.help(error.next_step().unwrap_or("see docs/accept.md").to_owned())
    }
}

#[cfg(test)]
mod tests;
