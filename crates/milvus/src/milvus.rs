//! Milvus, by its gRPC.

mod columns;
mod filter;
mod protocol;

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tonic::Request;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use url::Url;

use self::columns::{floats, sparse_bytes, texts};
use self::filter::{is_in, quoted};
use self::protocol::{
    BoolResponse, CollectionDescription, CollectionRequest, CollectionSchema, CreateCollection, CreateIndex,
    Delete, FLOAT_VECTOR, FieldData, FieldSchema, GetLoadState, LOADED, LoadState, MutationResult, Pair,
    Placeholder, PlaceholderGroup, Query, QueryResults, SPARSE_FLOAT_VECTOR, Search, SearchResults,
    SparseRows, Status, Upsert, VARCHAR, Vectors,
};
use crate::{Engine, EngineError, Narrowing, Record, Space, UnitRow};

const PORT: u16 = 19530;
/// Maximum size of a message, in bytes, that Milvus accepts.
const MAX_MESSAGE_BYTES: usize = 256 << 20;
const CONNECT_TIME: Duration = Duration::from_secs(5);
const WRITE_TIME: Duration = Duration::from_secs(120);
const LOAD_TIME: Duration = Duration::from_secs(120);
const LOAD_PAUSE: Duration = Duration::from_millis(200);
/// Number of attempts to write, and the pause before the second one, which doubles.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// Rows per answer, of which Milvus returns at most 16,384.
const PAGE: usize = 10_000;

const UNITS: &str = "quarry_units";
/// Text columns of units, with the maximum length of each in bytes.
const UNIT_TEXTS: [(&str, usize); 7] = [
    ("id", 128),
    ("file", 64),
    ("tree", 256),
    ("path", 1024),
    ("language", 64),
    ("kind", 32),
    ("symbol", 512),
];
/// Columns that are looked up.
const LOOKED_UP: [&str; 2] = ["file", "symbol"];
const DENSE: &str = "dense";
const SPARSE: &str = "sparse";

/// Text columns of records.
const RECORD_TEXTS: [(&str, usize); 3] = [("id", 256), ("tree", 256), ("value", 65_535)];
/// The vector that every collection of Milvus must have; unused here.
const NO_VECTOR: &str = "none";
const NO_DIMENSION: usize = 2;

pub struct Milvus {
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    channel: Channel,
    /// As it is shown.
    address: String,
    database: String,
    authorization: Option<MetadataValue<Ascii>>,
    /// Time limit for a read.
    read_time: Duration,
}

impl Drop for Milvus {
    fn drop(&mut self) {
        // Whoever drops it may be asynchronous, and must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Space {
    fn collection(self) -> &'static str {
        match self {
            Self::Trees => "quarry_trees",
            Self::Records => "quarry_records",
        }
    }
}

