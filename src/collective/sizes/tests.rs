use proptest::prelude::*;

use super::super::presets::PRESETS;
use super::*;

fn elements(text: &str, dtype: Dtype) -> Vec<u64> {
    SizeList::parse("--sizes", text).unwrap().sizes(dtype).unwrap().iter().map(|size| size.elements).collect()
}

/// What a wrong list is told: message, the marked text, help.
fn fault(text: &str) -> (String, String, String) {
    let list = SizeList::parse("--sizes", text);
    let error = list.and_then(|list| list.sizes(Dtype::Bfloat16)).expect_err(text);
    assert_eq!(error.kind(), crate::error::Kind::Usage);
    let marked = text.get(error.span().unwrap()).unwrap_or("").to_owned();
    (error.message().to_owned(), marked, error.next_step().unwrap().to_owned())
}

#[test]
fn hidden_size_times_tokens_counts_elements() {
    assert_eq!(elements("7168x1..4", Dtype::Bfloat16), [7168, 14_336, 21_504, 28_672]);
    assert_eq!(elements("7168x1/2/8", Dtype::Float32), [7168, 14_336, 57_344]);
    assert_eq!(elements("4096x1..64*4", Dtype::Bfloat16), [4096, 16_384, 65_536, 262_144]);
    assert_eq!(elements("4096x1..20*4/3", Dtype::Bfloat16), [4096, 16_384, 65_536, 12_288]);
    assert_eq!(elements("7168x2..2", Dtype::Bfloat16), [14_336]);
}

#[test]
fn bytes_count_elements_of_the_data_type() {
    assert_eq!(elements("14336B", Dtype::Bfloat16), [7168]);
    assert_eq!(elements("14336B", Dtype::Float32), [3584]);
    assert_eq!(elements("8K..64K*2", Dtype::Bfloat16), [4096, 8192, 16_384, 32_768]);
    assert_eq!(elements("1kib, 1M", Dtype::Int8), [1 << 10, 1 << 20]);
    assert_eq!(elements("1024G", Dtype::Int8), [1 << 40]);
}

#[test]
fn a_model_stands_for_its_hidden_size() {
    assert_eq!(elements("kimi-k2.5x1..2", Dtype::Bfloat16), [7168, 14_336]);
    assert_eq!(elements("Mixtral-8x22bx2", Dtype::Bfloat16), [12_288]);
}

#[test]
fn sizes_keep_their_order_and_label_and_come_once() {
    let list = SizeList::parse("--sizes", "7168x2,14336B,28672B,7168x1").unwrap();
    let sizes = list.sizes(Dtype::Bfloat16).unwrap();
    assert_eq!(sizes.iter().map(|size| size.label(Dtype::Bfloat16)).collect::<Vec<_>>(), ["7168x2", "14 KiB"]);
}

#[test]
fn a_wrong_list_is_told_what_where_and_what_would_be_right() {
    let cases = [
        ("7168x0", "tokens cannot be zero", "0"),
        ("0x4", "hidden size cannot be zero", "0"),
        ("7168x", "tokens missing", "x"),
        ("x4", "hidden size missing", "x"),
        ("7168x1//2", "tokens missing", "/"),
        ("7168x4..1", "a range ends below its start", "4..1"),
        ("7168x1..", "tokens missing", "."),
        ("7168x1..2..3", "tokens: `2..3` is not a number", "2..3"),
        ("7168x-1", "tokens: `-1` is not a number", "-1"),
        ("7168x4*2", "a factor needs a range", "*2"),
        ("8K..1M*1", "a factor must be 2 or more", "1"),
        ("8K..1M*0", "a factor must be 2 or more", "0"),
        ("8K..1M*", "factor missing", "*"),
        ("8K..1M", "a range of bytes needs a factor", "8K..1M"),
        ("7168x1,", "the list of sizes ends in a comma", ","),
        ("7168x1,,8K", "a size is missing", ","),
        (",8K", "a size is missing", ","),
        ("", "the list of sizes is empty", ""),
        ("  ", "the list of sizes is empty", "  "),
        ("14336", "`14336` has no unit", "14336"),
        ("0B", "a size cannot be zero", "0B"),
        ("14KB", "unknown unit `KB`", "KB"),
        ("8Kµ", "unknown unit `Kµ`", "Kµ"),
        ("8K, kimi-2.5x1", "`kimi-2.5` is neither a size nor a model whose hidden size is known", "kimi-2.5"),
        ("kimi-k2.5", "`kimi-k2.5` has no tokens", "kimi-k2.5"),
        ("99999999999999999999B", "bytes is too large", "99999999999999999999"),
        ("9999999999999999999x9999", "a size is above 1 TiB", "9999999999999999999x9999"),
        ("1025G", "a size is above 1 TiB", "1025G"),
        ("99999999999G", "a size is above 1 TiB", "99999999999G"),
        ("1099511627776x1", "a size is above 1 TiB, more than a GPU holds", "1099511627776x1"),
        ("7168x1..10001", "the list has more than 10000 sizes", "7168x1..10001"),
        ("8K,1x1..1099511627776", "the list has more than 10000 sizes", "1x1..1099511627776"),
        ("8193B", "8193 bytes are not a whole number of bf16 elements", "8193B"),
    ];
    for (text, message, marked) in cases {
        let told = fault(text);
        assert_eq!((told.0.as_str(), told.1.as_str()), (message, marked), "for {text}");
        assert!(!told.2.is_empty());
    }
}

