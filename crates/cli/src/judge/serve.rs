//! `quarry judge serve`: forms for people, and the progress of judging, as pages.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::{Args, value_parser};
use quarry_http::{Labels, Server};
use quarry_judge::{Ledger, open_ledger};
use quarry_people::{Form, ItemKind, Session, TestSandbox, forms_to_fill};
use quarry_text::counted;
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::xxh3_128;

use super::{IsolationArgs, PlanArgs, status};
use crate::output;
use crate::serve::{ListenArgs, run_pages};

/// Bytes of the key that the cookies of annotators are made with.
const KEY_BYTES: usize = 32;

/// Arguments of `quarry judge serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Form to fill in, as written by `quarry judge people export` [default: the newest]
    #[arg(long, value_name = "NAME", requires = "annotators")]
    form: Option<String>,
    /// Name of a person who fills it in, who gets a link that works once (can be repeated). Without one, the progress
    /// of the judging is shown, on this machine only
    #[arg(long = "annotator", value_name = "NAME")]
    annotators: Vec<String>,
    /// Number of annotators for each item [default: all]
    #[arg(long, value_name = "N", requires = "annotators", value_parser = value_parser!(u32).range(1..))]
    overlap: Option<u32>,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    listen: ListenArgs,
}

/// Runs `quarry judge serve`, until it is interrupted.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan.open()?;
    if args.annotators.is_empty() {
        let title = format!("Judging {}", plan.path.display());
        let server = Server::for_status(args.listen.local()?, title, status::tables(args.plan.clone()))?;
        return run_pages(server);
    }
    let (writer, _) = open_ledger(&plan)?;
    let form = form(writer.ledger(), args.form.as_deref())?;
    let mut people = args.annotators.clone();
    people.sort();
    people.dedup();
    if let Some(wrong) =
        people.iter().find(|name| name.trim() != *name || name.is_empty() || name.len() > 100)
    {
        bail!(
            "--annotator: expected a name of 1 to 100 bytes without white space around it, found {wrong:?}"
        );
    }
    let overlap = args.overlap.map_or(people.len(), |overlap| overlap as usize);
    if overlap > people.len() {
        bail!(
            "--overlap {overlap}: there are only {}; name more, or lower the overlap",
            counted(people.len(), "annotator")
        );
    }
    let items = counted(form.items.len(), "item");
    let programs_stop = Arc::new(AtomicBool::new(false));
    let sandbox = if form.tests {
        let programs = Box::new(args.isolation.open(&plan, &programs_stop)?);
        Some(TestSandbox { programs, limits: plan.limits.clone() })
    } else {
        None
    };
    let session = Session::open(writer, form, overlap, sandbox)?;
    let status = status::tables(args.plan.clone());
    let (labels, links) = Labels::new(session, people, key(&plan.ledger)?, status)?;
    let ListenArgs { listen, hosts, behind_proxy } = &args.listen;
    let server = Server::for_labels(*listen, labels, hosts.clone(), *behind_proxy)?;
    let stop = server.stop();
    ctrlc::set_handler(move || {
        programs_stop.store(true, Ordering::SeqCst);
        stop.stop();
    })
    .context("cannot install the Ctrl-C handler")?;
    let mut text = String::new();
    for (path, person) in links {
        let person = person.as_deref().unwrap_or("(organizer)");
        text.push_str(&format!("{}\thttp://{}{path}\n", output::printable(person), server.address()));
    }
    output::print(&text)?;
    output::note(&format!("serving {items}; each link works once; Ctrl-C stops the server"));
    server.run();
    output::note("stopped; every answer is in the ledger");
    Ok(ExitCode::SUCCESS)
}

/// The form of a name, or the newest.
fn form(ledger: &Ledger, name: Option<&str>) -> anyhow::Result<Form> {
    let names = forms_to_fill(ledger)?;
    let Some(name) = name.or(names.last().map(String::as_str)) else {
        bail!("{}: it has no form yet; `quarry judge people export` makes one", ledger.path().display());
    };
    let Some(form) = Form::read(ledger, name)? else {
        bail!("--form {name}: no such form; expected one of {}", names.join(", "));
    };
    if form.guideline.asks() == ItemKind::Generated {
        bail!(
            "--form {name}: it asks for edited code, which only the files of `quarry judge people` can take"
        );
    }
    Ok(form)
}

/// The key of a ledger, so that people who have joined can go on after a restart. It is in this user's state directory,
/// by the canonical path of the ledger: a file beside the ledger may come from a stranger, who then could join as
/// anybody.
fn key(ledger: &Path) -> anyhow::Result<Vec<u8>> {
    let directory = quarry_files::state_directory()
        .context(
            "this user has no state directory for the key for links to label; set XDG_STATE_HOME or HOME",
        )?
        .join("labels");
    let ledger = ledger.canonicalize().with_context(|| format!("cannot find {}", ledger.display()))?;
    let path = directory.join(format!("{:032x}.key", xxh3_128(ledger.as_os_str().as_encoded_bytes())));
    let problem = || format!("cannot use {}, the key for links to label", path.display());
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        quarry_files::create_private_directory(&directory).with_context(problem)?;
        // Whole or not at all.
        let mut file = NamedTempFile::new_in(&directory).with_context(problem)?;
        file.write_all(&Labels::random_key()?)
            .and_then(|()| file.as_file().sync_all())
            .with_context(problem)?;
        file.persist_noclobber(&path).with_context(problem)?;
    }
    let key = quarry_files::read_private(&path, KEY_BYTES as u64);
    match key.with_context(|| format!("{}; remove it, and have people join again", problem()))? {
        key if key.len() == KEY_BYTES => Ok(key),
        key => bail!(
            "{}: expected {KEY_BYTES} bytes, found {}; remove it, and have people join again",
            problem(),
            key.len()
        ),
    }
}
