//! `--model`, `--per-step` and what goes with them: the decode step that the all-reduces are part of.

use clap::Args;

use super::args::amount;
use crate::audit::{Mix, Share};
use crate::impact::{Step, Weight};

/// The decode step that the all-reduces are part of.
#[derive(Debug, Default, Args)]
pub struct Impact {
    /// Say what it is worth to a step of this model (kimi-k2.5, deepseek-v3, llama-3.3-70b, …)
    #[arg(long, value_name = "NAME", help_heading = "Impact")]
    pub model: Option<String>,
    /// Say what it is worth to a step of so many all-reduces
    #[arg(long, value_name = "N", help_heading = "Impact")]
    pub per_step: Option<u32>,
    /// Milliseconds of a step under the default settings; a second time, when it became faster: 29.5,19
    #[arg(long, value_name = "MS", value_delimiter = ',', value_parser = amount, help_heading = "Impact")]
    pub step_time: Vec<f64>,
    /// Tokens that a step yields to a sequence [default: 1]
    #[arg(long, value_name = "X", value_parser = amount, help_heading = "Impact")]
    pub tokens_per_step: Option<f64>,
}

impl Impact {
    /// The step, when anything of it was asked for or an audit told the sizes of its all-reduces.
    pub fn step(&self, mix: Option<&Mix>) -> crate::error::Result<Option<Step>> {
        let (times, tokens) = (&self.step_time, self.tokens_per_step);
        if let Some(mix) = mix {
            let weight =
                |share: &Share| Weight { dtype: share.dtype, elements: share.size.elements, calls: share.calls };
            let weights = mix.shares.iter().map(weight).collect();
            return Step::of_mix(weights, self.per_step, times, tokens).map(Some);
        }
        let asked = self.model.is_some() || self.per_step.is_some() || !times.is_empty() || tokens.is_some();
        asked.then(|| Step::new(self.model.as_deref(), self.per_step, times, tokens)).transpose()
    }
}
