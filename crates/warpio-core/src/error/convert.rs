use std::io;

use super::{Error, ErrorKind};

impl From<io::Error> for Error {
    /// Keeps the `io::Error` as the cause, or gives back the [`Error`] that it wraps.
    fn from(error: io::Error) -> Self {
        if error.get_ref().is_some_and(|inner| inner.is::<Error>()) {
            return match error.into_inner().map(|inner| inner.downcast::<Error>()) {
                Some(Ok(inner)) => *inner,
                _ => Error::new(ErrorKind::Io),
            };
        }
        Error::new(kind_of(&error)).with_cause(error)
    }
}

fn kind_of(error: &io::Error) -> ErrorKind {
    use io::ErrorKind as K;
    match error.kind() {
        K::NotFound => ErrorKind::NotFound,
        K::PermissionDenied | K::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        K::AlreadyExists => ErrorKind::AlreadyExists,
        K::InvalidInput | K::IsADirectory | K::NotADirectory | K::InvalidFilename => ErrorKind::InvalidInput,
        K::Unsupported => ErrorKind::Unsupported,
        K::UnexpectedEof => ErrorKind::UnexpectedEof,
        K::OutOfMemory => ErrorKind::OutOfMemory,
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => ErrorKind::StorageFull,
        K::TimedOut => ErrorKind::DeadlineExceeded,
        K::WouldBlock
        | K::ConnectionRefused
        | K::ConnectionReset
        | K::ConnectionAborted
        | K::BrokenPipe
        | K::ResourceBusy => ErrorKind::Unavailable,
        _ => match error.raw_os_error() {
            // EMFILE and ENFILE have no stable io::ErrorKind. The numbers are Linux's, on every architecture.
            Some(23 | 24) => ErrorKind::ResourceLimit,
            _ => ErrorKind::Io,
        },
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
            ErrorKind::InvalidInput | ErrorKind::InvalidConfig => io::ErrorKind::InvalidInput,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::UnexpectedEof => io::ErrorKind::UnexpectedEof,
            ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            ErrorKind::StorageFull => io::ErrorKind::StorageFull,
            ErrorKind::DeadlineExceeded => io::ErrorKind::TimedOut,
            ErrorKind::Integrity => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_keeps_its_meaning_and_number() {
        for (errno, kind) in [
            (2, ErrorKind::NotFound),
            (13, ErrorKind::PermissionDenied),
            (30, ErrorKind::PermissionDenied),
            (17, ErrorKind::AlreadyExists),
            (28, ErrorKind::StorageFull),
            (24, ErrorKind::ResourceLimit),
            (23, ErrorKind::ResourceLimit),
            (21, ErrorKind::InvalidInput),
            (12, ErrorKind::OutOfMemory),
            (5, ErrorKind::Io),
        ] {
            let error = Error::from(io::Error::from_raw_os_error(errno));
            assert_eq!((error.kind(), error.os_error()), (kind, Some(errno)));
        }
    }

    #[test]
    fn there_and_back_is_the_same_error() {
        let error = Error::new(ErrorKind::Changed).with_operation("read").with_range(7, 9);
        let back = Error::from(io::Error::from(error));
        assert_eq!(back.kind(), ErrorKind::Changed);
        assert_eq!((back.offset(), back.length()), (Some(7), Some(9)));
    }

    #[test]
    fn an_error_is_an_io_error_of_the_same_meaning() {
        let io = io::Error::from(Error::new(ErrorKind::UnexpectedEof));
        assert_eq!(io.kind(), io::ErrorKind::UnexpectedEof);
    }
}
