//! Noise models: as measured, and round figures around them.

use ncclsweep::error::Result;

use crate::calibrate::{self, Measured, OfSize};

/// How many sizes a simulated run has.
pub const SIZES: usize = 4;

/// A model of noise.
#[derive(Clone, Debug)]
pub struct Noise {
    pub name: String,
    pub of: Measured,
    /// Random walk of the whole box from round to round, SD of a step.
    pub drift: f64,
}

/// `communicator` and `process` in percent, `correlation` over sizes of both.
fn plain(name: &str, communicator: f64, process: f64, correlation: f64, skew: f64) -> Noise {
    let ratio = 1.0 + 6.0 * (process / communicator).powi(2);
    let size = OfSize { communicator: communicator / 100.0, process: process / 100.0, first: 0.0, ratio };
    let of = Measured { sizes: vec![size; SIZES], correlation, process_correlation: correlation, skew };
    Noise { name: name.to_owned(), of, drift: 0.01 }
}

/// The three modes as measured: those whose name begins so.
pub fn measured(name: &str) -> Result<Vec<Noise>> {
    let model = |(name, column): (&str, usize)| {
        let mut of = calibrate::measure(column)?;
        of.sizes.truncate(SIZES);
        Ok(Noise { name: name.to_owned(), of, drift: 0.01 })
    };
    calibrate::MODES.into_iter().filter(|(mode, _)| mode.starts_with(name)).map(model).collect()
}

/// The measured modes, then round figures (communicator SD 2, 3, 5%, process SD 0 to 2.7%): those whose name begins so.
pub fn like(name: &str) -> Result<Vec<Noise>> {
    let mut models = measured("")?;
    models.extend([
        plain("sd2_p0", 2.0, 0.0, 0.0, 0.0),
        plain("sd2_p0.5", 2.0, 0.5, 0.0, 0.0),
        plain("sd3_p0.5", 3.0, 0.5, 0.0, 0.0),
        plain("sd3_p1", 3.0, 1.0, 0.0, 0.0),
        plain("sd3_p1_corr", 3.0, 1.0, 0.75, 0.0),
        plain("sd3_p2.7_corr", 3.0, 2.7, 0.75, 0.0),
        plain("sd5_p1", 5.0, 1.0, 0.0, 0.0),
        plain("sd5_p1_skew", 5.0, 1.0, 0.5, 1.6),
        plain("sd5_p2.7", 5.0, 2.7, 0.0, 0.0),
    ]);
    models.retain(|model| model.name.starts_with(name));
    Ok(models)
}
