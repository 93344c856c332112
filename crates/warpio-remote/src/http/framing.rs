//! Where a reply's body ends: RFC 9112, section 6.3.

use http::Method;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use warpio_core::parse_decimal;

use super::fault::Fault;
use super::head::{Head, tokens};

/// A line of a chunked body may not be longer, extensions and trailers included.
const MAX_LINE: usize = 8 << 10;

/// What is left of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks, each with its length in front.
    Chunked(Chunked),
    /// Everything until the connection ends, which proves nothing.
    UntilClose,
}

/// Where in a chunked body the next byte is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chunked {
    /// In front of a chunk's length; the first line of a body has no line break before it.
    Size {
        first: bool,
    },
    /// In a chunk that has so many bytes left.
    Data(u64),
    /// Behind the last chunk.
    Trailers,
    Done,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Up to so many bytes of body come next.
    Data(u64),
    /// More must be received before that is known.
    More,
    Done,
}

impl Framing {
    pub(super) fn of(method: &Method, head: &Head) -> Result<Self, Fault> {
        let status = head.status.as_u16();
        if method == Method::HEAD || status < 200 || status == 204 || status == 304 {
            return Ok(Self::Length(0));
        }
        let length = content_length(head)?;
        if head.headers.contains_key(TRANSFER_ENCODING) {
            let mut codings = tokens(&head.headers, &TRANSFER_ENCODING);
            return match (codings.next(), codings.next(), length) {
                // A proxy in between may believe the other one.
                (_, _, Some(_)) => Err(Fault::malformed("the reply has both a Content-Length and a Transfer-Encoding")),
                (Some(coding), None, None) if coding.eq_ignore_ascii_case("chunked") => {
                    Ok(Self::Chunked(Chunked::Size { first: true }))
                }
                _ => Err(Fault::malformed("the reply has a Transfer-Encoding that was not asked for")),
            };
        }
        Ok(length.map_or(Self::UntilClose, Self::Length))
    }

    /// Looks at what has been received. Returns how many bytes of it are no body and can be thrown away, and what
    /// comes next.
    pub(super) fn step(&mut self, received: &[u8]) -> Result<(usize, Step), Fault> {
        match self {
            Self::Length(0) => Ok((0, Step::Done)),
            Self::Length(left) => Ok((0, Step::Data(*left))),
            Self::UntilClose => Ok((0, Step::Data(u64::MAX))),
            Self::Chunked(state) => state.step(received),
        }
    }

    /// So many bytes of body were taken.
    pub(super) fn take(&mut self, n: u64) {
        match self {
            Self::Length(left) | Self::Chunked(Chunked::Data(left)) => *left = left.saturating_sub(n),
            _ => {}
        }
    }
}

impl Chunked {
    fn step(&mut self, received: &[u8]) -> Result<(usize, Step), Fault> {
        let mut used = 0;
        loop {
            match self {
                Self::Data(0) => *self = Self::Size { first: false },
                Self::Data(left) => return Ok((used, Step::Data(*left))),
                Self::Done => return Ok((used, Step::Done)),
                Self::Size { first } => {
                    let rest = &received[used..];
                    let skip = if *first { 0 } else { 2 };
                    if rest.len() < skip {
                        return Ok((used, Step::More));
                    }
                    if !rest[..skip].is_empty() && rest[..skip] != *b"\r\n" {
                        return Err(Fault::malformed("a chunk of the reply is longer than it says"));
                    }
                    let Some(line) = line(&rest[skip..])? else { return Ok((used, Step::More)) };
                    *self = match chunk_size(line)? {
                        0 => Self::Trailers,
                        size => Self::Data(size),
                    };
                    used += skip + line.len() + 2;
                }
                Self::Trailers => {
                    let Some(line) = line(&received[used..])? else { return Ok((used, Step::More)) };
                    if line.is_empty() {
                        *self = Self::Done;
                    }
                    used += line.len() + 2;
                }
            }
        }
    }
}

/// The first line of `bytes`, without its end; `None` while it is incomplete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Fault> {
    match bytes.windows(2).take(MAX_LINE).position(|pair| pair == b"\r\n") {
        Some(end) => Ok(Some(&bytes[..end])),
        None if bytes.len() < MAX_LINE => Ok(None),
        None => Err(Fault::malformed("a line between the chunks of the reply does not end")),
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, Fault> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let size = valid.then(|| u64::from_str_radix(&String::from_utf8_lossy(digits), 16).ok()).flatten();
    size.ok_or_else(|| Fault::malformed("a chunk of the reply has no length"))
}

