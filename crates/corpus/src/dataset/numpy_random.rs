//! Shuffling like NumPy's legacy `numpy.random`, to reproduce scripts that shuffle with a seed.

use rand_mt::Mt;

/// The indices 0 to `length` in the order of `numpy.random.seed(seed); numpy.random.shuffle(indices)`: MT19937 seeded
/// with one word, and integers by masks and rejection.
pub fn shuffled(length: usize, seed: u32) -> Vec<usize> {
    let mut random = Mt::new(seed);
    let mut positions: Vec<usize> = (0..length).collect();
    for last in (1..length).rev() {
        let mask = usize::MAX >> last.leading_zeros();
        let other = loop {
            // For lists of 2³² or more, NumPy would use two words per number; none fits into memory here.
            let number = random.next_u32() as usize & mask;
            if number <= last {
                break number;
            }
        };
        positions.swap(last, other);
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_those_of_numpy() {
        // numpy.random.seed(S); a = numpy.arange(N); numpy.random.shuffle(a), printed by NumPy 2.
        assert_eq!(shuffled(10, 0), [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
        let many = shuffled(2_500, 0);
        assert_eq!((many[..3].to_vec(), many[2_499]), (vec![53, 2391, 2310], 1653));
        assert_eq!(
            many.iter().enumerate().map(|(index, number)| index * number).sum::<usize>(),
            3_908_743_783
        );
        let other = shuffled(33, 7);
        assert_eq!((&other[..6], &other[30..]), (&[2, 28, 1, 9, 13, 5][..], &[22, 25, 4][..]));
        assert_eq!((shuffled(0, 0), shuffled(1, 0)), (vec![], vec![0]));
    }
}
