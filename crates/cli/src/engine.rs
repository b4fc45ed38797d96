//! Trees in another engine: `quarry index --to URL`, `quarry serve --from URL`.

#[cfg(all(feature = "milvus", feature = "serve"))]
pub use connected::open;
#[cfg(feature = "milvus")]
pub use connected::{remove, upload};
use serde::Serialize;

/// Outcome of an upload.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[cfg_attr(not(feature = "milvus"), allow(dead_code, reason = "nothing is uploaded"))]
pub struct Upload {
    /// Name of the tree in the engine.
    tree: String,
    /// Files that were stored this time.
    stored_files: usize,
    /// Units of these files.
    stored_units: usize,
    /// Files that an interrupted upload had stored.
    resumed_files: usize,
    /// Files of the tree that were removed.
    removed_files: usize,
    /// Time of the upload in milliseconds.
    took_ms: f64,
}

/// Fails, since this program has no client for an engine.
///
/// # Errors
/// Always.
#[cfg(not(feature = "milvus"))]
pub fn missing<T>(option: &str) -> anyhow::Result<T> {
    anyhow::bail!(
        "{option}: this program was built without the client of Milvus; build one with `cargo build --release -p quarry-cli \
         --features milvus`"
    )
}

#[cfg(feature = "milvus")]
mod connected {
    use std::env;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use anyhow::Context;
    use quarry_index::Index;
    use quarry_milvus::{Event, Milvus};

    use super::Upload;
    use crate::output;
    use crate::progress::Progress;

    /// The environment variable that may hold `USER:PASSWORD` or a key for the engine.
    const TOKEN_VARIABLE: &str = "QUARRY_ENGINE_TOKEN";

    /// Maximum time of a read during an upload.
    const UPLOAD_PATIENCE: Duration = Duration::from_secs(120);

    fn connect(url: &str, patience: Duration) -> anyhow::Result<Milvus> {
        let token = env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        Ok(Milvus::connect(url, token.as_deref(), patience)?)
    }

    impl Upload {
        pub fn sentence(&self) -> String {
            let Self { tree, stored_files, stored_units, resumed_files, removed_files, took_ms } = self;
            if *stored_files + resumed_files + removed_files == 0 {
                return format!("{tree}: nothing to upload");
            }
            let counted = quarry_text::counted::<usize>;
            let resumed = match resumed_files {
                0 => String::new(),
                n => format!(", {n} were stored by an interrupted upload"),
            };
            let (files, units) = (counted(*stored_files, "file"), counted(*stored_units, "unit"));
            let took = took_ms / 1000.0;
            format!("{tree}: stored {files} with {units} in {took:.1} s{resumed}, removed {removed_files}")
        }
    }

    /// Stores the files that an index of `path` finds, under `name` or the name of its directory.
    pub fn upload(url: &str, name: Option<&str>, path: &Path, index: &Index) -> anyhow::Result<Upload> {
        let start = Instant::now();
        let tree = tree_name(name, path)?;
        let root = path.canonicalize().with_context(|| format!("{}: cannot be read", path.display()))?;
        let root = if root.is_file() { root.parent().unwrap_or(&root).to_owned() } else { root };
        let engine = connect(url, UPLOAD_PATIENCE)?;
        let bar = Progress::new("uploading", 0);
        let mut show = |Event::Stored { done, total }: Event| bar.set(done as u64, total as u64);
        let uploaded = quarry_milvus::upload(&engine, (&tree, &root.to_string_lossy()), index, &mut show)?;
        bar.finish_and_clear();
        Ok(Upload {
            tree,
            stored_files: uploaded.stored_files,
            stored_units: uploaded.stored_units,
            resumed_files: uploaded.resumed_files,
            removed_files: uploaded.removed_files,
            took_ms: quarry_session::milliseconds(start.elapsed()),
        })
    }

    /// Removes the tree `name`, or the one with the name of the directory `path`.
    pub fn remove(url: &str, name: Option<&str>, path: &Path) -> anyhow::Result<()> {
        // Its directory may be gone.
        let tree = match (name, path.file_name()) {
            (None, Some(of_path)) => of_path.to_string_lossy().into_owned(),
            _ => tree_name(name, path)?,
        };
        quarry_milvus::remove(&connect(url, UPLOAD_PATIENCE)?, &tree)?;
        output::note(&format!("{tree}: removed from the engine"));
        Ok(())
    }

    fn tree_name(name: Option<&str>, path: &Path) -> anyhow::Result<String> {
        if let Some(name) = name {
            return Ok(name.to_owned());
        }
        let path = path.canonicalize().with_context(|| format!("{}: cannot be read", path.display()))?;
        Ok(path.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned()))
    }

    #[cfg(feature = "serve")]
    mod served {
        use std::sync::Arc;
        use std::time::Duration;

        use quarry_embed::Embedder;
        use quarry_index::{Error, Index};
        use quarry_milvus::{ReadOptions, Reader, Search};
        use quarry_session::{Elsewhere, Need};

        /// Maximum time of a read during a search: less than that of a request.
        const PATIENCE: Duration = Duration::from_secs(10);

        pub struct EngineTrees(pub Reader);

        /// Opens the trees of an engine, of which at most `max_bytes` are kept in memory.
        pub fn open(url: &str, model: Arc<dyn Embedder>, max_bytes: u64) -> anyhow::Result<EngineTrees> {
            let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
            let options = ReadOptions { max_bytes, ..ReadOptions::default() };
            let engine = Arc::new(super::connect(url, PATIENCE)?);
            Ok(EngineTrees(Reader::open(engine, model, options)?))
        }

        impl Elsewhere for EngineTrees {
            fn index(&self, need: &Need) -> Result<Index, Error> {
                let Self(reader) = self;
                let found = match *need {
                    Need::Query(text, filter, limit) => reader.search(Search::Query(text), filter, limit),
                    Need::Like((root, path, line), filter, limit) => {
                        reader.search(Search::Like(root, path, line), filter, limit)
                    }
                    Need::File(root, path) => reader.file(root, path),
                    Need::Calls => return Err(Error::NotKept { what: "who calls what" }),
                };
                Ok(found?)
            }

            fn sizes(&self) -> (usize, usize) {
                let totals = self.0.totals();
                (totals.units as usize, totals.files as usize)
            }
        }
    }

    #[cfg(feature = "serve")]
    pub use served::open;
}
