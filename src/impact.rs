//! What an all-reduce's time is worth to who decodes: milliseconds a step, share of the step, tokens a second.
//!
//! A [`Step`] knows how many all-reduces a decode step makes and how long it takes. Every figure carries its interval.

use crate::collective::Dtype;
use crate::collective::presets::{PRESETS, Preset, preset};
use crate::error::{Error, Result};
use crate::nearest::nearest;

/// A figure with its 95% interval, where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
}

/// A decode (or verify) step of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The model, when one was named: only messages of its hidden size are those of its step.
    pub model: Option<&'static Preset>,
    /// All-reduces of one step.
    pub all_reduces: u32,
    /// Milliseconds of the whole step under the baseline, as measured in the server.
    pub time_ms: Option<f64>,
    /// Milliseconds of the step as it became, when it became faster and the question is why.
    pub became_ms: Option<f64>,
    /// Tokens that a step yields to a sequence: 1, or what a speculative decoder accepts on average.
    pub tokens: f64,
    /// The sizes that its all-reduces have, when an audit told; nothing when each size stands for a step of its own.
    pub mix: Vec<Weight>,
}

/// How often a server reduced a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The data type.
    pub dtype: Dtype,
    /// Elements of a call.
    pub elements: u64,
    /// Calls.
    pub calls: u64,
}

/// The mean of figures, each with its share. Ends are means of ends, which is, if anything, too wide.
#[must_use]
pub fn mean(figures: &[(Figure, f64)]) -> Option<Figure> {
    let all: f64 = figures.iter().map(|(_, share)| share).sum();
    let mean = |of: &dyn Fn(&Figure) -> f64| figures.iter().map(|(figure, share)| of(figure) * share / all).sum();
    let ends = figures.iter().all(|(figure, _)| figure.interval.is_some());
    let end = |at: usize| move |figure: &Figure| figure.interval.map_or(figure.value, |ends| ends[at]);
    (all > 0.0)
        .then(|| Figure { value: mean(&|figure| figure.value), interval: ends.then(|| [mean(&end(0)), mean(&end(1))]) })
}

/// What the all-reduces of one step cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Milliseconds a step.
    pub ms: Figure,
    /// Share of the step.
    pub share: Option<Figure>,
}

/// What a set is worth against the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// Milliseconds that it saves a step; negative when it costs.
    pub saved_ms: Figure,
    /// Tokens a second of a sequence, more or less.
    pub tokens_per_s: Option<Figure>,
    /// Share of the step's observed change that it explains.
    pub explained: Option<Figure>,
}

impl Figure {
    /// The figure and its ends, each by `of`, which never falls (or never rises).
    fn map(self, of: impl Fn(f64) -> f64) -> Self {
        let ends = self.interval.map(|[low, high]| {
            let (one, other) = (of(low), of(high));
            [one.min(other), one.max(other)]
        });
        Self { value: of(self.value), interval: ends }
    }

    /// The product: from the least to the largest that any two values of both intervals have. Both intervals hold at once in
    /// 95% of cases or nearly so, hence the product of ends is, if anything, too wide.
    fn times(self, other: Self) -> Self {
        let ends = self.interval.zip(other.interval).map(|(a, b)| {
            let corners = [a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]];
            corners.into_iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], c| [low.min(c), high.max(c)])
        });
        Self { value: self.value * other.value, interval: ends }
    }
}

