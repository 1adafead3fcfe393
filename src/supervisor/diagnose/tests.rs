use super::*;
use crate::nccl::words::Transport;
use crate::proof::{CommunicatorRead, Hop, RankRead, Read};
use crate::record::fixture;

/// What is said of a visit that ended so, with these lines of evidence.
fn said(outcome: Outcome, lines: &[&str]) -> Option<Diagnosis> {
    let mut run = fixture::two_sets();
    let mut visit = run.visits.remove(1);
    visit.outcome = outcome;
    visit.evidence = lines.iter().map(|line| (*line).to_owned()).collect();
    diagnose(&run.header.plan, &visit, "", &[])
}

fn hung(phase: Phase) -> Outcome {
    let at = At { phase, communicator: 0, case: None, rank: None };
    Outcome::TimedOut { at: Some(at), seconds: 20.0, ranks: Vec::new() }
}

fn nccl_error(last_error: Option<&str>) -> Outcome {
    let error = GpuError::Nccl {
        call: "ncclCommInitRank".to_owned(),
        code: 2,
        text: "unhandled system error (run with NCCL_DEBUG=INFO for details)".to_owned(),
        last_error: last_error.map(str::to_owned),
    };
    Outcome::Failed { at: At { phase: Phase::Init, communicator: 0, case: None, rank: Some(1) }, error }
}

fn cuda_error(code: i32) -> Outcome {
    let (call, name, text) = ("cuStreamSynchronize".to_owned(), "CUDA_ERROR".to_owned(), "failed".to_owned());
    let at = At { phase: Phase::First, communicator: 0, case: Some(0), rank: Some(0) };
    Outcome::Failed { at, error: GpuError::Cuda { call, code, name, text } }
}

fn log_of(transport: Transport) -> Read {
    let hop = Hop { to: 1, via: [transport].into() };
    let rank = RankRead { sends: vec![hop], ..RankRead::default() };
    Read { communicators: vec![CommunicatorRead { ranks: vec![rank] }], ..Read::default() }
}

#[test]
fn lines_as_nccl_and_the_driver_write_them_are_told_apart() {
    for (line, meaning) in [
        ("NVRM: Xid (PCI:0000:24:00): 79, GPU has fallen off the bus.", "fell off the PCIe bus"),
        ("NVRM: Xid (PCI:0000:41:00): 31, pid=812, MMU Fault", "driver reported"),
        ("ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856", "too old for this GPU"),
        ("cudaArch 940 ncclMaxSharedMem 32832 exceeds device/fn maxSharedMem 27760", "too old for this GPU"),
        (
            "Error while attaching to shared memory segment /dev/shm/nccl- (size 0), error: No such file or directory (2)",
            "cuMem",
        ),
        (
            "Error: failed to extend /dev/shm/nccl-kS6Z9r to 9637892 bytes, error: No space left on device (28)",
            "/dev/shm is full",
        ),
        ("Call to posix_fallocate failed : No space left on device", "/dev/shm is full"),
        ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 98000", "two ranks are on one GPU"),
        (
            "Error : no algorithm/protocol available for function AllReduce with datatype ncclBfloat16. NCCL_ALGO was set to \
             CollNetDirect.",
            "cannot be had together",
        ),
        ("Bootstrap : no socket interface found", "do not find each other"),
        (
            "ncclOsSocketPollConnect: connect to 10.99.91.49<36141> returned Connection refused, exceeded error retry count \
             after 35 attempts",
            "do not find each other",
        ),
        ("Cuda failure 2 'out of memory'", "not enough free memory"),
    ] {
        let told = said(nccl_error(None), &[line]).unwrap_or_else(|| panic!("nothing is said of {line}"));
        assert!(told.meaning.contains(meaning), "{line}: {}", told.meaning);
        let in_last_error = said(nccl_error(Some(line)), &[]);
        assert_eq!(in_last_error, Some(told), "{line}");
    }
}

#[test]
fn a_line_that_visits_without_a_fault_have_too_explains_no_failure() {
    let line = "Could not find real path of /sys/class/pci_bus/0000:00/../../0000:00:05.0";
    assert_eq!(said(nccl_error(None), &[line]), None);
    let (known, mild) = of_line(line).unwrap();
    assert!(known.meaning.contains("PCIe tree is hidden") && mild, "it still has a meaning of its own");
}

#[test]
fn a_full_disk_elsewhere_is_not_shared_memory() {
    assert_eq!(said(nccl_error(None), &["write to /tmp/trace: No space left on device"]), None);
}

#[test]
fn buffers_of_a_few_bytes_are_known_by_the_error_of_the_driver() {
    let mut run = fixture::two_sets();
    let mut visit = run.visits.remove(1);
    visit.outcome = nccl_error(Some("Cuda failure 1 'invalid argument'"));
    let mut of = |value: &str| {
        let worker = visit.worker.as_mut().unwrap();
        worker.variables = [("NCCL_BUFFSIZE".to_owned(), value.to_owned())].into_iter().collect();
        diagnose(&run.header.plan, &visit, "", &[]).map(|told| told.meaning)
    };
    assert!(of("4M").unwrap().contains("reads `4M` as 4"));
    assert_eq!(of("4194304"), None);
}

