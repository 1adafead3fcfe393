//! The emulator's own variables. An unknown name or value is told on stderr and fails `cuInit`: never ignored.
//!
//! - `NCCLSWEEP_EMULATE_TOPOLOGY`: the box, default `8xrtxpro6000-switch`.
//! - `NCCLSWEEP_EMULATE_SEED`: of all noise, default 0.
//! - `NCCLSWEEP_EMULATE_NCCL`: the version of NCCL, default 2.28.3.
//! - `NCCLSWEEP_EMULATE_NOISE`: `graph` (calibrated, the default), `none`, or `sd=0.05,process=0.01,…`.
//! - `NCCLSWEEP_EMULATE_SCALE`: `NCCL_PROTO=LL:1.10;…` multiplies the true time where a variable has that value. `LAUNCH` (`threads`,
//!   `processes`) and `ALIVE` (how many communicators there are) count as variables.
//! - `NCCLSWEEP_EMULATE_BUSY`: pids that NVML shows on the GPUs, `PID` (on GPU 0) or `GPU:PID`, separated by commas.
//! - `NCCLSWEEP_EMULATE_FAULT`: see the faults.
//! - `NCCLSWEEP_EMULATE_AILMENT`: throttling, clocks and links as NVML and sysfs tell them; see the ailments.
//! - `NCCLSWEEP_EMULATE_ROOT`: a folder into which `nvmlInit` writes what Linux shows of the box.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::ailment::{self, Ailment};
use crate::fault::{self, Fault};
use crate::noise::Noise;
use crate::topology::{self, Machine};

const PREFIX: &str = "NCCLSWEEP_EMULATE_";

/// How the value of each setting is written; `docs/measuring.md` says what they do.
const FORMS: [(&str, &str); 9] = [
    ("TOPOLOGY", "BOX, the name of a box"),
    ("SEED", "N"),
    ("NCCL", "VERSION from 2.19 to 2.33, e.g. 2.30.7"),
    ("NOISE", "graph, none, or KEY=SHARE,… of sd, process, correlation, skew, first, replay, tail"),
    ("SCALE", "VARIABLE=VALUE:FACTOR;…, e.g. NCCL_PROTO=LL:1.2, or LAUNCH=threads:1.2 for all that threads do"),
    ("BUSY", "PID,… or GPU:PID,…"),
    (
        "FAULT",
        "KIND@PHASE[,rank=R][,gpus=A+B][,size=BYTES][,comm=N][,nth=N][,p=PROBABILITY][,when=VARIABLE=VALUE];…, e.g. hang@first,rank=3",
    ),
    ("AILMENT", "KIND@GPU|all[,when=VARIABLE=VALUE];…, e.g. thermal@3"),
    ("ROOT", "FOLDER"),
];

/// A version of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version { major, minor, patch }
    }

    /// `ncclGetVersion`'s number.
    pub(crate) fn code(self) -> i32 {
        (self.major * 10_000 + self.minor * 100 + self.patch) as i32
    }

    /// Whether this is 2.`minor` or later.
    pub(crate) fn since(self, minor: u32) -> bool {
        self >= Version::new(2, minor, 0)
    }

    fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let version = Version::new(parts.next()??, parts.next()??, parts.next().unwrap_or(Some(1))?);
        let emulated = (Version::new(2, 19, 0)..Version::new(2, 34, 0)).contains(&version);
        (parts.next().is_none() && emulated).then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A factor on the true time where a variable has a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    name: String,
    value: String,
    factor: f64,
}

/// All settings.
#[derive(Debug)]
pub(crate) struct Settings {
    pub machine: &'static Machine,
    pub seed: u64,
    pub nccl: Version,
    pub noise: Noise,
    scales: Vec<Scale>,
    /// GPU and pid.
    pub busy: Vec<(usize, u32)>,
    pub faults: Vec<Fault>,
    pub ailments: Vec<Ailment>,
    /// Where to write what Linux shows of the box.
    pub root: Option<PathBuf>,
}

impl Settings {
    fn read(variables: impl Iterator<Item = (String, String)>) -> Result<Settings, String> {
        let machine = topology::by_name(topology::NAMES[0]).expect("the default box exists");
        let mut settings = Settings {
            machine,
            seed: 0,
            nccl: Version::new(2, 28, 3),
            noise: Noise::CALIBRATED,
            scales: Vec::new(),
            busy: Vec::new(),
            faults: Vec::new(),
            ailments: Vec::new(),
            root: None,
        };
        for (name, value) in variables {
            if let Some(key) = name.strip_prefix(PREFIX) {
                settings.set(key, &value).map_err(|why| format!("{name}={value}: {why}; {}", form(key)))?;
            }
        }
        if let Some((gpu, _)) = settings.busy.iter().find(|(gpu, _)| *gpu >= settings.machine.slots.len()) {
            return Err(format!("{PREFIX}BUSY: the box has no GPU {gpu}"));
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "TOPOLOGY" => {
                self.machine = topology::by_name(value)
                    .ok_or_else(|| format!("no such box; there are {}", topology::NAMES.join(", ")))?;
            }
            "SEED" => self.seed = value.parse().map_err(|_| "not a number".to_owned())?,
            "NCCL" => self.nccl = Version::parse(value).ok_or("not a version from 2.19 to 2.33")?,
            "NOISE" => self.noise = Noise::parse(value)?,
            "SCALE" => self.scales = value.split(';').filter(|s| !s.is_empty()).map(scale).collect::<Result<_, _>>()?,
            "BUSY" => self.busy = value.split(',').filter(|s| !s.is_empty()).map(busy).collect::<Result<_, _>>()?,
            "FAULT" => self.faults = fault::parse(value)?,
            "AILMENT" => self.ailments = ailment::parse(value)?,
            "ROOT" => self.root = Some(PathBuf::from(value)),
            _ => return Err("no such setting".to_owned()),
        }
        Ok(())
    }

