use proptest::prelude::*;

use super::*;
use crate::gpu::GpuError;
use crate::gpu::nvml::Process;
use crate::plan::env_set::Vars;
use crate::record::fixture;
use crate::record::run::ConfFile;
use crate::record::visit::{At, Outcome, Phase};

fn redactor() -> Redactor {
    let mut header = fixture::two_sets().header;
    header.provenance.host = "tower.example.org".into();
    header.provenance.arguments =
        ["ncclsweep", "--config", "../joe/my sets.toml", "--out=/home/joe/runs", "7168x1/2/8"].map(String::from).into();
    Redactor::new(&header)
}

#[test]
fn what_tells_whose_box_it_is_goes_and_what_tells_its_nature_stays() {
    let cases = [
        (
            "tower:4711:4712 [0] NCCL INFO Using eth0:192.0.2.2<0>",
            "host-1:pid:tid [0] NCCL INFO Using eth0:address-redacted<0>",
        ),
        ("other:1:2 [3] transport/p2p.cc:273 NCCL WARN x", "host-1:pid:tid [3] transport/p2p.cc:273 NCCL WARN x"),
        ("loaded /opt/nccl/lib/libnccl.so.2.28.9 for Joe and joe", "loaded …/libnccl.so.2.28.9 for user-1 and user-1"),
        ("open \"/home/joe\": /home/ann.lee, ~/x/y.toml", "open \"…\": …, …/y.toml"),
        ("read ../joe/my sets.toml twice", "read …/my sets.toml twice"),
        ("GPU-4f3a2b1c-0d9e-8f70-a1b2-c3d4e5f60703 or gpu-00ff11ee", "GPU-redacted-3 or GPU-redacted"),
        ("(Worker pid=539) process 12, 13 of /proc/539/maps", "(Worker pid=N) process N of /proc/PID/maps"),
        ("TOWER.EXAMPLE.ORG, tower-2, towers", "host-1, host-1-2, towers"),
        (
            "fe80::1%eth0 and aa:bb:cc:dd:ee:ff, Serial Number: 1324021000",
            "address-redacted%eth0 and address-redacted, Serial Number: redacted",
        ),
        ("/dev/shm/nccl-8Xk2 /sys/class/pci_bus/0000:41", "/dev/shm/nccl-8Xk2 /sys/class/pci_bus/0000:41"),
        (
            "0000:41:00.0 via P2P/CUMEM/read at 2.28 GB/s, 28672 B, 09:26:26",
            "0000:41:00.0 via P2P/CUMEM/read at 2.28 GB/s, 28672 B, 09:26:26",
        ),
        (
            "--sizes 7168x1/2/8 of NCCL 2.28.9, driver 580.159.04",
            "--sizes 7168x1/2/8 of NCCL 2.28.9, driver 580.159.04",
        ),
    ];
    let redactor = redactor();
    for (text, expected) in cases {
        assert_eq!(redactor.text(text), expected);
        assert_eq!(redactor.text(expected), expected, "what is redacted stays as it is");
    }
}

/// What must not be found after redaction.
#[derive(Clone, Debug)]
struct Secrets {
    host: String,
    user: String,
    folder: String,
    uuid: String,
    pid: u32,
    address: String,
}

fn secrets() -> impl Strategy<Value = Secrets> {
    let pid = 10_000u32..4_194_304;
    (
        "h[a-z]{2}-?[g-z0-9]{5}x",
        "u[g-z]{6}",
        "f[g-z]{5} ?[g-z]{3}",
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}",
        pid,
        11u8..250,
    )
        .prop_map(|(host, user, folder, start, pid, octet)| {
            let uuid = format!("GPU-{start}-8123-0123456789ab");
            Secrets { host, user, folder, uuid, pid, address: format!("10.77.{octet}.9") }
        })
}

