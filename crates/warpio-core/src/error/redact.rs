/// Takes the secrets out of a path or URL: user and password, query string, fragment. A path without `://` is
/// returned as it is.
///
/// ```
/// use warpio_core::redact;
///
/// assert_eq!(redact("https://me:pw@host/a/b?sig=secret#x"), "https://host/a/b?…");
/// assert_eq!(redact("/data/a?b"), "/data/a?b");
/// ```
pub fn redact(name: &str) -> String {
    let Some((scheme, rest)) = name.split_once("://") else {
        return name.to_owned();
    };
    let (rest, cut) = match rest.find(['?', '#']) {
        Some(at) => (&rest[..at], "?…"),
        None => (rest, ""),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    // The last `@`: a password may hold one that somebody forgot to encode.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}{cut}")
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn secrets_are_taken_out_wherever_they_stand() {
        for (given, want) in [
            ("s3://bucket/key", "s3://bucket/key"),
            ("s3://AKIA:sec@ret@bucket/key", "s3://bucket/key"),
            ("https://host?token=1", "https://host?…"),
            ("https://host/p@th#frag", "https://host/p@th?…"),
            ("file:///tmp/x", "file:///tmp/x"),
            ("relative/path", "relative/path"),
            ("", ""),
        ] {
            assert_eq!(redact(given), want, "{given}");
        }
    }
}