    /// The product of the factors whose variable has its value, by `get`.
    pub(crate) fn scale(&self, get: impl Fn(&str) -> Option<String>) -> f64 {
        self.scales.iter().filter(|s| get(&s.name).as_deref() == Some(&s.value)).map(|s| s.factor).product()
    }
}

/// How a setting is written, or which there are.
fn form(key: &str) -> String {
    match FORMS.iter().find(|(known, _)| *known == key) {
        Some((_, form)) => format!("write {form}"),
        None => format!("there are {PREFIX}{{{}}}", FORMS.map(|(known, _)| known).join(",")),
    }
}

fn scale(text: &str) -> Result<Scale, String> {
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.rsplit_once(':')?)));
    let (name, (value, factor)) = parts.ok_or(format!("{text:?} is not NAME=VALUE:FACTOR"))?;
    match factor.parse() {
        Ok(factor) if factor > 0.0 => Ok(Scale { name: name.to_owned(), value: value.to_owned(), factor }),
        _ => Err(format!("{factor:?} is no factor")),
    }
}

fn busy(text: &str) -> Result<(usize, u32), String> {
    let (gpu, pid) = text.split_once(':').unwrap_or(("0", text));
    match (gpu.parse(), pid.parse()) {
        (Ok(gpu), Ok(pid)) => Ok((gpu, pid)),
        _ => Err(format!("{text:?} is neither PID nor GPU:PID")),
    }
}

fn state() -> &'static Result<Settings, String> {
    static SETTINGS: OnceLock<Result<Settings, String>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let settings = Settings::read(std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.to_string_lossy().into_owned()))
        }));
        if let Err(why) = &settings {
            eprintln!("ncclsweep emulator: {why}");
        }
        settings
    })
}

/// Whether the settings are sound; checked by `cuInit` and `nvmlInit`.
pub(crate) fn sound() -> bool {
    state().is_ok()
}

/// The settings of this process; the defaults when they are not sound, which no caller gets to use.
pub(crate) fn get() -> &'static Settings {
    static DEFAULTS: OnceLock<Settings> = OnceLock::new();
    match state() {
        Ok(settings) => settings,
        Err(_) => DEFAULTS.get_or_init(|| Settings::read(std::iter::empty()).expect("defaults are sound")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn no_variable_means_the_box_of_the_story() {
        let settings = read(&[("PATH", "/bin")]).unwrap();
        assert_eq!(settings.machine.name, "8xrtxpro6000-switch");
        assert_eq!(settings.nccl.code(), 22803);
    }

    #[test]
    fn unknown_names_and_values_are_told_with_their_variable() {
        for (name, value) in [
            ("NCCLSWEEP_EMULATE_TOPOLGY", "x"),
            ("NCCLSWEEP_EMULATE_TOPOLOGY", "16xh100"),
            ("NCCLSWEEP_EMULATE_SEED", "abc"),
            ("NCCLSWEEP_EMULATE_NCCL", "1.0"),
            ("NCCLSWEEP_EMULATE_NOISE", "loud"),
            ("NCCLSWEEP_EMULATE_SCALE", "NCCL_PROTO=LL"),
            ("NCCLSWEEP_EMULATE_BUSY", "9:12"),
            ("NCCLSWEEP_EMULATE_FAULT", "hang"),
            ("NCCLSWEEP_EMULATE_AILMENT", "flu@1"),
        ] {
            assert!(read(&[(name, value)]).unwrap_err().contains(name), "{name}={value}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_how_it_is_written() {
        for (key, value, told) in [
            ("SCALE", "1.2", "write VARIABLE=VALUE:FACTOR"),
            ("FAULT", "hang", "write KIND@PHASE"),
            ("SEED", "x", "write N"),
            ("SPEED", "2", "there are NCCLSWEEP_EMULATE_{TOPOLOGY,"),
        ] {
            let error = read(&[(&format!("NCCLSWEEP_EMULATE_{key}"), value)]).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn the_page_about_measuring_lists_every_setting_with_its_form() {
        let page = include_str!("../../docs/measuring.md");
        for (key, form) in FORMS {
            let form = form.split([',', ' ', '[', '|']).next().unwrap();
            let row = page.lines().find(|line| line.starts_with(&format!("| `{PREFIX}{key}` |")));
            assert!(row.is_some_and(|row| row.contains(form)), "{key}: {form} in {row:?}");
        }
    }

    #[test]
    fn factors_multiply_where_their_variable_has_the_value() {
        let settings = read(&[("NCCLSWEEP_EMULATE_SCALE", "NCCL_PROTO=LL:1.10;NCCL_ALGO=Ring:2;NCCL_X=1:9")]).unwrap();
        let get = |name: &str| match name {
            "NCCL_PROTO" => Some("LL".to_owned()),
            "NCCL_ALGO" => Some("Ring".to_owned()),
            _ => None,
        };
        assert!((settings.scale(get) - 2.2).abs() < 1e-12);
    }

    #[test]
    fn versions_run_from_2_19_on() {
        assert_eq!(Version::parse("2.21.5"), Some(Version::new(2, 21, 5)));
        assert_eq!(Version::parse("2.28"), Some(Version::new(2, 28, 1)));
        assert_eq!(Version::parse("2.18.1"), None);
        assert!(Version::new(2, 24, 3).since(24) && !Version::new(2, 23, 4).since(24));
    }
}