/// A run with the secrets wherever text stands.
fn with(secrets: &Secrets) -> Run {
    let Secrets { host, user, folder, uuid, pid, address } = secrets;
    let home = format!("/home/{user}/{folder}");
    let said = format!(
        "{host}:{pid}:{pid} [0] NCCL WARN {home}/libnccl.so.2 on {uuid} by {user}@{host} ({address}), pid {pid}: {pid}"
    );
    let mut run = fixture::two_sets();
    run.visits.truncate(2);
    let library = format!("{home}/libnccl.so.2");
    let (plan, provenance) = (&mut run.header.plan, &mut run.header.provenance);
    provenance.host = host.clone();
    provenance.gpus[0].uuid = uuid.clone();
    provenance.busy = vec![Process { gpu: uuid.clone(), pid: *pid, name: Some(user.clone()), memory_mib: None }];
    provenance.libraries[0].path = library.clone();
    provenance.libraries[0].found_by = format!("--nccl {library}");
    provenance.inherited = Vars::from_iter([("NCCL_COMM_ID", format!("{address}:4711"))]);
    provenance.conf_files = vec![ConfFile {
        path: format!("{home}/.nccl.conf"),
        lines: vec![format!("NCCL_TOPO_FILE={home}/topo.xml")],
        arms: vec![],
    }];
    provenance.arguments =
        vec![format!("{home}/ncclsweep"), format!("--nccl={library}"), format!("{user}/{folder}/x.toml")];
    plan.libraries[0].path = library.clone();
    plan.wrap = vec!["docker".into(), format!("--volume={home}:/data"), format!("--hostname={host}")];
    plan.sets[1].note = Some(said.clone());
    plan.base = Vars::from_iter([("NCCL_GRAPH_FILE", format!("{home}/graph.xml"))]);
    run.warnings = vec![said.clone()];
    run.cells[1].verdict_reason = Some(said.clone());
    let visit = &mut run.visits[0];
    let at = At { phase: Phase::Init, communicator: 0, case: None, rank: Some(1) };
    let error = GpuError::Nccl { call: "init".into(), code: 2, text: "system".into(), last_error: Some(said.clone()) };
    visit.outcome = Outcome::Failed { at, error };
    visit.evidence = vec![said.clone(), format!("{user} at {host}")];
    let worker = visit.worker.as_mut().expect("a worker");
    (worker.pid, worker.nccl_path, worker.devices[0].uuid) = (*pid, Some(library), uuid.clone());
    worker.variables = Vars::from_iter([("NCCL_DEBUG_FILE", format!("{home}/log.%h.%p"))]);
    run
}

/// Every text in a document, names of fields too.
fn texts_of(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts_of(value, texts)),
        Value::Object(fields) => {
            texts.extend(fields.keys().cloned());
            fields.values().for_each(|value| texts_of(value, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_secret_is_left_in_the_document(secrets in secrets()) {
        let mut run = with(&secrets);
        redact(&mut run).unwrap();
        let mut texts = Vec::new();
        texts_of(&serde_json::to_value(&run).unwrap(), &mut texts);
        let Secrets { host, user, folder, uuid, pid, address } = secrets;
        for text in &texts {
            for secret in [&host, &user, &folder, &uuid[4..], &address] {
                prop_assert!(!text.contains(secret), "{secret} is left in {text}");
            }
            // A size or a time can have the same digits: what tells is a number in a text.
            let mut numbers = text.split(|c: char| !c.is_ascii_alphanumeric());
            prop_assert!(!numbers.any(|number| number == pid.to_string()), "{pid} is left in {text}");
        }
        prop_assert!(run.header.provenance.busy.iter().all(|process| process.pid != pid));
        prop_assert!(run.visits.iter().flat_map(|visit| &visit.worker).all(|worker| worker.pid != pid));
        let mut again = run.clone();
        redact(&mut again).unwrap();
        prop_assert_eq!(again, run, "redacting twice is redacting once");
    }

    #[test]
    fn any_text_is_redacted_without_panic(text in "\\PC{0,60}") {
        let _ = redactor().text(&text);
    }
}

#[test]
fn figures_and_plan_are_not_touched() {
    let before = fixture::two_sets();
    let mut after = before.clone();
    redact(&mut after).unwrap();
    assert_eq!(after.cells, before.cells);
    assert_eq!(after.joint, before.joint);
    assert_eq!(after.header.plan.cases, before.header.plan.cases);
    assert_eq!(after.header.plan.sets, before.header.plan.sets);
    assert_eq!(after.header.provenance.kernel, before.header.provenance.kernel);
    assert_eq!(after.header.plan.libraries[0].path, "…/libnccl.so.2.28.9");
}

#[test]
fn a_host_named_like_a_word_of_ours_breaks_nothing() {
    for name in ["graph", "cuda", "sum", "completed", "threads", "a", ""] {
        let mut run = fixture::two_sets();
        run.header.provenance.host = name.into();
        redact(&mut run).unwrap();
        assert_eq!(run.header.provenance.host, "host-1");
        assert_eq!(run.cells, fixture::two_sets().cells);
    }
}

#[test]
fn a_journal_is_redacted_line_by_line() {
    let secret = "/home/ann/lib/libnccl.so.2";
    let mut run = fixture::two_sets();
    run.visits[0].worker.as_mut().unwrap().nccl_path = Some(secret.into());
    run.visits[0].replicates[0].samples_us = vec![0.1 + 0.2, 48.2];
    let mut redactor = Redactor::new(&run.header);
    let mut visit = run.visits[0].clone();
    redactor.visit(&mut visit).unwrap();
    assert_eq!(visit.worker.as_ref().unwrap().nccl_path.as_deref(), Some("…/libnccl.so.2"));
    assert_eq!(visit.worker.as_ref().unwrap().pid, 1);
    assert_eq!(visit.replicates, run.visits[0].replicates, "samples keep every bit");
}