#[test]
fn codes_of_the_driver_speak_without_a_line() {
    for (code, meaning) in [(802, "fabric manager"), (803, "do not fit"), (209, "too old"), (214, "memory or a link")] {
        let told = said(cuda_error(code), &[]).unwrap();
        assert!(told.meaning.contains(meaning), "{code}: {}", told.meaning);
    }
    assert_eq!(said(cuda_error(719), &[]), None, "a failed launch may mean anything");
}

#[test]
fn a_collective_that_hangs_over_p2p_points_to_acs_and_one_over_host_memory_does_not() {
    let run = fixture::two_sets();
    let of = |transport: Transport, phase: Phase| {
        let mut visit = run.visits[1].clone();
        (visit.outcome, visit.read) = (hung(phase), Some(log_of(transport)));
        diagnose(&run.header.plan, &visit, "", &[]).map(|told| told.meaning)
    };
    let p2p = || Transport::P2p("direct pointer".into());
    assert!(of(p2p(), Phase::First).unwrap().contains("ACS"));
    assert!(of(p2p(), Phase::Timing).unwrap().contains("ACS"));
    assert_eq!(of(Transport::Shm("direct".into()), Phase::First), None);
    assert!(of(p2p(), Phase::Init).unwrap().contains("wait for each other while NCCL sets up"));
    assert_eq!(of(p2p(), Phase::Teardown), None);
}

#[test]
fn a_hang_of_ranks_that_share_a_gpu_is_called_experimental() {
    let mut run = fixture::two_sets();
    run.header.plan.devices.truncate(1);
    let mut visit = run.visits[1].clone();
    (visit.outcome, visit.read) = (hung(Phase::Timing), Some(log_of(Transport::P2p("direct pointer".into()))));
    let told = diagnose(&run.header.plan, &visit, "", &[]).unwrap();
    assert!(told.meaning.contains("experimental") && told.next.contains("NCCL_MAX_CTAS"), "{told:?}");
}

#[test]
fn a_hang_of_ranks_that_inherit_differently_is_told_as_that_unless_the_set_gives_them_one_value() {
    let run = fixture::two_sets();
    let told = |set: usize, apart: &str| {
        let mut visit = run.visits.iter().find(|visit| visit.arm.set == set).unwrap().clone();
        (visit.outcome, visit.read) = (hung(Phase::Timing), Some(log_of(Transport::P2p("direct pointer".into()))));
        diagnose(&run.header.plan, &visit, "", &[apart.to_owned()]).unwrap().meaning
    };
    assert!(told(0, "NCCL_PROTO").contains("wait for each other for ever"));
    assert!(!told(1, "NCCL_PROTO").contains("wait for each other for ever"), "the set has NCCL_PROTO=LL");
    assert!(told(1, "NCCL_MIN_NCHANNELS").contains("wait for each other for ever"));
}

#[test]
fn wrong_data_is_blamed_on_what_carried_it() {
    let run = fixture::two_sets();
    let mut visit = run.visits[1].clone();
    visit.outcome = Outcome::WrongData;
    let told = |visit: &Visit| diagnose(&run.header.plan, visit, "", &[]).unwrap().meaning;
    assert!(told(&visit).contains("not the sum"));
    visit.read = Some(log_of(Transport::P2p("direct pointer".into())));
    assert!(told(&visit).contains("P2P over this path"));
}

#[test]
fn a_sign_that_is_no_warning_is_found_in_the_log() {
    let run = fixture::two_sets();
    let mut visit = run.visits[1].clone();
    visit.outcome = nccl_error(None);
    let log = "box:4766:4780 [0] NCCL INFO ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856\n";
    assert!(diagnose(&run.header.plan, &visit, log, &[]).unwrap().meaning.contains("too old"));
}

#[test]
fn nothing_is_said_of_what_went_well_or_is_not_known() {
    let lines = ["NVRM: Xid (PCI:0000:24:00): 79, GPU has fallen off the bus."];
    assert_eq!(said(Outcome::Completed, &lines), None);
    assert_eq!(said(Outcome::Interrupted, &lines), None);
    assert_eq!(said(Outcome::Crashed { signal: "SIGSEGV".into(), at: None }, &[]), None);
}

#[test]
fn the_document_holds_every_row() {
    let document = include_str!("../../../docs/failures.md");
    for row in table::ROWS.iter().chain(table::MILD) {
        let line = format!("| {} | {} | {} |", row.sign, row.meaning, row.next.replace('|', "\\|"));
        assert!(document.contains(&line), "docs/failures.md lacks\n{line}");
    }
}
