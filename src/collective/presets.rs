//! Hidden sizes and layers of models people serve, so that `kimi-k2.5x1..4` and `--model kimi-k2.5` need no look-up.
//!
//! Under tensor parallelism a layer all-reduces its activations: hidden size × tokens elements, twice a layer, after the
//! attention's output projection and after the MLP or the experts (Shoeybi 2019, <https://arxiv.org/abs/1909.08053>, §3).

/// A model and the width of its residual stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name in a size list, in lower case.
    pub name: &'static str,
    /// Its hidden size.
    pub hidden: u64,
    /// Its transformer layers; what predicts further tokens (MTP, EAGLE) is not counted.
    pub layers: u32,
}

/// All-reduces of one layer under tensor parallelism.
const A_LAYER: u32 = 2;

impl Preset {
    /// All-reduces of one forward step, those of the layers. A server that splits its embedding by vocabulary adds one.
    #[must_use]
    pub const fn all_reduces(&self) -> u32 {
        self.layers * A_LAYER
    }
}

/// `hidden_size` and `num_hidden_layers` of the `config.json` each model is published with (for gpt-oss the defaults of transformers' `GptOssConfig`).
pub const PRESETS: [Preset; 14] = [
    Preset { name: "kimi-k2", hidden: 7168, layers: 61 },
    Preset { name: "kimi-k2.5", hidden: 7168, layers: 61 },
    Preset { name: "deepseek-v3", hidden: 7168, layers: 61 },
    Preset { name: "deepseek-r1", hidden: 7168, layers: 61 },
    Preset { name: "qwen3-235b", hidden: 4096, layers: 94 },
    Preset { name: "qwen3-coder-480b", hidden: 6144, layers: 62 },
    Preset { name: "glm-4.5", hidden: 5120, layers: 92 },
    Preset { name: "minimax-m2", hidden: 3072, layers: 62 },
    Preset { name: "gpt-oss-120b", hidden: 2880, layers: 36 },
    Preset { name: "gpt-oss-20b", hidden: 2880, layers: 24 },
    Preset { name: "llama-3.1-8b", hidden: 4096, layers: 32 },
    Preset { name: "llama-3.1-405b", hidden: 16_384, layers: 126 },
    Preset { name: "llama-3.3-70b", hidden: 8192, layers: 80 },
    Preset { name: "mixtral-8x22b", hidden: 6144, layers: 56 },
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
        assert_eq!(preset("kimi-k2.5").unwrap().all_reduces(), 122);
        for known in &PRESETS {
            assert_eq!(preset(known.name), Some(known), "two presets are called {}", known.name);
            assert!(known.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
        }
    }
}
