//! `--set NAME:K=V,K=V`, `--vary K=V1,V2`, `--base K=V,K=V`, `--sets A,B`, `--rank-env RANK:K=V,K=`.
//!
//! A comma inside a value is written `\,`, a backslash `\\`; any other backslash stands for itself.

use std::ops::Range;

use super::{EnvSet, Place, RankEnv, Vars, Vary, Wrong, collect, product, rules};
use crate::error::{Error, Result};
use crate::nearest::nearest;

/// The sets that `--set` and `--vary` name, behind the baseline: each `--set`, then the product of all `--vary`.
pub fn from_flags(base: &Vars, sets: &[String], varied: &[String]) -> Result<Vec<EnvSet>> {
    let mut placed = Vec::new();
    for text in sets {
        let flag = Flag { name: "--set", text };
        let (set, span) = flag.set()?;
        placed.push((set, Place { name: flag.name, text, span }));
    }
    let factors = factors(varied)?;
    if let Some(last) = varied.last() {
        let place = Place { name: "--vary", text: last, span: 0..last.len() };
        placed.extend(product(&factors)?.into_iter().map(|set| (set, place.clone())));
    }
    collect(base, placed)
}

/// The variables of all `--base` flags.
pub fn base_from_flags(texts: &[String]) -> Result<Vars> {
    let mut vars = Vars::default();
    for text in texts {
        let flag = Flag { name: "--base", text };
        flag.assignments(0..text.len(), &mut vars)?;
    }
    Ok(vars)
}

/// The variables of single ranks of all `--rank-env` flags, by rank. An empty value is kept: it takes a variable away.
pub fn rank_env_from_flags(texts: &[String]) -> Result<Vec<RankEnv>> {
    let mut all: Vec<RankEnv> = Vec::new();
    for text in texts {
        let flag = Flag { name: "--rank-env", text };
        let (rank, variables) = flag.rank()?;
        let at = all.iter().position(|known| known.rank == rank).unwrap_or_else(|| {
            all.push(RankEnv { rank, vars: Vars::default() });
            all.len() - 1
        });
        flag.assignments(variables, &mut all[at].vars)?;
    }
    all.sort_by_key(|of| of.rank);
    Ok(all)
}

/// The sets that `--sets A,B` names, in the order of `sets`; the baseline always stays.
pub fn select(sets: &[EnvSet], text: &str) -> Result<Vec<EnvSet>> {
    let flag = Flag { name: "--sets", text };
    let mut wanted = Vec::new();
    for span in flag.parts(0..text.len()) {
        let name = text[span.clone()].trim();
        if !sets.iter().any(|set| set.name == name) {
            return Err(unknown_set(sets, name).at(flag.name, text, flag.visible(span)));
        }
        wanted.push(name);
    }
    Ok(sets.iter().filter(|set| set.is_baseline() || wanted.contains(&set.name.as_str())).cloned().collect())
}

/// The one set that `text` names, all of it, behind the flag `name`.
pub fn named(sets: &[EnvSet], name: &str, text: &str) -> Result<EnvSet> {
    let flag = Flag { name, text };
    let found = sets.iter().find(|set| set.name == text).cloned();
    found.ok_or_else(|| flag.fault(unknown_set(sets, text), 0..text.len()))
}

/// The one set that `text` writes out, `NAME:K=V,K=V`, behind the flag `name`.
pub fn written(name: &str, text: &str) -> Result<EnvSet> {
    let flag = Flag { name, text };
    let (set, span) = flag.set()?;
    let sets = collect(&Vars::default(), vec![(set, Place { name, text, span })])?;
    Ok(sets.into_iter().last().unwrap_or_else(EnvSet::baseline))
}

/// A name that no set has: the one that was meant, and those there are.
pub(in crate::plan) fn unknown_set(sets: &[EnvSet], name: &str) -> Wrong {
    let names = || sets.iter().map(|set| set.name.as_str());
    let guess = nearest(name, names()).map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    let list: Vec<_> = names().take(20).collect();
    let more = if sets.len() > list.len() { ", …" } else { "" };
    Wrong::new(format!("there is no env set `{name}`"), "unknown", format!("{guess}sets: {}{more}", list.join(", ")))
}

fn factors(texts: &[String]) -> Result<Vec<Vary>> {
    let mut factors: Vec<Vary> = Vec::new();
    for text in texts {
        let flag = Flag { name: "--vary", text };
        let (factor, name) = flag.vary()?;
        if factors.iter().any(|other| other.variable == factor.variable) {
            let message = format!("{} is varied twice", factor.variable);
            let help = format!("give all its values at once: --vary {}=V1,V2,V3", factor.variable);
            return Err(Error::usage(message).at(flag.name, text, name, "the second time").help(help));
        }
        factors.push(factor);
    }
    Ok(factors)
}

/// A flag and the text it was given.
struct Flag<'a> {
    name: &'a str,
    text: &'a str,
}

