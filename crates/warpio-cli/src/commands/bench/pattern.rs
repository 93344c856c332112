//! Bytes that tell where they belong: a piece that lands in the wrong place is as wrong as one that never arrived.

/// The eight bytes at `8 * word`: SplitMix64, which gives every word a value of its own.
fn word(word: u64) -> [u8; 8] {
    let mut z = word.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Fills `bytes` with what belongs at `offset`, a multiple of eight.
pub(super) fn fill(offset: u64, bytes: &mut [u8]) {
    debug_assert!(offset.is_multiple_of(8));
    for (n, bytes) in (offset / 8..).zip(bytes.chunks_mut(8)) {
        bytes.copy_from_slice(&word(n)[..bytes.len()]);
    }
}

/// The offset of the first byte that does not belong where it is, if `bytes` begin at `offset`, a multiple of eight.
pub(super) fn first_wrong(offset: u64, bytes: &[u8]) -> Option<u64> {
    debug_assert!(offset.is_multiple_of(8));
    let (n, found) = (offset / 8..).zip(bytes.chunks(8)).find(|(n, found)| **found != word(*n)[..found.len()])?;
    let byte = found.iter().zip(word(n)).position(|(found, wanted)| *found != wanted)?;
    Some(n * 8 + byte as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fill(offset, &mut bytes);
        bytes
    }

    #[test]
    fn pieces_are_what_the_whole_has_there() {
        let whole = filled(0, 4099);
        assert_eq!(filled(4000, 99), whole[4000..]);
        assert_eq!(filled(8, 1), whole[8..9]);
        assert_eq!(first_wrong(0, &whole), None);
        assert_eq!(first_wrong(4000, &whole[4000..]), None);
        assert_eq!(first_wrong(0, &[]), None);
    }

    #[test]
    fn one_wrong_byte_is_found_wherever_it_is() {
        let whole = filled(64, 1003);
        for at in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 0x10;
            assert_eq!(first_wrong(64, &wrong), Some(64 + at as u64));
        }
    }

    #[test]
    fn bytes_of_another_place_are_wrong() {
        let elsewhere = filled(4096, 4096);
        for offset in [0, 8, 4088, 4104, 1 << 40] {
            let wrong = first_wrong(offset, &elsewhere);
            assert!(wrong.is_some_and(|at| at < offset + 16), "{offset}: {wrong:?}");
        }
        assert_eq!(first_wrong(0, &[0; 64]), Some(0), "zeros belong nowhere");
    }
}
