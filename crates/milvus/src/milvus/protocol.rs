//! The messages of Milvus's gRPC API that are needed, with the needed fields.

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Pair {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Status {
    /// Error code of servers before 2.3.
    #[prost(int32, tag = "1")]
    pub error_code: i32,
    #[prost(string, tag = "2")]
    pub reason: String,
    #[prost(int32, tag = "3")]
    pub code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CollectionSchema {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "4")]
    pub fields: Vec<FieldSchema>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FieldSchema {
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(bool, tag = "3")]
    pub is_primary_key: bool,
    #[prost(int32, tag = "5")]
    pub data_type: i32,
    #[prost(message, repeated, tag = "6")]
    pub type_params: Vec<Pair>,
}

/// Types of fields and of placeholders.
pub(super) const VARCHAR: i32 = 21;
pub(super) const FLOAT_VECTOR: i32 = 101;
pub(super) const SPARSE_FLOAT_VECTOR: i32 = 104;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CreateCollection {
    #[prost(string, tag = "2")]
    pub db_name: String,
    #[prost(string, tag = "3")]
    pub collection_name: String,
    /// A [`CollectionSchema`].
    #[prost(bytes = "vec", tag = "4")]
    pub schema: Vec<u8>,
    #[prost(int32, tag = "5")]
    pub shards_num: i32,
    /// 0 is strong.
    #[prost(int32, tag = "6")]
    pub consistency_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CollectionRequest {
    #[prost(string, tag = "2")]
    pub db_name: String,
    #[prost(string, tag = "3")]
    pub collection_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BoolResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(bool, tag = "2")]
    pub value: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CollectionDescription {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub schema: Option<CollectionSchema>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CreateIndex {
    #[prost(string, tag = "2")]
    pub db_name: String,
    #[prost(string, tag = "3")]
    pub collection_name: String,
    #[prost(string, tag = "4")]
    pub field_name: String,
    #[prost(message, repeated, tag = "5")]
    pub extra_params: Vec<Pair>,
    #[prost(string, tag = "6")]
    pub index_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetLoadState {
    #[prost(string, tag = "2")]
    pub collection_name: String,
    #[prost(string, tag = "4")]
    pub db_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LoadState {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(int32, tag = "2")]
    pub state: i32,
}

/// The state of a collection that can be searched.
pub(super) const LOADED: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Upsert {
    #[prost(string, tag = "2")]
    pub db_name: String,
    #[prost(string, tag = "3")]
    pub collection_name: String,
    #[prost(message, repeated, tag = "5")]
    pub fields_data: Vec<FieldData>,
    #[prost(uint32, tag = "7")]
    pub num_rows: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Delete {
    #[prost(string, tag = "2")]
    pub db_name: String,
    #[prost(string, tag = "3")]
    pub collection_name: String,
    #[prost(string, tag = "5")]
    pub expr: String,
    #[prost(int32, tag = "7")]
    pub consistency_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MutationResult {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// Rows that were refused.
    #[prost(uint32, repeated, tag = "4")]
    pub err_index: Vec<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Query {
    #[prost(string, tag = "2")]
    pub db_name: String,
    #[prost(string, tag = "3")]
    pub collection_name: String,
    #[prost(string, tag = "4")]
    pub expr: String,
    #[prost(string, repeated, tag = "5")]
    pub output_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub query_params: Vec<Pair>,
    #[prost(int32, tag = "11")]
    pub consistency_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct QueryResults {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub fields_data: Vec<FieldData>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Search {
    #[prost(string, tag = "2")]
    pub db_name: String,
    #[prost(string, tag = "3")]
    pub collection_name: String,
    /// The filter.
    #[prost(string, tag = "5")]
    pub dsl: String,
    /// A [`PlaceholderGroup`].
    #[prost(bytes = "vec", tag = "6")]
    pub placeholder_group: Vec<u8>,
    /// 1 is a filter as text.
    #[prost(int32, tag = "7")]
    pub dsl_type: i32,
    #[prost(message, repeated, tag = "9")]
    pub search_params: Vec<Pair>,
    #[prost(int64, tag = "12")]
    pub nq: i64,
    #[prost(int32, tag = "14")]
    pub consistency_level: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PlaceholderGroup {
    #[prost(message, repeated, tag = "1")]
    pub placeholders: Vec<Placeholder>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Placeholder {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(int32, tag = "2")]
    pub r#type: i32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub values: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SearchResults {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub results: Option<SearchResultData>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SearchResultData {
    #[prost(message, optional, tag = "5")]
    pub ids: Option<Ids>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Ids {
    #[prost(message, optional, tag = "2")]
    pub str_id: Option<Strings>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FieldData {
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    #[prost(string, tag = "2")]
    pub field_name: String,
    #[prost(message, optional, tag = "3")]
    pub scalars: Option<Scalars>,
    #[prost(message, optional, tag = "4")]
    pub vectors: Option<Vectors>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Scalars {
    #[prost(message, optional, tag = "6")]
    pub string_data: Option<Strings>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Strings {
    #[prost(string, repeated, tag = "1")]
    pub data: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Vectors {
    #[prost(int64, tag = "1")]
    pub dim: i64,
    #[prost(message, optional, tag = "2")]
    pub float_vector: Option<Floats>,
    #[prost(message, optional, tag = "6")]
    pub sparse_float_vector: Option<SparseRows>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Floats {
    #[prost(float, repeated, tag = "1")]
    pub data: Vec<f32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SparseRows {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub contents: Vec<Vec<u8>>,
    #[prost(int64, tag = "2")]
    pub dim: i64,
}