impl Step {
    /// A step of a model (`model`) or of so many all-reduces (`all_reduces`, which wins), `times` in ms: as it is under the
    /// baseline, and perhaps as it became.
    pub fn new(model: Option<&str>, all_reduces: Option<u32>, times: &[f64], tokens: Option<f64>) -> Result<Self> {
        let model = model.map(known).transpose()?;
        let Some(all_reduces) = all_reduces.or(model.map(Preset::all_reduces)) else {
            return Err(Error::usage("a step time needs the number of all-reduces of a step")
                .help("--model kimi-k2.5, or --per-step 122"));
        };
        let wrong = |time: &&f64| !(time.is_finite() && **time > 0.0);
        if all_reduces == 0 || times.len() > 2 || times.iter().any(|time| wrong(&time)) {
            let message = "a step has at least one all-reduce and one or two times";
            return Err(
                Error::usage(message).help("e.g. --per-step 122 --step-time 29.5, or 29.5,19 when it became 19 ms")
            );
        }
        if tokens.is_some_and(|tokens| !(tokens.is_finite() && tokens > 0.0)) {
            return Err(Error::usage("a step yields no such number of tokens").help("e.g. --tokens-per-step 2.7"));
        }
        let (time_ms, became_ms) = (times.first().copied(), times.get(1).copied());
        if time_ms.zip(became_ms).is_some_and(|(time, became)| became >= time) {
            return Err(Error::usage("the step did not become faster, so there is nothing to explain")
                .help("give the time under the baseline first, e.g. --step-time 29.5,19"));
        }
        Ok(Self { model, all_reduces, time_ms, became_ms, tokens: tokens.unwrap_or(1.0), mix: Vec::new() })
    }

    /// A step whose all-reduces have the sizes of a `mix`: as many as are given, else all that the audit counted.
    pub fn of_mix(mix: Vec<Weight>, all_reduces: Option<u32>, times: &[f64], tokens: Option<f64>) -> Result<Self> {
        let counted = mix.iter().map(|weight| weight.calls).sum::<u64>();
        let counted = u32::try_from(counted).unwrap_or(u32::MAX);
        Ok(Self { mix, ..Self::new(None, all_reduces.or(Some(counted)), times, tokens)? })
    }

    /// What all-reduces of this time (µs) cost a step.
    #[must_use]
    pub fn cost(&self, time_us: Figure) -> Cost {
        let ms = time_us.map(|time| time * f64::from(self.all_reduces) / 1e3);
        Cost { ms, share: self.time_ms.map(|step| ms.map(|ms| ms / step)) }
    }

    /// What it is worth that all-reduces take `ratio` of the baseline's time (µs).
    #[must_use]
    pub fn worth(&self, baseline_us: Figure, ratio: Figure) -> Worth {
        let saved_ms = self.cost(baseline_us).ms.times(ratio.map(|ratio| 1.0 - ratio));
        let rate = |step_ms: f64| self.tokens * 1e3 / step_ms;
        // A saving as long as the step itself says that the two do not belong together.
        let most = saved_ms.interval.map_or(saved_ms.value, |ends| ends[1]);
        let possible = self.time_ms.filter(|step| most < *step);
        Worth {
            saved_ms,
            tokens_per_s: possible.map(|step| saved_ms.map(|saved| rate(step - saved) - rate(step))),
            explained: self.gap_ms().map(|gap| saved_ms.map(|saved| saved / gap)),
        }
    }

    /// Milliseconds by which the step became faster.
    #[must_use]
    pub fn gap_ms(&self) -> Option<f64> {
        Some(self.time_ms? - self.became_ms?)
    }

    /// Microseconds that every all-reduce would have to save to explain all of that.
    #[must_use]
    pub fn needed_us(&self) -> Option<f64> {
        self.gap_ms().map(|gap| gap * 1e3 / f64::from(self.all_reduces))
    }

    /// Whether messages of so many elements are those of a step: a whole number of tokens of the model, when one was named.
    #[must_use]
    pub fn has(&self, elements: u64) -> bool {
        self.model.is_none_or(|model| elements.is_multiple_of(model.hidden))
    }
}