impl Milvus {
    /// Connects to `milvus://HOST[:PORT][/DATABASE]`, without encryption. `token` is `USER:PASSWORD` or a key; reads
    /// are waited for at most `read_time`.
    ///
    /// # Errors
    /// When the address is invalid. Only the first request shows whether the engine answers.
    pub fn connect(address: &str, token: Option<&str>, read_time: Duration) -> Result<Self, EngineError> {
        let wrong = |problem: &str| EngineError::Address {
            address: address.rsplit_once('@').map_or(address, |(_, host)| host).to_owned(),
            problem: problem.to_owned(),
        };
        let url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
        if url.scheme() != "milvus" {
            return Err(wrong("it does not begin with milvus://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "it contains a user or password, which messages would reveal; set QUARRY_ENGINE_TOKEN to USER:PASSWORD \
                 instead",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("there is text after the database"));
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it has no host"))?;
        let shown = format!("{host}:{}", url.port().unwrap_or(PORT));
        let database = url.path().trim_matches('/').to_owned();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let unavailable = |reason: String| EngineError::Unavailable { address: shown.clone(), reason };
        let runtime = runtime.map_err(|error| unavailable(error.to_string()))?;
        let endpoint =
            Endpoint::from_shared(format!("http://{shown}")).map_err(|error| wrong(&error.to_string()))?;
        let endpoint = endpoint.connect_timeout(CONNECT_TIME).keep_alive_while_idle(true);
        let guard = runtime.enter();
        let channel = endpoint.connect_lazy();
        drop(guard);
        let authorization = match token {
            Some(token) => {
                let mut value: MetadataValue<Ascii> =
                    STANDARD.encode(token).parse().map_err(|_| wrong("the token cannot be sent"))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self { runtime: Some(runtime), channel, address: shown, database, authorization, read_time })
    }

    fn call<Q, A>(&self, method: &str, request: &Q, limit: Duration) -> Result<A, EngineError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let path = format!("/milvus.proto.milvus.MilvusService/{method}");
        let path = path.parse().map_err(|_| self.unavailable(format!("{method} is not a path")))?;
        let mut request = Request::new(request.clone());
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        if let (false, Ok(name)) = (self.database.is_empty(), self.database.parse()) {
            request.metadata_mut().insert("dbname", name);
        }
        let mut client = Grpc::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let answer = async {
            client.ready().await.map_err(|error| self.unavailable(causes(&error)))?;
            let answer = client.unary(request, path, tonic_prost::ProstCodec::<Q, A>::default()).await;
            answer.map(tonic::Response::into_inner).map_err(|status| self.unavailable(causes(&status)))
        };
        let within = async { tokio::time::timeout(limit, answer).await };
        match self.runtime.as_ref().map(|runtime| runtime.block_on(within)) {
            Some(Ok(answer)) => answer,
            _ => Err(self.unavailable(format!("{method} took longer than {} s", limit.as_secs()))),
        }
    }

    fn unavailable(&self, reason: String) -> EngineError {
        EngineError::Unavailable { address: self.address.clone(), reason }
    }

    fn check(&self, action: &str, status: Option<Status>) -> Result<(), EngineError> {
        match status {
            Some(Status { code, error_code, reason }) if code != 0 || error_code != 0 => {
                let reason = format!("{reason} (code {})", if code == 0 { error_code } else { code });
                Err(EngineError::Refused { address: self.address.clone(), action: action.to_owned(), reason })
            }
            _ => Ok(()),
        }
    }

    /// Writes, and retries while the engine does not answer: writing twice is harmless.
    fn write<Q, A>(
        &self,
        method: &str,
        request: &Q,
        status: impl Fn(A) -> Option<Status>,
    ) -> Result<(), EngineError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut pause = PAUSE;
        for left in (0..TRIES).rev() {
            match self.call(method, request, WRITE_TIME) {
                Err(EngineError::Unavailable { .. }) if left > 0 => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                answer => return self.check(method, status(answer?)),
            }
        }
        Ok(())
    }

    fn collection(&self, name: &str) -> CollectionRequest {
        CollectionRequest { db_name: self.database.clone(), collection_name: name.to_owned() }
    }

    /// Creates a collection unless there is one.
    fn create(
        &self,
        name: &str,
        texts: &[(&str, usize)],
        vectors: &[(&str, Option<usize>)],
    ) -> Result<(), EngineError> {
        let has: BoolResponse = self.call("HasCollection", &self.collection(name), self.read_time)?;
        self.check("list its collections", has.status)?;
        if has.value {
            return Ok(());
        }
        let text = |&(name, max_length): &(&str, usize)| FieldSchema {
            name: name.to_owned(),
            is_primary_key: name == "id",
            data_type: VARCHAR,
            type_params: vec![pair("max_length", max_length)],
        };
        let vector = |&(name, dimension): &(&str, Option<usize>)| FieldSchema {
            name: name.to_owned(),
            is_primary_key: false,
            data_type: if dimension.is_some() { FLOAT_VECTOR } else { SPARSE_FLOAT_VECTOR },
            type_params: dimension.iter().map(|dimension| pair("dim", dimension)).collect(),
        };
        let fields = texts.iter().map(text).chain(vectors.iter().map(vector)).collect();
        let create = CreateCollection {
            db_name: self.database.clone(),
            collection_name: name.to_owned(),
            schema: CollectionSchema { name: name.to_owned(), fields }.encode_to_vec(),
            shards_num: 1,
            consistency_level: 0,
        };
        let status: Status = self.call("CreateCollection", &create, WRITE_TIME)?;
        self.check("create a collection", Some(status))?;
        for (field, dimension) in vectors {
            let params = match dimension {
                Some(NO_DIMENSION) => vec![pair("index_type", "FLAT"), pair("metric_type", "IP")],
                Some(_) => vec![
                    pair("index_type", "HNSW"),
                    pair("metric_type", "IP"),
                    pair("params", "{\"M\":16,\"efConstruction\":200}"),
                ],
                None => vec![pair("index_type", "SPARSE_INVERTED_INDEX"), pair("metric_type", "IP")],
            };
            self.index(name, field, params)?;
        }
        for field in LOOKED_UP.iter().filter(|field| texts.iter().any(|(name, _)| name == *field)) {
            // It is found without as well, only slower.
            match self.index(name, field, vec![pair("index_type", "INVERTED")]) {
                Err(EngineError::Refused { .. }) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn index(&self, collection: &str, field: &str, extra_params: Vec<Pair>) -> Result<(), EngineError> {
        let request = CreateIndex {
            db_name: self.database.clone(),
            collection_name: collection.to_owned(),
            field_name: field.to_owned(),
            extra_params,
            index_name: field.to_owned(),
        };
        let status: Status = self.call("CreateIndex", &request, WRITE_TIME)?;
        self.check("create an index", Some(status))
    }

    /// Makes a collection searchable.
    fn load(&self, name: &str) -> Result<(), EngineError> {
        let start = Instant::now();
        let request = GetLoadState { collection_name: name.to_owned(), db_name: self.database.clone() };
        let mut is_asked = false;
        loop {
            let state: LoadState = self.call("GetLoadState", &request, self.read_time)?;
            self.check("report whether a collection is loaded", state.status)?;
            if state.state == LOADED {
                return Ok(());
            }
            if start.elapsed() > LOAD_TIME {
                return Err(self.unavailable(format!("{name} is still being loaded; try again later")));
            }
            if is_asked {
                std::thread::sleep(LOAD_PAUSE);
                continue;
            }
            // Only one that is not loaded: Milvus Lite lets this wait for what it does in the background.
            let status: Status = self.call("LoadCollection", &self.collection(name), WRITE_TIME)?;
            self.check("load a collection", Some(status))?;
            is_asked = true;
        }
    }

    /// Number of columns of stored vectors.
    fn dimension(&self) -> Result<Option<usize>, EngineError> {
        let found: CollectionDescription =
            self.call("DescribeCollection", &self.collection(UNITS), self.read_time)?;
        self.check("describe a collection", found.status)?;
        let fields = found.schema.unwrap_or_default().fields;
        let dense = fields.iter().find(|field| field.name == DENSE);
        let dimension = dense.and_then(|field| field.type_params.iter().find(|pair| pair.key == "dim"));
        Ok(dimension.and_then(|pair| pair.value.parse().ok()))
    }

    fn upsert(&self, collection: &str, columns: Vec<FieldData>, n: usize) -> Result<(), EngineError> {
        if n == 0 {
            return Ok(());
        }
        let request = Upsert {
            db_name: self.database.clone(),
            collection_name: collection.to_owned(),
            fields_data: columns,
            num_rows: u32::try_from(n).unwrap_or(u32::MAX),
        };
        self.write("Upsert", &request, |answer: MutationResult| match answer.err_index.len() {
            0 => answer.status,
            n => Some(Status { code: -1, reason: format!("{n} rows were not stored"), ..Status::default() }),
        })
    }

    fn remove(&self, collection: &str, column: &str, values: &[String]) -> Result<(), EngineError> {
        if values.is_empty() {
            return Ok(());
        }
        let request = Delete {
            db_name: self.database.clone(),
            collection_name: collection.to_owned(),
            expr: is_in(column, values),
            consistency_level: 0,
        };
        self.write("Delete", &request, |answer: MutationResult| answer.status)
    }

    /// Columns of the rows that pass a filter; values at the same position belong to one row.
    fn query(
        &self,
        collection: &str,
        expr: String,
        columns: &[&str],
        params: Vec<Pair>,
    ) -> Result<Vec<Vec<String>>, EngineError> {
        let request = Query {
            db_name: self.database.clone(),
            collection_name: collection.to_owned(),
            expr,
            output_fields: columns.iter().map(|column| (*column).to_owned()).collect(),
            query_params: params,
            consistency_level: 0,
        };
        let answer: QueryResults = self.call("Query", &request, self.read_time)?;
        self.check("read", answer.status)?;
        let mut fields = answer.fields_data;
        let mut values = columns.iter().map(|column| {
            let field = fields.iter_mut().find(|field| field.field_name == *column)?;
            Some(field.scalars.take()?.string_data?.data.into_iter())
        });
        // An answer without rows may have no columns.
        let Some(mut values) = values.by_ref().collect::<Option<Vec<_>>>() else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        while let Some(row) = values.iter_mut().map(Iterator::next).collect::<Option<Vec<String>>>() {
            rows.push(row);
        }
        Ok(rows)
    }

    /// Columns of all rows, of which `id` is the first; `condition` ends with `and` if there is one.
    fn pages(
        &self,
        space: Space,
        condition: &str,
        columns: &[&str],
    ) -> Result<Vec<Vec<String>>, EngineError> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        loop {
            let last = rows.last().and_then(|row| row.first()).map_or("", String::as_str);
            let expr = format!("{condition}id > {}", quoted(last));
            // As the official client iterates: then rows are in the order of their keys.
            let params =
                vec![pair("limit", PAGE), pair("iterator", "True"), pair("reduce_stop_for_best", "True")];
            let found = self.query(space.collection(), expr, columns, params)?;
            let (n, before) = (found.len(), rows.len());
            rows.extend(found);
            if n < PAGE || !rows[before..].is_sorted() {
                return Ok(rows);
            }
        }
    }

    fn search(
        &self,
        field: &str,
        (kind, value): (i32, Vec<u8>),
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError> {
        let placeholder = Placeholder { tag: "$0".to_owned(), r#type: kind, values: vec![value] };
        // The more of the graph is looked at, the fewer are missed.
        let params = if kind == FLOAT_VECTOR { format!("{{\"ef\":{}}}", 2 * limit) } else { "{}".to_owned() };
        let request = Search {
            db_name: self.database.clone(),
            collection_name: UNITS.to_owned(),
            dsl: within.filter().join(" and "),
            placeholder_group: PlaceholderGroup { placeholders: vec![placeholder] }.encode_to_vec(),
            dsl_type: 1,
            search_params: vec![
                pair("anns_field", field),
                pair("topk", limit),
                pair("metric_type", "IP"),
                pair("params", params),
                pair("round_decimal", -1),
                pair("offset", 0),
            ],
            nq: 1,
            consistency_level: 0,
        };
        let answer: SearchResults = self.call("Search", &request, self.read_time)?;
        self.check("search", answer.status)?;
        let ids = answer.results.and_then(|results| results.ids?.str_id);
        Ok(ids.unwrap_or_default().data)
    }
}

impl Engine for Milvus {
    fn prepare(&self, dimension: usize) -> Result<(), EngineError> {
        for space in [Space::Trees, Space::Records] {
            self.create(space.collection(), &RECORD_TEXTS, &[(NO_VECTOR, Some(NO_DIMENSION))])?;
        }
        self.create(UNITS, &UNIT_TEXTS, &[(DENSE, Some(dimension)), (SPARSE, None)])?;
        let found = self.dimension()?;
        if found.is_some_and(|found| found != dimension) {
            let reason = format!("it has vectors of {} columns, of another model", found.unwrap_or_default());
            let action = format!("store vectors of {dimension} columns");
            return Err(EngineError::Refused { address: self.address.clone(), action, reason });
        }
        [Space::Trees.collection(), Space::Records.collection(), UNITS]
            .iter()
            .try_for_each(|name| self.load(name))
    }

    fn put(&self, space: Space, records: &[Record]) -> Result<(), EngineError> {
        let columns = vec![
            texts("id", records.iter().map(|record| &record.key)),
            texts("tree", records.iter().map(|record| &record.tree)),
            texts("value", records.iter().map(|record| &record.value)),
            floats(NO_VECTOR, NO_DIMENSION, vec![0.5; NO_DIMENSION * records.len()]),
        ];
        self.upsert(space.collection(), columns, records.len())
    }

    fn get(&self, space: Space, keys: &[String]) -> Result<Vec<Record>, EngineError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.query(space.collection(), is_in("id", keys), &["id", "tree", "value"], Vec::new())?;
        Ok(rows.into_iter().filter_map(record).collect())
    }

    fn all(&self, space: Space) -> Result<Vec<Record>, EngineError> {
        let rows = self.pages(space, "", &["id", "tree", "value"])?;
        Ok(rows.into_iter().filter_map(record).collect())
    }

    fn keys(&self, space: Space, tree: &str) -> Result<Vec<String>, EngineError> {
        let rows = self.pages(space, &format!("tree == {} and ", quoted(tree)), &["id"])?;
        Ok(rows.into_iter().flatten().collect())
    }

    fn delete(&self, space: Space, keys: &[String]) -> Result<(), EngineError> {
        self.remove(space.collection(), "id", keys)
    }

    fn put_units(&self, units: &[UnitRow]) -> Result<(), EngineError> {
        let dimension = units.first().map_or(0, |unit| unit.dense.len());
        let sparse = |unit: &UnitRow| sparse_bytes(&unit.sparse);
        let largest =
            units.iter().filter_map(|unit| unit.sparse.last()).map(|(term, _)| i64::from(*term)).max();
        let rows = SparseRows { contents: units.iter().map(sparse).collect(), dim: largest.unwrap_or(0) + 1 };
        let columns = vec![
            texts("id", units.iter().map(|unit| &unit.key)),
            texts("file", units.iter().map(|unit| &unit.file)),
            texts("tree", units.iter().map(|unit| &unit.tree)),
            texts("path", units.iter().map(|unit| &unit.path)),
            texts("language", units.iter().map(|unit| &unit.language)),
            texts("kind", units.iter().map(|unit| &unit.kind)),
            texts("symbol", units.iter().map(|unit| &unit.symbol)),
            floats(DENSE, dimension, units.iter().flat_map(|unit| &unit.dense).copied().collect()),
            FieldData {
                r#type: SPARSE_FLOAT_VECTOR,
                field_name: SPARSE.to_owned(),
                scalars: None,
                vectors: Some(Vectors { dim: rows.dim, float_vector: None, sparse_float_vector: Some(rows) }),
            },
        ];
        self.upsert(UNITS, columns, units.len())
    }

    fn delete_units(&self, files: &[String]) -> Result<(), EngineError> {
        self.remove(UNITS, "file", files)
    }

    fn nearest(&self, vector: &[f32], limit: usize, within: &Narrowing) -> Result<Vec<String>, EngineError> {
        let bytes = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.search(DENSE, (FLOAT_VECTOR, bytes), limit, within)
    }

    fn with_terms(
        &self,
        terms: &[(u32, f32)],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError> {
        self.search(SPARSE, (SPARSE_FLOAT_VECTOR, sparse_bytes(terms)), limit, within)
    }

    fn defining(
        &self,
        symbols: &[String],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError> {
        let mut conditions = vec![is_in("symbol", symbols)];
        conditions.extend(within.filter());
        let rows = self.query(UNITS, conditions.join(" and "), &["id"], vec![pair("limit", limit)])?;
        Ok(rows.into_iter().flatten().collect())
    }
}

fn pair(key: &str, value: impl ToString) -> Pair {
    Pair { key: key.to_owned(), value: value.to_string() }
}

fn record(row: Vec<String>) -> Option<Record> {
    let [key, tree, value] = <[String; 3]>::try_from(row).ok()?;
    Some(Record { key, tree, value })
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn addresses_are_of_one_form_and_show_no_password() {
        let milvus = Milvus::connect("milvus://engine.example/code", Some("user:secret"), SECOND).unwrap();
        assert_eq!((milvus.address.as_str(), milvus.database.as_str()), ("engine.example:19530", "code"));
        for wrong in [
            "engine.example:19530",
            "http://engine.example",
            "milvus://user:secret@engine.example",
            "milvus://",
            "milvus://engine.example/code?token=secret",
            "",
        ] {
            let error =
                Milvus::connect(wrong, None, SECOND).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("expected milvus://"), "{wrong}: {error}");
            assert!(!error.contains("user:secret"), "{error}");
        }
    }

    #[test]
    fn an_unreachable_server_is_reported() {
        // Nobody listens at the port of a listener that is gone.
        let milvus = Milvus::connect("milvus://127.0.0.1:9", None, SECOND).unwrap();
        let error = milvus.all(Space::Trees).unwrap_err();
        assert!(matches!(error, EngineError::Unavailable { .. }), "{error}");
    }
}
