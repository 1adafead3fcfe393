//! What is linked may be passed on: the licence of every package is one that `deny.toml` allows.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn every_package_has_a_licence_that_is_allowed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let deny: toml::Table = std::fs::read_to_string(root.join("deny.toml")).unwrap().parse().unwrap();
    let allowed: Vec<&str> =
        deny["licenses"]["allow"].as_array().unwrap().iter().filter_map(|id| id.as_str()).collect();
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    // Packages of other systems need not be here.
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]).current_dir(root);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{} packages", packages.len());
    for package in packages {
        let (name, licence) = (package["name"].as_str().unwrap(), package["license"].as_str());
        let licence = licence.unwrap_or_else(|| panic!("{name} names no licence"));
        let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX).unwrap();
        let is_allowed = |of: &spdx::LicenseReq| allowed.contains(&of.to_string().as_str());
        assert!(expression.evaluate(is_allowed), "{name}: {licence}");
    }
}
