//! Columns of rows that are written.

use super::protocol::{FLOAT_VECTOR, FieldData, Floats, Scalars, Strings, VARCHAR, Vectors};

pub(super) fn texts<'a>(name: &str, values: impl Iterator<Item = &'a String>) -> FieldData {
    let strings = Strings { data: values.cloned().collect() };
    FieldData {
        r#type: VARCHAR,
        field_name: name.to_owned(),
        scalars: Some(Scalars { string_data: Some(strings) }),
        vectors: None,
    }
}

pub(super) fn floats(name: &str, dimension: usize, data: Vec<f32>) -> FieldData {
    let vectors =
        Vectors { dim: dimension as i64, float_vector: Some(Floats { data }), sparse_float_vector: None };
    FieldData { r#type: FLOAT_VECTOR, field_name: name.to_owned(), scalars: None, vectors: Some(vectors) }
}

/// Numbers and weights, one after the other.
pub(super) fn sparse_bytes(row: &[(u32, f32)]) -> Vec<u8> {
    row.iter().flat_map(|(term, weight)| [term.to_le_bytes(), weight.to_le_bytes()]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_rows_are_pairs_of_four_bytes() {
        assert_eq!(sparse_bytes(&[(1, 0.5)]), [1, 0, 0, 0, 0, 0, 0, 0x3f]);
    }
}
