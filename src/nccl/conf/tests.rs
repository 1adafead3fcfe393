//! What NCCL makes of lines people write, by version.

use proptest::prelude::*;

use super::*;

const OLD: Option<NcclVersion> = Some(NcclVersion::new(2, 21, 5));
const MIDDLE: Option<NcclVersion> = Some(NcclVersion::new(2, 28, 3));
const NEW: Option<NcclVersion> = Some(NcclVersion::new(2, 30, 7));

fn entries(text: &str, version: Option<NcclVersion>) -> Vec<(String, String)> {
    parse(text.as_bytes(), version).entries.into_iter().map(|entry| (entry.name, entry.value)).collect()
}

/// Line, lost, message, corrected line.
fn lints(text: &str, version: Option<NcclVersion>) -> Vec<String> {
    let shown = |lint: Lint| {
        let corrected = lint.corrected.map(|line| format!(" -> {line}")).unwrap_or_default();
        format!("{}{} {}{corrected}", lint.line, if lint.lost { " lost:" } else { ":" }, lint.message)
    };
    parse(text.as_bytes(), version).lints.into_iter().map(shown).collect()
}

#[test]
fn a_plain_file_is_read_without_a_lint() {
    let text = "# tuned\nNCCL_PROTO=LL\nNCCL_SOCKET_IFNAME==eth0\n\n   \nNCCL_ALGO=allreduce:ring\nNCCL_MIN_CTAS=4";
    for version in [OLD, MIDDLE, NEW, None] {
        let found = entries(text, version);
        assert!(found.contains(&("NCCL_SOCKET_IFNAME".into(), "=eth0".into())));
        assert_eq!((found.len(), lints(text, version)), (4, vec![]), "{version:?}");
    }
}

#[test]
fn lines_of_shells_and_other_formats_lose_their_setting() {
    for (line, name) in [
        ("export NCCL_PROTO=LL", "export NCCL_PROTO"),
        ("  NCCL_PROTO=LL", "  NCCL_PROTO"),
        ("NCCL_PROTO = LL", "NCCL_PROTO "),
        ("\u{feff}NCCL_PROTO=LL", "\u{feff}NCCL_PROTO"),
    ] {
        assert_eq!(entries(line, MIDDLE)[0].0, name);
        let lint = lints(line, MIDDLE).concat();
        assert!(lint.starts_with("1 lost:") && lint.ends_with("-> NCCL_PROTO=LL"), "{lint}");
    }
    for line in ["NCCL_PROTO LL", "NCCL_PROTO: LL"] {
        assert_eq!(entries(line, MIDDLE), []);
        let lint = lints(line, MIDDLE).concat();
        assert!(
            lint.starts_with("1 lost: has no `=`") && lint.ends_with("NCCL passes over it -> NCCL_PROTO=LL"),
            "{lint}"
        );
    }
    assert_eq!(lints("[nccl]", MIDDLE), ["1 lost: sets nothing: a line is NAME=VALUE"]);
}

#[test]
fn values_keep_quotes_comments_and_carriage_returns() {
    assert_eq!(
        lints("NCCL_PROTO=\"LL\"", NEW),
        ["1 lost: has quotes around the value: NCCL reads \"\\\"LL\\\"\" -> NCCL_PROTO=LL"]
    );
    assert_eq!(
        lints("NCCL_PROTO=LL # low", NEW),
        ["1 lost: has a comment after the value: NCCL reads \"LL # low\" -> NCCL_PROTO=LL"]
    );
    assert_eq!(
        lints("NCCL_NTHREADS=512 # x", NEW),
        ["1: has a comment after the value: the number survives it -> NCCL_NTHREADS=512"]
    );
    assert_eq!(lints("NCCL_NTHREADS=\"512\"", NEW).len(), 1, "a quote is no digit");
    assert!(lints("NCCL_NTHREADS=\"512\"", NEW)[0].starts_with("1 lost:"));
    assert!(lints("NCCL_PROTO=LL ", NEW)[0].contains("ends in blanks"));
}

#[test]
fn carriage_returns_are_kept_through_2_29() {
    let text = "NCCL_PROTO=LL\r\nNCCL_NTHREADS=512\r\n";
    assert_eq!(entries(text, MIDDLE)[0].1, "LL\r");
    let found = lints(text, MIDDLE);
    assert!(found[0].starts_with("1 lost: ends in a carriage return: NCCL reads \"LL\\r\""), "{found:?}");
    assert!(found[1].starts_with("2: ends in a carriage return: the number survives it"));
    assert_eq!((entries(text, NEW)[0].1.as_str(), lints(text, NEW).len()), ("LL", 0));
}

#[test]
fn comments_are_lines_of_nonsense_before_2_26_and_harm_nothing() {
    assert_eq!(entries("#NCCL_PROTO=LL", OLD), [("#NCCL_PROTO".into(), "LL".into())]);
    assert_eq!(entries("#NCCL_PROTO=LL", MIDDLE), []);
    assert_eq!(lints("#NCCL_PROTO=LL", OLD), [""; 0]);
}

