use proptest::prelude::*;

use super::*;
use crate::collective::Dtype;
use crate::plan::env_set::{DEFAULT, PCIE_LL, check_distinct};

fn parse(text: &str) -> Result<Config> {
    Config::parse("a.toml", text)
}

fn names(config: &Config) -> Vec<&str> {
    config.sets.iter().map(|set| set.name.as_str()).collect()
}

const FULL: &str = r#"
note = "everything at once"
sizes = ["7168x1..4", "8K"]
dtype = ["bf16", "float"]
op = "sum"
in-place = "both"
modes = ["graph", "sync"]
rounds = 12
communicators = 4
tolerance = "3%"
time-limit = "2min"
seed = 0xFF
gpus = 8
ranks = 8
launch = ["threads", "processes"]
alive = [0, 1]
cpu-affinity = "near"
clean-env = true
expect = ["ll", "NTHREADS=512+ALGO=Tree"]

[base]
NCCL_DEBUG = "WARN"

[vary]
NCCL_NTHREADS = [256, 512]
NCCL_ALGO = ["Ring", "Tree"]

[sets.ll]
note = "low latency"
NCCL_PROTO = "LL"
NCCL_BUFFSIZE = 16_777_216
[sets.a-first-by-name]
NCCL_P2P_DISABLE = 1
"#;

#[test]
fn every_setting_is_read() {
    let config = parse(FULL).unwrap();
    assert_eq!(config.sizes.as_ref().unwrap().to_string(), "7168x1..4,8K");
    assert_eq!(config.dtype, Some(vec![Dtype::Bfloat16, Dtype::Float32]));
    assert_eq!(config.op, Some(vec![Op::Sum]));
    assert_eq!(config.placement, Some(Placement::ALL.into()));
    assert_eq!(config.modes, Some(vec![Mode::Graph, Mode::Sync]));
    assert_eq!(config.rounds, Some(Rounds::Fixed(12)));
    assert_eq!(config.communicators, Some(4));
    assert_eq!(config.tolerance, Some("3%".parse().unwrap()));
    assert_eq!(config.time_limit, Some(Duration::from_secs(120)));
    assert_eq!(config.seed, Some(255));
    assert_eq!(config.launch, Some(vec![Launch::Threads, Launch::Processes]));
    assert_eq!((config.alive.clone(), config.cpu_affinity.clone()), (Some(vec![0, 1]), Some(CpuAffinity::Near)));
    assert_eq!((config.gpus, config.ranks, config.clean_env), (Some(8), Some(8), Some(true)));
    assert_eq!(config.note.as_deref(), Some("everything at once"));
    assert_eq!(config.base.to_string(), "NCCL_DEBUG=WARN");
    assert_eq!(config.expect.as_deref().unwrap().len(), 2);
}

#[test]
fn sets_and_factors_keep_the_order_of_the_file() {
    let config = parse(FULL).unwrap();
    let expected = [
        "default",
        "ll",
        "a-first-by-name",
        "NTHREADS=256+ALGO=Ring",
        "NTHREADS=256+ALGO=Tree",
        "NTHREADS=512+ALGO=Ring",
        "NTHREADS=512+ALGO=Tree",
    ];
    assert_eq!(names(&config), expected);
    assert_eq!(config.sets[1].vars.to_string(), "NCCL_PROTO=LL,NCCL_BUFFSIZE=16777216");
    assert_eq!(config.sets[1].note.as_deref(), Some("low latency"));
}

#[test]
fn every_known_key_is_read_and_no_other() {
    for key in read::KEYS {
        let error = parse(&format!("{key} = 1979-05-27")).expect_err(key);
        assert!(!error.message().starts_with("unknown key"), "{key}: {error}");
    }
    assert_eq!(parse("").unwrap().sets, [EnvSet::baseline()]);
}

