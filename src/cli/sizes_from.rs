//! `--sizes-from AUDIT`: the sizes that a server used, as cases.

use std::path::Path;

use crate::audit::{self, Audit, Mix};
use crate::collective::sizes::SizeList;
use crate::collective::{Case, Cases, Mode};
use crate::error::{Error, Result};
use crate::units::{count, plural};

/// Sizes that are measured at most: the largest shares of the calls.
const MOST: usize = 64;

/// A server's mix, and what is to be said of it.
#[derive(Debug)]
pub struct FromAudit {
    /// The sizes with the most calls.
    pub mix: Mix,
    /// Which part of the server's all-reduces they are.
    pub note: String,
}

/// Reads the mix of an audit.
pub fn load(folder: &Path) -> Result<FromAudit> {
    let audit = Audit::load(folder)?;
    let Some(mut mix) = audit::mix(&audit).filter(|mix| !mix.shares.is_empty()) else {
        return Err(Error::usage(format!("the audit {} has no all-reduce among several ranks", folder.display()))
            .help("`ncclsweep audit --watch DIR` shows what it has"));
    };
    let all = mix.calls() + mix.left_out;
    mix.shares.truncate(MOST);
    let ranks = mix.ranks.map_or_else(String::new, |ranks| format!(" among {ranks} ranks"));
    let note = format!(
        "{}{ranks}: {} of the {} all-reduces that the audit counted",
        plural(mix.shares.len(), "size"),
        count(mix.calls()),
        count(all)
    );
    Ok(FromAudit { mix, note })
}

impl FromAudit {
    /// How the server issued most of its calls.
    pub fn mode(&self) -> Mode {
        let captured: u64 = self.mix.shares.iter().map(|share| share.captured).sum();
        if captured > 0 { Mode::Graph } else { Mode::Stream }
    }

    /// The cases: sizes of each data type in their order, times what `of` varies else.
    pub fn cases(&self, of: &Cases) -> Result<Vec<Case>> {
        let mut dtypes = Vec::new();
        for share in &self.mix.shares {
            if !dtypes.contains(&share.dtype) {
                dtypes.push(share.dtype);
            }
        }
        let mut cases = Vec::new();
        for dtype in dtypes {
            let of_type = self.mix.shares.iter().filter(|share| share.dtype == dtype);
            let mut bytes: Vec<u64> = of_type.map(|share| share.size.bytes(dtype).0).collect();
            // A table reads from the smallest to the largest.
            bytes.sort_unstable();
            let text = bytes.iter().map(|bytes| format!("{bytes}B")).collect::<Vec<_>>().join(",");
            let sizes = SizeList::parse("--sizes-from", &text)?;
            cases.extend(Cases { sizes, dtypes: vec![dtype], ..of.clone() }.product()?);
        }
        Ok(cases)
    }
}
