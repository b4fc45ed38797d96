//! SHA-256 in hexadecimal.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The first 128 bits of SHA-256 of `parts`, in hexadecimal. The length of each part is hashed too, so that moving a
/// word from one part to the next changes the hash.
pub fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hexadecimal(&hash.finalize()[..16])
}

/// Length and SHA-256, in hexadecimal, of all that a reader gives.
///
/// # Errors
/// When it cannot be read.
pub fn sha256_of(reader: impl Read) -> io::Result<(u64, String)> {
    let (length, hash) = hash_of(reader)?;
    Ok((length, hexadecimal(&hash.finalize())))
}

/// Length and hash of all that a reader gives; the hash can go on with what follows.
///
/// # Errors
/// When it cannot be read.
pub fn hash_of(mut reader: impl Read) -> io::Result<(u64, Sha256)> {
    let (mut length, mut hash, mut block) = (0, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match reader.read(&mut block)? {
            0 => return Ok((length, hash)),
            n_bytes => {
                hash.update(&block[..n_bytes]);
                length += n_bytes as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(sha256("abc"), ABC);
        assert_eq!(sha256_of(&b"abc"[..]).unwrap(), (3, ABC.to_owned()));
    }

    #[test]
    fn the_border_between_parts_counts() {
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_eq!(digest(&[]).len(), 32);
        assert_ne!(digest(&["ab", ""]), digest(&["a", "b"]));
    }
}
