//! Random numbers like those of Python's module `random`, to reproduce samples that released scripts drew with a
//! seed.

use rand_mt::Mt;
use std::collections::HashSet;

/// `random.Random(seed)` of CPython: the Mersenne Twister MT19937, seeded with an integer, and integers by rejection
/// (`_randbelow_with_getrandbits`). The numbers are those of every Python since 3.2; up to 3.10, `sample` also
/// accepted sets, whose order is not known here.
#[derive(Debug, Clone)]
pub struct PythonRandom(Mt);

impl PythonRandom {
    /// Like `random.seed(seed)`.
    pub fn new(seed: u64) -> Self {
        let words = [seed as u32, (seed >> 32) as u32];
        let n_words = if words[1] == 0 { 1 } else { 2 };
        Self(Mt::new_with_key(words[..n_words].iter().copied()))
    }

    /// Like `random.getrandbits(count)`, for 1 to 64 bits.
    fn bits(&mut self, count: u32) -> u64 {
        if count <= 32 {
            return u64::from(self.0.next_u32() >> (32 - count));
        }
        let low = u64::from(self.0.next_u32());
        low | u64::from(self.0.next_u32() >> (64 - count)) << 32
    }

    /// A uniformly distributed number from 0 up to but excluding `end`: `random.randrange(end)`, and the index that
    /// `random.choice` uses in a list of `end` elements. `None` if `end` is 0.
    pub fn below(&mut self, end: usize) -> Option<usize> {
        let n_bits = usize::BITS - end.leading_zeros();
        if n_bits == 0 {
            return None;
        }
        loop {
            // Fits, because it has no more bits than `end`.
            let number = self.bits(n_bits) as usize;
            if number < end {
                return Some(number);
            }
        }
    }

    /// The indices that `random.sample` uses in a list of `length` elements: `count` distinct ones, in the order
    /// drawn. `None` if there are fewer.
    pub fn sample(&mut self, length: usize, count: usize) -> Option<Vec<usize>> {
        if count > length {
            return None;
        }
        // Python chooses between a list and a set by their sizes; the two algorithms give different samples.
        let mut set_size = 21;
        if count > 5 {
            let mut table = 1;
            while table < 3 * count {
                table *= 4;
            }
            set_size += table;
        }
        if length <= set_size {
            let mut pool: Vec<usize> = (0..length).collect();
            return (0..count).map(|_| Some(pool.swap_remove(self.below(pool.len())?))).collect();
        }
        let mut drawn = HashSet::with_capacity(count);
        (0..count)
            .map(|_| {
                loop {
                    let position = self.below(length)?;
                    if drawn.insert(position) {
                        return Some(position);
                    }
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected values were printed by Python 3.11: random.seed(S), then the calls in the comments.

    #[test]
    fn numbers_are_those_of_python() {
        let draws = |seed, ends: &[usize]| {
            let mut random = PythonRandom::new(seed);
            ends.iter().map(|end| random.below(*end).unwrap()).collect::<Vec<_>>()
        };
        // [random.randrange(n) for n in (1, 2, 10, 1000, 10293, 2**32, 2**40, 7)]
        let ends = [1, 2, 10, 1000, 10_293, 1 << 32, 1 << 40, 7];
        assert_eq!(draws(0, &ends), [0, 1, 0, 265, 8376, 2087043557, 669284121952, 3]);
        assert_eq!(draws(42, &ends), [0, 0, 4, 250, 3657, 2342331444, 930249081961, 0]);
        assert_eq!(draws(1099511627779, &ends), [0, 0, 8, 853, 1550, 1829332056, 568351596648, 5]);
    }

    #[test]
    fn samples_are_those_of_python() {
        let samples = |seed, calls: &[(usize, usize)]| {
            let mut random = PythonRandom::new(seed);
            calls.iter().map(|(length, count)| random.sample(*length, *count).unwrap()).collect::<Vec<_>>()
        };
        // [random.sample(range(n), k) for n, k in CALLS]: few of few with a list, few of many with a set, and the
        // sizes at which Python switches from one to the other.
        let calls = [(5, 5), (21, 5), (22, 5), (85, 6), (86, 6), (1_000_000, 7), (1, 1), (3, 0)];
        assert_eq!(
            samples(42, &calls),
            [
                vec![0, 4, 2, 1, 3],
                vec![7, 4, 3, 17, 2],
                vec![18, 13, 1, 0, 2],
                vec![27, 29, 64, 77, 3, 71],
                vec![25, 83, 69, 53, 28, 57],
                vec![617889, 291704, 848749, 911527, 6814, 795667, 844962],
                vec![0],
                vec![]
            ]
        );
        // sum(i * x for i, x in enumerate(random.sample(range(n), 99))) for n in (99, 100, 1045, 1046, 10292)
        let sums: Vec<usize> = [99, 100, 1045, 1046, 10_292]
            .iter()
            .map(|length| samples(42, &[(*length, 99)])[0].iter().enumerate().map(|(i, x)| i * x).sum())
            .collect();
        assert_eq!(sums, [240202, 242591, 2384593, 2564851, 23470475]);
    }

    #[test]
    fn nothing_is_drawn_from_an_empty_range() {
        let mut random = PythonRandom::new(1);
        assert_eq!((random.below(0), random.sample(3, 4)), (None, None));
        assert_eq!(random.sample(0, 0), Some(Vec::new()));
    }
}
