//! Decides whether this build can run programs: only on Linux, unless `QUARRY_NO_SANDBOX=1` is set to compile what
//! other systems do (`--cfg quarry_no_sandbox` in `RUSTFLAGS` has the same effect, but recompiles everything).

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::env;

fn main() {
    println!("cargo::rerun-if-env-changed=QUARRY_NO_SANDBOX");
    println!("cargo::rustc-check-cfg=cfg(quarry_no_sandbox)");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if !is_linux || env::var_os("QUARRY_NO_SANDBOX").is_some() {
        println!("cargo::rustc-cfg=quarry_no_sandbox");
    }
}
