//! Vectors of words by which they are compared, beside those of the static model.
//!
//! They come from the input of a large code encoder (`bench/word_vectors.py` makes the file) and know what the static
//! model, which was trained on documentation, does not: that "money" is an amount. The file is read in place: a header,
//! for each token of the static model the number of its row (0 if it has none), and the rows, in little-endian.

use bytemuck::{Pod, Zeroable};

use crate::static_model::{Aligned, StaticModel};

static BUILTIN: &Aligned<[u8]> = &Aligned(*include_bytes!("../models/words.bin"));

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Header {
    /// Checksum of the static model whose tokens are numbered.
    model: [u32; 2],
    /// Columns of a vector.
    dimension: u32,
    n_tokens: u32,
}

/// The vectors of the tokens of a static model that have one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordVectors<'a> {
    dimension: usize,
    numbers: &'a [u16],
    rows: &'a [i8],
}

impl WordVectors<'static> {
    /// Those that belong to a static model; `None` for another model than that of the program.
    pub(crate) fn for_model(model: &StaticModel) -> Option<Self> {
        let (header, rest) = BUILTIN.0.split_at(size_of::<Header>());
        let header: &Header = bytemuck::from_bytes(header);
        let (numbers, rows) = rest.split_at(header.n_tokens as usize * size_of::<u16>());
        (header.model == model.checksum()).then(|| Self {
            dimension: header.dimension as usize,
            numbers: bytemuck::cast_slice(numbers),
            rows: bytemuck::cast_slice(rows),
        })
    }
}

impl<'a> WordVectors<'a> {
    /// The vector of a token, in 8 bits and of any length.
    pub(crate) fn row(&self, id: usize) -> Option<&'a [i8]> {
        let number = usize::from(*self.numbers.get(id)?).checked_sub(1)?;
        self.rows.get(number * self.dimension..)?.get(..self.dimension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::static_model::tests::model;

    #[test]
    fn the_words_belong_to_the_builtin_model_alone() {
        let words = WordVectors::for_model(&StaticModel::builtin())
            .expect("made for this model: bench/word_vectors.py");
        let n_rows = words.numbers.iter().filter(|number| **number > 0).count();
        assert_eq!(words.rows.len(), n_rows * words.dimension);
        assert!(words.numbers.iter().all(|number| usize::from(*number) <= n_rows));
        assert!(words.row(usize::MAX).is_none());
        assert!(WordVectors::for_model(&model(2)).is_none());
    }
}
