//! The one error type of the product: what failed, on what, and the next step.

use std::error::Error as StdError;
use std::ops::Range;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

/// What an operation of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it is; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Arguments, a configuration or an input file are wrong; nothing was started.
    Usage,
    /// The box lacks what was asked for: no driver, library or GPU, or the GPUs are busy.
    Environment,
    /// Something failed while measuring or while keeping results.
    Incomplete,
    /// The user interrupted.
    Interrupted,
}

/// A failure: the operation and its object as message, the cause below it, the place in the text that caused it, and help.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    help: Option<String>,
    place: Option<Place>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Debug)]
struct Place {
    text: NamedSource<String>,
    span: Range<usize>,
    label: String,
}

impl Error {
    /// An error of `kind`. The message names the operation and its object, without a full stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), help: None, place: None, source: None }))
    }

    /// An error in what the user asked for.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// The next step: what to do, or an example of what is right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// What caused it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Where in a text (`name`, its whole `text`, byte `span`) the fault stands, and in a few words what it is.
    #[must_use]
    pub fn at(mut self, name: &str, text: &str, span: Range<usize>, label: impl Into<String>) -> Self {
        let place = Place { text: NamedSource::new(name, text.to_owned()), span, label: label.into() };
        self.0.place = Some(place);
        self
    }

    /// The kind, which decides the exit code.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message without cause or help.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The next step, when there is one.
    #[must_use]
    pub fn next_step(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The byte range of the fault in its text, when it has a place.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.0.place.as_ref().map(|place| place.span.clone())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.0.help.as_ref().map(|help| Box::new(help) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.place.as_ref().map(|place| &place.text as _)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.0.place.as_ref()?;
        let label = LabeledSpan::new_with_span(Some(place.label.clone()), place.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_its_cause_place_and_next_step() {
        let error =
            Error::usage("cannot read sizes").at("--sizes", "7168x0", 5..6, "zero tokens").help("e.g. 7168x1..4");
        let mut shown = String::new();
        let handler = miette::NarratableReportHandler::new();
        handler.render_report(&mut shown, &error).unwrap();
        for part in ["cannot read sizes", "zero tokens", "7168x0", "e.g. 7168x1..4"] {
            assert!(shown.contains(part), "{part} is missing in {shown}");
        }
    }
}