#[test]
fn the_help_offers_what_was_meant() {
    assert!(fault("kimi-2.5x1").2.starts_with("did you mean `kimi-k2.5`?"));
    assert_eq!(fault("8193B").2, "near it: 8K or 8194B; or another --dtype");
    assert_eq!(fault("1B").2, "near it: 2B; or another --dtype");
    assert_eq!(fault("14336").2, "bytes: 14336B; tokens of a model: 7168x2");
}

#[test]
fn every_example_of_a_help_is_itself_right() {
    for text in ["7168x1..4", "kimi-k2.5x1/2/8", "14336B", "8K..1M*2", "14K", "7168x2", "7168x1..4096*2"] {
        assert!(!elements(text, Dtype::Bfloat16).is_empty());
    }
}

#[test]
fn a_list_inside_a_larger_text_points_into_that_text() {
    let text = "sizes = [\"8K\", \"7168x0\"]";
    let spans = [10..12, 16..22];
    let error = SizeList::parse_within("a.toml", text, &spans).unwrap_err();
    assert_eq!(error.span(), Some(21..22));
    let text = "sizes = \"8K,7B\"";
    let list = SizeList::parse_within("a.toml", text, std::slice::from_ref(&(9..14))).unwrap();
    assert_eq!(list.sizes(Dtype::Bfloat16).unwrap_err().span(), Some(12..14));
    assert_eq!(list.sizes(Dtype::Int8).unwrap().len(), 2);
}

fn run(max: u64) -> impl Strategy<Value = Run> {
    let ordered = (1..=max, 0..50_u64).prop_map(|(from, more)| (from, from + more));
    prop_oneof![
        (1..=max).prop_map(Run::One),
        ordered.clone().prop_map(|(from, to)| Run::Each(from, to)),
        (ordered, 2..9_u64).prop_map(|((from, to), factor)| Run::Times(from, to, factor)),
    ]
}

fn item() -> impl Strategy<Value = SizeItem> {
    let hidden = prop_oneof![
        (1..100_000_u64).prop_map(Hidden::Elements),
        (0..PRESETS.len()).prop_map(|i| Hidden::Model(&PRESETS[i])),
    ];
    let bytes = (1..1024_u64, 0..4_u32).prop_map(|(n, unit)| n << (10 * unit));
    let byte_run = prop_oneof![
        bytes.clone().prop_map(Run::One),
        (bytes, 1..1000_u64, 2..9_u64).prop_map(|(n, times, factor)| Run::Times(n, (n * times).min(MAX_BYTES), factor)),
    ];
    prop_oneof![
        (hidden, prop::collection::vec(run(10_000), 1..4)).prop_map(|(hidden, runs)| SizeItem::Tokens(hidden, runs)),
        byte_run.prop_map(SizeItem::Bytes),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_itself(items in prop::collection::vec(item(), 1..5)) {
        let printed = items.iter().map(SizeItem::to_string).collect::<Vec<_>>().join(",");
        let list = SizeList::parse("--sizes", &printed).unwrap();
        prop_assert!(list.items().eq(&items), "{printed}");
        prop_assert_eq!(list.to_string(), printed);
    }

    #[test]
    fn any_text_gives_sizes_or_a_fault_inside_the_text(text in "[0-9xXBKMGk,./* a-eµ-]{0,16}") {
        match SizeList::parse("--sizes", &text).and_then(|list| list.sizes(Dtype::Bfloat16)) {
            Ok(sizes) => {
                prop_assert!(!sizes.is_empty());
                prop_assert!(sizes.iter().all(|size| (1..=MAX_BYTES).contains(&size.bytes(Dtype::Bfloat16).0)));
            }
            Err(error) => {
                let span = error.span().unwrap();
                prop_assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}: {error}");
            }
        }
    }
}
