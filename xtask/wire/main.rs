//! Makes the Rust code of the gRPC messages; `cargo xtask generate` runs it when they changed.
//!
//! It is a separate program so that the chores stay quick to build.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// What a shard and a provider say to each other.
const PROTO: &str = "bigfleet/v1alpha1/provider.proto";
/// What they may say beside.
const BESIDE: &str = "usher/provider/v1alpha1/salvage.proto";
/// The protobuf package, and the module of its code as the code of the second package names it.
const CODE: (&str, &str) = (".bigfleet.v1alpha1", "crate::fleet::generated");
/// It carries secrets, so its `Debug` is hand-written.
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

/// Writes the code of both packages, and `descriptor.bin` for gRPC reflection.
fn make(protos: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    let mut bare = protox::Compiler::new([protos])?;
    let bare = bare.open_files([PROTO, BESIDE])?.encode_file_descriptor_set();
    fs::write(out.join("descriptor.bin"), bare)?;
    let mut config = prost_build::Config::new();
    config.btree_map(["."]).bytes(["."]).skip_debug([SECRET]);
    code(PROTO, (protos, out), config)?;
    let mut config = prost_build::Config::new();
    config.extern_path(CODE.0, CODE.1);
    let apart = out.join("beside");
    code(BESIDE, (protos, &apart), config)?;
    let made = "usher.provider.v1alpha1.rs";
    fs::rename(apart.join(made), out.join(made))?;
    Ok(())
}

/// Writes the code of one file. Its comments become the documentation.
fn code(
    proto: &str,
    (protos, out): (&Path, &Path),
    config: prost_build::Config,
) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    let set = protox::compile([proto], [protos])?;
    tonic_prost_build::configure()
        .out_dir(out)
        .build_transport(false)
        .compile_fds_with_config(set, config)?;
    Ok(())
}