impl Flag<'_> {
    fn fault(&self, wrong: Wrong, span: Range<usize>) -> Error {
        wrong.at(self.name, self.text, self.visible(span))
    }

    /// An empty part has no width to underline: then the character before it, else the one after.
    fn visible(&self, span: Range<usize>) -> Range<usize> {
        let width = |c: Option<char>| c.map_or(0, char::len_utf8);
        match (span.is_empty(), span.start) {
            (false, _) => span,
            (true, 0) => 0..width(self.text.chars().next()),
            (true, at) => at - width(self.text[..at].chars().next_back())..at,
        }
    }

    /// `NAME:K=V,K=V`; the second part is where the name stands.
    fn set(&self) -> Result<(EnvSet, Range<usize>)> {
        let example = "e.g. --set ll:NCCL_PROTO=LL,NCCL_ALGO=Ring";
        let colon = self.text.find(':').filter(|colon| self.text.find('=').is_none_or(|equals| *colon < equals));
        let Some(colon) = colon else {
            let wrong = Wrong::new("an env set needs a name and a colon", "no `:` before the first `=`", example);
            return Err(self.fault(wrong, 0..self.text.len()));
        };
        let name = &self.text[..colon];
        rules::check_name(name).map_err(|wrong| self.fault(wrong, 0..colon))?;
        let mut vars = Vars::default();
        if self.text[colon + 1..].trim().is_empty() {
            let help = format!("{example}; the set without variables is `default`, always measured");
            let wrong = Wrong::new(format!("env set `{name}` has no variables"), "nothing follows", help);
            return Err(self.fault(wrong, colon..colon + 1));
        }
        self.assignments(colon + 1..self.text.len(), &mut vars)?;
        Ok((EnvSet { name: name.into(), vars, note: None }, 0..colon))
    }

    /// `RANK:K=V,K=V`; the second part is where the variables stand.
    fn rank(&self) -> Result<(u32, Range<usize>)> {
        let example = "e.g. --rank-env 3:NCCL_PROTO= takes NCCL_PROTO away from rank 3";
        let colon = self.text.find(':').unwrap_or(0);
        let Ok(rank) = self.text[..colon].parse() else {
            let wrong = Wrong::new("variables of a rank need its number and a colon", "no rank here", example);
            return Err(self.fault(wrong, 0..colon));
        };
        if self.text[colon + 1..].trim().is_empty() {
            let wrong = Wrong::new(format!("rank {rank} gets no variables"), "nothing follows", example);
            return Err(self.fault(wrong, colon..colon + 1));
        }
        Ok((rank, colon + 1..self.text.len()))
    }

    /// `K=V1,V2`; the second part is where the variable stands.
    fn vary(&self) -> Result<(Vary, Range<usize>)> {
        let example = "e.g. --vary NCCL_PROTO=LL,Simple";
        let Some(equals) = self.text.find('=') else {
            let wrong = Wrong::new("a variable to vary needs `=` and its values", "no `=` here", example);
            return Err(self.fault(wrong, 0..self.text.len()));
        };
        let variable = self.variable(0..equals)?;
        let mut values = Vec::new();
        for span in self.parts(equals + 1..self.text.len()) {
            let value = self.value(&variable, span.clone())?;
            if value.is_empty() {
                let wrong = Wrong::new(format!("a value of {variable} is missing"), "no value here", example);
                return Err(self.fault(wrong, span));
            }
            if values.contains(&value) {
                let wrong = Wrong::new(format!("{variable} has the value `{value}` twice"), "the second", "drop one");
                return Err(self.fault(wrong, span));
            }
            values.push(value);
        }
        Ok((Vary { variable, values }, 0..equals))
    }

    /// `K=V,K=V` into `vars`, which may hold some already.
    fn assignments(&self, span: Range<usize>, vars: &mut Vars) -> Result<()> {
        for part in self.parts(span) {
            let text = &self.text[part.clone()];
            let Some(equals) = text.find('=') else {
                let help = r"e.g. NCCL_PROTO=LL,NCCL_ALGO=Ring; a comma inside a value is written \,";
                let wrong = Wrong::new(format!("`{text}` gives no value to a variable"), "no `=` here", help);
                return Err(self.fault(wrong, part));
            };
            let equals = part.start + equals;
            let variable = self.variable(part.start..equals)?;
            let value = self.value(&variable, equals + 1..part.end)?;
            if vars.set(variable.clone(), value).is_some() {
                let wrong = Wrong::new(format!("{variable} is set twice"), "the second time", "drop one");
                return Err(self.fault(wrong, part.start..equals));
            }
        }
        Ok(())
    }

    fn variable(&self, span: Range<usize>) -> Result<String> {
        let name = &self.text[span.clone()];
        rules::check_variable(name).map_err(|wrong| self.fault(wrong, span))?;
        Ok(name.to_owned())
    }

    fn value(&self, variable: &str, span: Range<usize>) -> Result<String> {
        let value = unescape(&self.text[span.clone()]);
        rules::check_value(variable, &value).map_err(|wrong| self.fault(wrong, span))?;
        Ok(value)
    }

    /// The parts between commas that no backslash escapes.
    fn parts(&self, span: Range<usize>) -> Vec<Range<usize>> {
        let (mut parts, mut start, mut escaped) = (Vec::new(), span.start, false);
        for (i, byte) in self.text.as_bytes()[span.clone()].iter().enumerate() {
            match byte {
                b',' if !escaped => {
                    parts.push(start..span.start + i);
                    start = span.start + i + 1;
                }
                b'\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                _ => {}
            }
            escaped = false;
        }
        parts.push(start..span.end);
        parts
    }
}

fn unescape(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let escaped = (c == '\\').then(|| rest.next_if(|next| matches!(next, ',' | '\\'))).flatten();
        value.push(escaped.unwrap_or(c));
    }
    value
}
