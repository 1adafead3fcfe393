//! Of which calls a release tells a profiler plugin.

use super::version::NcclVersion;

/// Which calls those are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// None.
    Nothing,
    /// Those that are not captured into a graph.
    Eager,
    /// All of them.
    All,
}

impl Told {
    /// What a release tells a plugin that lies in the executable.
    ///
    /// NCCL tells of a captured call that has work for a proxy, as over a network, when a host callback of its graph runs, at
    /// each replay. Of others up to 2.26 it tells nothing (`ncclLaunchKernelAfter_NoCuda` of `enqueue.cc`, tags 2.23.4 to
    /// 2.26.6), and 2.27 tells as they are captured. 2.27.3 takes `STATIC_PLUGIN` for a name that it makes a file's name of
    /// (`openPluginLib` of `plugin_open.cc`); 2.27.5 does not.
    #[must_use]
    pub fn by(version: NcclVersion) -> Self {
        match (version.major, version.minor, version.patch) {
            (..2, ..) | (2, ..23, _) | (2, 27, ..5) => Self::Nothing,
            (2, ..27, _) => Self::Eager,
            _ => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_differ_in_what_they_tell() {
        let told = |text: &str| Told::by(text.parse().unwrap());
        assert_eq!(["2.8.3", "2.22.3", "2.27.3"].map(told), [Told::Nothing; 3]);
        assert_eq!(["2.23.4", "2.24.3", "2.26.6"].map(told), [Told::Eager; 3]);
        assert_eq!(["2.27.5", "2.27.7", "2.28.3", "2.32.3"].map(told), [Told::All; 4]);
    }
}
