use proptest::prelude::*;

use super::*;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

fn sets(set: &[&str], vary: &[&str]) -> Result<Vec<EnvSet>> {
    from_flags(&Vars::default(), &texts(set), &texts(vary))
}

fn names(sets: &[EnvSet]) -> Vec<&str> {
    sets.iter().map(|set| set.name.as_str()).collect()
}

#[test]
fn flags_give_the_baseline_then_the_sets_then_the_product() {
    let sets =
        sets(&["mine:NCCL_PROTO=LL,NCCL_MAX_NCHANNELS=16"], &["NCCL_ALGO=Ring,Tree", "NCCL_NTHREADS=256,512"]).unwrap();
    let expected = [
        "default",
        "mine",
        "ALGO=Ring+NTHREADS=256",
        "ALGO=Ring+NTHREADS=512",
        "ALGO=Tree+NTHREADS=256",
        "ALGO=Tree+NTHREADS=512",
    ];
    assert_eq!(names(&sets), expected);
    assert!(sets[0].vars.is_empty());
    assert_eq!(sets[1].vars.to_string(), "NCCL_PROTO=LL,NCCL_MAX_NCHANNELS=16");
    assert_eq!(sets[5].vars.get("NCCL_ALGO"), Some("Tree"));
}

#[test]
fn values_keep_colons_equals_semicolons_and_escaped_commas() {
    let sets = sets(
        &[r"a:NCCL_ALGO=Ring;AllReduce:Tree\,Ring,NCCL_SOCKET_IFNAME==eth0,NCCL_TOPO_FILE=C:\x\\y,NCCL_NET="],
        &[],
    );
    let vars = &sets.unwrap()[1].vars;
    let expected = [
        ("NCCL_ALGO", "Ring;AllReduce:Tree,Ring"),
        ("NCCL_SOCKET_IFNAME", "=eth0"),
        ("NCCL_TOPO_FILE", r"C:\x\y"),
        ("NCCL_NET", ""),
    ];
    assert_eq!(vars.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_wrong_set_is_told_what_and_where() {
    let cases = [
        ("NCCL_PROTO=LL", "an env set needs a name and a colon", "NCCL_PROTO=LL"),
        ("NCCL_ALGO=allreduce:Ring", "an env set needs a name and a colon", "NCCL_ALGO=allreduce:Ring"),
        (":NCCL_PROTO=LL", "an env set has no name", ":"),
        ("my set:NCCL_PROTO=LL", "`my set` cannot be the name of an env set", "my set"),
        ("-x:NCCL_PROTO=LL", "`-x` cannot be the name of an env set", "-x"),
        ("..:NCCL_PROTO=LL", "`..` cannot be the name of an env set", ".."),
        ("a:", "env set `a` has no variables", ":"),
        ("a:NCCL_PROTO", "`NCCL_PROTO` gives no value to a variable", "NCCL_PROTO"),
        ("a:NCCL_ALGO=Ring,Tree", "`Tree` gives no value to a variable", "Tree"),
        ("a:NCCL_PROTO=LL,", "`` gives no value to a variable", ","),
        ("a:=LL", "a variable has no name", ":"),
        ("a:nccl_proto=LL", "`nccl_proto` is no name of an environment variable", "nccl_proto"),
        ("a:NCCL-PROTO=LL", "`NCCL-PROTO` is no name of an environment variable", "NCCL-PROTO"),
        ("a:1A=LL", "`1A` is no name of an environment variable", "1A"),
        ("a:NCCL_PROTO=L\nL", "the value of NCCL_PROTO holds a control character", "L\nL"),
        ("a:NCCL_PROTO=LL,NCCL_PROTO=LL", "NCCL_PROTO is set twice", "NCCL_PROTO"),
        ("default:NCCL_PROTO=LL", "`default` is the baseline, the set without variables", "default"),
    ];
    for (text, message, marked) in cases {
        let error = sets(&[text], &[]).expect_err(text);
        assert_eq!((error.message(), &text[error.span().unwrap()]), (message, marked), "for {text}");
        assert!(error.next_step().is_some());
    }
    assert!(sets(&[&format!("{}:A=1", "n".repeat(65))], &[]).is_err());
    assert!(sets(&[&format!("{}:A=1", "n".repeat(64))], &[]).is_ok());
    assert!(sets(&[&format!("a:A={}", "v".repeat(4097))], &[]).is_err());
}

#[test]
fn a_wrong_variation_is_told_what_and_where() {
    let cases = [
        ("NCCL_PROTO", "a variable to vary needs `=` and its values", "NCCL_PROTO"),
        ("NCCL_PROTO=", "a value of NCCL_PROTO is missing", "="),
        ("NCCL_PROTO=LL,", "a value of NCCL_PROTO is missing", ","),
        ("NCCL_PROTO=LL,LL", "NCCL_PROTO has the value `LL` twice", "LL"),
        ("proto=LL", "`proto` is no name of an environment variable", "proto"),
    ];
    for (text, message, marked) in cases {
        let error = sets(&[], &[text]).expect_err(text);
        assert_eq!((error.message(), &text[error.span().unwrap()]), (message, marked), "for {text}");
    }
    let error = sets(&[], &["NCCL_PROTO=LL", "NCCL_PROTO=Simple"]).unwrap_err();
    assert_eq!(error.message(), "NCCL_PROTO is varied twice");
}

#[test]
fn sets_of_the_same_name_or_effect_are_refused_by_name() {
    let error = sets(&["a:NCCL_PROTO=LL", "a:NCCL_PROTO=Simple"], &[]).unwrap_err();
    assert_eq!(error.message(), "two env sets are called `a`");
    let error = sets(&["a:NCCL_PROTO=LL,NCCL_ALGO=Ring", "b:NCCL_ALGO=Ring,NCCL_PROTO=LL"], &[]).unwrap_err();
    assert_eq!(error.message(), "env sets `a` and `b` have the same variables");
    let error = sets(&["a:NCCL_PROTO=LL"], &["NCCL_PROTO=LL,Simple"]).unwrap_err();
    assert_eq!(error.message(), "env sets `a` and `PROTO=LL` have the same variables");

    let base: Vars = [("NCCL_PROTO", "LL")].into_iter().collect();
    let error = from_flags(&base, &texts(&["a:NCCL_PROTO=LL"]), &[]).unwrap_err();
    assert_eq!(error.message(), "env sets `default` and `a` have the same variables");
    let fine = from_flags(&base, &texts(&["a:NCCL_PROTO=Simple"]), &[]).unwrap();
    check_distinct(&base, &fine).unwrap();
    let other: Vars = [("NCCL_PROTO", "Simple")].into_iter().collect();
    assert!(check_distinct(&other, &fine).is_err());
}

#[test]
fn a_product_is_bounded_and_its_names_are_valid_and_distinct() {
    let many = |n: usize| format!("NCCL_NTHREADS={}", (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(","));
    assert_eq!(sets(&[], &[&many(512)]).unwrap().len(), 513);
    assert_eq!(sets(&[], &[&many(513)]).unwrap_err().message(), "513 env sets are more than 512");
    let huge: Vec<_> = (0..70).map(|i| format!("A{i}=0,1,2,3")).collect();
    assert!(from_flags(&Vars::default(), &[], &huge).is_err());

    let long = format!("NCCL_TOPO_FILE=/{0}a,/{0}b", "x".repeat(80));
    let sets = sets(&[], &[&long, "_A=^LL,:LL"]).unwrap();
    let distinct: std::collections::HashSet<_> = names(&sets).into_iter().collect();
    assert_eq!(distinct.len(), 5);
    assert!(sets.iter().all(|set| check_name(&set.name).is_ok()), "{distinct:?}");
    assert!(product(&[Vary { variable: "A".into(), values: vec![] }]).is_err());
}

#[test]
fn too_many_sets_are_refused_whatever_flag_gives_them() {
    let set: Vec<_> = (0..=MAX_SETS).map(|i| format!("s{i}:NCCL_NTHREADS={i}")).collect();
    assert!(from_flags(&Vars::default(), &set[..MAX_SETS], &[]).is_ok());
    assert!(from_flags(&Vars::default(), &set, &[]).is_err());
}

#[test]
fn base_flags_add_up_and_refuse_a_variable_given_twice() {
    let base = base_from_flags(&texts(&["NCCL_PROTO=LL,NCCL_ALGO=Ring", "NCCL_NTHREADS=512"])).unwrap();
    assert_eq!(base.to_string(), "NCCL_PROTO=LL,NCCL_ALGO=Ring,NCCL_NTHREADS=512");
    assert_eq!(base_from_flags(&texts(&["A=1", "A=2"])).unwrap_err().message(), "A is set twice");
}

#[test]
fn one_set_is_named_by_its_whole_name_and_a_fault_is_shown_in_its_flag() {
    let all = sets(&["simple:NCCL_PROTO=Simple", "pcie-ll:NCCL_PROTO=LL"], &[]).unwrap();
    assert_eq!(named(&all, "--expect", "simple").unwrap().name, "simple");
    for wrong in ["default,simple", "simpel", ""] {
        let error = named(&all, "--expect", wrong).unwrap_err();
        assert!(error.message().contains(&format!("no env set `{wrong}`")), "{error}");
    }
}

#[test]
fn a_selection_keeps_the_baseline_and_the_order_and_knows_its_names() {
    let all = sets(&["pcie-ll:NCCL_PROTO=LL", "simple:NCCL_PROTO=Simple"], &[]).unwrap();
    assert_eq!(names(&select(&all, "simple, pcie-ll").unwrap()), ["default", "pcie-ll", "simple"]);
    assert_eq!(names(&select(&all, "simple").unwrap()), ["default", "simple"]);
    let error = select(&all, "simple,pci-ll").unwrap_err();
    assert_eq!(error.message(), "there is no env set `pci-ll`");
    assert_eq!(error.next_step(), Some("did you mean `pcie-ll`? sets: default, pcie-ll, simple"));
    assert_eq!(error.span(), Some(7..13));
    assert!(select(&all, "").is_err());
}

#[test]
fn variables_are_stored_as_a_map_in_their_order() {
    let vars: Vars = [("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Ring")].into_iter().collect();
    let json = serde_json::to_string(&vars).unwrap();
    assert_eq!(json, r#"{"NCCL_PROTO":"LL","NCCL_ALGO":"Ring"}"#);
    let back: Vars = serde_json::from_str(&json).unwrap();
    assert_eq!(back.iter().next(), Some(("NCCL_PROTO", "LL")));
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_itself(
        values in prop::collection::vec(r"[ -~µ]{0,12}", 1..5),
        name in "[A-Za-z0-9][A-Za-z0-9._+=-]{0,20}",
    ) {
        // A `=` before the first `:` would belong to an assignment.
        prop_assume!(!name.contains('=') && name != DEFAULT);
        let vars: Vars = values.iter().enumerate().map(|(i, value)| (format!("V{i}"), value.clone())).collect();
        let read = from_flags(&Vars::default(), &[format!("{name}:{vars}")], &[]).unwrap();
        prop_assert_eq!(&read[1].name, &name);
        prop_assert_eq!(&read[1].vars, &vars);
    }

    #[test]
    fn any_flag_gives_sets_or_a_fault_inside_its_text(text in r"[A-C_:=,\\ aµ1]{0,14}") {
        for error in [sets(&[&text], &[]).err(), sets(&[], &[&text]).err(), select(&[], &text).err()].into_iter().flatten() {
            let span = error.span().unwrap();
            prop_assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}: {error}");
        }
    }
}
