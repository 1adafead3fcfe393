//! TOML → [`Config`], with the place of each fault.
//!
//! The tree is walked by hand rather than derived: every fault then has its exact place, the key that was meant, and the
//! next step, and size lists point into the file even when it is the data type that shows the fault.

use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::Config;
use crate::collective::{Mode, Placement, SizeList};
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::plan::env_set::{
    EnvSet, Place, Vars, Vary, Wrong, check_name, check_value, check_variable, collect, product, unknown_set,
};
use crate::plan::schedule::Rounds;
use crate::plan::settings;

/// What may stand at the top of a file.
pub(super) const KEYS: [&str; 22] = [
    "note",
    "sizes",
    "dtype",
    "op",
    "in-place",
    "modes",
    "rounds",
    "communicators",
    "tolerance",
    "time-limit",
    "seed",
    "gpus",
    "ranks",
    "launch",
    "alive",
    "register",
    "cpu-affinity",
    "clean-env",
    "expect",
    "base",
    "sets",
    "vary",
];

/// Each of them takes memory on every GPU; a server has two or three.
const MOST_ALIVE: u64 = 16;

type Key<'t> = Spanned<DeString<'t>>;
type Value<'t> = Spanned<DeValue<'t>>;

pub(super) fn config(name: &str, text: &str, others: &[&str]) -> Result<Config> {
    let reader = Reader { name, text };
    let table = DeTable::parse(text).map_err(|error| {
        // The parser's place may have no width, where no label is drawn: so its words go into the message.
        let message = format!("configuration `{name}` is not TOML: {}", error.message());
        let fault = reader.fault(error.span().unwrap_or(0..0), message, "here");
        fault.help("https://toml.io; e.g. sizes = \"7168x1..4\"")
    })?;
    let mut config = Config { name: name.into(), ..Config::default() };
    let mut sets = Vec::new();
    for (key, value) in entries(table.get_ref()) {
        match key.get_ref().as_ref() {
            "base" => config.base = reader.variables(key, value)?,
            "sets" => sets.extend(reader.sets(key, value)?),
            // Behind the sets, wherever it stands.
            "vary" => {}
            key if others.contains(&key) => {}
            _ => reader.setting(&mut config, key, value)?,
        }
    }
    if let Some((key, value)) = table.get_ref().get_key_value("vary") {
        sets.extend(reader.vary(key, value)?);
    }
    config.sets = collect(&config.base, sets)?;
    if let Some(value) = table.get_ref().get("expect") {
        config.expect = Some(reader.expected(value, &config.sets)?);
    }
    Ok(config)
}