fn known(name: &str) -> Result<&'static Preset> {
    preset(name).ok_or_else(|| {
        let names = PRESETS.iter().map(|preset| preset.name);
        let guess = nearest(name, names.clone()).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let all = names.collect::<Vec<_>>().join(", ");
        Error::usage(format!("no model is called `{name}`")).help(format!("{guess}known: {all}; or --per-step N"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, low: f64, high: f64) -> Figure {
        Figure { value, interval: Some([low, high]) }
    }

    /// 122 all-reduces; a verify step of 29.5 ms that became 19 ms.
    fn story() -> Step {
        Step::new(Some("kimi-k2.5"), None, &[29.5, 19.0], None).unwrap()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn a_call_costs_its_time_times_the_calls_of_a_step() {
        let cost = story().cost(figure(48.0, 47.0, 49.0));
        assert!(close(cost.ms.value, 5.856) && close(cost.ms.interval.unwrap()[1], 5.978), "{cost:?}");
        assert!(close(cost.share.unwrap().value, 5.856 / 29.5));
    }

    #[test]
    fn a_saving_explains_its_share_of_what_was_observed() {
        // 48 to 26 µs: as published for 32 KiB on eight GPUs once LL is used.
        let worth = story().worth(figure(48.0, 47.0, 49.0), figure(26.0 / 48.0, 0.53, 0.55));
        assert!(close(worth.saved_ms.value, 122.0 * 22.0 / 1e3));
        assert!(close(worth.explained.unwrap().value, 2.684 / 10.5), "{worth:?}");
        let [low, high] = worth.saved_ms.interval.unwrap();
        assert!(close(low, 0.122 * 47.0 * 0.45) && close(high, 0.122 * 49.0 * 0.47), "{low} {high}");
        let more = worth.tokens_per_s.unwrap();
        assert!(close(more.value, 1e3 / (29.5 - 2.684) - 1e3 / 29.5), "{more:?}");
        assert!(close(story().needed_us().unwrap(), 10.5e3 / 122.0));
    }

    #[test]
    fn a_set_that_may_be_slower_may_cost() {
        let worth = story().worth(figure(40.0, 39.0, 41.0), figure(1.0, 0.97, 1.03));
        let [low, high] = worth.saved_ms.interval.unwrap();
        assert!(worth.saved_ms.value == 0.0 && close(low, -high) && low < 0.0);
        assert!(worth.tokens_per_s.unwrap().interval.unwrap()[0] < 0.0);
    }

    #[test]
    fn a_saving_longer_than_the_step_is_worth_no_tokens() {
        let step = Step::new(None, Some(1000), &[10.0], None).unwrap();
        assert_eq!(step.worth(figure(48.0, 47.0, 49.0), figure(0.5, 0.4, 0.6)).tokens_per_s, None);
    }

    #[test]
    fn without_intervals_figures_have_none() {
        let plain = |value| Figure { value, interval: None };
        let worth = story().worth(plain(48.0), plain(0.5));
        assert_eq!((worth.saved_ms.interval, worth.explained.unwrap().interval), (None, None));
    }

    #[test]
    fn a_model_knows_its_messages() {
        assert!(story().has(4 * 7168) && !story().has(4096));
        assert!(Step::new(None, Some(122), &[], None).unwrap().has(4096));
    }

    #[test]
    fn a_mean_goes_by_shares_and_has_an_interval_only_when_all_have() {
        let whole = [(figure(10.0, 9.0, 12.0), 3.0), (figure(20.0, 19.0, 21.0), 1.0)];
        assert_eq!(mean(&whole), Some(figure(12.5, 11.5, 14.25)));
        let part = [(figure(10.0, 9.0, 12.0), 1.0), (Figure { value: 20.0, interval: None }, 1.0)];
        assert_eq!(mean(&part), Some(Figure { value: 15.0, interval: None }));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn a_step_of_a_mix_has_as_many_all_reduces_as_were_counted_or_as_are_given() {
        let mix = [(7168, 100), (14_336, 22)];
        let mix: Vec<Weight> = mix.map(|(elements, calls)| Weight { dtype: Dtype::Bfloat16, elements, calls }).to_vec();
        assert_eq!(Step::of_mix(mix.clone(), None, &[], None).unwrap().all_reduces, 122);
        assert_eq!(Step::of_mix(mix, Some(61), &[29.5], None).unwrap().all_reduces, 61);
        assert!(Step::of_mix(Vec::new(), None, &[], None).is_err());
    }

    #[test]
    fn what_makes_no_step_is_refused() {
        for (model, calls, times, tokens) in [
            (None, None, vec![29.5], None),
            (Some("kimi-k3"), None, vec![], None),
            (None, Some(0), vec![], None),
            (None, Some(1), vec![-1.0], None),
            (None, Some(1), vec![19.0, 29.5], None),
            (None, Some(1), vec![3.0, 2.0, 1.0], None),
            (None, Some(1), vec![3.0], Some(0.0)),
        ] {
            assert!(Step::new(model, calls, &times, tokens).unwrap_err().next_step().is_some(), "{model:?} {times:?}");
        }
    }
}
