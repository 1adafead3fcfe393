//! Text → size items, with the place of each fault.

use std::ops::Range;

use super::super::presets::{PRESETS, preset};
use super::{Hidden, MAX_BYTES, MAX_SIZES, Run, SizeItem};
use crate::error::{Error, Result};
use crate::nearest::nearest;

const EXAMPLE: &str = "e.g. 7168x1..4 (hidden size x tokens), kimi-k2.5x1/2/8, 14336B or 8K..1M*2";

/// Reads the lists at `spans` of `text` as one.
pub(super) fn items(name: &str, text: &str, spans: &[Range<usize>]) -> Result<Vec<(SizeItem, Range<usize>)>> {
    let parser = Parser { name, text };
    let mut items = Vec::new();
    let mut count = 0_u64;
    for span in spans {
        for place in parser.places(span)? {
            let item = parser.item(&place)?;
            count = count.saturating_add(item.count());
            if count > MAX_SIZES as u64 {
                let message = format!("the list has more than {MAX_SIZES} sizes");
                let label = format!("{} of them here", item.count());
                return Err(parser.fault(place, message, label).help("go through them by a factor: 7168x1..4096*2"));
            }
            items.push((item, place));
        }
    }
    Ok(items)
}

/// Reads parts of `text`; a part is its byte range, so that any fault can point at it.
struct Parser<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> Parser<'a> {
    fn get(&self, span: &Range<usize>) -> &'a str {
        &self.text[span.clone()]
    }

    fn fault(&self, span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Error {
        Error::usage(message).at(self.name, self.text, span, label)
    }

    /// The two parts around the first `separator` of a part.
    fn split(&self, span: &Range<usize>, separator: &str) -> Option<(Range<usize>, Range<usize>)> {
        let at = span.start + self.get(span).find(separator)?;
        Some((span.start..at, at + separator.len()..span.end))
    }

    /// Where the items of a list stand, without the blanks around them.
    fn places(&self, span: &Range<usize>) -> Result<Vec<Range<usize>>> {
        if self.get(span).trim().is_empty() {
            return Err(self.fault(span.clone(), "the list of sizes is empty", "no size here").help(EXAMPLE));
        }
        let mut places = Vec::new();
        let mut rest = Some(span.clone());
        while let Some(part) = rest {
            let (item, after) = match self.split(&part, ",") {
                Some((item, after)) => (item, Some(after)),
                None => (part, None),
            };
            let text = self.get(&item);
            let start = item.start + text.len() - text.trim_start().len();
            let place = start..start + text.trim().len();
            if place.is_empty() {
                // Point at the comma that promised an item: the empty part itself has no width to underline.
                let comma = if after.is_none() { item.start - 1..item.start } else { item.end..item.end + 1 };
                let message = if after.is_none() { "the list of sizes ends in a comma" } else { "a size is missing" };
                return Err(self.fault(comma, message, "no size beside this comma").help(EXAMPLE));
            }
            places.push(place);
            rest = after;
        }
        Ok(places)
    }

    fn item(&self, span: &Range<usize>) -> Result<SizeItem> {
        let text = self.get(span);
        if preset(text).is_some() {
            let label = "of how many tokens?";
            return Err(self
                .fault(span.clone(), format!("`{text}` has no tokens"), label)
                .help(format!("e.g. {text}x1..4")));
        }
        // The last x: names of models may hold one (mixtral-8x22b), tokens cannot.
        match text.rfind(['x', 'X']) {
            Some(at) => self.tokens(span.start..span.start + at, span.start + at + 1..span.end),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => self.byte_run(span),
            None => Err(self.unknown_model(span)),
        }
    }

    fn tokens(&self, hidden: Range<usize>, tokens: Range<usize>) -> Result<SizeItem> {
        let whole = hidden.start..tokens.end;
        if hidden.is_empty() {
            let x = hidden.end..hidden.end + 1;
            return Err(self.fault(x, "hidden size missing", "a number or a model is missing before it").help(EXAMPLE));
        }
        let hidden = self.hidden(&hidden)?;
        let mut runs = Vec::new();
        let mut rest = Some(tokens);
        while let Some(part) = rest {
            let (run, after) = match self.split(&part, "/") {
                Some((run, after)) => (run, Some(after)),
                None => (part, None),
            };
            runs.push(self.run(&run, |part| self.count(part, "tokens"))?);
            rest = after;
        }
        let fits = |run: &Run| run.largest().checked_mul(hidden.elements()).is_some_and(|n| n <= MAX_BYTES);
        if !runs.iter().all(fits) {
            let label = "more elements than any GPU holds";
            return Err(self.fault(whole, "a size is above 1 TiB", label).help(EXAMPLE));
        }
        Ok(SizeItem::Tokens(hidden, runs))
    }

    fn hidden(&self, span: &Range<usize>) -> Result<Hidden> {
        let text = self.get(span);
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Hidden::Elements(self.count(span, "hidden size")?));
        }
        preset(text).map(Hidden::Model).ok_or_else(|| self.unknown_model(span))
    }

    fn unknown_model(&self, span: &Range<usize>) -> Error {
        let text = self.get(span);
        let names = || PRESETS.iter().map(|preset| preset.name);
        let guess = nearest(text, names()).map_or_else(String::new, |name| format!("did you mean `{name}`? "));
        let list = names().collect::<Vec<_>>().join(", ");
        self.fault(
            span.clone(),
            format!("`{text}` is neither a size nor a model whose hidden size is known"),
            "unknown",
        )
        .help(format!("{guess}models: {list}; of any other write the hidden size: 7168x1..4"))
    }

    fn byte_run(&self, span: &Range<usize>) -> Result<SizeItem> {
        let run = self.run(span, |part| self.bytes(part))?;
        if let Run::Each(..) = run {
            let text = self.get(span);
            return Err(self
                .fault(span.clone(), "a range of bytes needs a factor", "by which steps?")
                .help(format!("e.g. {text}*2")));
        }
        Ok(SizeItem::Bytes(run))
    }

    /// `n`, `n..m`, `n..m*f`; `number` reads n and m.
    fn run(&self, span: &Range<usize>, number: impl Fn(&Range<usize>) -> Result<u64>) -> Result<Run> {
        let Some((first, rest)) = self.split(span, "..") else {
            if let Some((_, factor)) = self.split(span, "*") {
                let place = factor.start - 1..factor.end;
                return Err(self.fault(place, "a factor needs a range", "a factor of what?").help(EXAMPLE));
            }
            return Ok(Run::One(number(span)?));
        };
        let (last, factor) = match self.split(&rest, "*") {
            Some((last, factor)) => (last, Some(factor)),
            None => (rest, None),
        };
        let (from, to) = (number(&first)?, number(&last)?);
        if to < from {
            let turned = format!("the other way round: {}..{}", self.get(&last), self.get(&first));
            return Err(self.fault(first.start..last.end, "a range ends below its start", "runs down").help(turned));
        }
        let Some(factor) = factor else { return Ok(Run::Each(from, to)) };
        match self.number(&factor, "factor")? {
            0 | 1 => {
                Err(self.fault(factor, "a factor must be 2 or more", "the range would never end").help("e.g. 8K..1M*2"))
            }
            by => Ok(Run::Times(from, to, by)),
        }
    }

    /// A number of at least one.
    fn count(&self, span: &Range<usize>, what: &str) -> Result<u64> {
        match self.number(span, what)? {
            0 => Err(self.fault(span.clone(), format!("{what} cannot be zero"), "at least 1").help(EXAMPLE)),
            n => Ok(n),
        }
    }

    fn number(&self, span: &Range<usize>, what: &str) -> Result<u64> {
        let text = self.get(span);
        if text.is_empty() {
            // Point at the sign before it (`x`, `/`, `.`, `*`): an empty part has no width to underline.
            let place = span.start.saturating_sub(1)..span.end;
            return Err(self.fault(place, format!("{what} missing"), "a number is missing here").help(EXAMPLE));
        }
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self
                .fault(span.clone(), format!("{what}: `{text}` is not a number"), "digits only")
                .help(EXAMPLE));
        }
        text.parse().map_err(|_| self.fault(span.clone(), format!("{what} is too large"), "above 2^64").help(EXAMPLE))
    }

    fn bytes(&self, span: &Range<usize>) -> Result<u64> {
        let text = self.get(span);
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = (span.start..span.start + digits, span.start + digits..span.end);
        let n = self.number(&number, "bytes")?;
        let scale = match self.get(&unit).to_ascii_lowercase().as_str() {
            "" => {
                let help = format!("bytes: {text}B; tokens of a model: 7168x2");
                return Err(self.fault(span.clone(), format!("`{text}` has no unit"), "bytes or tokens?").help(help));
            }
            "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            _ => {
                let other = self.get(&unit).to_owned();
                let help = "units: B, K, M, G with K = 1024 bytes; e.g. 14336B or 14K";
                return Err(self.fault(unit, format!("unknown unit `{other}`"), "not a unit").help(help));
            }
        };
        match n.checked_mul(scale) {
            Some(0) => Err(self.fault(span.clone(), "a size cannot be zero", "at least one element").help(EXAMPLE)),
            Some(bytes) if bytes <= MAX_BYTES => Ok(bytes),
            _ => Err(self.fault(span.clone(), "a size is above 1 TiB", "more than a GPU holds").help("e.g. 8K..1M*2")),
        }
    }
}
