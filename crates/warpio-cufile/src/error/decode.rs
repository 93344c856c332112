use super::{CuFileError, Failure};
use crate::sys::OpError;

/// What the result of a read or write means. `errno` is what the calling thread's `errno` was right behind the call.
///
/// By its documentation, cuFile returns -1 for errors of the system, and the negative of its own code for its own.
/// In practice its own come as -1 too, with the code in `errno`; and results that come later, of batches and streams,
/// hold the negative of an `errno`. All of them are understood here.
///
/// # Errors
/// The failure.
pub fn decode(call: &'static str, result: isize, errno: i32) -> Result<usize, CuFileError> {
    let failure = match result {
        0.. => return Ok(result as usize),
        -1 if errno != 0 => Failure::of_number(errno),
        // A number beyond every code, such as the lowest of all, which has no positive counterpart.
        _ => match i32::try_from(result.unsigned_abs()) {
            Ok(number) if number < 2 * OpError::BASE => Failure::of_number(number),
            _ => Failure::Nonsense("a result that is neither a length nor an error"),
        },
    };
    Err(CuFileError::new(call, failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(result: isize, errno: i32) -> Failure {
        decode("cuFileRead", result, errno).unwrap_err().failure()
    }

    #[test]
    fn lengths_are_lengths() {
        assert_eq!(decode("cuFileRead", 0, 5), Ok(0));
        assert_eq!(decode("cuFileRead", 1 << 40, 5022), Ok(1 << 40));
    }

    #[test]
    fn every_encoding_of_an_error_is_understood() {
        assert_eq!(failure(-1, libc::EIO), Failure::Os(libc::EIO));
        assert_eq!(failure(-1, 5017), Failure::Code(OpError(5017)));
        assert_eq!(failure(-5017, 0), Failure::Code(OpError(5017)));
        assert_eq!(failure(-5017, libc::EIO), Failure::Code(OpError(5017)), "errno belongs to -1 alone");
        assert_eq!(failure(-5, 0), Failure::Os(libc::EIO));
        assert_eq!(failure(-22, 5019), Failure::Os(libc::EINVAL));
        assert_eq!(failure(-1, 0), Failure::Os(libc::EPERM), "what a batch says for EPERM");
    }

    #[test]
    fn numbers_that_mean_nothing_are_said_to_mean_nothing() {
        for result in [isize::MIN, -12_000, -(1 << 40)] {
            assert!(matches!(failure(result, 0), Failure::Nonsense(_)), "{result}");
        }
        assert_eq!(failure(-5999, 0), Failure::Code(OpError(5999)), "codes of newer libraries stay numbers");
    }
}
