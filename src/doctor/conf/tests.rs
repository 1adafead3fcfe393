//! Kinds of lines that lose or spoil their setting, as `doctor --conf` shows them.

use super::super::Status;
use super::*;

const OLD: Option<NcclVersion> = Some(NcclVersion::new(2, 21, 5));
const MIDDLE: Option<NcclVersion> = Some(NcclVersion::new(2, 28, 3));
const NEW: Option<NcclVersion> = Some(NcclVersion::new(2, 30, 7));

fn request<'a>(file: &'a Path, version: Option<NcclVersion>, environment: &'a [(String, String)]) -> Request<'a> {
    Request { file: Some(file), version, environment, passwd: None }
}

/// What is said of the lines of a file with this text, without the line itself.
fn lines(text: &str, version: Option<NcclVersion>) -> Vec<(Status, String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl.conf");
    std::fs::write(&file, text).unwrap();
    let checkup = look(&request(&file, version, &[])).unwrap();
    let of_lines = checkup.checks.into_iter().filter(|check| check.name.starts_with("line "));
    of_lines.map(|check| (check.status, check.evidence[1..].join("; "), check.next.join("; "))).collect()
}

/// One line: its status, whether `what` is said, and the line to write instead.
#[track_caller]
fn line(text: &str, version: Option<NcclVersion>, status: Status, what: &str, next: &str) {
    let found = lines(text, version);
    let [(found_status, evidence, step)] = found.as_slice() else { panic!("{text:?}: {found:?}") };
    assert_eq!((*found_status, step.as_str()), (status, next), "{text:?}: {evidence}");
    assert!(evidence.contains(what), "{text:?}: {evidence}");
}

#[test]
fn lines_that_lose_or_spoil_their_setting_are_shown_as_they_should_be() {
    let lost = |text, what, next| line(text, MIDDLE, Status::Fault, what, next);
    lost("export NCCL_PROTO=LL", "begins with a word of the shell", "write NCCL_PROTO=LL");
    lost("set NCCL_PROTO=LL", "begins with a word of the shell", "write NCCL_PROTO=LL");
    lost("  NCCL_PROTO=LL", "begins with blanks", "write NCCL_PROTO=LL");
    lost("\tNCCL_PROTO=LL", "begins with blanks", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO = LL", "blanks around `=`", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO=LL ", "ends in blanks", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO=LL\r", "ends in a carriage return", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO=\"LL\"", "quotes around the value", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO='LL'", "quotes around the value", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO=LL # low latency", "comment after the value", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO LL", "has no `=`", "write NCCL_PROTO=LL");
    lost("NCCL_PROTO: LL", "has no `=`", "write NCCL_PROTO=LL");
    lost("\u{feff}NCCL_PROTO=LL", "byte order mark", "write NCCL_PROTO=LL");
    lost("[nccl]", "sets nothing", "");
    lost("NCCL_PROT=LL", "did you mean NCCL_PROTO?", "write NCCL_PROTO=LL");
    lost("NCCL_CONF_FILE=/etc/other.conf", "counts in the environment only", "");
}

#[test]
fn values_that_nccl_misreads_are_shown_with_the_line_to_write() {
    line("NCCL_BUFFSIZE=16M", MIDDLE, Status::Fault, "is read as 16, not `16M`", "write NCCL_BUFFSIZE=16777216");
    line("NCCL_P2P_LEVEL=sys", MIDDLE, Status::Fault, "has no path level `sys`", "write NCCL_P2P_LEVEL=SYS");
    line(
        "NCCL_P2P_DISABLE=true",
        MIDDLE,
        Status::Fault,
        "counts as set when it is the number 1 alone",
        "write NCCL_P2P_DISABLE=1",
    );
    line("NCCL_PROTO=LL,Simpel", MIDDLE, Status::Fault, "Simpel", "");
    // The line is wrong, and so is its value: both are said.
    let found = lines("export NCCL_BUFFSIZE=16M", MIDDLE);
    assert!(found[0].1.contains("word of the shell") && found[0].1.contains("as 16"), "{found:?}");
    assert_eq!(found[0].2, "write NCCL_BUFFSIZE=16777216", "there is one line to write");
    assert_eq!(lines("export NCCL_PROT=LL", MIDDLE)[0].2, "write NCCL_PROTO=LL");
}

#[test]
fn a_number_survives_what_a_word_does_not() {
    line("NCCL_NTHREADS=512 # x", MIDDLE, Status::Warning, "the number survives it", "write NCCL_NTHREADS=512");
    line("NCCL_NTHREADS=512\r", MIDDLE, Status::Warning, "the number survives it", "write NCCL_NTHREADS=512");
    assert_eq!(lines("NCCL_NTHREADS=512\r\nNCCL_PROTO=LL\r\n", NEW), [], "2.30 takes carriage returns off");
}

#[test]
fn right_lines_and_comments_have_nothing_said_of_them() {
    for text in ["# NCCL_PROTO=LL", "NCCL_SOCKET_IFNAME==lo", "NCCL_ALGO=allreduce:ring", "NCCL_IB_HCA=", "", "\n\n"] {
        let said: Vec<_> = lines(text, MIDDLE).into_iter().filter(|(status, ..)| *status == Status::Fault).collect();
        assert_eq!(said, [], "{text:?}");
    }
}

#[test]
fn the_first_line_of_a_variable_counts() {
    let found = lines("NCCL_PROTO=LL\nNCCL_PROTO=Simple\n", MIDDLE);
    assert_eq!(found.len(), 1);
    assert!(found[0].1.contains("set in line 1 already"), "{found:?}");
}

#[test]
fn what_cannot_be_seen_in_a_line_is_made_visible_and_what_is_long_is_cut() {
    assert_eq!(text(&split(b"A=1\n\tB=\"2\"\r\n"), 2), "\\tB=\"2\"\\r");
    let long = format!("NCCL_IB_HCA={}", "x".repeat(5000));
    assert_eq!(text(&split(long.as_bytes()), 1).chars().count(), SHOWN + 1);
    assert_eq!(text(&split(b"A=1"), 9), "");
    line(&long, MIDDLE, Status::Fault, "1023 bytes", "");
}

#[test]
fn a_file_that_nccl_does_not_read_by_itself_is_told_how_to_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.conf");
    std::fs::write(&file, "NCCL_PROTO=LL\n").unwrap();
    let home = folder.path().display().to_string();
    let environment = [("HOME".to_owned(), home.clone())];
    let place = |version| look(&request(&file, version, &environment)).unwrap().checks[0].clone();
    let check = place(NEW);
    assert_eq!((check.status, check.name.as_str()), (Status::Warning, "place"));
    assert!(check.next[0].starts_with("set NCCL_CONF_FILE="), "{check:?}");
    assert!(check.evidence[1].contains(&format!("{home}/.nccl.conf")), "{check:?}");
    assert!(place(OLD).next[0].contains("came with 2.23"));

    let own = folder.path().join(".nccl.conf");
    std::fs::rename(&file, &own).unwrap();
    let found = look(&request(&own, NEW, &environment)).unwrap();
    assert_eq!(found.checks[0].status, Status::Ok);
    let old = look(&request(&own, MIDDLE, &environment)).unwrap();
    assert_eq!(old.checks[0].status, Status::Warning, "up to 2.29 the password database tells the home");
}