#[test]
fn a_wrong_file_is_told_what_and_where() {
    let cases = [
        ("size = \"8K\"", "unknown key `size`", "size"),
        ("NCCL_PROTO = \"LL\"", "unknown key `NCCL_PROTO`", "NCCL_PROTO"),
        ("sizes = 8192", "`sizes` has the wrong type", "8192"),
        ("sizes = []", "`sizes` is empty", "[]"),
        ("sizes = [\"8K\", \" \"]", "`sizes` is empty", "\" \""),
        ("sizes = \"7168x1,7168x0\"", "tokens cannot be zero", "0"),
        ("sizes = [\"8K\", \"7B,7Q\"]", "unknown unit `Q`", "Q"),
        ("sizes = \"7168x1\\u002c8K\"", "`sizes` holds an escaped or a multi-line string", "\"7168x1\\u002c8K\""),
        ("dtype = \"bf61\"", "dtype: unknown data type `bf61`", "\"bf61\""),
        ("dtype = []", "`dtype` is empty", "[]"),
        ("modes = [\"graph\", \"graph\"]", "`modes` lists a value twice", "\"graph\""),
        ("in-place = \"yes\"", "`in-place` has the wrong type", "\"yes\""),
        ("rounds = 0", "`rounds` is out of range", "0"),
        ("rounds = \"some\"", "rounds: `some` is no number of rounds", "\"some\""),
        ("cpu-affinity = \"far\"", "cpu-affinity: `far` is no list of CPUs, e.g. 0-15,64-79", "\"far\""),
        ("communicators = -1", "`communicators` is out of range", "-1"),
        ("communicators = 2.5", "`communicators` has the wrong type", "2.5"),
        ("tolerance = 0.05", "`tolerance` has the wrong type", "0.05"),
        ("tolerance = \"5\"", "tolerance: `5` is not a percentage", "\"5\""),
        ("time-limit = 120", "`time-limit` has the wrong type", "120"),
        ("clean-env = 1", "`clean-env` has the wrong type", "1"),
        ("base = 1", "`base` must be a table", "1"),
        ("[base]\nsizes = \"8K\"", "`sizes` stands inside a table", "sizes"),
        ("[base]\nnccl_proto = \"LL\"", "`nccl_proto` is no name of an environment variable", "nccl_proto"),
        ("[base]\nNCCL_P2P_DISABLE = true", "NCCL_P2P_DISABLE is neither text nor a whole number", "true"),
        ("[base]\nA = [1]", "A is neither text nor a whole number", "[1]"),
        ("[base]\nA = \"a\\nb\"", "the value of A holds a control character", "\"a\\nb\""),
        ("[sets]\nll = \"LL\"", "`ll` must be a table", "\"LL\""),
        ("[sets.\"a b\"]\nA = 1", "`a b` cannot be the name of an env set", "\"a b\""),
        ("[sets.default]\nA = 1", "`default` is the baseline, the set without variables", "default"),
        ("[sets.a]\n", "env sets `default` and `a` have the same variables", "a"),
        ("[sets.a]\nA = 1\n[sets.b]\nA = \"1\"", "env sets `a` and `b` have the same variables", "b"),
        ("[sets.a]\nA = 1\n[vary]\nA = [1]", "env sets `a` and `A=1` have the same variables", "vary"),
        ("[base]\nA = 1\n[sets.a]\nA = 1", "env sets `default` and `a` have the same variables", "a"),
        ("[vary]\nA = []", "`A` is empty", "[]"),
        ("[vary]\nA = [1, 1]", "A has the value `1` twice", "1"),
        ("expect = [\"ll\"]\n[sets.l]\nA = 1", "there is no env set `ll`", "\"ll\""),
    ];
    for (text, message, marked) in cases {
        let error = parse(text).expect_err(text);
        assert_eq!((error.message(), &text[error.span().unwrap()]), (message, marked), "for {text}");
        assert!(error.next_step().is_some());
    }
}

#[test]
fn what_is_not_toml_is_told_with_its_line() {
    for text in ["sizes = ", "[sets.a\nA = 1", "a = 1\na = 2", "a = \"\u{1}\""] {
        let error = parse(text).expect_err(text);
        assert!(error.message().starts_with("configuration `a.toml` is not TOML: "), "{error}");
        assert!(text.get(error.span().unwrap()).is_some());
    }
}

#[test]
fn a_fault_is_drawn_with_file_line_and_caret() {
    let error = parse("# ours\ndtype = \"bf16\"\nsizs = \"7168x1..4\"\n").unwrap_err();
    let mut drawn = String::new();
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none());
    handler.render_report(&mut drawn, &error).unwrap();
    for part in ["a.toml:3:1", "sizs = \"7168x1..4\"", "^^", "nobody reads this", "did you mean `sizes`?"] {
        assert!(drawn.contains(part), "{part} is missing in\n{drawn}");
    }
}

#[test]
fn a_size_that_the_data_type_spoils_points_into_the_file() {
    let text = "sizes = \"8K,9B\"";
    let error = parse(text).unwrap().sizes.unwrap().sizes(Dtype::Bfloat16).unwrap_err();
    assert_eq!(&text[error.span().unwrap()], "9B");
}

