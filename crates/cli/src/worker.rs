//! `quarry worker`: does the work of `quarry judge run` on another machine.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use quarry_judge::{OpenPrograms, Programs, Worker};
use quarry_llm::{ApiKey, HttpTransport};
use quarry_queue::{Connection, SHORTEST_LEASE};
use quarry_sandbox::packages::Settings;
use quarry_text::counted;

use crate::interrupt::stop_on_interrupt;
use crate::judge::IsolationArgs;
use crate::output;

/// Arguments of `quarry worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// NATS server with JetStream to take work from, such as nats://localhost:4222
    #[arg(long, value_name = "URL")]
    nats: String,
    /// Model that this worker may ask: its `base_url` in plans, and the environment variable with its key (can be
    /// repeated). Without one, it only runs programs
    #[arg(long = "model", value_name = "ADDRESS[=VARIABLE]")]
    models: Vec<String>,
    /// Maximum number of questions to ask at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    questions: u32,
    /// Maximum number of programs to run at the same time, 0 for none [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    programs: Option<u32>,
    /// Seconds of silence after which the work of this worker is given to another
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(SHORTEST_LEASE.as_secs()..=3600))]
    lease: u64,
    #[command(flatten)]
    isolation: IsolationArgs,
}

/// Runs `quarry worker`, until it is interrupted.
pub fn run(args: &WorkerArgs) -> anyhow::Result<ExitCode> {
    let models =
        args.models.iter().map(|model| open_model(model, args.questions)).collect::<Result<_, _>>()?;
    let programs_at_once = match args.programs {
        Some(count) => count as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let stop = stop_on_interrupt()?;
    let (languages, programs) = match programs_at_once {
        0 => (Vec::new(), None),
        _ => {
            // Report missing programs at once, rather than when the first task arrives.
            let programs = args
                .isolation
                .open_with(None, programs_at_once, &stop)
                .context("programs cannot run here; `--programs 0` leaves them to other workers")?;
            let languages = programs.languages()?;
            let (isolation, stop) = (args.isolation.clone(), Arc::clone(&stop));
            let open = move |packages: Option<&Settings>| {
                Ok(Arc::new(isolation.open_with(packages, programs_at_once, &stop)?) as Arc<dyn Programs>)
            };
            (languages, Some(Box::new(open) as OpenPrograms))
        }
    };
    let lease = Duration::from_secs(args.lease);
    let questions = args.questions as usize;
    let worker = Worker { models, questions, programs, languages, programs_at_once, lease };
    let connection = Connection::open(&args.nats, stop, Arc::new(output::note))?;
    let models: Vec<&str> = worker.models.iter().map(HttpTransport::address).collect();
    output::note(&format!(
        "working for {}; models: {}; programs: {}",
        connection.address(),
        if models.is_empty() { "none".to_owned() } else { models.join(", ") },
        if worker.languages.is_empty() { "none".to_owned() } else { worker.languages.join(", ") },
    ));
    let done = worker.work(&connection)?;
    output::note(&format!("{}, {}", counted(done.questions, "question"), counted(done.programs, "program")));
    Ok(ExitCode::SUCCESS)
}

/// A model with its key. The key is sent only to this address, regardless of what a task names.
fn open_model(model: &str, connections: u32) -> anyhow::Result<HttpTransport> {
    let (address, variable) = match model.rsplit_once('=') {
        Some((address, variable)) => (address, Some(variable)),
        None => (model, None),
    };
    let key = variable.map(ApiKey::from_environment).transpose().context("--model")?;
    // An address may hold a password, which no message repeats.
    HttpTransport::new(address, key, connections).context("--model")
}
