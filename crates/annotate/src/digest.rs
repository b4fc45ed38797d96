//! Content hashes.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The first 128 bits of SHA-256 of `parts`, in hexadecimal. The length of each part is hashed too, so that moving a
/// word from one part to the next changes the hash.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(16).fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn the_border_between_parts_counts() {
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_eq!(digest(&[]).len(), 32);
        assert_ne!(digest(&["ab", ""]), digest(&["a", "b"]));
    }
}