#[test]
fn a_deeply_nested_file_is_refused_without_overflowing_the_stack() {
    for text in [format!("a = {}", "[".repeat(200_000)), format!("{}b = 1", "a.".repeat(200_000))] {
        assert!(parse(&text).is_err());
    }
}

#[test]
fn a_file_is_loaded_and_one_too_large_or_absent_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    // As an editor on Windows saves it: with a byte order mark and CRLF.
    std::fs::write(&path, "\u{feff}sizes = \"8K\"\r\n[sets.ll]\r\nNCCL_PROTO = \"LL\"\r\n").unwrap();
    let config = Config::load(&path).unwrap();
    assert_eq!((names(&config), config.name.as_str()), (vec![DEFAULT, "ll"], path.to_str().unwrap()));
    assert_eq!(config.sets[1].vars.get("NCCL_PROTO"), Some("LL"));

    std::fs::write(&path, [b'#'].repeat((1 << 20) + 1)).unwrap();
    assert!(Config::load(&path).unwrap_err().message().contains("larger than 1 MiB"));
    std::fs::write(&path, [0xFF, 0xFE]).unwrap();
    assert!(Config::load(&path).is_err());
    let absent = Config::load(&folder.path().join("no.toml")).unwrap_err();
    assert!(absent.next_step().unwrap().contains("pcie-tp8"));
    assert!(Config::load(folder.path()).is_err(), "a folder is no configuration");
    assert_eq!(Config::load(Path::new("channels")).unwrap().name, "channels");
}

#[test]
fn every_file_of_bench_configs_is_built_in_and_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-configs");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    assert_eq!(files.len(), BUILTIN.len());
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let builtin = Config::builtin(name).unwrap();
        let loaded = Config::load(&path).unwrap();
        assert_eq!(Config { name: name.into(), ..loaded }, builtin);
        check_distinct(&builtin.base, &builtin.sets).unwrap();
        assert!(builtin.sets.len() >= 2, "{name} compares nothing");
        let dtype = builtin.dtype.unwrap();
        assert!(!builtin.sizes.unwrap().sizes(dtype[0]).unwrap().is_empty());
    }
}

#[test]
fn the_standard_configuration_measures_the_tuned_set_of_the_box() {
    let config = Config::builtin(STANDARD).unwrap();
    assert_eq!(names(&config), [DEFAULT, PCIE_LL]);
    let tuned = "NCCL_PROTO=LL,NCCL_ALGO=Ring,NCCL_P2P_LEVEL=SYS,NCCL_MAX_NCHANNELS=16,NCCL_BUFFSIZE=16777216,NCCL_NTHREADS=512";
    assert_eq!(config.sets[1].vars.to_string(), tuned);
    let sizes = config.sizes.unwrap().sizes(Dtype::Bfloat16).unwrap();
    let bytes: Vec<_> = sizes.iter().map(|size| size.bytes(Dtype::Bfloat16).0).collect();
    assert_eq!(bytes, [14_336, 28_672, 43_008, 57_344]);
    assert_eq!(config.expect, Some(vec![PCIE_LL.to_owned()]));
}

#[test]
fn the_tuned_set_is_the_same_in_every_file_that_has_it() {
    let standard = Config::builtin(STANDARD).unwrap().sets.remove(1);
    for (name, text) in Config::builtins() {
        for set in Config::parse(name, text).unwrap().sets.iter().filter(|set| set.name == PCIE_LL) {
            assert_eq!(set.vars, standard.vars, "{name}");
        }
    }
}

#[test]
fn an_unknown_built_in_name_is_told_with_those_there_are() {
    let error = Config::builtin("pcie-tp4").unwrap_err();
    assert!(error.next_step().unwrap().starts_with("did you mean `pcie-tp8`? built in: pcie-tp8, "));
}

proptest! {
    #[test]
    fn any_text_gives_a_configuration_or_a_fault_inside_the_text(
        text in "(sizes|dtype|in-place|rounds|expect|vary|\\[sets\\.a\\]|\\[base\\]|NCCL_A|=|\\[|\\]|\"|,|7168x1|bf16|-?[0-9]|\n| |é){0,14}"
    ) {
        if let Err(error) = parse(&text)
            && let Some(span) = error.span()
        {
            prop_assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}: {error}");
        }
    }
}
