//! `ncclsweep`: see the library's documentation.

use ncclsweep::cli;

fn main() -> cli::Exit {
    cli::main()
}