/// Keys and values in the order of the file; the parser's map sorts them by name.
fn entries<'a, 't>(table: &'a DeTable<'t>) -> Vec<(&'a Key<'t>, &'a Value<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// An array's items, or the one value that stands for a list of one.
fn one_or_many<'a, 't>(value: &'a Value<'t>) -> Vec<&'a Value<'t>> {
    value.get_ref().as_array().map_or_else(|| vec![value], |array| array.iter().collect())
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn fault(&self, span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Error {
        Error::usage(message).at(self.name, self.text, span, label)
    }

    fn wrong(&self, wrong: Wrong, span: Range<usize>) -> Error {
        wrong.at(self.name, self.text, span)
    }

    fn setting(&self, config: &mut Config, key: &Key<'_>, value: &Value<'_>) -> Result<()> {
        let name = key.get_ref().as_ref();
        match name {
            "note" => config.note = Some(self.string(name, value, "a sentence")?.into()),
            "sizes" => config.sizes = Some(self.sizes(value)?),
            "dtype" => config.dtype = Some(self.list(name, value, "\"bf16\"")?),
            "op" => config.op = Some(self.list(name, value, "\"sum\"")?),
            "in-place" => config.placement = Some(self.placement(value)?),
            "modes" => config.modes = Some(self.list::<Mode>(name, value, "[\"graph\", \"sync\"]")?),
            "rounds" => config.rounds = Some(self.rounds(value)?),
            "communicators" => config.communicators = Some(self.count(name, value, 1000)?),
            "tolerance" => config.tolerance = Some(self.parsed(name, value, "\"5%\"", str::parse)?),
            "time-limit" => config.time_limit = Some(self.parsed(name, value, "\"2min\"", settings::duration)?),
            "seed" => config.seed = Some(self.number(name, value, 0..=u64::MAX)?),
            "gpus" => config.gpus = Some(self.count(name, value, 1024)?),
            "ranks" => config.ranks = Some(self.count(name, value, 1024)?),
            "launch" => config.launch = Some(self.list(name, value, "[\"threads\", \"processes\"]")?),
            "alive" => config.alive = Some(self.numbers(name, value, 0..=MOST_ALIVE)?),
            "register" => config.register = Some(self.list(name, value, "[\"none\", \"symmetric\"]")?),
            "cpu-affinity" => config.cpu_affinity = Some(self.parsed(name, value, "\"near\"", str::parse)?),
            "clean-env" => config.clean_env = Some(self.boolean(name, value)?),
            // Its names are looked up when all sets are known.
            "expect" => {}
            _ => return Err(self.unknown_key(key)),
        }
        Ok(())
    }

    fn unknown_key(&self, key: &Key<'_>) -> Error {
        let name = key.get_ref().as_ref();
        let help = match nearest(name, KEYS) {
            _ if check_variable(name).is_ok() => {
                format!("variables stand in a table: [base] for every set, or [sets.NAME]; then {name} = \"…\"")
            }
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("keys: {}", KEYS.join(", ")),
        };
        self.fault(key.span(), format!("unknown key `{name}`"), "nobody reads this").help(help)
    }

    fn wrong_type(&self, key: &str, value: &Value<'_>, example: &str) -> Error {
        let found = value.get_ref().type_str();
        self.fault(value.span(), format!("`{key}` has the wrong type"), format!("this is a TOML {found}"))
            .help(format!("e.g. {key} = {example}"))
    }

    fn string<'v>(&self, key: &str, value: &'v Value<'_>, example: &str) -> Result<&'v str> {
        value
            .get_ref()
            .as_str()
            .ok_or_else(|| self.wrong_type(key, value, &format!("\"{}\"", example.trim_matches('"'))))
    }

    /// A string that `parse` reads; its fault gets the place in the file.
    fn parsed<T>(&self, key: &str, value: &Value<'_>, example: &str, parse: fn(&str) -> Result<T>) -> Result<T> {
        let text = self.string(key, value, example)?;
        parse(text).map_err(|error| {
            let placed = self.fault(value.span(), format!("{key}: {}", error.message()), "this");
            placed.help(error.next_step().map_or_else(|| format!("e.g. {key} = {example}"), str::to_owned))
        })
    }

    fn list<T: FromStr<Err = Error> + PartialEq>(&self, key: &str, value: &Value<'_>, example: &str) -> Result<Vec<T>> {
        let mut items = Vec::new();
        for value in self.some(key, value, example)? {
            let item = self.parsed(key, value, example, str::parse)?;
            if items.contains(&item) {
                return Err(self.fault(value.span(), format!("`{key}` lists a value twice"), "again").help("drop one"));
            }
            items.push(item);
        }
        Ok(items)
    }

    /// The values of a list that must not be empty.
    fn some<'v, 't>(&self, key: &str, value: &'v Value<'t>, example: &str) -> Result<Vec<&'v Value<'t>>> {
        let values = one_or_many(value);
        match values.is_empty() {
            true => Err(self
                .fault(value.span(), format!("`{key}` is empty"), "nothing listed")
                .help(format!("e.g. {key} = {example}"))),
            false => Ok(values),
        }
    }

    fn sizes(&self, value: &Value<'_>) -> Result<SizeList> {
        let example = "e.g. sizes = [\"7168x1..4\", \"8K..1M*2\"]";
        let mut spans = Vec::new();
        for value in self.some("sizes", value, "\"7168x1..4\"")? {
            let text = self.string("sizes", value, "\"7168x1..4\"")?;
            // Between the quotes, so that a fault inside the list points at its very place.
            let span = value.span().start + 1..value.span().end.saturating_sub(1);
            if text.trim().is_empty() {
                return Err(self.fault(value.span(), "`sizes` is empty", "no size here").help(example));
            }
            if self.text.get(span.clone()) != Some(text) {
                let message = "`sizes` holds an escaped or a multi-line string";
                return Err(self.fault(value.span(), message, "write it plainly").help(example));
            }
            spans.push(span);
        }
        SizeList::parse_within(self.name, self.text, &spans)
    }

    fn placement(&self, value: &Value<'_>) -> Result<Vec<Placement>> {
        match (value.get_ref().as_bool(), value.get_ref().as_str()) {
            (Some(true), _) => Ok(vec![Placement::InPlace]),
            (Some(false), _) => Ok(vec![Placement::OutOfPlace]),
            (None, Some("both")) => Ok(Placement::ALL.into()),
            _ => Err(self.wrong_type("in-place", value, "true, false or \"both\"")),
        }
    }

    fn rounds(&self, value: &Value<'_>) -> Result<Rounds> {
        match value.get_ref().as_integer() {
            Some(_) => Ok(Rounds::Fixed(self.count("rounds", value, 10_000)?)),
            None => self.parsed("rounds", value, "\"auto\"", str::parse),
        }
    }

    fn boolean(&self, key: &str, value: &Value<'_>) -> Result<bool> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong_type(key, value, "true"))
    }

    /// Numbers in a range, each once.
    fn numbers(&self, key: &str, value: &Value<'_>, range: std::ops::RangeInclusive<u64>) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for value in self.some(key, value, "[0, 1]")? {
            let number = u32::try_from(self.number(key, value, range.clone())?).expect("the range is small");
            if numbers.contains(&number) {
                return Err(self.fault(value.span(), format!("`{key}` lists a value twice"), "again").help("drop one"));
            }
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn count(&self, key: &str, value: &Value<'_>, most: u32) -> Result<u32> {
        let number = self.number(key, value, 1..=u64::from(most))?;
        Ok(u32::try_from(number).expect("at most `most`"))
    }

    fn number(&self, key: &str, value: &Value<'_>, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
        let integer = value.get_ref().as_integer().ok_or_else(|| self.wrong_type(key, value, "6"))?;
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|n| range.contains(n));
        number.ok_or_else(|| {
            let help = format!("a whole number from {} to {}", range.start(), range.end());
            self.fault(value.span(), format!("`{key}` is out of range"), "too small or too large").help(help)
        })
    }

    fn table<'v, 't>(&self, key: &Key<'t>, value: &'v Value<'t>, example: &str) -> Result<&'v DeTable<'t>> {
        let name = key.get_ref();
        value.get_ref().as_table().ok_or_else(|| {
            let found = value.get_ref().type_str();
            let fault =
                self.fault(value.span(), format!("`{name}` must be a table"), format!("this is a TOML {found}"));
            fault.help(example.to_owned())
        })
    }

    /// `[base]`: nothing but variables.
    fn variables(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Vars> {
        let mut vars = Vars::default();
        for (key, value) in entries(self.table(key, value, "[base]\nNCCL_PROTO = \"LL\"")?) {
            let (name, value) = self.variable(key, value)?;
            vars.set(name, value);
        }
        Ok(vars)
    }

    /// `[sets.NAME]`: variables, and perhaps a note.
    fn sets(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Vec<(EnvSet, Place<'a>)>> {
        let example = "[sets.ll]\nNCCL_PROTO = \"LL\"";
        let mut sets = Vec::new();
        for (key, value) in entries(self.table(key, value, example)?) {
            let name = key.get_ref().as_ref();
            check_name(name).map_err(|wrong| self.wrong(wrong, key.span()))?;
            let mut set = EnvSet { name: name.into(), vars: Vars::default(), note: None };
            for (key, value) in entries(self.table(key, value, example)?) {
                if key.get_ref() == "note" {
                    set.note = Some(self.string("note", value, "what this set is for")?.into());
                } else {
                    let (name, value) = self.variable(key, value)?;
                    set.vars.set(name, value);
                }
            }
            sets.push((set, Place { name: self.name, text: self.text, span: key.span() }));
        }
        Ok(sets)
    }

    /// `[vary]`: a list of values for each variable.
    fn vary(&self, key: &Key<'_>, value: &Value<'_>) -> Result<Vec<(EnvSet, Place<'a>)>> {
        let mut factors = Vec::new();
        for (key, value) in entries(self.table(key, value, "[vary]\nNCCL_PROTO = [\"LL\", \"Simple\"]")?) {
            let variable = self.variable_name(key)?;
            let mut values = Vec::new();
            for value in self.some(&variable, value, "[\"LL\", \"Simple\"]")? {
                let text = self.variable_value(&variable, value)?;
                if values.contains(&text) {
                    let message = format!("{variable} has the value `{text}` twice");
                    return Err(self.fault(value.span(), message, "the second").help("drop one"));
                }
                values.push(text);
            }
            factors.push(Vary { variable, values });
        }
        let span = key.span();
        let sets = product(&factors).map_err(|error| {
            let help = error.next_step().unwrap_or("give fewer values").to_owned();
            self.fault(span.clone(), error.message(), "this product").help(help)
        })?;
        let place = Place { name: self.name, text: self.text, span };
        Ok(sets.into_iter().map(|set| (set, place.clone())).collect())
    }

    fn expected(&self, value: &Value<'_>, sets: &[EnvSet]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for value in one_or_many(value) {
            let name = self.string("expect", value, "pcie-ll")?;
            if !sets.iter().any(|set| set.name == name) {
                return Err(self.wrong(unknown_set(sets, name), value.span()));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    fn variable(&self, key: &Key<'_>, value: &Value<'_>) -> Result<(String, String)> {
        let name = self.variable_name(key)?;
        let value = self.variable_value(&name, value)?;
        Ok((name, value))
    }

    fn variable_name(&self, key: &Key<'_>) -> Result<String> {
        let name = key.get_ref().as_ref();
        check_variable(name).map_err(|wrong| {
            if KEYS.contains(&name) {
                let fault = self.fault(key.span(), format!("`{name}` stands inside a table"), "not a variable");
                return fault.help("settings go to the top of the file, above the first [table]");
            }
            self.wrong(wrong, key.span())
        })?;
        Ok(name.to_owned())
    }

    /// What a process will see: a string as it is, a whole number in decimal.
    fn variable_value(&self, variable: &str, value: &Value<'_>) -> Result<String> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => number.to_string(),
                Err(_) => {
                    return Err(self
                        .fault(value.span(), format!("{variable} is out of range"), "too large")
                        .help("write it as a string"));
                }
            },
            DeValue::Boolean(on) => {
                let fault = self.fault(
                    value.span(),
                    format!("{variable} is neither text nor a whole number"),
                    "a TOML boolean",
                );
                return Err(fault.help(format!("NCCL reads 1 and 0: {variable} = {}", i32::from(*on))));
            }
            other => {
                let label = format!("a TOML {}", other.type_str());
                let fault = self.fault(value.span(), format!("{variable} is neither text nor a whole number"), label);
                return Err(
                    fault.help(format!("e.g. {variable} = \"LL\" or {variable} = 16; lists of values go into [vary]"))
                );
            }
        };
        check_value(variable, &text).map_err(|wrong| self.wrong(wrong, value.span()))?;
        Ok(text)
    }
}
