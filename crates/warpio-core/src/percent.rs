/// The bytes that a percent-encoded text stands for, as in URLs; `None` where a `%` is not followed by two digits.
///
/// ```
/// assert_eq!(warpio_core::percent_decode("a%20b").as_deref(), Some(&b"a b"[..]));
/// assert_eq!(warpio_core::percent_decode("100%"), None);
/// ```
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            out.push(first);
        }
    }
    Some(out)
}
