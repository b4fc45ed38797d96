//! Numbers of bytes as people write them.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// A number of bytes: digits, and a unit after them if they are not bytes. K, M, G and T are of 1024 (as for dd and
/// ripgrep) and so are KiB, MiB, GiB and TiB; kB, MB, GB and TB are of 1000.
///
/// # Errors
/// When it is none, or too many for 64 bits.
pub fn parse(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected a number of bytes, such as 500000, 500kB or 1.5M";
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let expected = || EXPECTED.to_owned();
    let (power, base): (u32, u64) = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit)
    {
        "" => (0, 1),
        prefix => {
            let power = 1 + "kmgt".find(prefix).filter(|_| prefix.len() == 1).ok_or_else(expected)?;
            let is_decimal = unit.ends_with('b') && !unit.ends_with("ib");
            (u32::try_from(power).map_err(|_| expected())?, if is_decimal { 1000 } else { 1024 })
        }
    };
    if unit == "ib" {
        return Err(expected());
    }
    let factor = base.pow(power);
    let number = number.replace('_', "");
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor),
        Err(_) => {
            let bytes = number.parse::<f64>().map_err(|_| expected())? * factor as f64;
            // A float holds whole numbers up to 2⁵³ exactly; below 2⁶⁴ the nearest is near enough.
            (bytes < u64::MAX as f64).then_some(bytes.round() as u64)
        }
    };
    bytes.ok_or_else(|| format!("{text} is too large"))
}

/// Reads the number of bytes of a settings file: an integer, or a text as [`parse`] takes it.
///
/// # Errors
/// When it is none.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct Size;
    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a number of bytes, such as 500000 or \"1.5M\"")
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
            u64::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            parse(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Size).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let check = |text: &str, expected| assert_eq!(parse(text).unwrap(), expected, "{text}");
        check("0", 0);
        check("10000000", 10_000_000);
        check("10_000_000", 10_000_000);
        check("100B", 100);
        check("1M", 1 << 20);
        check("1m", 1 << 20);
        check("2MiB", 2 << 20);
        check("2 MB", 2_000_000);
        check("1.5k", 1536);
        check("0.5kB", 500);
        check(" 3G ", 3 << 30);
        check("1T", 1 << 40);
        check("18446744073709551615", u64::MAX);
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in
            ["", "M", "1X", "1MM", "-1", "1 2", "ib", "1ib", "1km", "1.2.3M", "1e3", "inf", "99999999T"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