fn content_length(head: &Head) -> Result<Option<u64>, Fault> {
    let mut length = None;
    for value in head.headers.get_all(CONTENT_LENGTH) {
        let text = value.to_str().unwrap_or_default().trim();
        let value = parse_decimal(text).ok_or_else(|| Fault::malformed("the reply's Content-Length is no number"))?;
        if length.is_some_and(|known| known != value) {
            return Err(Fault::malformed("the reply has two Content-Lengths"));
        }
        length = Some(value);
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::super::head::parse;
    use super::*;

    fn framing(method: Method, text: &str) -> Result<Framing, Fault> {
        let (head, _) = parse(format!("HTTP/1.1 {text}\r\n\r\n").as_bytes()).unwrap().unwrap();
        Framing::of(&method, &head)
    }

    #[test]
    fn the_head_says_where_the_body_ends() {
        let get = |text| framing(Method::GET, text);
        assert_eq!(get("200 OK\r\nContent-Length: 5").unwrap(), Framing::Length(5));
        assert_eq!(get("200 OK\r\nContent-Length: 5\r\nContent-Length: 5").unwrap(), Framing::Length(5));
        assert_eq!(get("200 OK").unwrap(), Framing::UntilClose);
        assert_eq!(get("204 No\r\nContent-Length: 5").unwrap(), Framing::Length(0));
        assert_eq!(get("304 No").unwrap(), Framing::Length(0));
        assert_eq!(framing(Method::HEAD, "200 OK\r\nContent-Length: 5").unwrap(), Framing::Length(0));
        let chunked = Framing::Chunked(Chunked::Size { first: true });
        assert_eq!(get("200 OK\r\nTransfer-Encoding: Chunked").unwrap(), chunked);
        for bad in [
            "200 OK\r\nContent-Length: -1",
            "200 OK\r\nContent-Length: +1",
            "200 OK\r\nContent-Length:",
            "200 OK\r\nContent-Length: 99999999999999999999",
            "200 OK\r\nContent-Length: 1\r\nContent-Length: 2",
            "200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
            "200 OK\r\nTransfer-Encoding: gzip, chunked",
            "200 OK\r\nTransfer-Encoding: gzip",
        ] {
            assert!(get(bad).is_err(), "{bad}");
        }
    }

    /// Feeds `text` in pieces of `piece` bytes, and returns the body.
    fn unchunk(text: &[u8], piece: usize) -> Result<(Vec<u8>, bool), Fault> {
        let mut framing = Framing::Chunked(Chunked::Size { first: true });
        let (mut received, mut body): (Vec<u8>, Vec<u8>) = Default::default();
        let mut pieces = text.chunks(piece);
        loop {
            let (used, step) = framing.step(&received)?;
            received.drain(..used);
            match step {
                Step::Done => return Ok((body, true)),
                Step::Data(left) if !received.is_empty() => {
                    let n = received.len().min(left as usize);
                    body.extend(received.drain(..n));
                    framing.take(n as u64);
                }
                _ => match pieces.next() {
                    Some(more) => received.extend_from_slice(more),
                    None => return Ok((body, false)),
                },
            }
        }
    }

    #[test]
    fn chunks_are_joined_wherever_they_are_cut() {
        let text = b"5\r\nhello\r\n06;x=\"y\"\r\n world\r\n0\r\nTrailer: 1\r\n\r\n";
        for piece in 1..=text.len() {
            assert_eq!(unchunk(text, piece).unwrap(), (b"hello world".to_vec(), true), "{piece}");
            let (body, done) = unchunk(&text[..text.len() - 1], piece).unwrap();
            assert_eq!((body.as_slice(), done), (&b"hello world"[..], false), "without its end: {piece}");
        }
    }

    #[test]
    fn chunks_that_lie_are_refused() {
        let long = [b"1;".as_slice(), &[b'x'; MAX_LINE + 2]].concat();
        for bad in
            [b"5\r\nhello!\r\n".as_slice(), b"\r\n", b"x\r\n", b"-1\r\n", b"+1\r\n", b"fffffffffffffffff\r\n", &long]
        {
            assert!(unchunk(bad, 3).is_err(), "{:?}", String::from_utf8_lossy(&bad[..bad.len().min(20)]));
        }
    }
}