#[test]
fn who_wins_is_told_for_every_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl.conf");
    std::fs::write(&file, "NCCL_PROTO=Simple\nNCCL_ALGO=Ring\n").unwrap();
    let environment = [("NCCL_PROTO".to_owned(), "LL".to_owned())];
    let checkup = look(&request(&file, MIDDLE, &environment)).unwrap();
    let winners = checkup.checks.last().unwrap();
    let path = file.display();
    assert_eq!(
        winners.evidence,
        [format!("NCCL_ALGO=Ring by {path}:2"), format!("NCCL_PROTO=LL by environment; beats Simple of {path}:1")]
    );
    let Details::Conf(facts) = checkup.details else { panic!("facts of something else") };
    assert_eq!(facts.effective[1].beaten, [format!("Simple of {path}:1")]);
    assert!(facts.files[0].read && facts.files[0].lints.is_empty());
}

#[test]
fn a_missing_file_is_an_error_of_the_user() {
    let error = look(&request(Path::new("/nonexistent/nccl.conf"), None, &[])).unwrap_err();
    assert!(error.kind() == Kind::Usage && error.message().contains("/nonexistent/nccl.conf"), "{error}");
}

#[test]
fn a_value_of_any_length_is_shown_by_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl.conf");
    std::fs::write(&file, format!("NCCL_DEBUG={}\n", "x".repeat(5000))).unwrap();
    let checkup = look(&request(&file, MIDDLE, &[])).unwrap();
    assert!(checkup.checks.iter().any(|check| check.status == Status::Fault));
    for said in checkup.checks.iter().flat_map(|check| check.evidence.iter().chain(&check.next)) {
        assert!(said.chars().count() < 600, "{} characters: {}…", said.len(), cut(said, 60));
    }
}

#[test]
fn a_file_of_garbage_is_looked_at_line_by_line_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl.conf");
    std::fs::write(&file, "\u{1}garbage \u{7f} = ?\n".repeat(20_000)).unwrap();
    let begun = std::time::Instant::now();
    let checkup = look(&request(&file, MIDDLE, &[])).unwrap();
    assert!(checkup.checks.len() > 1);
    // Milliseconds; looked for from the top for every line it would be half a minute.
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}
