//! Makes the Rust code of the gRPC messages; `cargo xtask generate` runs it when they changed.
//!
//! It stands apart so that the chores stay quick to build.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// What a shard and a provider say to each other.
const PROTO: &str = "bigfleet/v1alpha1/provider.proto";
/// It brings secrets, so what prints it is written by hand.
const SECRET: &str = ".bigfleet.v1alpha1.ConfigureRequest";

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1).map(PathBuf::from);
    let (Some(protos), Some(out)) = (words.next(), words.next()) else {
        eprintln!("wire-code: say where the messages are, and where the code goes");
        return ExitCode::from(2);
    };
    match make(&protos, &out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("wire-code: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes `bigfleet.v1alpha1.rs`, and `descriptor.bin` for servers that are asked what they speak.
fn make(protos: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    let bare = protox::Compiler::new([protos])?.open_file(PROTO)?.encode_file_descriptor_set();
    fs::write(out.join("descriptor.bin"), bare)?;
    // This one has the comments, too, which become the documentation of the code.
    let set = protox::compile([PROTO], [protos])?;
    let mut config = prost_build::Config::new();
    config.btree_map(["."]).bytes(["."]).skip_debug([SECRET]);
    tonic_prost_build::configure()
        .out_dir(out)
        .build_transport(false)
        .compile_fds_with_config(set, config)?;
    Ok(())
}
