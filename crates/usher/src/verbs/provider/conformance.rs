//! `usher provider conformance`: runs the conformance suite against a provider.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use usher_provider::conformance::{
    self, Certificate, Exercised, Finding, Launcher, Profile, Suite, Target,
};
use usher_provider::program::duration;
use usher_wire::fleet::{Files, Keyring};

use usher_cli::console::{Console, Form, table};
use usher_cli::error::CliError;
use usher_wire::chain;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Test the provider that listens at this address
    #[arg(long, value_name = "ADDR", required_unless_present = "program")]
    target: Option<String>,
    /// Run these profiles: core, cloud, bare-metal, spot, scale, durable, fault
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "core")]
    profile: Vec<Profile>,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Start a program with this many slots
    #[arg(long, value_name = "N", default_value_t = 256)]
    seed_count: usize,
    /// Start a program with this many slots in the scale profile
    #[arg(long, value_name = "N", default_value_t = 8_000)]
    scale_seed_count: usize,
    /// Create and delete machines for this long in the scale profile
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    soak: Duration,
    /// Run only this behaviour, as in B101
    #[arg(long, value_name = "ID", value_parser = behaviour)]
    only: Option<u16>,
    /// Client certificate; all three files are given, or none
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Certificate authorities that the provider's certificate must chain to
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t = Form::Table)]
    output: Form,
    /// Start this program for each profile, with these arguments before its flags
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    match ask(flags) {
        Ok(Certificate::Certified) => ExitCode::SUCCESS,
        Ok(Certificate::Failed | Certificate::Incomplete) => ExitCode::FAILURE,
        Err(stop) => stop.print(),
    }
}

fn ask(flags: &Flags) -> Result<Certificate, CliError> {
    let console = Console { form: flags.output };
    let scratch = std::env::temp_dir().join(format!("usher-conformance-{}", std::process::id()));
    let failed = |why: std::io::Error| {
        CliError::failed(format!("failed to start the conformance suite: {why}"))
    };
    std::fs::create_dir_all(&scratch).map_err(failed)?;
    let suite = Suite {
        target: target(flags)?,
        profiles: flags.profile.iter().copied().collect(),
        seed: flags.seed,
        seed_count: flags.seed_count,
        scale_seed_count: flags.scale_seed_count,
        soak: flags.soak,
        scratch: scratch.clone(),
        only: flags.only,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let findings = runtime.map_err(failed)?.block_on(conformance::run(&suite, |finding| {
        let title = finding.behaviour.title;
        console.note(&format!("B{} {title}: {}", finding.behaviour.id, word(&finding.result)));
    }));
    let _ = std::fs::remove_dir_all(scratch);
    let certificate = Certificate::of(&findings);
    console.one(&document(&findings, certificate), || lines(&findings, certificate))?;
    Ok(certificate)
}

fn target(flags: &Flags) -> Result<Target, CliError> {
    let files = (flags.tls_cert.clone(), flags.tls_key.clone(), flags.tls_ca.clone());
    let files = Files::of(files.0, files.1, files.2).map_err(|why| CliError::usage(chain(&why)))?;
    let keyring =
        files.map(Keyring::open).transpose().map_err(|why| CliError::usage(chain(&why)))?;
    match (flags.program.split_first(), &flags.target) {
        (Some(_), Some(_)) => {
            Err(CliError::usage("--target and a program are both given: give one"))
        }
        (Some((program, args)), None) => {
            Ok(Target::Program(Launcher { program: program.clone(), args: args.to_vec() }))
        }
        (None, Some(address)) => Ok(Target::Address(address.clone(), keyring.map(Arc::new))),
        (None, None) => Err(CliError::usage("no provider: give --target or a program")),
    }
}

fn behaviour(text: &str) -> Result<u16, String> {
    let id = text.trim_start_matches('B').parse().ok();
    let known = id.filter(|id| conformance::list().any(|it| it.id == *id));
    known.ok_or_else(|| format!("behaviour \"{text}\" does not exist, expected an id as in B101"))
}

const fn word(result: &Exercised) -> &'static str {
    match result {
        Exercised::Passed => "passed",
        Exercised::Failed(_) => "failed",
        Exercised::Skipped(_) => "skipped",
    }
}

fn reason(result: &Exercised) -> &str {
    match result {
        Exercised::Passed => "",
        Exercised::Failed(why) | Exercised::Skipped(why) => why,
    }
}

fn document(findings: &[Finding], certificate: Certificate) -> Value {
    let items: Vec<Value> = findings
        .iter()
        .map(|it| {
            json!({
                "id": format!("B{}", it.behaviour.id),
                "area": it.behaviour.area.as_str(),
                "title": it.behaviour.title,
                "result": word(&it.result),
                "reason": reason(&it.result),
                "required": it.required,
            })
        })
        .collect();
    json!({ "verdict": certificate.as_str(), "behaviours": items })
}

fn lines(findings: &[Finding], certificate: Certificate) -> String {
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|it| {
            let (id, area) = (format!("B{}", it.behaviour.id), it.behaviour.area.as_str());
            let why = match reason(&it.result) {
                "" => it.behaviour.title.to_owned(),
                why => format!("{}: {why}", it.behaviour.title),
            };
            vec![id, area.to_owned(), word(&it.result).to_owned(), why]
        })
        .collect();
    let count = |result: &str| findings.iter().filter(|it| word(&it.result) == result).count();
    format!(
        "{}\n{}: {} passed, {} failed, {} skipped\n",
        table(&["ID", "AREA", "RESULT", "BEHAVIOUR"], &rows),
        certificate.as_str(),
        count("passed"),
        count("failed"),
        count("skipped")
    )
}