#[test]
fn the_first_line_of_a_name_counts_and_misspelt_names_are_told() {
    let found = lints("NCCL_PROTO=LL\nNCCL_PROTO=Simple", NEW);
    assert_eq!(found, ["2 lost: NCCL_PROTO is set in line 1 already, and the first counts"]);
    assert!(lints("NCCL_BUFSIZE=4194304", NEW)[0].ends_with("-> NCCL_BUFFSIZE=4194304"));
    assert!(lints("NCCL_CONF_FILE=/x", NEW)[0].contains("environment only"));
    assert!(lints("OMP_NUM_THREADS=1", NEW)[0].contains("none of NCCL's"));
}

#[test]
fn long_values_are_cut_and_long_lines_break_since_2_30() {
    let long = format!("NCCL_IB_HCA={}", "x".repeat(5000));
    assert_eq!(entries(&long, MIDDLE)[0].1.len(), 1023);
    assert!(lints(&long, MIDDLE)[0].contains("1023 bytes"));
    let hidden = format!("NCCL_IB_HCA={}NCCL_PROTO=LL", "x".repeat(4095 - 12));
    assert_eq!(entries(&hidden, NEW)[1], ("NCCL_PROTO".into(), "LL".into()), "the rest is a line of its own");
    assert_eq!(entries(&hidden, MIDDLE).len(), 1);
}

#[test]
fn which_files_are_read_depends_on_the_version() {
    let home = Home { conf_file: Some("/c"), home: Some("/home/h"), passwd: Some("/home/p") };
    let user = |version, home| Files::of(version, home).user.map(|path| path.display().to_string());
    assert_eq!(user(OLD, home).as_deref(), Some("/home/p/.nccl.conf"), "no NCCL_CONF_FILE before 2.23");
    assert_eq!(user(MIDDLE, home).as_deref(), Some("/c"));
    let unnamed = Home { conf_file: Some(""), ..home };
    assert_eq!(user(MIDDLE, unnamed).as_deref(), Some("/home/p/.nccl.conf"));
    assert_eq!(user(NEW, unnamed).as_deref(), Some("/home/h/.nccl.conf"));
    assert_eq!(user(NEW, Home { home: None, ..unnamed }), None, "a service without HOME");
    assert_eq!(Files::of(None, home).system, Path::new("/etc/nccl.conf"));
}

#[test]
fn the_environment_beats_the_user_who_beats_the_system() {
    let user = parse(b"NCCL_PROTO=Simple\nNCCL_ALGO=Tree\nNCCL_ALGO=Ring\n", NEW);
    let system = parse(b"NCCL_ALGO=NVLS\nNCCL_NTHREADS=256\nPATH=/evil\n", NEW);
    let files = [(Path::new("/u"), &user), (Path::new("/etc/nccl.conf"), &system)];
    let found = effective([("NCCL_PROTO", "LL"), ("PATH", "/bin"), ("HOME", "/root")], &files);
    let shown: Vec<_> =
        found.iter().map(|(name, variable)| format!("{name}={} from {}", variable.value, variable.origin)).collect();
    assert_eq!(
        shown,
        [
            "NCCL_ALGO=Tree from /u:2",
            "NCCL_NTHREADS=256 from /etc/nccl.conf:2",
            "NCCL_PROTO=LL from environment",
            "PATH=/bin from environment",
        ]
    );
    let beaten: Vec<_> = found["NCCL_ALGO"].beaten.iter().map(|(value, origin)| format!("{value} {origin}")).collect();
    assert_eq!(beaten, ["Ring /u:3", "NVLS /etc/nccl.conf:1"]);
}

#[test]
fn a_missing_file_is_none_and_an_unreadable_one_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read_file(&folder.path().join("none"), NEW).unwrap(), None);
    assert!(read_file(folder.path(), NEW).is_err());
    std::fs::write(folder.path().join("conf"), "NCCL_PROTO=LL\n").unwrap();
    assert_eq!(read_file(&folder.path().join("conf"), NEW).unwrap().unwrap().entries.len(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), minor in 8u16..34) {
        for version in [None, Some(NcclVersion::minor(2, minor))] {
            let conf = parse(&bytes, version);
            prop_assert!(conf.entries.iter().all(|entry| !entry.name.is_empty() && entry.line >= 1));
        }
    }

    #[test]
    fn a_corrected_line_has_no_lint_of_its_own(
        value in "[A-Za-z0-9,^]{1,8}", before in "[ \t]{0,2}(export )?[ \t]?", around in " {0,2}", after in "( |\t| # x|\r){0,2}",
    ) {
        let line = format!("{before}NCCL_PROTO{around}={around}{value}{after}");
        for version in [OLD, MIDDLE, NEW] {
            for lint in parse(line.as_bytes(), version).lints {
                let corrected = lint.corrected.unwrap();
                prop_assert_eq!(&corrected, &format!("NCCL_PROTO={value}"));
                prop_assert_eq!(parse(corrected.as_bytes(), version).lints.len(), 0);
            }
        }
    }
}
