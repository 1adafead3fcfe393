//! `ncclsweep`: see the library's documentation.

fn main() {}
