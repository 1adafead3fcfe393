//! Hidden sizes of models people serve, so that `kimi-k2.5x1..4` needs no look-up.
//!
//! Under tensor parallelism a layer all-reduces its activations: hidden size × tokens elements, twice a layer.

/// A model and the width of its residual stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name in a size list, in lower case.
    pub name: &'static str,
    /// Its hidden size.
    pub hidden: u64,
}

/// `hidden_size` of the `config.json` each model is published with (for gpt-oss the defaults of transformers' `GptOssConfig`).
pub const PRESETS: [Preset; 14] = [
    Preset { name: "kimi-k2", hidden: 7168 },
    Preset { name: "kimi-k2.5", hidden: 7168 },
    Preset { name: "deepseek-v3", hidden: 7168 },
    Preset { name: "deepseek-r1", hidden: 7168 },
    Preset { name: "qwen3-235b", hidden: 4096 },
    Preset { name: "qwen3-coder-480b", hidden: 6144 },
    Preset { name: "glm-4.5", hidden: 5120 },
    Preset { name: "minimax-m2", hidden: 3072 },
    Preset { name: "gpt-oss-120b", hidden: 2880 },
    Preset { name: "gpt-oss-20b", hidden: 2880 },
    Preset { name: "llama-3.1-8b", hidden: 4096 },
    Preset { name: "llama-3.1-405b", hidden: 16_384 },
    Preset { name: "llama-3.3-70b", hidden: 8192 },
    Preset { name: "mixtral-8x22b", hidden: 6144 },
];

/// The preset of this name, whatever its case.
#[must_use]
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_found_in_any_case_and_each_name_is_its_own() {
        assert_eq!(preset("Kimi-K2.5").unwrap().hidden, 7168);
        for known in &PRESETS {
            assert_eq!(preset(known.name), Some(known), "two presets are called {}", known.name);
            assert!(known.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
        }
    }
}
