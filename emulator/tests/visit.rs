//! What a worker does, from initialisation to destruction, on the emulated boxes.

mod support;

use support::*;

/// Prints µs per all-reduce in graph, stream and lone mode, the maximum over ranks, for sizes 7168 × 1..4 bf16.
fn times(ranks: usize) {
    for tokens in 1..=4 {
        let results = with_comm(ranks, 14336 * tokens, |rank, barrier| {
            (0..10).for_each(|_| rank.all_reduce());
            rank.wait();
            barrier.wait();
            let graph = rank.graph(50);
            barrier.wait();
            rank.replay(graph.1, 50);
            let replayed = rank.replay(graph.1, 50);
            rank.destroy_graph(graph);
            barrier.wait();
            let streamed = rank.between_events(200, || (0..200).for_each(|_| rank.all_reduce()));
            rank.wait();
            barrier.wait();
            let start = virtual_micros();
            rank.all_reduce();
            rank.wait();
            let lone = virtual_micros() - start;
            assert!(rank.result_is_right());
            [replayed, streamed, lone]
        });
        let most = |mode: usize| results.iter().map(|times| times[mode]).fold(0.0, f64::max);
        say(&format!("{} {:.3} {:.3} {:.3}", 14336 * tokens, most(0), most(1), most(2)));
    }
}

#[test]
fn scenarios() {
    match scenario().as_deref() {
        Some("times of 2 ranks") => times(2),
        Some("times of 8 ranks") => times(8),
        _ => (),
    }
}

/// Graph, stream and lone times per size.
fn measure(scenario: &str, variables: &[(&str, &str)]) -> Vec<[f64; 3]> {
    let quiet = [("NCCLSWEEP_EMULATE_NOISE", "none")];
    let output = in_process(scenario, &[&quiet[..], variables].concat());
    let parse = |line: &String| {
        let numbers: Vec<f64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        [numbers[1], numbers[2], numbers[3]]
    };
    said(&output).iter().map(parse).collect()
}

fn assert_near(value: f64, figure: f64, share: f64) {
    assert!((value / figure - 1.0).abs() <= share, "{value:.2} µs is not near {figure} µs");
}

#[test]
fn eight_ranks_meet_and_reduce_for_real() {
    let right = with_comm(8, 14336, |rank, _| {
        rank.all_reduce();
        rank.wait();
        rank.result_is_right()
    });
    assert_eq!(right, [true; 8]);
}

#[test]
fn the_box_of_the_story_is_about_twice_as_fast_with_its_tuned_set() {
    let default = measure("times of 8 ranks", &[]);
    let tuned = measure(
        "times of 8 ranks",
        &[("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Ring"), ("NCCL_P2P_LEVEL", "SYS"), ("NCCL_MAX_NCHANNELS", "16")],
    );
    for (slow, fast) in default.iter().zip(&tuned) {
        assert!(slow[0] / fast[0] > 1.5, "{slow:?} {fast:?}");
    }
}

#[test]
fn the_tuned_set_changes_nothing_where_ll_is_the_default_already() {
    for (machine, scenario) in [("8xpcie-flat", "times of 8 ranks"), ("4x4090-phb", "times of 2 ranks")] {
        let default = measure(scenario, &[("NCCLSWEEP_EMULATE_TOPOLOGY", machine)]);
        let tuned = [
            ("NCCLSWEEP_EMULATE_TOPOLOGY", machine),
            ("NCCL_PROTO", "LL"),
            ("NCCL_ALGO", "Ring"),
            ("NCCL_P2P_LEVEL", "SYS"),
            ("NCCL_MAX_NCHANNELS", "16"),
            ("NCCL_BUFFSIZE", "16777216"),
            ("NCCL_NTHREADS", "512"),
        ];
        for (default, tuned) in default.iter().zip(measure(scenario, &tuned)) {
            assert_near(tuned[0] / default[0], 1.0, 0.001);
        }
    }
}

#[test]
fn fewer_threads_than_by_default_slow_the_data_down() {
    let few = measure("times of 8 ranks", &[("NCCL_NTHREADS", "64")]);
    let usual = measure("times of 8 ranks", &[("NCCL_NTHREADS", "256")]);
    let default = measure("times of 8 ranks", &[]);
    assert_eq!(usual, default, "256 is what Simple takes on this box");
    assert!(few[3][0] > default[3][0]);
}

#[test]
fn two_h200_over_nvlink_meet_the_measured_table() {
    let times = measure("times of 2 ranks", &[("NCCLSWEEP_EMULATE_TOPOLOGY", "2xh200-nvlink")]);
    for ([graph, stream, _], measured) in times.iter().zip([11.9, 12.4, 12.1, 12.8]) {
        assert_near(*graph, 7.45, 0.05);
        assert_near(*stream, measured, 0.07);
    }
}

#[test]
fn two_h200_through_host_memory_meet_the_measured_table() {
    let variables = [("NCCLSWEEP_EMULATE_TOPOLOGY", "2xh200-nvlink"), ("NCCL_P2P_DISABLE", "1")];
    let times = measure("times of 2 ranks", &variables);
    let measured = [[13.3, 13.6, 25.7], [13.5, 14.4, 26.8], [14.2, 15.0, 27.8], [15.2, 15.8, 28.0]];
    for (times, measured) in times.iter().zip(measured) {
        times.iter().zip(measured).for_each(|(&time, measured)| assert_near(time, measured, 0.05));
    }
}

#[test]
fn eight_ranks_on_two_h200_meet_the_measured_table() {
    let variables = [
        ("NCCLSWEEP_EMULATE_TOPOLOGY", "2xh200-nvlink"),
        ("NCCLSWEEP_EMULATE_NCCL", "2.32.3"),
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_MULTI_RANK_GPU_ENABLE", "1"),
    ];
    let times = measure("times of 8 ranks", &variables);
    let measured = [[50.4, 52.8, 66.6], [51.7, 53.6, 68.9], [54.1, 56.2, 70.8], [55.7, 57.9, 72.6]];
    for (times, measured) in times.iter().zip(measured) {
        times.iter().zip(measured).for_each(|(&time, measured)| assert_near(time, measured, 0.04));
    }
}

#[test]
fn one_seed_gives_the_same_times_whatever_the_scheduling() {
    let times = |seed| {
        let variables = [("NCCLSWEEP_EMULATE_SEED", seed), ("NCCLSWEEP_EMULATE_NOISE", "graph")];
        measure("times of 8 ranks", &variables)
    };
    assert_eq!(times("5"), times("5"));
    assert_ne!(times("5"), times("6"));
}

#[test]
fn a_scale_makes_a_known_truth() {
    let scaled =
        measure("times of 8 ranks", &[("NCCL_PROTO", "LL"), ("NCCLSWEEP_EMULATE_SCALE", "NCCL_PROTO=LL:1.10")]);
    let plain = measure("times of 8 ranks", &[("NCCL_PROTO", "LL")]);
    for (scaled, plain) in scaled.iter().zip(&plain) {
        assert_near(scaled[0] / plain[0], 1.10, 0.001);
    }
}
