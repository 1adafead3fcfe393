//! The JSON Schema of `run.json`, published as `docs/run-1.schema.json`.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::run::{Run, SCHEMA};

/// The schema of what this program writes. A field that is added later is allowed: readers pass over what they do not know.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Run>().to_value();
    schema["$id"] = json!(format!("urn:ncclsweep:run:{SCHEMA}"));
    schema["title"] = json!(format!("run.json of ncclsweep, version {SCHEMA}"));
    schema["properties"]["schema"] = json!({ "description": "Version of this layout.", "const": SCHEMA });
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/run-1.schema.json");

    fn faults(document: &Value) -> Vec<String> {
        let validator = jsonschema::validator_for(&schema()).expect("a schema");
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn the_published_schema_is_that_of_this_program() {
        let published: Value = serde_json::from_slice(&std::fs::read(PUBLISHED).unwrap()).unwrap();
        assert!(published == schema(), "make it anew: ncclsweep schema > docs/run-{SCHEMA}.schema.json");
    }

    #[test]
    fn what_is_written_is_valid_and_what_is_not_is_told() {
        let mut run = serde_json::to_value(fixture::two_sets()).unwrap();
        assert_eq!(faults(&run), [] as [String; 0]);
        run["cells"][0]["verdict"] = json!("fast");
        run["schema"] = json!(2);
        let found = faults(&run).join("; ");
        assert!(found.contains("/cells/0/verdict") && found.contains("/schema"), "{found}");
    }
}
