//! What test files hold.

/// The eight bytes at `8 * n`: a mix that no alignment or task size repeats.
pub fn word(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Whether `bytes` are those of a test file from `offset` on, a multiple of eight.
pub fn holds(offset: u64, bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let first = offset / 8;
    let same = words.iter().enumerate().all(|(i, bytes)| *bytes == word(first + i as u64).to_le_bytes());
    same && word(first + words.len() as u64).to_le_bytes().starts_with(rest)
}
