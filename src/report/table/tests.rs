use super::*;
use crate::collective::{Dtype, Placement};
use crate::plan::env_set::Vars;
use crate::plan::schedule::{Library, Rounds};
use crate::record::fixture::{self, case};
use crate::record::run::{Applied, Backend};
use crate::record::visit::{Among, At, Diagnosis, Outcome, Phase, WrongElement};

fn shown(run: &Run, width: usize) -> String {
    // Spaces that do not break look like others in a snapshot and are none.
    render(run, Style { width, ..Style::default() }).replace('\u{a0}', " ")
}

#[test]
fn two_sets_at_80_columns_stand_under_each_other() {
    insta::assert_snapshot!(shown(&fixture::two_sets(), 80), @r"
    ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC

      GPUs       8 × NVIDIA RTX PRO 6000 Blackwell Server Edition
      driver     580.159.04 · CUDA 13.0
      ranks      threads of one process · one on each of 8 GPUs
      NCCL       2.28.9 · libnccl.so.2.28.9
      measured   all-reduce bf16 sum out-of-place · graph (50 calls chained)
      sampled    6 rounds × 6 communicators per set · 58 s · seed 42
      sets       default  sets nothing
                 pcie-ll  NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS
                          NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216
                          NCCL_NTHREADS=512

    graph, bf16 sum out-of-place · ratio to default, tolerance 5%
        size  bytes  set      median  95%        busbw  ratio  95%        verdict
                                  µs  interval    GB/s         interval
      7168x1  14336  default    48.2  47.0–49.5   0.52                    baseline
                     pcie-ll    28.9  28.2–29.7   0.87   0.60  0.59–0.61  faster

      7168x2  28672  default    52.6  51.3–54.0   0.95                    baseline
                     pcie-ll    32.6  31.8–33.5   1.54   0.62  0.61–0.63  faster

      7168x3  43008  default    56.9  55.5–58.5   1.32                    baseline
                     pcie-ll    36.4  35.5–37.5   2.07   0.64  0.63–0.65  faster

      7168x4  57344  default    61.3  59.8–63.0   1.64                    baseline
                     pcie-ll    40.5  39.5–41.6   2.48   0.66  0.65–0.67  faster

      settings   applied in all 8 cells: in effect on every rank
      data       115 200 outputs checked, none wrong
      visits     12 of 12 completed

    pcie-ll is faster than default at all 4 sizes: 0.60–0.66 of its time. All sizes
    together: 0.62 (0.61–0.63), faster
    ");
}

#[test]
fn two_sets_at_120_columns_stand_beside_each_other() {
    insta::assert_snapshot!(shown(&fixture::two_sets(), 120), @r"
    ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC

      GPUs       8 × NVIDIA RTX PRO 6000 Blackwell Server Edition
      driver     580.159.04 · CUDA 13.0
      ranks      threads of one process · one on each of 8 GPUs
      NCCL       2.28.9 · libnccl.so.2.28.9
      measured   all-reduce bf16 sum out-of-place · graph (50 calls chained)
      sampled    6 rounds × 6 communicators per set · 58 s · seed 42
      sets       default  sets nothing
                 pcie-ll  NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS NCCL_MAX_NCHANNELS=16
                          NCCL_BUFFSIZE=16777216 NCCL_NTHREADS=512

    graph, bf16 sum out-of-place · ratio to default, tolerance 5%
                       default                     pcie-ll
        size  bytes    median  95%        busbw    median  95%        busbw  ratio  95%        verdict
                           µs  interval    GB/s        µs  interval    GB/s         interval
      7168x1  14336      48.2  47.0–49.5   0.52      28.9  28.2–29.7   0.87   0.60  0.59–0.61  faster
      7168x2  28672      52.6  51.3–54.0   0.95      32.6  31.8–33.5   1.54   0.62  0.61–0.63  faster
      7168x3  43008      56.9  55.5–58.5   1.32      36.4  35.5–37.5   2.07   0.64  0.63–0.65  faster
      7168x4  57344      61.3  59.8–63.0   1.64      40.5  39.5–41.6   2.48   0.66  0.65–0.67  faster

      settings   applied in all 8 cells: in effect on every rank
      data       115 200 outputs checked, none wrong
      visits     12 of 12 completed

    pcie-ll is faster than default at all 4 sizes: 0.60–0.66 of its time. All sizes together: 0.62 (0.61–0.63),
    faster
    ");
}

/// A run in which everything that can go wrong did.
fn troubled() -> Run {
    let mut run = fixture::two_sets();
    let (plan, provenance) = (&mut run.header.plan, &mut run.header.provenance);
    run.header.backend = Backend::Emulated;
    provenance.emulated = Some("8xPCIe".into());
    provenance.gpus.truncate(2);
    provenance.inherited = Vars::from_iter([("NCCL_DEBUG", "WARN")]);
    plan.base = Vars::from_iter([("NCCL_IB_DISABLE", "1")]);
    plan.devices.truncate(2);
    plan.rounds = Rounds::Fixed(8);
    run.complete = false;
    let [.., same, undecided, invalid] = run.cells.as_mut_slice() else { panic!("eight cells") };
    (same.verdict, same.ratio, same.ratio_interval) = (Verdict::Same, Some(0.996), Some([0.981, 1.012]));
    (undecided.verdict, undecided.ratio, undecided.ratio_interval) =
        (Verdict::Undecided, Some(0.94), Some([0.91, 0.972]));
    undecided.verdict_reason = Some("about 3 more rounds would decide".into());
    undecided.applied = Applied::Unverified;
    (invalid.verdict, invalid.ratio, invalid.ratio_interval) = (Verdict::Invalid, None, None);
    (invalid.median_us, invalid.interval_us, invalid.busbw_gbps) = (None, None, None);
    invalid.verdict_reason = Some("3 of 14400 outputs are wrong".into());
    invalid.applied = Applied::NotApplied;
    invalid.wrong_outputs = 3;
    invalid.first_wrong = Some(Box::new(WrongElement {
        rank: 5,
        among: Among::Timed,
        call: 12,
        element: 511,
        found: "NaN".into(),
        expected: "36".into(),
    }));
    let mut tuned = run.visits.iter_mut().filter(|visit| visit.arm.set == 1);
    let mut next = || tuned.next().expect("six visits");
    let (first, second, third) = (next(), next(), next());
    first.outcome = Outcome::WrongData;
    let at = At { phase: Phase::First, communicator: 0, case: None, rank: None };
    for visit in [second, third] {
        visit.outcome = Outcome::TimedOut { at: Some(at), seconds: 60.0, ranks: Vec::new() };
        visit.evidence = vec![
            "box-1:20119:20140 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/direct pointer".into(),
            "box-1:20119:20140 [1] transport/p2p.cc:273 NCCL WARN Cuda failure 'peer access is not supported'".into(),
        ];
    }
    run.warnings =
        vec!["the clocks of GPU 3 fell from 2400 to 1700 MHz during 4 visits of pcie-ll: look at its cooling".into()];
    run
}

#[test]
fn what_went_wrong_is_told_with_its_evidence() {
    insta::assert_snapshot!(shown(&troubled(), 80), @r"
    ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC
    EMULATED: virtual time of 8xPCIe. These figures say nothing about a real box.

      GPUs       2 × NVIDIA RTX PRO 6000 Blackwell Server Edition
      driver     580.159.04 · CUDA 13.0
      ranks      threads of one process · 8 ranks on 2 GPUs: oversubscribed
      NCCL       2.28.9 · libnccl.so.2.28.9
      measured   all-reduce bf16 sum out-of-place · graph (50 calls chained)
      sampled    6 of 8 rounds × 6 communicators per set · 58 s · seed 42
      base       NCCL_IB_DISABLE=1 under every set
      inherited  NCCL_DEBUG=WARN under every set; --clean-env drops what the
                 environment brings
      sets       default  sets nothing
                 pcie-ll  NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS
                          NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216
                          NCCL_NTHREADS=512

    graph, bf16 sum out-of-place · ratio to default, tolerance 5%
        size  set      median  95%        ratio  95%        verdict    settings
                           µs  interval          interval
      7168x1  default    48.2  47.0–49.5                    baseline   applied
              pcie-ll    28.9  28.2–29.7   0.60  0.59–0.61  faster     applied

      7168x2  default    52.6  51.3–54.0                    baseline   applied
              pcie-ll    32.6  31.8–33.5   1.00  0.98–1.01  same       applied

      7168x3  default    56.9  55.5–58.5                    baseline   applied
              pcie-ll    36.4  35.5–37.5   0.94  0.91–0.97  undecided  unverified

      7168x4  default    61.3  59.8–63.0                    baseline   applied
              pcie-ll     -                -                invalid    not applied

      why        pcie-ll at 7168x3: undecided, about 3 more rounds would decide
                 pcie-ll at 7168x4: invalid, 3 of 14400 outputs are wrong
      settings   pcie-ll: not applied at 7168x4: they did not reach NCCL
                 pcie-ll: unverified at 7168x3: nothing shows whether they took
                 effect
      data       3 of 115 200 outputs wrong; first: pcie-ll at 7168x4, rank 5, call
                 12 of the timed calls, element 511 is NaN, not 36
      visits     9 of 12 completed; stopped early, not every planned visit was made
      failed     pcie-ll, 1 visit: wrong data
                 pcie-ll, 2 visits: timed out after 60 s during first collective
                 |  box-1:20119:20140 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via
                    P2P/direct pointer
                 |  box-1:20119:20140 [1] transport/p2p.cc:273 NCCL WARN Cuda
                    failure 'peer access is not supported'
      warning    the clocks of GPU 3 fell from 2400 to 1700 MHz during 4 visits of
                 pcie-ll: look at its cooling

    pcie-ll is faster than default at 7168x1 (0.60 of its time), the same at 7168x2
    (1.00), undecided at 7168x3 (0.94), invalid at 7168x4. All sizes together: 0.62
    (0.61–0.63), faster
    ");
}

#[test]
fn many_sets_are_ranked_and_long_names_cut() {
    let product = ["LL", "Simple"].into_iter().flat_map(|proto| [4, 8, 16].map(|channels| (proto, channels)));
    let product = product.flat_map(|(proto, channels)| {
        [128, 256, 512].map(|threads| format!("PROTO={proto}+MAX_NCHANNELS={channels}+NTHREADS={threads}"))
    });
    let names: Vec<String> = std::iter::once("default".into()).chain(product).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let run = fixture::run(&names, &[case(1, Mode::Graph), case(2, Mode::Graph)]);
    insta::assert_snapshot!(shown(&run, 80), @r"
    ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC

      GPUs       8 × NVIDIA RTX PRO 6000 Blackwell Server Edition
      driver     580.159.04 · CUDA 13.0
      ranks      threads of one process · one on each of 8 GPUs
      NCCL       2.28.9 · libnccl.so.2.28.9
      measured   all-reduce bf16 sum out-of-place · graph (50 calls chained)
      sampled    6 rounds × 6 communicators per set · 58 s · seed 42
      sets       19

    graph, bf16 sum out-of-place · ratio to default, tolerance 5%
        size  set                     median  95%        ratio  95%        verdict
                                          µs  interval          interval
      7168x1  default                   48.2  47.0–49.5                    baseline
              PR=LL+MA=4+NT=128         28.9  28.2–29.7   0.60  0.59–0.61  faster
              PR=LL+MA=4+NT=256         39.0  38.1–40.1   0.81  0.79–0.83  faster
              PR=LL+MA=4+NT=512         49.2  47.9–50.5   1.02  1.00–1.04  same
              PR=LL+MA=8+NT=128         31.8  31.0–32.7   0.66  0.65–0.67  faster
              PR=LL+MA=8+NT=256         41.9  40.9–43.1   0.87  0.85–0.89  faster
              PR=LL+MA=8+NT=512         52.1  50.8–53.5   1.08  1.06–1.10  slower
              PR=LL+MA=16+NT=128        34.7  33.8–35.7   0.72  0.71–0.74  faster
              PR=LL+MA=16+NT=256        44.8  43.7–46.1   0.93  0.91–0.95  faster
              PR=LL+MA=16+NT=512        54.9  53.6–56.5   1.14  1.12–1.16  slower
              PR=Simple+MA=4+NT=128     37.6  36.7–38.6   0.78  0.77–0.80  faster
              PR=Simple+MA=4+NT=256     47.7  46.5–49.1   0.99  0.97–1.01  same
              PR=Simple+MA=4+NT=512     30.4  29.6–31.2   0.63  0.62–0.64  faster
              PR=Simple+MA=8+NT=128     40.5  39.5–41.6   0.84  0.82–0.86  faster
              PR=Simple+MA=8+NT=256     50.6  49.3–52.0   1.05  1.03–1.07  undecided
              PR=Simple+MA=8+NT=512     33.3  32.4–34.2   0.69  0.68–0.70  faster
              PR=Simple+MA=16+NT=128    43.4  42.3–44.6   0.90  0.88–0.92  faster
              PR=Simple+MA=16+NT=256    53.5  52.2–55.0   1.11  1.09–1.13  slower
              PR=Simple+MA=16+NT=512    36.2  35.2–37.2   0.75  0.74–0.77  faster

      7168x2  default                   52.6  51.3–54.0                    baseline
              PR=LL+MA=4+NT=128         32.6  31.8–33.5   0.62  0.61–0.63  faster
              PR=LL+MA=4+NT=256         43.6  42.5–44.9   0.83  0.81–0.85  faster
              PR=LL+MA=4+NT=512         54.7  53.3–56.2   1.04  1.02–1.06  undecided
              PR=LL+MA=8+NT=128         35.7  34.9–36.7   0.68  0.67–0.69  faster
              PR=LL+MA=8+NT=256         46.8  45.6–48.1   0.89  0.87–0.91  faster
              PR=LL+MA=8+NT=512         57.8  56.4–59.4   1.10  1.08–1.12  slower
              PR=LL+MA=16+NT=128        38.9  37.9–40.0   0.74  0.73–0.76  faster
              PR=LL+MA=16+NT=256        49.9  48.7–51.3   0.95  0.93–0.97  undecided
              PR=LL+MA=16+NT=512        61.0  59.5–62.7   1.16  1.14–1.18  slower
              PR=Simple+MA=4+NT=128     42.1  41.0–43.2   0.80  0.78–0.82  faster
              PR=Simple+MA=4+NT=256     53.1  51.8–54.6   1.01  0.99–1.03  same
              PR=Simple+MA=4+NT=512     34.2  33.3–35.1   0.65  0.64–0.66  faster
              PR=Simple+MA=8+NT=128     45.2  44.1–46.5   0.86  0.84–0.88  faster
              PR=Simple+MA=8+NT=256     56.2  54.8–57.8   1.07  1.05–1.09  undecided
              PR=Simple+MA=8+NT=512     37.3  36.4–38.4   0.71  0.70–0.72  faster
              PR=Simple+MA=16+NT=128    48.4  47.2–49.7   0.92  0.90–0.94  faster
              PR=Simple+MA=16+NT=256    59.4  57.9–61.1   1.13  1.11–1.15  slower
              PR=Simple+MA=16+NT=512    40.5  39.5–41.6   0.77  0.76–0.79  faster

    graph, all sizes together
      set                        ratio  95%        verdict    each size
                                        interval
      PRO=LL+MAX=4+NTH=128        0.62  0.61–0.63  faster     2 faster
      PRO=Simple+MAX=4+NTH=512    0.65  0.64–0.66  faster     2 faster
      PRO=LL+MAX=8+NTH=128        0.68  0.67–0.69  faster     2 faster
      PRO=Simple+MAX=8+NTH=512    0.71  0.70–0.72  faster     2 faster
      PRO=LL+MAX=16+NTH=128       0.74  0.73–0.75  faster     2 faster
      PRO=Simple+MAX=16+NTH=512   0.77  0.76–0.78  faster     2 faster
      PRO=Simple+MAX=4+NTH=128    0.80  0.79–0.81  faster     2 faster
      PRO=LL+MAX=4+NTH=256        0.83  0.82–0.84  faster     2 faster
      PRO=Simple+MAX=8+NTH=128    0.86  0.85–0.87  faster     2 faster
      PRO=LL+MAX=8+NTH=256        0.89  0.88–0.90  faster     2 faster
      PRO=Simple+MAX=16+NTH=128   0.92  0.91–0.93  faster     2 faster
      PRO=LL+MAX=16+NTH=256       0.95  0.94–0.96  undecided  1 faster, 1 undecided
      PRO=Simple+MAX=4+NTH=256    1.01  1.00–1.02  same       2 same
      PRO=LL+MAX=4+NTH=512        1.04  1.03–1.05  undecided  1 same, 1 undecided
      PRO=Simple+MAX=8+NTH=256    1.07  1.06–1.08  slower     2 undecided
      PRO=LL+MAX=8+NTH=512        1.10  1.09–1.11  slower     2 slower
      PRO=Simple+MAX=16+NTH=256   1.13  1.12–1.14  slower     2 slower
      PRO=LL+MAX=16+NTH=512       1.16  1.15–1.17  slower     2 slower

      settings   applied in all 38 cells: in effect on every rank
      data       547 200 outputs checked, none wrong
      visits     114 of 114 completed

    11 of 18 sets are faster than default at every size, 3 slower, 1 the same, 3 not
    decided or mixed
    the fastest is PROTO=LL+MAX_NCHANNELS=4+NTHREADS=128, faster than default at all
    2 sizes: 0.60–0.62 of its time. All sizes together: 0.62 (0.61–0.63), faster
    ");
}

#[test]
fn each_mode_and_placement_has_a_table_and_each_library_a_name() {
    let mut in_place = case(1, Mode::Graph);
    (in_place.placement, in_place.dtype) = (Placement::InPlace, Dtype::Float32);
    let mut run = fixture::run(&["default"], &[case(1, Mode::Graph), in_place, case(1, Mode::Sync)]);
    insta::assert_snapshot!(shown(&run, 80), @r"
    ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC

      GPUs       8 × NVIDIA RTX PRO 6000 Blackwell Server Edition
      driver     580.159.04 · CUDA 13.0
      ranks      threads of one process · one on each of 8 GPUs
      NCCL       2.28.9 · libnccl.so.2.28.9
      measured   all-reduce bf16 sum out-of-place, f32 sum in-place · graph (50
                 calls chained), sync (lone calls)
      sampled    6 rounds × 6 communicators per set · 58 s · seed 42
      sets       default  sets nothing

    graph, bf16 sum out-of-place
                       default
        size  bytes    median  95%        busbw
                           µs  interval    GB/s
      7168x1  14336      48.2  47.0–49.5   0.52

    graph, f32 sum in-place
                       default
        size  bytes    median  95%        busbw
                           µs  interval    GB/s
      7168x1  28672      52.6  51.3–54.0   0.95

    sync, bf16 sum out-of-place
                       default
        size  bytes    median  95%        busbw
                           µs  interval    GB/s
      7168x1  14336      56.9  55.5–58.5   0.44

      settings   applied in all 3 cells: in effect on every rank
      data       43 200 outputs checked, none wrong
      visits     6 of 6 completed

    only default was measured: nothing to compare
    ");
    let plan = &mut run.header.plan;
    plan.libraries.push(Library { path: "/opt/new/libnccl.so.2".into(), version: "2.32.3".parse().unwrap() });
    for cell in run.cells.clone() {
        let mut other = cell;
        (other.arm.library, other.verdict) = (1, Verdict::Slower);
        (other.ratio, other.ratio_interval) = (Some(1.31), Some([1.28, 1.34]));
        run.cells.push(other);
    }
    insta::assert_snapshot!(shown(&run, 100), @r"
    ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC

      GPUs       8 × NVIDIA RTX PRO 6000 Blackwell Server Edition
      driver     580.159.04 · CUDA 13.0
      ranks      threads of one process · one on each of 8 GPUs
      NCCL       2.28.9 · libnccl.so.2.28.9 · baseline
                 2.32.3 · libnccl.so.2
      measured   all-reduce bf16 sum out-of-place, f32 sum in-place · graph (50 calls chained), sync
                 (lone calls)
      sampled    6 rounds × 6 communicators per set · 58 s · seed 42
      sets       default  sets nothing

    graph, bf16 sum out-of-place · ratio to default @ 2.28.9, tolerance 5%
                       default @ 2.28.9            default @ 2.32.3
        size  bytes    median  95%        busbw    median  95%        busbw  ratio  95%        verdict
                           µs  interval    GB/s        µs  interval    GB/s         interval
      7168x1  14336      48.2  47.0–49.5   0.52      48.2  47.0–49.5   0.52   1.31  1.28–1.34  slower

    graph, f32 sum in-place · ratio to default @ 2.28.9, tolerance 5%
                       default @ 2.28.9            default @ 2.32.3
        size  bytes    median  95%        busbw    median  95%        busbw  ratio  95%        verdict
                           µs  interval    GB/s        µs  interval    GB/s         interval
      7168x1  28672      52.6  51.3–54.0   0.95      52.6  51.3–54.0   0.95   1.31  1.28–1.34  slower

    sync, bf16 sum out-of-place · ratio to default @ 2.28.9, tolerance 5%
                       default @ 2.28.9            default @ 2.32.3
        size  bytes    median  95%        busbw    median  95%        busbw  ratio  95%        verdict
                           µs  interval    GB/s        µs  interval    GB/s         interval
      7168x1  14336      56.9  55.5–58.5   0.44      56.9  55.5–58.5   0.44   1.31  1.28–1.34  slower

      settings   applied in all 6 cells: in effect on every rank
      data       86 400 outputs checked, none wrong
      visits     6 of 6 completed

    graph: default @ 2.32.3 is slower than default @ 2.28.9 at all 2 cases: 1.31 of its time
    sync: default @ 2.32.3 is slower than default @ 2.28.9 at 7168x1 bf16 sum out-of-place: 1.31 of its
    time
    ");
}

#[test]
fn no_line_of_text_is_wider_than_the_terminal() {
    for run in [fixture::two_sets(), troubled()] {
        for width in [60, 72, 80, 100, 120, 200] {
            for line in shown(&run, width).lines() {
                let columns = crate::report::ink::width(line);
                assert!(columns <= width, "{columns} columns of {width}: {line}");
            }
        }
    }
}

#[test]
fn without_unicode_and_colour_a_report_is_ascii() {
    let style = Style { unicode: false, ..Style::default() };
    assert!(render(&troubled(), style).is_ascii());
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let run = troubled();
    let plain = render(&run, Style::default());
    let coloured = render(&run, Style { color: true, ..Style::default() });
    let mut stripped = String::new();
    for part in coloured.split('\x1b') {
        stripped.push_str(part.strip_prefix('[').and_then(|part| part.split_once('m')).map_or(part, |(_, text)| text));
    }
    assert!(coloured.contains("\x1b[32mfaster\x1b[0m"));
    assert_eq!(stripped, plain);
}

#[test]
fn a_run_without_visits_is_shown_as_such() {
    let mut run = fixture::run(&["default", "pcie-ll"], &[case(1, Mode::Graph)]);
    (run.visits, run.cells, run.joint, run.complete) = (Vec::new(), Vec::new(), Vec::new(), false);
    insta::assert_snapshot!(shown(&run, 80), @r"
    ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC

      GPUs       8 × NVIDIA RTX PRO 6000 Blackwell Server Edition
      driver     580.159.04 · CUDA 13.0
      ranks      threads of one process · one on each of 8 GPUs
      NCCL       2.28.9 · libnccl.so.2.28.9
      measured   all-reduce bf16 sum out-of-place · graph (50 calls chained)
      sampled    0 rounds × 6 communicators per set · 58 s · seed 42
      sets       default  sets nothing
                 pcie-ll  NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS
                          NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216
                          NCCL_NTHREADS=512

    graph, bf16 sum out-of-place · ratio to default, tolerance 5%
        size  bytes  set      median  95%       busbw  ratio  95%       verdict
                                  µs  interval   GB/s         interval
      7168x1  14336  default       -                -      -            -
                     pcie-ll       -                -      -            -

      visits     0 of 0 completed; stopped early, not every planned visit was made

    pcie-ll is not measured
    ");
}

#[test]
fn failures_alike_are_explained_once_for_all_their_sets() {
    let mut run = fixture::run(&["default", "one", "two"], &[fixture::case(1, Mode::Graph)]);
    let diagnosis = Diagnosis {
        sign: "a hang".into(),
        meaning: "the cards do not reach each other".into(),
        next: "turn ACS off".into(),
    };
    for visit in run.visits.iter_mut().filter(|visit| visit.arm.set > 0) {
        visit.outcome = Outcome::TimedOut { at: None, seconds: 20.0, ranks: Vec::new() };
        visit.diagnosis = Some(diagnosis.clone());
    }
    let text = shown(&run, 100);
    assert!(text.contains("meaning    one, two: the cards do not reach each other"), "{text}");
    assert_eq!(text.matches("turn ACS off").count(), 1, "{text}");
}
